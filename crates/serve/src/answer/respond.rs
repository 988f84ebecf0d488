//! Heads of responses, and the responses that need no file.

use std::io::Write;

use super::{Clock, Stop, Worker};
use crate::files::content::LINE_BYTES;
use crate::outgoing::Outgoing;
use perpacket_http::request::{Method, Request};
use perpacket_http::status::Status;

/// What stands in a head beside what every head has.
#[derive(Clone, Copy, Default)]
pub struct Extra<'a> {
    /// `Content-Type`, if the response has a body.
    pub kind: &'a str,
    /// More lines, each with its end.
    pub lines: &'a str,
}

/// What ends the last field, and the head.
const HEAD_END: &[u8] = b"\r\n\r\n";

/// The type of texts that the server writes itself.
pub const TEXT: &str = "text/plain; charset=utf-8";

impl Worker {
    /// Counts a request that is answered with `status`.
    #[inline]
    pub fn count(&self, status: Status) {
        let counters = self.counters();
        counters.requests.add(1);
        counters.responses[status as usize].add(1);
    }

    /// Appends a head for a body of `length` bytes.
    pub fn head(
        &self,
        request: &Request<'_>,
        status: Status,
        length: u64,
        extra: Extra<'_>,
        out: &mut Outgoing,
    ) {
        let body_bytes = match request.method {
            Method::Head => 0,
            _ => length,
        };
        out.text(|text| {
            let start = text.len();
            begin_head(text, status);
            // Writing to memory does not fail.
            if status != Status::NotModified {
                let _ = write!(text, "Content-Length: {length}\r\n");
            }
            if !extra.kind.is_empty() {
                let _ = write!(text, "Content-Type: {}\r\n", extra.kind);
            }
            text.extend_from_slice(extra.lines.as_bytes());
            text.extend_from_slice(b"Date: ");
            end_head(&self.clock, request, (start, body_bytes), text);
        });
    }

    /// Answers with a text.
    pub fn send_text(
        &self,
        request: &Request<'_>,
        status: Status,
        body: &[u8],
        extra: Extra<'_>,
        out: &mut Outgoing,
    ) {
        self.count(status);
        self.head(request, status, body.len() as u64, extra, out);
        if request.method != Method::Head {
            out.text(|text| text.extend_from_slice(body));
        }
    }

    /// Answers with a status and its reason as the text.
    pub fn send_status(&self, request: &Request<'_>, status: Status, out: &mut Outgoing) {
        self.send_explained(request, status, "", out);
    }

    /// Answers with a status and a text that says more.
    pub fn send_explained(
        &self,
        request: &Request<'_>,
        status: Status,
        why: &str,
        out: &mut Outgoing,
    ) {
        let text = explained(status, why);
        let extra = Extra {
            kind: TEXT,
            lines: lines_of(status),
        };
        self.send_text(request, status, text.as_bytes(), extra, out);
    }

    /// Answers what is no request; the connection ends.
    pub fn refuse(&self, status: Status, out: &mut Outgoing) -> Stop {
        self.count(status);
        out.text(|text| self.write_refusal(status, text));
        Stop::Close(true)
    }

    /// A whole response for a connection that ends, also where there was no request.
    pub fn write_refusal(&self, status: Status, text: &mut Vec<u8>) {
        let body = explained(status, "");
        begin_head(text, status);
        let _ = write!(
            text,
            "Server: perpacket\r\nContent-Length: {}\r\nContent-Type: {TEXT}\r\n{}\
             Connection: close\r\nDate: ",
            body.len(),
            lines_of(status)
        );
        text.extend_from_slice(&self.clock.date);
        let _ = write!(text, "\r\n\r\n{body}");
    }
}

/// What ends every head: the date, the connection's fate where it is not the version's own,
/// and padding.
///
/// With the padding the head, which begins at `start`, and the body of `body_bytes` are a whole
/// number of cache lines long, see [`crate::files::content`]. White space behind a field's
/// value means nothing (RFC 9112, section 5).
#[inline]
pub fn end_head(
    clock: &Clock,
    request: &Request<'_>,
    (start, body_bytes): (usize, u64),
    text: &mut Vec<u8>,
) {
    text.extend_from_slice(&clock.date);
    text.extend_from_slice(match (request.keep_alive, request.minor_version) {
        (true, 1) => b"\r\nServer: perpacket",
        (true, _) => b"\r\nConnection: keep-alive\r\nServer: perpacket",
        (false, _) => b"\r\nConnection: close\r\nServer: perpacket",
    });
    let bytes = text.len() - start + HEAD_END.len() + body_bytes as usize;
    let padding = bytes.wrapping_neg() % LINE_BYTES;
    text.extend_from_slice(&[b' '; LINE_BYTES][..padding]);
    text.extend_from_slice(HEAD_END);
}

fn begin_head(text: &mut Vec<u8>, status: Status) {
    let _ = write!(text, "HTTP/1.1 {} {}\r\n", status.code(), status.reason());
}

/// Fields that a status brings with it.
fn lines_of(status: Status) -> &'static str {
    match status {
        Status::ServiceUnavailable => "Retry-After: 1\r\n",
        _ => "",
    }
}

fn explained(status: Status, why: &str) -> String {
    let separator = if why.is_empty() { "" } else { ": " };
    format!("{} {}{separator}{why}\n", status.code(), status.reason())
}
