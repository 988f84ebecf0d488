//! Computed responses.

use std::sync::Arc;

use super::response::{Fields, TEXT};
use super::static_files::status_of;
use super::{Handled, Worker};
use crate::files::entry::{Body, Entry};
use crate::files::helper_threads::{Job, JobResult, run_job};
use crate::http_state::HttpState;
use crate::routes::cgi::CgiRequest;
use crate::routes::specweb99::{
    AD_MARK, Form, Operation, PAGE_END, ad_link, next_ad, page_top, user_of,
};
use crate::routes::{Route, burn_cpu};
use crate::send_queue::SendQueue;
use perpacket_http::request::{Method, Request};
use perpacket_http::status::Status;

/// The type of SPECweb99's pages.
const HTML: &str = "text/html; charset=utf-8";

/// CPU time that a loop spends on `/work` before it serves other clients, in microseconds.
const WORK_SLICE_US: u64 = 1000;

/// The route of SPECweb99's CGI operation.
const CGI: &str = "/specweb99/cgi";

impl Worker {
    pub(super) fn dispatch_route(
        &mut self,
        request: &Request<'_>,
        route: Route<'_>,
        (query, body): (&[u8], &[u8]),
        http: &mut HttpState,
        out: &mut SendQueue,
    ) -> Handled {
        let is_post = route == Route::Specweb(Operation::Post);
        let fits = match request.method {
            Method::Get | Method::Head => !is_post,
            Method::Post => is_post,
            Method::Other => false,
        };
        if !fits {
            let allowed = if is_post { "POST" } else { "GET, HEAD" };
            return self.reject_method(request, allowed, out);
        }
        match route {
            Route::Malformed(expected) => {
                self.send_error(request, Status::BadRequest, expected, out);
            }
            Route::Work(microseconds) => {
                if !self.work(microseconds, http) {
                    return Handled::Deferred;
                }
                let fields = Fields(TEXT, "");
                self.send_text(request, Status::Ok, b"done\n", fields, out);
            }
            Route::Bytes(bytes) => {
                let fields = Fields(perpacket_http::content_type::OCTET_STREAM, "");
                self.count(Status::Ok);
                self.head(request, Status::Ok, bytes, fields, out);
                if request.method != Method::Head {
                    out.pattern(bytes);
                }
            }
            Route::Specweb(Operation::Get(file)) => {
                let top = page_top("/specweb99/get", query, http.peer);
                return match self.page_file(request, file, out) {
                    Err(other) => other,
                    Ok(entry) => self.send_page(request, &entry, &top, "", &[], out),
                };
            }
            Route::Specweb(Operation::Ad(file)) => {
                let top = page_top("/specweb99/ad", query, http.peer);
                let (user, last) = user_of(request.cookie);
                let ad = next_ad(user, last);
                return match self.page_file(request, file, out) {
                    Err(other) => other,
                    Ok(entry) => {
                        let cookie = format!("Set-Cookie: user_id={user}&last_ad={ad}\r\n");
                        let links = ad_links(&entry, &ad_link(ad));
                        self.send_page(request, &entry, &top, &cookie, &links, out)
                    }
                };
            }
            Route::Specweb(Operation::Post) => return self.send_post(request, body, http, out),
            Route::Specweb(Operation::Cgi(_)) => return self.send_cgi(request, query, http, out),
        }
        Handled::Done
    }

    /// Uses the requested CPU time, or a part of it. Returns `false` if some time is left.
    ///
    /// A loop works in slices, so that other clients wait only for one slice.
    fn work(&self, microseconds: u64, http: &mut HttpState) -> bool {
        let left_us = microseconds - http.work_done_us.min(microseconds);
        let slice_us = if self.shares_thread {
            left_us.min(WORK_SLICE_US)
        } else {
            left_us
        };
        burn_cpu(slice_us);
        if slice_us < left_us {
            http.work_done_us += slice_us;
            return false;
        }
        http.work_done_us = 0;
        true
    }

    /// Appends the server's report. The report counts neither as a request nor in the bytes sent.
    pub(super) fn send_report(&self, request: &Request<'_>, out: &mut SendQueue) {
        let before_bytes = out.left_bytes();
        // Serializing fails only for maps whose keys are not strings. The report has no such map.
        let mut body = serde_json::to_vec(&self.site.reporter.report()).unwrap_or_default();
        body.push(b'\n');
        let fields = Fields("application/json", "Cache-Control: no-store\r\n");
        self.head(request, Status::Ok, body.len() as u64, fields, out);
        if request.method != Method::Head {
            out.text(|text| text.extend_from_slice(&body));
        }
        let bytes = out.left_bytes() - before_bytes;
        self.counters().bytes_sent.shift(-(bytes as i64));
    }

    /// The file of a page. `Err` if the file does not exist, or if a job must read it first.
    fn page_file(
        &mut self,
        request: &Request<'_>,
        file: &[u8],
        out: &mut SendQueue,
    ) -> Result<Arc<Entry>, Handled> {
        match self.find_file(file, None) {
            Err(job) => Err(Handled::NeedsJob(job)),
            Ok(Ok(entry)) => Ok(entry),
            Ok(Err(rejection)) => {
                self.send_status(request, status_of(rejection), out);
                Err(Handled::Done)
            }
        }
    }

    /// Appends a page around a file, with additional field lines. Some parts of the file are
    /// replaced.
    fn send_page(
        &self,
        request: &Request<'_>,
        entry: &Entry,
        top: &[u8],
        lines: &str,
        replacements: &[(u64, String)],
        out: &mut SendQueue,
    ) -> Handled {
        let fields = Fields(HTML, lines);
        let length = top.len() as u64 + entry.version.size_bytes + PAGE_END.len() as u64;
        self.count(Status::Ok);
        self.head(request, Status::Ok, length, fields, out);
        if request.method == Method::Head {
            return Handled::Done;
        }
        out.text(|text| text.extend_from_slice(top));
        let mut at = 0;
        for (start, link) in replacements {
            out.body(&entry.body, at..*start);
            out.text(|text| text.extend_from_slice(link.as_bytes()));
            at = start + link.len() as u64;
        }
        out.body(&entry.body, at..entry.version.size_bytes);
        out.text(|text| text.extend_from_slice(PAGE_END));
        Handled::Done
    }

    fn send_post(
        &mut self,
        request: &Request<'_>,
        body: &[u8],
        http: &HttpState,
        out: &mut SendQueue,
    ) -> Handled {
        let site = Arc::clone(&self.site);
        let Some(log) = &site.post_log else {
            let why = "this server has no POST log, start it with --post-log FILE";
            self.send_error(request, Status::NotImplemented, why, out);
            return Handled::Done;
        };
        let Some(form) = Form::parse(body) else {
            let expected = "expected the body dir=0&class=1&file=3&client=7";
            self.send_error(request, Status::BadRequest, expected, out);
            return Handled::Done;
        };
        // Find the file first, because the response must not fail once the record is written.
        let path = form.file.path();
        let entry = match self.page_file(request, path.as_bytes(), out) {
            Err(other) => return other,
            Ok(entry) => entry,
        };
        let record = site.counters[0].post_records.draw();
        if log.append(record, &form).is_err() {
            self.send_status(request, Status::InternalServerError, out);
            return Handled::Done;
        }
        let top = page_top("/specweb99/post", body, http.peer);
        let cookie = format!("Set-Cookie: my_cookie={record}\r\n");
        self.send_page(request, &entry, &top, &cookie, &[], out)
    }

    fn send_cgi(
        &mut self,
        request: &Request<'_>,
        query: &[u8],
        http: &HttpState,
        out: &mut SendQueue,
    ) -> Handled {
        if self.site.cgi.is_none() {
            let why = "this server has no CGI program";
            self.send_error(request, Status::NotImplemented, why, out);
            return Handled::Done;
        }
        let page = match self.job_result.take() {
            Some(JobResult::Page(page)) => page,
            other => {
                self.job_result = other;
                let job = Job::Cgi(Box::new(CgiRequest {
                    script: CGI,
                    query: query.to_vec(),
                    peer: http.peer,
                }));
                if self.returns_jobs {
                    return Handled::NeedsJob(job);
                }
                match run_job(&self.site, job, &mut self.scratch) {
                    JobResult::Page(page) => page,
                    JobResult::Loaded { .. } | JobResult::Warmed => None,
                }
            }
        };
        match page {
            None => self.send_status(request, Status::BadGateway, out),
            Some(page) => {
                let fields = Fields(HTML, "");
                self.send_text(request, Status::Ok, &page, fields, out);
            }
        }
        Handled::Done
    }
}

/// The positions of the advertisement's links in a file. Files that are not in memory have none,
/// because the benchmark has links only in its classes 1 and 2, whose files have at most 92,160
/// bytes.
fn ad_links(entry: &Entry, link: &str) -> Vec<(u64, String)> {
    match &entry.body {
        Body::File(_) => Vec::new(),
        Body::Memory(content) => memchr::memmem::find_iter(content, AD_MARK)
            .map(|at| (at as u64, link.to_owned()))
            .collect(),
    }
}
