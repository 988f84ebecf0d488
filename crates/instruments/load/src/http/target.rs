//! The URL of a load and the address of its host.

use std::fmt;
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::time::Duration;

use perpacket_http::target::percent_decode;

use crate::error::LoadError;

/// Time-out of the test connection before the run.
const PROBE_TIMEOUT: Duration = Duration::from_secs(5);

/// A URL with scheme, host, port and path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// Whether the scheme is `https`.
    pub tls: bool,
    /// Name or address, without brackets.
    pub host: String,
    pub port: u16,
    /// Value of the `Host` field.
    pub authority: String,
    /// Path and query, beginning with a slash.
    pub path: String,
}

impl Target {
    /// Parses a URL.
    ///
    /// # Errors
    /// The scheme is neither `http` nor `https`, or host, port or path are invalid.
    pub fn parse(url: &str) -> Result<Self, LoadError> {
        let bad = |reason| LoadError::Url {
            url: url.to_owned(),
            reason,
        };
        let (tls, rest) = match url.split_once("://") {
            Some(("http", rest)) => (false, rest),
            Some(("https", rest)) => (true, rest),
            Some(_) => return Err(bad("the scheme must be http or https")),
            None => return Err(bad("no http:// or https:// before the host")),
        };
        let rest = rest.split('#').next().unwrap_or(rest);
        let split = rest.find(['/', '?']).unwrap_or(rest.len());
        let (authority, path) = rest.split_at(split);
        if authority.contains('@') {
            return Err(bad("user and password are not supported"));
        }
        let (host, port) = match authority.strip_prefix('[') {
            Some(literal) => {
                let (host, rest) = literal.split_once(']').ok_or(bad("no closing bracket"))?;
                (host, rest.strip_prefix(':'))
            }
            None => match authority.split_once(':') {
                Some((host, port)) => (host, Some(port)),
                None => (authority, None),
            },
        };
        let port = match port {
            Some(port) => port.parse().ok().filter(|port| *port > 0),
            None => Some(if tls { 443 } else { 80 }),
        };
        let is_plain = |text: &str| text.bytes().all(|byte| byte.is_ascii_graphic());
        if host.is_empty() || !is_plain(authority) {
            return Err(bad("expected a host"));
        }
        if !is_plain(path) {
            return Err(bad(
                "the path must be ASCII without blanks; write other characters as %XX",
            ));
        }
        if percent_decode(path.as_bytes()).is_none() {
            return Err(bad(
                "a % in the path must be followed by two hexadecimal digits; write % itself as %25",
            ));
        }
        Ok(Self {
            tls,
            host: host.to_owned(),
            port: port.ok_or(bad("the port must be from 1 to 65535"))?,
            authority: authority.to_owned(),
            path: match path {
                "" => "/".to_owned(),
                query if query.starts_with('?') => format!("/{query}"),
                path => path.to_owned(),
            },
        })
    }

    /// The first address of the host.
    ///
    /// # Errors
    /// The host has no address.
    pub fn resolve(&self) -> Result<SocketAddr, LoadError> {
        let failed = |source| LoadError::Resolve {
            host: self.host.clone(),
            source,
        };
        (self.host.as_str(), self.port)
            .to_socket_addrs()
            .map_err(failed)?
            .next()
            .ok_or_else(|| failed(std::io::ErrorKind::NotFound.into()))
    }
}

impl fmt::Display for Target {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.tls { "https" } else { "http" };
        write!(formatter, "{scheme}://{}{}", self.authority, self.path)
    }
}

/// Tries one connection before the run, so that a wrong address is an error at once. Without this,
/// the run would report it as failed requests.
///
/// # Errors
/// Connecting failed.
pub fn probe(address: SocketAddr) -> Result<(), LoadError> {
    TcpStream::connect_timeout(&address, PROBE_TIMEOUT)
        .map(drop)
        .map_err(|source| LoadError::Unreachable {
            address: address.to_string(),
            source,
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_parsed() {
        let shards = |url| {
            let target = Target::parse(url).unwrap();
            (target.tls, target.host, target.port, target.path)
        };
        let expected =
            |tls, host: &str, port, path: &str| (tls, host.to_owned(), port, path.to_owned());
        assert_eq!(
            shards("http://a/b?c=1#d"),
            expected(false, "a", 80, "/b?c=1")
        );
        assert_eq!(shards("https://a:8443"), expected(true, "a", 8443, "/"));
        assert_eq!(
            shards("http://[::1]:8080/x%2f"),
            expected(false, "::1", 8080, "/x%2f")
        );
        assert_eq!(
            shards("http://localhost?q"),
            expected(false, "localhost", 80, "/?q")
        );
    }

    #[test]
    fn an_invalid_url_is_an_error_that_quotes_it() {
        for url in [
            "ftp://a/",
            "http://",
            "http://a:0/",
            "http://a:x/",
            "http://a/b c",
            "http://a/%zz",
            "http://a/%4",
            "a/b",
            "127.0.0.1:8080",
            "http://u@a/",
            "http://[::1/",
        ] {
            let error = Target::parse(url).unwrap_err();
            assert!(error.to_string().starts_with(url), "{error}");
        }
    }
}
