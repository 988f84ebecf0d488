//! Reads the number of requests that a server has answered, over HTTP, at both ends of a window.
//!
//! Two formats are accepted: JSON with a number `requests`, as perpacket's servers return at
//! `/.perpacket/report`, and the text of nginx's stub_status. After a `#` the URL may have a JSON
//! pointer (RFC 6901, section 6) to the number in other JSON.

use std::time::Duration;

use ureq::http::Uri;

use crate::error::ProfileError;

/// Longest wait for the server's response.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Largest response that is read.
const RESPONSE_LIMIT_BYTES: u64 = 1 << 20;

/// The URL of a page with the number of answered requests.
#[derive(Clone, Debug)]
pub struct RequestCounter {
    url: String,
    /// The URL without the pointer.
    page: Uri,
    /// JSON pointer to the number.
    pointer: String,
}

/// The number on the page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestCount {
    /// Requests so far.
    pub requests: u64,
    /// Whether the number includes the request for the page.
    pub counts_itself: bool,
}

impl RequestCount {
    /// Number of requests from this count to a later one. It excludes the request for the later
    /// page.
    #[must_use]
    pub fn until(self, later: Self) -> u64 {
        let grown = later.requests.saturating_sub(self.requests);
        grown.saturating_sub(u64::from(later.counts_itself))
    }
}

impl RequestCounter {
    /// Parses `http://HOST[:PORT]/PATH[#/POINTER]`.
    ///
    /// # Errors
    /// The text is not such a URL.
    pub fn new(url: &str) -> Result<Self, ProfileError> {
        let (page, pointer) = url.split_once('#').unwrap_or((url, "/requests"));
        let page = page.parse::<Uri>().ok();
        let page = page.filter(|uri| uri.scheme_str() == Some("http") && pointer.starts_with('/'));
        Ok(Self {
            url: url.to_owned(),
            page: page.ok_or_else(|| ProfileError::Option {
                option: "requests",
                value: url.to_owned(),
                expected: "http://HOST:PORT/PATH, or http://HOST:PORT/PATH#/KEY/KEY for a number in JSON",
            })?,
            pointer: pointer.to_owned(),
        })
    }

    /// Requests the page.
    ///
    /// # Errors
    /// The server does not respond, or the page has neither format.
    pub fn read(&self) -> Result<RequestCount, ProfileError> {
        let failed = |reason: String| ProfileError::Requests {
            url: self.url.clone(),
            reason,
        };
        let body = self.get().map_err(|error| failed(error.to_string()))?;
        parse(&body, &self.pointer).ok_or_else(|| {
            failed(format!(
                "expected JSON with a number at `{}`, or nginx's stub_status",
                self.pointer
            ))
        })
    }

    fn get(&self) -> Result<String, ureq::Error> {
        // The page is on the measured server itself, so no proxy is asked.
        let config = ureq::Agent::config_builder()
            .timeout_global(Some(TIMEOUT))
            .max_redirects(0)
            .proxy(None)
            .build();
        let mut response = ureq::Agent::new_with_config(config)
            .get(&self.page)
            .call()?;
        let body = response.body_mut().with_config();
        body.limit(RESPONSE_LIMIT_BYTES).read_to_string()
    }
}

fn parse(body: &str, pointer: &str) -> Option<RequestCount> {
    let json: Option<serde_json::Value> = serde_json::from_str(body).ok();
    if let Some(requests) = json.and_then(|value| value.pointer(pointer)?.as_u64()) {
        return Some(RequestCount {
            requests,
            counts_itself: false,
        });
    }
    // The first line is `server accepts handled requests`, and the next line has the three numbers.
    let mut lines = body.lines();
    lines.find(|line| line.trim() == "server accepts handled requests")?;
    let requests = lines.next()?.split_ascii_whitespace().nth(2)?;
    Some(RequestCount {
        requests: requests.parse().ok()?,
        counts_itself: true,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_formats_are_parsed() {
        let json = parse("{\"schema\": 1, \"requests\": 42}", "/requests").unwrap();
        assert_eq!((json.requests, json.counts_itself), (42, false));
        let text =
            "Active connections: 1 \nserver accepts handled requests\n 3 3 17 \nReading: 0\n";
        let nginx = parse(text, "/requests").unwrap();
        assert_eq!((nginx.requests, nginx.counts_itself), (17, true));
        assert_eq!(parse("<html>", "/requests"), None);
        let nested = "{\"server\": {\"zones\": [{\"answered\": 7}]}}";
        let found = parse(nested, "/server/zones/0/answered").unwrap();
        assert_eq!(found.requests, 7);
    }

    #[test]
    fn the_request_for_nginxs_page_is_not_counted() {
        let text = |requests| RequestCount {
            requests,
            counts_itself: true,
        };
        assert_eq!(text(10).until(text(11)), 0);
        assert_eq!(text(10).until(text(16)), 5);
    }

    #[test]
    fn only_plain_http_urls_are_accepted() {
        for wrong in [
            "https://a/",
            "a:80/x",
            "http://",
            "http://a b/",
            "http://a/#x",
        ] {
            assert!(RequestCounter::new(wrong).is_err(), "{wrong}");
        }
        assert!(RequestCounter::new("http://a/x").is_ok());
    }
}
