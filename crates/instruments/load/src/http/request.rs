//! Requests as bytes. Constant parts are written before the run. During the run, a thread joins
//! them with the other parts in a buffer.

use std::io::Write;
use std::sync::Arc;

use perpacket_workload::specweb99::{FILES_PER_CLASS, FILES_PER_DIRECTORY};

use super::application::{Application, Client};
use super::paths::Paths;
use super::session::{Operation, SessionRequest};
use super::spec::Version;
use perpacket_http::date::DATE_BYTES;

/// Number of advertisements that SPECweb99's operation rotates through.
const ADVERTISEMENTS: u32 = 360;

/// Writes requests.
#[derive(Clone, Debug)]
pub(crate) struct RequestWriter {
    paths: Arc<Paths>,
    /// Path of the URL, without a slash at its end.
    prefix: String,
    /// Version and fields, without the empty line.
    fields: Vec<u8>,
    /// The `Connection` field and the empty line: one for a connection that stays open, and one for
    /// a connection that closes.
    endings: [&'static [u8]; 2],
    /// The complete request of a workload with a single file, with each of the two endings.
    ready: Option<[Vec<u8>; 2]>,
}

/// Parts of a request that depend on the connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RequestContext<'a> {
    /// Whether the request has `Connection: close`.
    pub close: bool,
    /// Date of the client's copy.
    pub copy_date: &'a [u8; DATE_BYTES],
    pub user: u32,
    /// The last advertisement that the user saw.
    pub last_advertisement: u32,
}

impl RequestWriter {
    /// A writer of requests for objects on a host.
    pub(crate) fn new(
        paths: Arc<Paths>,
        prefix: &str,
        authority: &str,
        version: Version,
        headers: &[String],
    ) -> Self {
        let number = match version {
            Version::Http10 => "1.0",
            Version::Http11 => "1.1",
        };
        let mut fields = format!(" HTTP/{number}\r\nHost: {authority}\r\n").into_bytes();
        for header in headers {
            fields.extend_from_slice(header.as_bytes());
            fields.extend_from_slice(b"\r\n");
        }
        let endings: [&[u8]; 2] = match version {
            Version::Http10 => [b"Connection: keep-alive\r\n\r\n", b"\r\n"],
            Version::Http11 => [b"\r\n", b"Connection: close\r\n\r\n"],
        };
        let mut writer = Self {
            paths,
            prefix: prefix.to_owned(),
            fields,
            endings,
            ready: None,
        };
        if writer.paths.len() == 1 {
            let complete = |close: bool| {
                let mut bytes = Vec::new();
                writer.plain(&mut bytes, b"GET ", 0);
                bytes.extend_from_slice(writer.endings[usize::from(close)]);
                bytes
            };
            writer.ready = Some([complete(false), complete(true)]);
        }
        writer
    }

    /// The bytes of a request. They are written to `buffer`, unless the request was written before
    /// the run.
    #[inline]
    pub(crate) fn bytes<'a>(
        &'a self,
        buffer: &'a mut Vec<u8>,
        request: &SessionRequest,
        context: RequestContext<'_>,
    ) -> &'a [u8] {
        if let (Some(ready), Operation::Get) = (&self.ready, request.operation) {
            return &ready[usize::from(context.close)];
        }
        buffer.clear();
        self.write(buffer, request, context);
        buffer
    }

    /// The bytes of a client's request for a page.
    pub(crate) fn page(
        &self,
        buffer: &mut Vec<u8>,
        application: &Application,
        request: &SessionRequest,
        client: &Client,
        close: bool,
    ) {
        buffer.clear();
        let body = application.write(buffer, request.object, client, &self.prefix, &self.fields);
        if request.operation == Operation::Post {
            form_fields(buffer, body.len());
        }
        buffer.extend_from_slice(self.endings[usize::from(close)]);
        buffer.extend_from_slice(&body);
    }

    fn write(&self, buffer: &mut Vec<u8>, request: &SessionRequest, context: RequestContext<'_>) {
        let ending = self.endings[usize::from(context.close)];
        match request.operation {
            Operation::Get => self.plain(buffer, b"GET ", request.object),
            Operation::Head => self.plain(buffer, b"HEAD ", request.object),
            Operation::Post => {
                self.plain(buffer, b"POST ", request.object);
                buffer.extend_from_slice(b"Content-Length: 0\r\n");
            }
            Operation::Conditional => {
                self.plain(buffer, b"GET ", request.object);
                buffer.extend_from_slice(b"If-Modified-Since: ");
                buffer.extend_from_slice(context.copy_date);
                buffer.extend_from_slice(b"\r\n");
            }
            Operation::DynamicGet => self.dynamic(buffer, "get", request.object),
            Operation::Cgi => self.dynamic(buffer, "cgi", request.object),
            Operation::Advertisement => {
                self.dynamic(buffer, "ad", request.object);
                let (user, last) = (context.user, context.last_advertisement);
                // Writing to a vector cannot fail.
                let _ = write!(buffer, "Cookie: user_id={user}&last_ad={last}\r\n");
            }
            Operation::DynamicPost => {
                return self.posted(buffer, request.object, context, ending);
            }
        }
        buffer.extend_from_slice(ending);
    }

    fn plain(&self, buffer: &mut Vec<u8>, method: &[u8], object: u32) {
        buffer.extend_from_slice(method);
        buffer.extend_from_slice(self.paths.path(object));
        buffer.extend_from_slice(&self.fields);
    }

    /// A dynamic operation on a file, whose path is in the query.
    fn dynamic(&self, buffer: &mut Vec<u8>, operation: &str, object: u32) {
        let file = self.paths.path(object);
        let file = file.get(self.prefix.len()..).unwrap_or(file);
        let _ = write!(buffer, "GET {}/specweb99/{operation}?file=", self.prefix);
        buffer.extend_from_slice(file);
        buffer.extend_from_slice(&self.fields);
    }

    fn posted(
        &self,
        buffer: &mut Vec<u8>,
        object: u32,
        context: RequestContext<'_>,
        ending: &[u8],
    ) {
        let (directory, place) = (object / FILES_PER_DIRECTORY, object % FILES_PER_DIRECTORY);
        let (class, file) = (place / FILES_PER_CLASS, place % FILES_PER_CLASS);
        let mut form = [0u8; 80];
        let mut rest = &mut form[..];
        let _ = write!(
            rest,
            "dir={directory}&class={class}&file={file}&client={}",
            context.user
        );
        let length = 80 - rest.len();
        let _ = write!(buffer, "POST {}/specweb99/post", self.prefix);
        buffer.extend_from_slice(&self.fields);
        form_fields(buffer, length);
        buffer.extend_from_slice(ending);
        buffer.extend_from_slice(&form[..length]);
    }
}

fn form_fields(buffer: &mut Vec<u8>, length: usize) {
    // Writing to a vector cannot fail.
    let _ = write!(
        buffer,
        "Content-Type: application/x-www-form-urlencoded\r\nContent-Length: {length}\r\n"
    );
}

/// The advertisement that a `Set-Cookie` value names.
pub(crate) fn shown_advertisement(cookie: &[u8]) -> Option<u32> {
    let text = std::str::from_utf8(cookie).ok()?;
    let value = text
        .split('&')
        .find_map(|pair| pair.trim().strip_prefix("last_ad="))?;
    value.parse().ok().filter(|shown| *shown < ADVERTISEMENTS)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(operation: Operation, close: bool) -> String {
        let files = ["/file_set/dir00000/class0_0", "/file_set/dir00000/class0_1"];
        let paths = Arc::new(Paths::new("/web", files));
        let writer = RequestWriter::new(paths, "/web", "h:80", Version::Http11, &["A: b".into()]);
        let request = SessionRequest {
            object: 1,
            operation,
            ..SessionRequest::default()
        };
        let context = RequestContext {
            close,
            copy_date: b"Sat, 21 Nov 2026 00:00:00 GMT",
            user: 7,
            last_advertisement: 359,
        };
        let mut buffer = Vec::new();
        String::from_utf8(writer.bytes(&mut buffer, &request, context).to_vec()).unwrap()
    }

    #[test]
    fn requests_have_the_published_forms() {
        let fields = " HTTP/1.1\r\nHost: h:80\r\nA: b\r\n";
        let file = "/file_set/dir00000/class0_1";
        assert_eq!(
            text(Operation::Get, false),
            format!("GET /web{file}{fields}\r\n")
        );
        assert_eq!(
            text(Operation::Conditional, true),
            format!(
                "GET /web{file}{fields}If-Modified-Since: Sat, 21 Nov 2026 00:00:00 GMT\r\n\
                 Connection: close\r\n\r\n"
            )
        );
        assert_eq!(
            text(Operation::Advertisement, false),
            format!(
                "GET /web/specweb99/ad?file={file}{fields}Cookie: user_id=7&last_ad=359\r\n\r\n"
            )
        );
        assert!(
            text(Operation::DynamicPost, false).ends_with("\r\n\r\ndir=0&class=0&file=1&client=7")
        );
    }

    #[test]
    fn a_cookie_names_the_last_advertisement() {
        assert_eq!(shown_advertisement(b"user_id=1&last_ad=41"), Some(41));
        assert_eq!(shown_advertisement(b"last_ad=360"), None);
    }
}
