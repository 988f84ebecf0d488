//! Methods and versions of HTTP as the traces know them.

/// A request's method, in the World Cup 1998 format's order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Method {
    /// GET
    Get,
    /// HEAD
    Head,
    /// POST
    Post,
    /// PUT
    Put,
    /// DELETE
    Delete,
    /// TRACE
    Trace,
    /// OPTIONS
    Options,
    /// CONNECT
    Connect,
    /// Any other word.
    Other,
}

/// All methods; a method's place is its code in the World Cup 1998 format.
const METHODS: [(Method, &str); 9] = [
    (Method::Get, "GET"),
    (Method::Head, "HEAD"),
    (Method::Post, "POST"),
    (Method::Put, "PUT"),
    (Method::Delete, "DELETE"),
    (Method::Trace, "TRACE"),
    (Method::Options, "OPTIONS"),
    (Method::Connect, "CONNECT"),
    (Method::Other, "OTHER"),
];

impl Method {
    /// The method of a request line's first word.
    #[inline]
    #[must_use]
    pub fn from_name(name: &[u8]) -> Self {
        METHODS[..8]
            .iter()
            .find(|(_, known)| known.as_bytes() == name)
            .map_or(Self::Other, |(method, _)| *method)
    }

    /// The method of a World Cup 1998 code.
    #[inline]
    #[must_use]
    pub fn from_code(code: u8) -> Option<Self> {
        METHODS.get(usize::from(code)).map(|(method, _)| *method)
    }

    /// The World Cup 1998 code.
    #[must_use]
    pub fn code(self) -> u8 {
        self as u8
    }

    /// The word in a request line; `OTHER` where the trace does not say.
    #[must_use]
    pub fn name(self) -> &'static str {
        METHODS[self as usize].1
    }
}

/// Version of HTTP, in the World Cup 1998 format's order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum HttpVersion {
    /// HTTP/0.9: a request line without a version.
    Http09,
    /// HTTP/1.0
    Http10,
    /// HTTP/1.1
    Http11,
    /// Any other.
    Other,
}

impl HttpVersion {
    /// The version of what follows `HTTP/`.
    #[inline]
    #[must_use]
    pub fn from_number(number: &[u8]) -> Self {
        match number {
            b"0.9" => Self::Http09,
            b"1.0" => Self::Http10,
            b"1.1" => Self::Http11,
            _ => Self::Other,
        }
    }

    /// The version of a World Cup 1998 code, 0 to 3; larger codes are `Other`.
    #[inline]
    #[must_use]
    pub fn from_code(code: u8) -> Self {
        match code {
            0 => Self::Http09,
            1 => Self::Http10,
            2 => Self::Http11,
            _ => Self::Other,
        }
    }

    /// The World Cup 1998 code.
    #[must_use]
    pub fn code(self) -> u8 {
        self as u8
    }

    /// What ends the request line: nothing for HTTP/0.9, `HTTP/x` where the trace does not say.
    #[must_use]
    pub fn suffix(self) -> &'static str {
        match self {
            Self::Http09 => "",
            Self::Http10 => " HTTP/1.0",
            Self::Http11 => " HTTP/1.1",
            Self::Other => " HTTP/x",
        }
    }
}
