//! Status codes with their reason phrases (RFC 9110, section 15).

/// Declares a type of status codes with their reason phrases.
#[macro_export]
macro_rules! statuses {
    ($(#[$meta:meta])* $type:ident $($name:ident $code:literal $reason:literal)+) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum $type {
            $(#[doc = concat!($code, " ", $reason)] $name,)+
        }

        impl $type {
            /// All codes, in ascending order. `status as usize` is the index of a status.
            pub const ALL: &[Self] = &[$(Self::$name),+];

            /// The code, such as 200.
            pub fn code(self) -> u16 {
                match self { $(Self::$name => $code,)+ }
            }

            /// The reason phrase, such as `OK`.
            pub fn reason(self) -> &'static str {
                match self { $(Self::$name => $reason,)+ }
            }
        }
    };
}

statuses! {
    /// A status code that the servers of this workspace send.
    Status
    Ok 200 "OK"
    PartialContent 206 "Partial Content"
    MovedPermanently 301 "Moved Permanently"
    NotModified 304 "Not Modified"
    BadRequest 400 "Bad Request"
    Forbidden 403 "Forbidden"
    NotFound 404 "Not Found"
    MethodNotAllowed 405 "Method Not Allowed"
    RequestTimeout 408 "Request Timeout"
    PreconditionFailed 412 "Precondition Failed"
    ContentTooLarge 413 "Content Too Large"
    UriTooLong 414 "URI Too Long"
    RangeNotSatisfiable 416 "Range Not Satisfiable"
    ExpectationFailed 417 "Expectation Failed"
    HeaderFieldsTooLarge 431 "Request Header Fields Too Large"
    InternalServerError 500 "Internal Server Error"
    NotImplemented 501 "Not Implemented"
    BadGateway 502 "Bad Gateway"
    ServiceUnavailable 503 "Service Unavailable"
    HttpVersionNotSupported 505 "HTTP Version Not Supported"
}
