//! Answers that are computed.

use std::sync::Arc;

use super::respond::{Extra, TEXT};
use super::statics::status_of;
use super::{Answered, Worker};
use crate::files::entry::{Body, Entry};
use crate::files::helpers::{Job, Outcome, carry_out};
use crate::outgoing::Outgoing;
use crate::routes::cgi::CgiRequest;
use crate::routes::specweb99::{
    AD_MARK, Form, Operation, PAGE_END, ad_link, next_ad, page_top, user_of,
};
use crate::routes::{Route, burn};
use crate::talk::Talk;
use perpacket_http::request::{Method, Request};
use perpacket_http::status::Status;

/// The type of SPECweb99's pages.
const HTML: &str = "text/html; charset=utf-8";

/// CPU time of `/work` before a loop serves other clients, in microseconds.
const WORK_SLICE_US: u64 = 1000;

/// The route of SPECweb99's CGI operation.
const CGI: &str = "/specweb99/cgi";

impl Worker {
    pub(super) fn dispatch_route(
        &mut self,
        request: &Request<'_>,
        route: Route<'_>,
        (query, body): (&[u8], &[u8]),
        talk: &mut Talk,
        out: &mut Outgoing,
    ) -> Answered {
        let is_post = route == Route::Specweb(Operation::Post);
        let fits = match request.method {
            Method::Get | Method::Head => !is_post,
            Method::Post => is_post,
            Method::Other => false,
        };
        if !fits {
            let allowed = if is_post { "POST" } else { "GET, HEAD" };
            return self.refuse_method(request, allowed, out);
        }
        match route {
            Route::Malformed(expected) => {
                self.send_explained(request, Status::BadRequest, expected, out);
            }
            Route::Work(microseconds) => {
                if !self.work(microseconds, talk) {
                    return Answered::Later;
                }
                let extra = Extra {
                    kind: TEXT,
                    lines: "",
                };
                self.send_text(request, Status::Ok, b"done\n", extra, out);
            }
            Route::Bytes(bytes) => {
                let extra = Extra {
                    kind: perpacket_http::content_type::OCTET_STREAM,
                    lines: "",
                };
                self.count(Status::Ok);
                self.head(request, Status::Ok, bytes, extra, out);
                if request.method != Method::Head {
                    out.pattern(bytes);
                }
            }
            Route::Specweb(Operation::Get(file)) => {
                let top = page_top("/specweb99/get", query, talk.peer);
                return match self.page_file(request, file, out) {
                    Err(other) => other,
                    Ok(entry) => self.send_page(request, &entry, &top, "", &[], out),
                };
            }
            Route::Specweb(Operation::Ad(file)) => {
                let top = page_top("/specweb99/ad", query, talk.peer);
                let (user, last) = user_of(request.cookie);
                let ad = next_ad(user, last);
                return match self.page_file(request, file, out) {
                    Err(other) => other,
                    Ok(entry) => {
                        let cookie = format!("Set-Cookie: user_id={user}&last_ad={ad}\r\n");
                        let links = marks_in(&entry, &ad_link(ad));
                        self.send_page(request, &entry, &top, &cookie, &links, out)
                    }
                };
            }
            Route::Specweb(Operation::Post) => return self.send_post(request, body, talk, out),
            Route::Specweb(Operation::Cgi(_)) => return self.send_cgi(request, query, talk, out),
        }
        Answered::Done
    }

    /// Uses CPU time for a request; `false` if some of it is left for later.
    ///
    /// A loop works in slices, so that other clients wait for one slice and not for the whole work.
    fn work(&self, microseconds: u64, talk: &mut Talk) -> bool {
        let left_us = microseconds - talk.work_done_us.min(microseconds);
        let slice_us = if self.shares_thread {
            left_us.min(WORK_SLICE_US)
        } else {
            left_us
        };
        burn(slice_us);
        if slice_us < left_us {
            talk.work_done_us += slice_us;
            return false;
        }
        talk.work_done_us = 0;
        true
    }

    /// The report; it counts neither as a request nor in bytes.
    pub(super) fn send_report(&self, request: &Request<'_>, out: &mut Outgoing) {
        let before_bytes = out.left_bytes();
        // A report has no map with keys that JSON cannot hold.
        let mut body = serde_json::to_vec(&self.site.reporter.report()).unwrap_or_default();
        body.push(b'\n');
        let extra = Extra {
            kind: "application/json",
            lines: "Cache-Control: no-store\r\n",
        };
        self.head(request, Status::Ok, body.len() as u64, extra, out);
        if request.method != Method::Head {
            out.text(|text| text.extend_from_slice(&body));
        }
        let bytes = out.left_bytes() - before_bytes;
        self.counters().bytes_sent.shift(-(bytes as i64));
    }

    /// The file of a page; `Err` if something else was answered or must be done first.
    fn page_file(
        &mut self,
        request: &Request<'_>,
        file: &[u8],
        out: &mut Outgoing,
    ) -> Result<Arc<Entry>, Answered> {
        match self.find(file, None) {
            Err(job) => Err(Answered::Job(job)),
            Ok(Ok(entry)) => Ok(entry),
            Ok(Err(refusal)) => {
                self.send_status(request, status_of(refusal), out);
                Err(Answered::Done)
            }
        }
    }

    /// A page around a file, with lines for its head and what is replaced in the file.
    fn send_page(
        &self,
        request: &Request<'_>,
        entry: &Entry,
        top: &[u8],
        lines: &str,
        replacements: &[(u64, String)],
        out: &mut Outgoing,
    ) -> Answered {
        let extra = Extra { kind: HTML, lines };
        let length = top.len() as u64 + entry.stamp.size_bytes + PAGE_END.len() as u64;
        self.count(Status::Ok);
        self.head(request, Status::Ok, length, extra, out);
        if request.method == Method::Head {
            return Answered::Done;
        }
        out.text(|text| text.extend_from_slice(top));
        let mut at = 0;
        for (start, link) in replacements {
            out.body(&entry.body, at..*start);
            out.text(|text| text.extend_from_slice(link.as_bytes()));
            at = start + link.len() as u64;
        }
        out.body(&entry.body, at..entry.stamp.size_bytes);
        out.text(|text| text.extend_from_slice(PAGE_END));
        Answered::Done
    }

    fn send_post(
        &mut self,
        request: &Request<'_>,
        body: &[u8],
        talk: &Talk,
        out: &mut Outgoing,
    ) -> Answered {
        let site = Arc::clone(&self.site);
        let Some(log) = &site.post_log else {
            let why = "this server keeps no POST log, start it with --post-log FILE";
            self.send_explained(request, Status::NotImplemented, why, out);
            return Answered::Done;
        };
        let Some(form) = Form::of(body) else {
            let expected = "expected the body dir=0&class=1&file=3&client=7";
            self.send_explained(request, Status::BadRequest, expected, out);
            return Answered::Done;
        };
        // The file first: a record is written once, when the answer is sure.
        let path = form.file.path();
        let entry = match self.page_file(request, path.as_bytes(), out) {
            Err(other) => return other,
            Ok(entry) => entry,
        };
        let record = site.counters[0].post_records.draw();
        self.counters().system_calls.add(1);
        if log.append(record, &form).is_err() {
            self.send_status(request, Status::InternalServerError, out);
            return Answered::Done;
        }
        let top = page_top("/specweb99/post", body, talk.peer);
        let cookie = format!("Set-Cookie: my_cookie={record}\r\n");
        self.send_page(request, &entry, &top, &cookie, &[], out)
    }

    fn send_cgi(
        &mut self,
        request: &Request<'_>,
        query: &[u8],
        talk: &Talk,
        out: &mut Outgoing,
    ) -> Answered {
        if self.site.settings.cgi.is_none() {
            let why = "this server has no CGI program";
            self.send_explained(request, Status::NotImplemented, why, out);
            return Answered::Done;
        }
        let page = match self.delivered.take() {
            Some(Outcome::Page(page)) => page,
            other => {
                self.delivered = other;
                let job = Job::Cgi(Box::new(CgiRequest {
                    script: CGI,
                    query: query.to_vec(),
                    peer: talk.peer,
                }));
                if self.asks_helpers {
                    return Answered::Job(job);
                }
                match carry_out(&self.site, job, &mut self.scratch) {
                    Outcome::Page(page) => page,
                    Outcome::Loaded { .. } | Outcome::Warmed => None,
                }
            }
        };
        match page {
            None => self.send_status(request, Status::BadGateway, out),
            Some(page) => {
                let extra = Extra {
                    kind: HTML,
                    lines: "",
                };
                self.send_text(request, Status::Ok, &page, extra, out);
            }
        }
        Answered::Done
    }
}

/// Where an advertisement's link goes in a file, with the link. Files too large for memory have none: the
/// benchmark has them in its classes 1 and 2, of at most 92,160 bytes.
fn marks_in(entry: &Entry, link: &str) -> Vec<(u64, String)> {
    match &entry.body {
        Body::File(_) => Vec::new(),
        Body::Memory(content) => memchr::memmem::find_iter(content, AD_MARK)
            .map(|at| (at as u64, link.to_owned()))
            .collect(),
    }
}
