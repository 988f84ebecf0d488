//! Heads of responses, and responses without a file.

use std::io::Write;

use super::{BatchEnd, Clock, Worker};
use crate::files::content::LINE_BYTES;
use crate::send_queue::SendQueue;
use perpacket_http::request::{Method, Request};
use perpacket_http::status::Status;

/// The fields of a head that differ between responses: `Content-Type`, empty without a body, and
/// further field lines, each with CR LF.
#[derive(Clone, Copy)]
pub struct Fields<'a>(pub &'a str, pub &'a str);

/// The line end of the last field, and the empty line that ends the head.
const HEAD_END: &[u8] = b"\r\n\r\n";

/// The content type of the server's own texts.
pub const TEXT: &str = "text/plain; charset=utf-8";

impl Worker {
    /// Counts a response.
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
        Fields(content_type, lines): Fields<'_>,
        out: &mut SendQueue,
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
            if !content_type.is_empty() {
                let _ = write!(text, "Content-Type: {}\r\n", content_type);
            }
            text.extend_from_slice(lines.as_bytes());
            text.extend_from_slice(b"Date: ");
            end_head(&self.clock, request, (start, body_bytes), text);
        });
    }

    /// Appends a response with a body in memory.
    pub fn send_text(
        &self,
        request: &Request<'_>,
        status: Status,
        body: &[u8],
        fields: Fields<'_>,
        out: &mut SendQueue,
    ) {
        self.count(status);
        self.head(request, status, body.len() as u64, fields, out);
        if request.method != Method::Head {
            out.text(|text| text.extend_from_slice(body));
        }
    }

    /// Appends a response with the status as its text.
    pub fn send_status(&self, request: &Request<'_>, status: Status, out: &mut SendQueue) {
        self.send_error(request, status, "", out);
    }

    /// Appends a response with the status and a reason as its text.
    pub fn send_error(
        &self,
        request: &Request<'_>,
        status: Status,
        why: &str,
        out: &mut SendQueue,
    ) {
        let text = status_text(status, why);
        let fields = Fields(TEXT, status_fields(status));
        self.send_text(request, status, text.as_bytes(), fields, out);
    }

    /// Appends a response to an invalid request. The connection then closes.
    pub fn reject(&self, status: Status, out: &mut SendQueue) -> BatchEnd {
        self.count(status);
        out.text(|text| self.write_rejection(status, text));
        BatchEnd::Close(true)
    }

    /// Writes a complete response for a connection that then closes. It may answer a request, or
    /// reject a client before any request.
    pub fn write_rejection(&self, status: Status, text: &mut Vec<u8>) {
        let body = status_text(status, "");
        begin_head(text, status);
        let _ = write!(
            text,
            "Server: perpacket\r\nContent-Length: {}\r\nContent-Type: {TEXT}\r\n{}\
             Connection: close\r\nDate: ",
            body.len(),
            status_fields(status)
        );
        text.extend_from_slice(&self.clock.date);
        let _ = write!(text, "\r\n\r\n{body}");
    }
}

/// Writes the end of a head: the date, `Connection` if it differs from the default of the HTTP
/// version, and padding.
///
/// The head begins at `start`. With the padding, head and body together are a whole number of cache
/// lines, see [`crate::files::content`]. White space after a field's value has no meaning (RFC
/// 9112, section 5).
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

/// Fields that belong to a status.
fn status_fields(status: Status) -> &'static str {
    match status {
        Status::ServiceUnavailable => "Retry-After: 1\r\n",
        _ => "",
    }
}

fn status_text(status: Status, why: &str) -> String {
    let separator = if why.is_empty() { "" } else { ": " };
    format!("{} {}{separator}{why}\n", status.code(), status.reason())
}
