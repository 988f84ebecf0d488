//! The status codes this server sends, with their reason phrases (RFC 9110, section 15).

/// A status code this server sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Status(u8);

/// Every code with its reason phrase; a [`Status`] is a place in this table.
const TABLE: [(u16, &str); 20] = [
    (200, "OK"),
    (206, "Partial Content"),
    (301, "Moved Permanently"),
    (304, "Not Modified"),
    (400, "Bad Request"),
    (403, "Forbidden"),
    (404, "Not Found"),
    (405, "Method Not Allowed"),
    (408, "Request Timeout"),
    (412, "Precondition Failed"),
    (413, "Content Too Large"),
    (414, "URI Too Long"),
    (416, "Range Not Satisfiable"),
    (417, "Expectation Failed"),
    (431, "Request Header Fields Too Large"),
    (500, "Internal Server Error"),
    (501, "Not Implemented"),
    (502, "Bad Gateway"),
    (503, "Service Unavailable"),
    (505, "HTTP Version Not Supported"),
];

impl Status {
    /// How many codes there are.
    pub const COUNT: usize = TABLE.len();
    /// 200.
    pub const OK: Self = Self(0);
    /// 206.
    pub const PARTIAL: Self = Self(1);
    /// 301.
    pub const MOVED: Self = Self(2);
    /// 304.
    pub const NOT_MODIFIED: Self = Self(3);
    /// 400.
    pub const BAD_REQUEST: Self = Self(4);
    /// 403.
    pub const FORBIDDEN: Self = Self(5);
    /// 404.
    pub const NOT_FOUND: Self = Self(6);
    /// 405.
    pub const METHOD_NOT_ALLOWED: Self = Self(7);
    /// 408.
    pub const TIMEOUT: Self = Self(8);
    /// 412.
    pub const PRECONDITION_FAILED: Self = Self(9);
    /// 413.
    pub const CONTENT_TOO_LARGE: Self = Self(10);
    /// 414.
    pub const URI_TOO_LONG: Self = Self(11);
    /// 416.
    pub const RANGE_NOT_SATISFIABLE: Self = Self(12);
    /// 417.
    pub const EXPECTATION_FAILED: Self = Self(13);
    /// 431.
    pub const HEADER_TOO_LARGE: Self = Self(14);
    /// 500.
    pub const INTERNAL: Self = Self(15);
    /// 501.
    pub const NOT_IMPLEMENTED: Self = Self(16);
    /// 502.
    pub const BAD_GATEWAY: Self = Self(17);
    /// 503.
    pub const UNAVAILABLE: Self = Self(18);
    /// 505.
    pub const VERSION: Self = Self(19);

    /// The code, such as 200.
    #[must_use]
    pub fn code(self) -> u16 {
        TABLE[self.place()].0
    }

    /// The reason phrase, such as `OK`.
    #[must_use]
    pub fn reason(self) -> &'static str {
        TABLE[self.place()].1
    }

    /// Its place among all codes, from 0 to [`Self::COUNT`].
    #[must_use]
    pub fn place(self) -> usize {
        usize::from(self.0)
    }

    /// All codes in order of their places.
    pub fn all() -> impl Iterator<Item = Self> {
        (0..TABLE.len() as u8).map(Self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_names_are_those_of_their_codes() {
        let named = [
            (Status::OK, 200),
            (Status::PARTIAL, 206),
            (Status::MOVED, 301),
            (Status::NOT_MODIFIED, 304),
            (Status::BAD_REQUEST, 400),
            (Status::FORBIDDEN, 403),
            (Status::NOT_FOUND, 404),
            (Status::METHOD_NOT_ALLOWED, 405),
            (Status::TIMEOUT, 408),
            (Status::PRECONDITION_FAILED, 412),
            (Status::CONTENT_TOO_LARGE, 413),
            (Status::URI_TOO_LONG, 414),
            (Status::RANGE_NOT_SATISFIABLE, 416),
            (Status::EXPECTATION_FAILED, 417),
            (Status::HEADER_TOO_LARGE, 431),
            (Status::INTERNAL, 500),
            (Status::NOT_IMPLEMENTED, 501),
            (Status::BAD_GATEWAY, 502),
            (Status::UNAVAILABLE, 503),
            (Status::VERSION, 505),
        ];
        for (status, code) in named {
            assert_eq!(status.code(), code);
        }
    }
}
