//! SPECweb99's operations.
#![expect(clippy::unwrap_used, reason = "a failure here is the test's failure")]

mod started;

use std::fs;

use perpacket_serve::{Architecture, Spec};
use started::{Started, spec};

const FILE: &str = "/file_set/dir00000/class1_3";
const MARK: &str = "<!WEB99CAD><IMG SRC=\"/file_set/dirNNNNN/classX_Y\"><!/WEB99CAD>";

fn server(architecture: Architecture) -> Started {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir_all(folder.path().join("file_set/dir00000")).unwrap();
    let content = format!("{}{MARK}{}", "a".repeat(3000), "b".repeat(1000));
    fs::write(folder.path().join(&FILE[1..]), content).unwrap();
    let post_log = Some(folder.path().join("post.log"));
    Started::over(
        folder,
        Spec {
            post_log,
            ..spec(architecture)
        },
    )
}

fn post(server: &Started, body: &str) -> started::Answer {
    server.request(&format!(
        "POST /specweb99/post HTTP/1.1\r\nHost: h\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    ))
}

#[test]
fn a_dynamic_get_is_a_page_around_the_file() {
    for architecture in [Architecture::Events, Architecture::Threads] {
        let server = server(architecture);
        let answer = server.get(&format!("/specweb99/get?file={FILE}"), "");
        assert_eq!(answer.status, 200);
        let text = answer.text();
        assert!(text.contains("REMOTE_ADDR = 127.0.0.1"), "{text}");
        assert!(text.contains(&"a".repeat(3000)) && text.ends_with("</html>\n"));
        assert_eq!(
            server.get("/specweb99/get?file=/../etc/passwd", "").status,
            400
        );
        let absent = server.get("/specweb99/get?file=/file_set/dir00001/class0_0", "");
        assert_eq!(absent.status, 404);
    }
}

#[test]
fn advertisements_rotate_by_cookie_and_replace_the_placeholder() {
    let server = server(Architecture::Events);
    let target = format!("/specweb99/ad?file={FILE}");
    let mut cookie = "user_id=10001&last_ad=17".to_owned();
    let mut seen = Vec::new();
    for _ in 0..3 {
        let answer = server.get(&target, &format!("Cookie: {cookie}\r\n"));
        assert_eq!(answer.status, 200);
        assert!(!answer.text().contains("dirNNNNN"));
        assert!(
            answer
                .text()
                .contains("<!WEB99CAD><IMG SRC=\"/file_set/dir0000")
        );
        cookie = answer.field("Set-Cookie").unwrap().to_owned();
        assert!(cookie.starts_with("user_id=10001&last_ad="));
        seen.push(cookie.clone());
    }
    seen.dedup();
    assert_eq!(seen.len(), 3);
}

#[test]
fn each_post_is_one_record_of_the_log() {
    for architecture in [Architecture::Events, Architecture::Threads] {
        let server = server(architecture);
        for number in 0..5 {
            let answer = post(&server, "dir=0&class=1&file=3&client=7");
            assert_eq!(answer.status, 200);
            assert_eq!(
                answer.field("Set-Cookie"),
                Some(&*format!("my_cookie={number}"))
            );
        }
        assert_eq!(post(&server, "dir=0&class=9&file=3&client=7").status, 400);
        assert_eq!(post(&server, "dir=77&class=0&file=0&client=7").status, 404);
        let log = fs::read_to_string(server.root().join("post.log")).unwrap();
        assert_eq!(
            log.lines().count(),
            5,
            "one each, and none for what was refused"
        );
        assert!(log.lines().all(|line| line.contains(FILE)));
    }
}
