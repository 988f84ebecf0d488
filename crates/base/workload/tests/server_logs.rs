//! Lines as servers of today write them: with a virtual host, parts of seconds, quotes, or as JSON.

#![allow(clippy::unwrap_used)]

use perpacket_workload::{
    Compression, Conversion, Expected, ObjectPaths, Reject, Request, SESSION_WINDOW_S, Source,
    TraceError, TraceFormat, TraceSink, convert, read_trace, summarize,
};

const CADDY: &str = r#"{"level":"info","ts":1714558506.25,"logger":"http.log.access","msg":"handled request","request":{"remote_ip":"2001:db8::7","remote_port":"41342","client_ip":"2001:db8::7","proto":"HTTP/2.0","method":"GET","host":"example.com","uri":"/a?b=1","headers":{"User-Agent":["curl/8.0 \"x\""]}},"bytes_read":0,"user_id":"","duration":0.0009,"size":2326,"status":200}"#;
const TRAEFIK: &str = r#"{"ClientAddr":"10.0.0.9:41020","ClientHost":"10.0.0.9","ClientUsername":"-","DownstreamContentSize":19,"DownstreamStatus":404,"RequestMethod":"GET","RequestPath":"/x","RequestProtocol":"HTTP/1.1","StartUTC":"2024-05-01T10:15:06.123456789Z","level":"info","time":"2024-05-01T10:15:07Z"}"#;
const NGINX: &str = r#"{"msec":"1714558506.250","remote_addr":"10.0.0.9","request":"POST /form HTTP/1.1","status":"302","body_bytes_sent":"0","http_referer":""}"#;
const OWN: &str = r#"{"when":"01/May/2024:12:15:06 +0200","who":"[::1]:4711","req":{"path":"/p","verb":"HEAD"},"code":204}"#;
const OWN_FIELDS: &str = "time=when,client=who,uri=req.path,method=req.verb,status=code";

/// What a line contains: client, seconds, nanoseconds, request line, status, size.
type Fields = (String, i64, Option<u32>, String, u16, Option<u64>);

#[derive(Default)]
struct Lines {
    accepted: Vec<Fields>,
    rejected: Vec<(u64, Reject)>,
}

impl TraceSink for Lines {
    fn request(&mut self, request: &Request<'_>) -> Result<(), TraceError> {
        let Source::Log { line, .. } = request.source else {
            unreachable!("every request is a line of a log");
        };
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        self.accepted.push((
            text(line.host),
            request.time_s,
            request.fraction_ns,
            text(line.request),
            request.status,
            request.size_bytes,
        ));
        Ok(())
    }

    fn reject(&mut self, line: u64, reason: Reject) {
        self.rejected.push((line, reason));
    }
}

fn lines(text: &str, expected: impl Into<Expected>) -> (TraceFormat, Lines) {
    let mut lines = Lines::default();
    let format = read_trace(text.as_bytes(), expected, &mut lines).unwrap();
    (format, lines)
}

fn only(text: &str, expected: impl Into<Expected>) -> Fields {
    let (_, mut lines) = lines(text, expected);
    assert_eq!(
        (lines.accepted.len(), lines.rejected),
        (1, vec![]),
        "{text}"
    );
    lines.accepted.remove(0)
}

fn mapped(fields: &str) -> Expected {
    Expected {
        format: Some(TraceFormat::Json),
        fields: fields.parse().unwrap(),
    }
}

fn fields(
    client: &str,
    fraction_ns: Option<u32>,
    request: &str,
    status: u16,
    size_bytes: Option<u64>,
) -> Fields {
    let (client, request) = (client.to_owned(), request.to_owned());
    (
        client,
        1_714_558_506,
        fraction_ns,
        request,
        status,
        size_bytes,
    )
}

#[test]
fn combined_lines_have_quotes_virtual_hosts_and_parts_of_seconds() {
    let time = "[01/May/2024:12:15:06 +0200]";
    let get = fields("10.0.0.9", None, "GET /a HTTP/1.1", 200, Some(5));
    for line in [
        format!("10.0.0.9 - - {time} \"GET /a HTTP/1.1\" 200 5 \"-\" \"\\\"Mozilla\\\" 5\""),
        format!("10.0.0.9 - - {time} \"GET /a HTTP/1.1\" 200 5 \"-\" \"a \"bad\" agent\""),
        format!("example.com:443 10.0.0.9 - - {time} \"GET /a HTTP/1.1\" 200 5 \"-\" \"x\""),
        format!("10.0.0.9 - john doe {time} \"GET /a HTTP/1.1\" 200 5 \"-\" \"x\""),
    ] {
        assert_eq!(only(&line, None), get);
    }
    let line = format!("2001:db8::7 - - {time} \"GET /a HTTP/1.1\" 200 5 \"-\" \"x\"");
    assert_eq!(only(&line, None).0, "2001:db8::7");
    let parts = "10.0.0.9 - - [01/May/2024:12:15:06.25 +0200] \"GET /a HTTP/1.1\" 200 5";
    assert_eq!(only(parts, None).2, Some(250_000_000));
    let (_, cut) = lines(&format!("{parts}\n{}", parts.replace(".25", ".x")), None);
    assert_eq!(cut.rejected, [(2, Reject::BadTime)]);
}

#[test]
fn json_lines_of_known_servers_need_no_mapping() {
    let half = Some(250_000_000);
    let caddy = fields("2001:db8::7", half, "GET /a?b=1 HTTP/2.0", 200, Some(2326));
    assert_eq!(only(CADDY, None), caddy);
    let traefik = fields(
        "10.0.0.9",
        Some(123_456_789),
        "GET /x HTTP/1.1",
        404,
        Some(19),
    );
    assert_eq!(only(TRAEFIK, None), traefik);
    let nginx = fields("10.0.0.9", half, "POST /form HTTP/1.1", 302, Some(0));
    assert_eq!(only(NGINX, None), nginx);
}

#[test]
fn a_mapping_names_the_fields_of_a_log_of_ones_own() {
    let own = fields("::1", None, "HEAD /p HTTP/1.1", 204, None);
    assert_eq!(only(OWN, mapped(OWN_FIELDS)), own);
    let (format, lines) = lines(&format!("{CADDY}\n{OWN}"), None);
    assert_eq!(format, TraceFormat::Json);
    assert_eq!(lines.rejected, [(2, Reject::NoJsonTime)]);
    let unknown = "path=x"
        .parse::<perpacket_workload::JsonFields>()
        .unwrap_err();
    assert!(
        unknown
            .to_string()
            .contains("\"path=x\": expected PART=FIELD"),
        "{unknown}"
    );
}

#[test]
fn a_json_line_is_refused_with_the_missing_part() {
    let line = |text: &str| format!("{CADDY}\n{text}\n");
    for (text, reason) in [
        ("{\"ts\":1", Reject::NotJson),
        ("[1]", Reject::NotJson),
        ("", Reject::Blank),
        (
            &CADDY.replace("\"ts\":1714558506.25", "\"ts\":\"noon\""),
            Reject::BadJsonTime,
        ),
        (&CADDY.replace("\"uri\"", "\"url\""), Reject::NoJsonRequest),
        (
            &CADDY.replace("\"status\":200", "\"status\":\"ok\""),
            Reject::NoJsonStatus,
        ),
        (&CADDY.replace("2326", "-1"), Reject::BadBytes),
        (
            &CADDY.replace("remote_ip", "a").replace("client_ip", "b"),
            Reject::NoJsonClient,
        ),
    ] {
        let (_, lines) = lines(&line(text), None);
        assert_eq!(lines.rejected, [(2, reason)], "{text}");
    }
}

#[test]
fn a_json_log_becomes_a_combined_log_with_the_same_requests() {
    let source = [CADDY, TRAEFIK, NGINX].join("\n");
    let mut text = Vec::new();
    let conversion = |to| Conversion {
        from: Expected::default(),
        to,
        compression: Compression::None,
        paths: ObjectPaths::default(),
        mappings: None,
    };
    convert(
        source.as_bytes(),
        &mut text,
        conversion(TraceFormat::Combined),
    )
    .unwrap();
    let text = String::from_utf8(text).unwrap();
    let first = "2001:db8::7 - - [01/May/2024:10:15:06 +0000] \"GET /a?b=1 HTTP/2.0\" 200 2326 \
                 \"-\" \"curl/8.0 \\\"x\\\"\"";
    assert_eq!(text.lines().next(), Some(first));
    let of = |bytes: &[u8]| {
        let summary = summarize(bytes, None, SESSION_WINDOW_S).unwrap();
        (
            summary.requests,
            summary.bytes,
            summary.clients,
            summary.first_time,
        )
    };
    assert_eq!(of(text.as_bytes()), of(source.as_bytes()));
    let refused = convert(source.as_bytes(), Vec::new(), conversion(TraceFormat::Json));
    assert!(matches!(refused, Err(TraceError::JsonAsDestination)));
}
