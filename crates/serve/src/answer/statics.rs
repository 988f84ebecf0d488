//! Files: found, judged against the request's conditions, and sent whole or in part.

use std::fmt::Write;
use std::sync::Arc;

use super::respond::{Extra, end_head};
use super::{Answered, Worker};
use crate::files::entry::{Entry, Refusal};
use crate::files::helpers::Job;
use crate::outgoing::Outgoing;
use crate::routes::route_of;
use crate::talk::Talk;
use perpacket_http::coding::{Coding, choose};
use perpacket_http::date::parse_date;
use perpacket_http::range::{Selection, parse_range};
use perpacket_http::request::{Conditions, Method, Request};
use perpacket_http::status::Status;
use perpacket_http::target::{TargetError, normalize_path, origin_form, split_query};

/// Where the server reports on itself. It is served with and without `--routes`.
const REPORT: &[u8] = b"/.perpacket/report";

impl Worker {
    /// Answers what was not found in the cache under the target as it came.
    pub(super) fn dispatch_unknown(
        &mut self,
        request: &Request<'_>,
        body: &[u8],
        talk: &mut Talk,
        out: &mut Outgoing,
    ) -> Answered {
        let Some(target) = origin_form(request.target) else {
            // `*` and a bare authority belong to methods that no resource here has.
            return self.refuse_method(request, "GET, HEAD", out);
        };
        let (path, query) = split_query(target);
        if path == REPORT {
            return self.answer_report(request, out);
        }
        let route = route_of(path, query);
        if let Some(route) = route.filter(|_| self.site.settings.routes) {
            return self.dispatch_route(request, route, (query, body), talk, out);
        }
        if !matches!(request.method, Method::Get | Method::Head) {
            return self.refuse_method(request, "GET, HEAD", out);
        }
        let path = match normalize_path(path) {
            Ok(path) => path,
            Err(TargetError::Malformed) => {
                self.send_explained(request, Status::BadRequest, "malformed escape in path", out);
                return Answered::Done;
            }
            Err(TargetError::Outside) => {
                self.send_status(request, Status::NotFound, out);
                return Answered::Done;
            }
        };
        match self.find(&path, request.accept_encoding) {
            Err(job) => return Answered::Job(job),
            Ok(Ok(entry)) => self.send_entry(request, &entry, out),
            Ok(Err(Refusal::Folder)) => self.send_to_folder(request, &path, query, out),
            Ok(Err(Refusal::Missing)) if route.is_some() => {
                let why = "no such file; computed routes need `serve web --routes`";
                self.send_explained(request, Status::NotFound, why, out);
            }
            Ok(Err(refusal)) => self.send_status(request, status_of(refusal), out),
        }
        Answered::Done
    }

    fn answer_report(&self, request: &Request<'_>, out: &mut Outgoing) -> Answered {
        match request.method {
            Method::Get | Method::Head => self.send_report(request, out),
            Method::Post | Method::Other => return self.refuse_method(request, "GET, HEAD", out),
        }
        Answered::Done
    }

    /// A file by its normal path, from the cache or the disk, in the best form the client takes.
    pub(super) fn find(
        &mut self,
        path: &[u8],
        accepted: Option<&[u8]>,
    ) -> Result<Result<Arc<Entry>, Refusal>, Job> {
        if let Some(entry) = self.cached(path, accepted) {
            return Ok(Ok(entry));
        }
        let plain = match self.cached_form(path, Coding::Identity) {
            Some(entry) => entry,
            None => match self.load(path, Coding::Identity)? {
                Ok(entry) => entry,
                Err(refusal) => return Ok(Err(refusal)),
            },
        };
        let coding = choose(accepted.unwrap_or_default(), plain.siblings);
        if coding == Coding::Identity {
            return Ok(Ok(plain));
        }
        if let Some(entry) = self.cached_form(path, coding) {
            return Ok(Ok(entry));
        }
        // A sibling that vanished meanwhile is no reason to refuse the file.
        Ok(Ok(self.load(path, coding)?.unwrap_or(plain)))
    }

    pub(super) fn refuse_method(
        &self,
        request: &Request<'_>,
        allowed: &str,
        out: &mut Outgoing,
    ) -> Answered {
        let lines = format!("Allow: {allowed}\r\n");
        let extra = Extra {
            kind: super::respond::TEXT,
            lines: &lines,
        };
        let text = b"405 Method Not Allowed\n";
        self.send_text(request, Status::MethodNotAllowed, text, extra, out);
        Answered::Done
    }

    /// Sends a client that named a folder without a slash to the folder.
    fn send_to_folder(&self, request: &Request<'_>, path: &[u8], query: &[u8], out: &mut Outgoing) {
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
        let extra = Extra {
            kind: super::respond::TEXT,
            lines: &lines,
        };
        self.send_text(
            request,
            Status::MovedPermanently,
            b"301 Moved Permanently\n",
            extra,
            out,
        );
    }

    /// Sends a file, or what the request's conditions say instead.
    #[inline]
    pub(super) fn send_entry(
        &mut self,
        request: &Request<'_>,
        entry: &Arc<Entry>,
        out: &mut Outgoing,
    ) {
        if request.range.is_some() || request.conditions != Conditions::default() {
            return self.send_judged(request, entry, out);
        }
        self.send_whole(request, entry, out);
    }

    #[inline]
    fn send_whole(&mut self, request: &Request<'_>, entry: &Arc<Entry>, out: &mut Outgoing) {
        self.count(Status::Ok);
        // After other responses, head and small body are appended to the same buffer instead.
        if out.is_empty() && is_plain(request) {
            let clock = &self.clock;
            let response = self.shelf.with(|cache| {
                cache.prebuilt.response(entry, clock.second, |head| {
                    head.extend_from_slice(&entry.head);
                    end_head(clock, request, (0, entry.stamp.size_bytes), head);
                })
            });
            if let Some(response) = response {
                self.counters().prebuilt.add(1);
                return out.whole(response);
            }
        }
        let body_bytes = match request.method {
            Method::Head => 0,
            _ => entry.stamp.size_bytes,
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

    /// The order of RFC 9110, section 13.2.2, then the range.
    fn send_judged(&mut self, request: &Request<'_>, entry: &Arc<Entry>, out: &mut Outgoing) {
        match judge(&request.conditions, entry) {
            Some(Status::NotModified) => return self.send_not_modified(request, entry, out),
            Some(status) => return self.send_status(request, status, out),
            None => {}
        }
        let asked = match request.range {
            Some(range) if request.method == Method::Get && may_be_part(request, entry) => {
                parse_range(range, entry.stamp.size_bytes)
            }
            _ => Selection::Whole,
        };
        match asked {
            Selection::Whole => self.send_whole(request, entry, out),
            Selection::Unsatisfiable => {
                let lines = format!("Content-Range: bytes */{}\r\n", entry.stamp.size_bytes);
                let extra = Extra {
                    kind: super::respond::TEXT,
                    lines: &lines,
                };
                let text = b"416 Range Not Satisfiable\n";
                self.send_text(request, Status::RangeNotSatisfiable, text, extra, out);
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
                    entry.stamp.size_bytes
                );
                let extra = Extra {
                    kind: entry.kind,
                    lines: &lines,
                };
                let length = part.end - part.start;
                self.head(request, Status::PartialContent, length, extra, out);
                out.body(&entry.body, part);
            }
        }
    }

    fn send_not_modified(&self, request: &Request<'_>, entry: &Entry, out: &mut Outgoing) {
        self.count(Status::NotModified);
        let extra = Extra {
            kind: "",
            lines: &validators(entry),
        };
        self.head(request, Status::NotModified, 0, extra, out);
    }
}

/// Whether a whole file is answered like most are: no connection fate or version changes the head.
fn is_plain(request: &Request<'_>) -> bool {
    request.method == Method::Get && request.keep_alive && request.minor_version == 1
}

/// The status for a file that cannot be sent.
pub(super) fn status_of(refusal: Refusal) -> Status {
    match refusal {
        Refusal::Missing | Refusal::Folder => Status::NotFound,
        Refusal::Forbidden => Status::Forbidden,
        Refusal::Exhausted => Status::ServiceUnavailable,
        Refusal::Failed => Status::InternalServerError,
    }
}

/// The fields that tell one version of a file from another.
fn validators(entry: &Entry) -> String {
    let mut lines = Vec::new();
    // Writing to memory does not fail, and what is written is ASCII.
    let _ = entry.write_validators(&mut lines);
    String::from_utf8(lines).unwrap_or_default()
}

/// What the conditions say instead of the file.
fn judge(conditions: &Conditions<'_>, entry: &Entry) -> Option<Status> {
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

/// Whether a list of entity tags has one; `weakly` a weak one counts too (section 8.8.3.2).
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

/// Whether a range may be sent: without `If-Range`, or if the client has this very version.
fn may_be_part(request: &Request<'_>, entry: &Entry) -> bool {
    match request.conditions.if_range {
        None => true,
        Some(tag) if tag.trim_ascii().starts_with(b"\"") => {
            tag.trim_ascii() == entry.etag.as_bytes()
        }
        Some(date) => parse_date(date) == Some(entry.modified_s),
    }
}
