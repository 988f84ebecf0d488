//! Responses with files: conditional requests, ranges, redirects to folders.

use std::fmt::Write;
use std::sync::Arc;

use super::response::{Fields, TEXT, end_head};
use super::{Handled, Worker};
use crate::files::entry::{Entry, FileError};
use crate::files::helper_threads::Job;
use crate::http_state::HttpState;
use crate::routes::route_of;
use crate::send_queue::SendQueue;
use perpacket_http::coding::{Coding, choose};
use perpacket_http::date::parse_date;
use perpacket_http::range::{Selection, parse_range};
use perpacket_http::request::{Conditions, Method, Request};
use perpacket_http::status::Status;
use perpacket_http::target::{TargetError, normalize_path, origin_form, split_query};

/// The path of the server's report. The server has this path with and without `--routes`.
const REPORT: &[u8] = b"/.perpacket/report";

impl Worker {
    /// Answers a request whose undecoded target is not in the cache.
    pub(super) fn dispatch_uncached(
        &mut self,
        request: &Request<'_>,
        body: &[u8],
        http: &mut HttpState,
        out: &mut SendQueue,
    ) -> Handled {
        let Some(target) = origin_form(request.target) else {
            // Only methods that are not implemented use `*` or a bare authority.
            return self.reject_method(request, "GET, HEAD", out);
        };
        let (path, query) = split_query(target);
        if path == REPORT {
            return self.answer_report(request, out);
        }
        let route = route_of(path, query);
        if let Some(route) = route.filter(|_| self.site.spec.routes) {
            return self.dispatch_route(request, route, (query, body), http, out);
        }
        if !matches!(request.method, Method::Get | Method::Head) {
            return self.reject_method(request, "GET, HEAD", out);
        }
        let path = match normalize_path(path) {
            Ok(path) => path,
            Err(TargetError::Malformed) => {
                self.send_error(request, Status::BadRequest, "malformed escape in path", out);
                return Handled::Done;
            }
            Err(TargetError::Outside) => {
                self.send_status(request, Status::NotFound, out);
                return Handled::Done;
            }
        };
        match self.find_file(&path, request.accept_encoding) {
            Err(job) => return Handled::NeedsJob(job),
            Ok(Ok(entry)) => self.send_entry(request, &entry, out),
            Ok(Err(FileError::Folder)) => self.redirect_to_folder(request, &path, query, out),
            Ok(Err(FileError::Missing)) if route.is_some() => {
                let why = "no such file; computed routes need `serve web --routes`";
                self.send_error(request, Status::NotFound, why, out);
            }
            Ok(Err(rejection)) => self.send_status(request, status_of(rejection), out),
        }
        Handled::Done
    }

    fn answer_report(&self, request: &Request<'_>, out: &mut SendQueue) -> Handled {
        match request.method {
            Method::Get | Method::Head => self.send_report(request, out),
            Method::Post | Method::Other => return self.reject_method(request, "GET, HEAD", out),
        }
        Handled::Done
    }

    /// A file from the cache or the disk, in the best coding that the client accepts.
    pub(super) fn find_file(
        &mut self,
        path: &[u8],
        accepted: Option<&[u8]>,
    ) -> Result<Result<Arc<Entry>, FileError>, Job> {
        if let Some(entry) = self.cached(path, accepted) {
            return Ok(Ok(entry));
        }
        let plain = match self.cached_coding(path, Coding::Identity) {
            Some(entry) => entry,
            None => match self.load(path, Coding::Identity)? {
                Ok(entry) => entry,
                Err(rejection) => return Ok(Err(rejection)),
            },
        };
        let coding = choose(accepted.unwrap_or_default(), plain.siblings);
        if coding == Coding::Identity {
            return Ok(Ok(plain));
        }
        if let Some(entry) = self.cached_coding(path, coding) {
            return Ok(Ok(entry));
        }
        // If the compressed file has vanished, send the plain one.
        Ok(Ok(self.load(path, coding)?.unwrap_or(plain)))
    }

    pub(super) fn reject_method(
        &self,
        request: &Request<'_>,
        allowed: &str,
        out: &mut SendQueue,
    ) -> Handled {
        let lines = format!("Allow: {allowed}\r\n");
        let fields = Fields(TEXT, &lines);
        let text = b"405 Method Not Allowed\n";
        self.send_text(request, Status::MethodNotAllowed, text, fields, out);
        Handled::Done
    }

    /// Redirects a request for a folder to the same path with a slash at its end.
    fn redirect_to_folder(
        &self,
        request: &Request<'_>,
        path: &[u8],
        query: &[u8],
        out: &mut SendQueue,
    ) {
        let mut lines = String::from("Location: ");
        for &byte in path {
            match byte {
                b'/' | b'.' | b'-' | b'_' | b'~' => lines.push(char::from(byte)),
                _ if byte.is_ascii_alphanumeric() => lines.push(char::from(byte)),
                // Writing to memory does not fail.
                _ => {
                    let _ = write!(lines, "%{byte:02X}");
                }
            }
        }
        lines.push('/');
        if !query.is_empty() && query.iter().all(u8::is_ascii_graphic) {
            lines.push('?');
            lines.extend(query.iter().map(|&byte| char::from(byte)));
        }
        lines.push_str("\r\n");
        let fields = Fields(TEXT, &lines);
        self.send_text(
            request,
            Status::MovedPermanently,
            b"301 Moved Permanently\n",
            fields,
            out,
        );
    }

    /// Appends a response with a file, subject to the request's conditions.
    #[inline]
    pub(super) fn send_entry(
        &mut self,
        request: &Request<'_>,
        entry: &Arc<Entry>,
        out: &mut SendQueue,
    ) {
        if request.range.is_some() || request.conditions != Conditions::default() {
            return self.send_conditional(request, entry, out);
        }
        self.send_whole(request, entry, out);
    }

    #[inline]
    fn send_whole(&mut self, request: &Request<'_>, entry: &Arc<Entry>, out: &mut SendQueue) {
        self.count(Status::Ok);
        // Send a prebuilt response only if the queue is empty. Otherwise append the head and a
        // small body to the buffer of the responses that come first.
        if out.is_empty() && is_plain(request) {
            let clock = &self.clock;
            let response = self.cache.with(|cache| {
                cache.prebuilt.response(entry, clock.second, |head| {
                    head.extend_from_slice(&entry.head);
                    end_head(clock, request, (0, entry.version.size_bytes), head);
                })
            });
            if let Some(response) = response {
                self.counters().prebuilt.add(1);
                return out.whole(response);
            }
        }
        let body_bytes = match request.method {
            Method::Head => 0,
            _ => entry.version.size_bytes,
        };
        out.text(|text| {
            let start = text.len();
            text.extend_from_slice(&entry.head);
            end_head(&self.clock, request, (start, body_bytes), text);
        });
        if request.method != Method::Head {
            out.body(&entry.body, 0..body_bytes);
        }
    }

    /// Evaluates the conditions in the order of RFC 9110, section 13.2.2, then the range.
    fn send_conditional(&mut self, request: &Request<'_>, entry: &Arc<Entry>, out: &mut SendQueue) {
        match check_conditions(&request.conditions, entry) {
            Some(Status::NotModified) => return self.send_not_modified(request, entry, out),
            Some(status) => return self.send_status(request, status, out),
            None => {}
        }
        let selection = match request.range {
            Some(range) if request.method == Method::Get && range_applies(request, entry) => {
                parse_range(range, entry.version.size_bytes)
            }
            _ => Selection::Whole,
        };
        match selection {
            Selection::Whole => self.send_whole(request, entry, out),
            Selection::Unsatisfiable => {
                let lines = format!("Content-Range: bytes */{}\r\n", entry.version.size_bytes);
                let fields = Fields(TEXT, &lines);
                let text = b"416 Range Not Satisfiable\n";
                self.send_text(request, Status::RangeNotSatisfiable, text, fields, out);
            }
            Selection::Part(part) => {
                self.count(Status::PartialContent);
                let mut lines = validators(entry);
                // Writing to memory does not fail.
                let _ = write!(
                    lines,
                    "Content-Range: bytes {}-{}/{}\r\n",
                    part.start,
                    part.end - 1,
                    entry.version.size_bytes
                );
                let fields = Fields(entry.content_type, &lines);
                let length = part.end - part.start;
                self.head(request, Status::PartialContent, length, fields, out);
                out.body(&entry.body, part);
            }
        }
    }

    fn send_not_modified(&self, request: &Request<'_>, entry: &Entry, out: &mut SendQueue) {
        self.count(Status::NotModified);
        let fields = Fields("", &validators(entry));
        self.head(request, Status::NotModified, 0, fields, out);
    }
}

/// Whether the response has the same head as a prebuilt response.
fn is_plain(request: &Request<'_>) -> bool {
    request.method == Method::Get && request.keep_alive && request.minor_version == 1
}

/// The status of a response without the file.
pub(super) fn status_of(rejection: FileError) -> Status {
    match rejection {
        FileError::Missing | FileError::Folder => Status::NotFound,
        FileError::Forbidden => Status::Forbidden,
        FileError::Exhausted => Status::ServiceUnavailable,
        FileError::Failed => Status::InternalServerError,
    }
}

/// The fields that identify a version of a file.
fn validators(entry: &Entry) -> String {
    let mut lines = Vec::new();
    // Writing to memory does not fail, and the fields are ASCII.
    let _ = entry.write_validators(&mut lines);
    String::from_utf8(lines).unwrap_or_default()
}

/// The status of the response if a condition of the request excludes the file.
fn check_conditions(conditions: &Conditions<'_>, entry: &Entry) -> Option<Status> {
    if let Some(tags) = conditions.if_match {
        if !has_tag(tags, &entry.etag, false) {
            return Some(Status::PreconditionFailed);
        }
    } else if let Some(date) = conditions.if_unmodified_since.and_then(parse_date)
        && entry.modified_s > date
    {
        return Some(Status::PreconditionFailed);
    }
    if let Some(tags) = conditions.if_none_match {
        return has_tag(tags, &entry.etag, true).then_some(Status::NotModified);
    }
    let date = conditions.if_modified_since.and_then(parse_date)?;
    (entry.modified_s <= date).then_some(Status::NotModified)
}

/// Whether a list contains an entity tag. With `weakly`, tags are compared by weak comparison (RFC
/// 9110, section 8.8.3.2).
fn has_tag(list: &[u8], tag: &str, weakly: bool) -> bool {
    list.split(|&byte| byte == b',').any(|item| {
        let item = item.trim_ascii();
        let item = match item.strip_prefix(b"W/") {
            Some(weak) if weakly => weak,
            _ => item,
        };
        item == b"*" || item == tag.as_bytes()
    })
}

/// Whether `Range` applies: the request has no `If-Range`, or the client has this version.
fn range_applies(request: &Request<'_>, entry: &Entry) -> bool {
    match request.conditions.if_range {
        None => true,
        Some(tag) if tag.trim_ascii().starts_with(b"\"") => {
            tag.trim_ascii() == entry.etag.as_bytes()
        }
        Some(date) => parse_date(date) == Some(entry.modified_s),
    }
}
