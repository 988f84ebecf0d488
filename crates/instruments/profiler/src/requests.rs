//! Reads the number of requests that a server has answered, over HTTP, at both ends of a window.
//!
//! Two formats are accepted: JSON with a number `requests`, as perpacket's servers return at
//! `/.perpacket/report`, and the text of nginx's stub_status. After a `#` the URL may have a JSON
//! pointer (RFC 6901, section 6) to the number in other JSON.

use std::io::{Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

use crate::error::ProfileError;

/// Longest wait for the server's response.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Largest response that is read.
const RESPONSE_LIMIT_BYTES: u64 = 1 << 20;

/// The URL of a page with the number of answered requests.
#[derive(Clone, Debug)]
pub struct RequestCounter {
    url: String,
    host: String,
    path: String,
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
        let rest = page.strip_prefix("http://").unwrap_or_default();
        let (host, path) = match rest.find('/') {
            Some(start) => rest.split_at(start),
            None => (rest, "/"),
        };
        let is_wrong = host.is_empty() || !pointer.starts_with('/');
        if is_wrong || url.contains(|letter: char| letter.is_whitespace()) {
            return Err(ProfileError::Option {
                option: "requests",
                value: url.to_owned(),
                expected: "http://HOST:PORT/PATH, or http://HOST:PORT/PATH#/KEY/KEY for a number in JSON",
            });
        }
        let has_port = host
            .rsplit_once(':')
            .is_some_and(|(_, port)| port.parse::<u16>().is_ok());
        Ok(Self {
            url: url.to_owned(),
            host: if has_port {
                host.to_owned()
            } else {
                format!("{host}:80")
            },
            path: path.to_owned(),
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
        let response = self.get().map_err(|error| failed(error.to_string()))?;
        let (head, body) = response
            .split_once("\r\n\r\n")
            .ok_or_else(|| failed("the response is not HTTP".to_owned()))?;
        let status = head.lines().next().unwrap_or_default();
        if status.split(' ').nth(1) != Some("200") {
            return Err(failed(format!("answered `{status}`, expected status 200")));
        }
        parse(body, &self.pointer).ok_or_else(|| {
            failed(format!(
                "expected JSON with a number at `{}`, or nginx's stub_status",
                self.pointer
            ))
        })
    }

    fn get(&self) -> std::io::Result<String> {
        let mut last = std::io::Error::from(std::io::ErrorKind::NotFound);
        for address in self.host.to_socket_addrs()? {
            match TcpStream::connect_timeout(&address, TIMEOUT) {
                Ok(stream) => return self.exchange(stream),
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    fn exchange(&self, mut stream: TcpStream) -> std::io::Result<String> {
        stream.set_read_timeout(Some(TIMEOUT))?;
        stream.set_write_timeout(Some(TIMEOUT))?;
        // An HTTP/1.0 response ends with the connection and has no chunks.
        let request = format!(
            "GET {} HTTP/1.0\r\nHost: {}\r\nConnection: close\r\n\r\n",
            self.path, self.host
        );
        stream.write_all(request.as_bytes())?;
        let mut bytes = Vec::new();
        stream.take(RESPONSE_LIMIT_BYTES).read_to_end(&mut bytes)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
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
        assert_eq!(RequestCounter::new("http://a/x").unwrap().host, "a:80");
    }
}
