//! Clients of an application: their walks, cookies and forms, and the check of every answer.

use std::io::Write;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use perpacket_load::http::Report;

use crate::server::Server;

/// A page with a hidden field and a cookie, and a form that requires both.
const SHOP: &str = r#"
    [session]
    start = "front"
    numbers.item = { first = 3, last = 5 }
    [session.page.front]
    path = "/"
    contains = "token"
    extract.token = { after = "value='", until = "'" }
    next = { order = 1.0 }
    [session.page.order]
    path = "/order?item=@item@"
    form = { token = "@token@" }
    contains = "thank you"
    next = { order = 0.5 }
"#;

/// A shop that accepts each client's own token, three times per token.
fn shop() -> Server {
    let visits = AtomicU64::new(0);
    Server::start(move |request, stream| {
        let right = request.starts_with("POST /order?item=")
            && request
                .split_once("Cookie: color=red; visit=")
                .is_some_and(|(_, rest)| {
                    let visit = rest.split("\r\n").next().unwrap_or_default();
                    request.ends_with(&format!("\r\n\r\ntoken=a+{visit}%26"))
                });
        let (status, cookies, body) = if request.starts_with("GET / ") {
            let visit = visits.fetch_add(1, Ordering::SeqCst);
            let cookies = format!(
                "Set-Cookie: color=red\r\nset-cookie: visit={visit}; Path=/\r\nSet-Cookie: visit2=\r\n"
            );
            (
                200,
                cookies,
                format!("<input name='token' value='a {visit}&'>"),
            )
        } else if right {
            (200, String::new(), "thank you".to_owned())
        } else {
            (403, String::new(), "no".to_owned())
        };
        let length = body.len();
        let text =
            format!("HTTP/1.1 {status} X\r\n{cookies}Content-Length: {length}\r\n\r\n{body}");
        stream.write_all(text.as_bytes()).is_ok()
    })
}

fn walk(server: &Server, file: &Path, session: &str, clients: u32, each: Option<u64>) -> Report {
    std::fs::write(file, session).unwrap();
    let each = each.map_or(String::new(), |each| format!("--each {each}"));
    let file = file.display();
    let options = format!("--application {file} --clients {clients} --requests 200 {each}");
    server.load("/", &options)
}

#[test]
fn each_client_returns_its_own_cookies_and_hidden_fields() {
    let folder = tempfile::tempdir().unwrap();
    let report = walk(&shop(), &folder.path().join("a"), SHOP, 5, None);
    let [front, order] = &report.pages[..] else {
        panic!("{:?}", report.pages);
    };
    assert_eq!(front.requests + order.requests, 200);
    assert!(order.requests > front.requests);
    assert_eq!(front.wrong + order.wrong, 0, "{:?}", report.error_examples);
    assert_eq!(order.response_us.count, order.requests);
    assert_eq!(report.failure(), None);
    // A new session is a new client, with a connection of its own.
    assert_eq!(report.connections_opened, front.requests);
}

#[test]
fn a_wrong_answer_ends_the_session_and_the_run_is_not_a_result() {
    let folder = tempfile::tempdir().unwrap();
    let old = SHOP.replace("\"@token@\"", "\"old\"");
    let report = walk(&shop(), &folder.path().join("a"), &old, 2, Some(3));
    let [front, order] = &report.pages[..] else {
        panic!("{:?}", report.pages);
    };
    assert_eq!((front.wrong, order.wrong), (0, order.requests));
    assert!(order.requests >= 3 && order.requests <= front.requests);
    assert_eq!(
        report.error_examples["wrong_content"],
        ["order: status 403, expected 200"]
    );
    let failure = report.failure().unwrap();
    assert!(failure.contains("the run is not a result"), "{failure}");
}

#[test]
fn an_answer_without_the_expected_text_is_wrong() {
    let folder = tempfile::tempdir().unwrap();
    let other = SHOP.replace("thank you", "shipped @item@");
    let report = walk(&shop(), &folder.path().join("a"), &other, 1, Some(1));
    let texts = &report.error_examples["wrong_content"];
    assert!(
        texts[0].starts_with("order: 9 bytes without \"shipped "),
        "{texts:?}"
    );
}
