//! Methods and versions of HTTP in traces.

/// Method of a request, in the order of the World Cup 1998 format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Method {
    Get,
    Head,
    Post,
    Put,
    Delete,
    Trace,
    Options,
    Connect,
    /// Any other method.
    Other,
}

/// All methods, indexed by their code in the World Cup 1998 format.
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
    #[inline]
    pub fn from_name(name: &[u8]) -> Self {
        METHODS[..8]
            .iter()
            .find(|(_, known)| known.as_bytes() == name)
            .map_or(Self::Other, |(method, _)| *method)
    }

    /// The method of a World Cup 1998 code.
    #[inline]
    pub fn from_code(code: u8) -> Option<Self> {
        METHODS.get(usize::from(code)).map(|(method, _)| *method)
    }

    /// The World Cup 1998 code.
    pub fn code(self) -> u8 {
        self as u8
    }

    /// The name in a request line; `OTHER` if the trace does not have the name.
    pub fn name(self) -> &'static str {
        METHODS[self as usize].1
    }
}

/// HTTP version, in the order of the World Cup 1998 format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum HttpVersion {
    /// HTTP/0.9: a request line without a version.
    Http09,
    Http10,
    Http11,
    /// Any other.
    Other,
}

impl HttpVersion {
    /// The version with this number, which follows `HTTP/`.
    #[inline]
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
    pub fn from_code(code: u8) -> Self {
        match code {
            0 => Self::Http09,
            1 => Self::Http10,
            2 => Self::Http11,
            _ => Self::Other,
        }
    }

    /// The World Cup 1998 code.
    pub fn code(self) -> u8 {
        self as u8
    }

    /// The end of the request line. It is empty for HTTP/0.9, and `HTTP/x` if the trace does not
    /// have the version.
    pub fn suffix(self) -> &'static str {
        match self {
            Self::Http09 => "",
            Self::Http10 => " HTTP/1.0",
            Self::Http11 => " HTTP/1.1",
            Self::Other => " HTTP/x",
        }
    }
}
