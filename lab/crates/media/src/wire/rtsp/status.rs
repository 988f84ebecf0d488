//! Status codes (RFC 2326, section 7.1.1).

/// The status of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub enum Status {
    /// The request succeeded.
    Ok = 200,
    /// The request is malformed.
    BadRequest = 400,
    /// The root folder has no such file.
    NotFound = 404,
    /// The server does not have the method.
    MethodNotAllowed = 405,
    /// The file has no format that can be streamed.
    UnsupportedMediaType = 415,
    /// The server admits no more sessions or no higher rate.
    NotEnoughBandwidth = 453,
    /// The session does not exist.
    SessionNotFound = 454,
    /// The state of the session does not allow the method.
    MethodNotValidInThisState = 455,
    /// The range is outside the medium or in unknown units.
    InvalidRange = 457,
    /// A session has one stream only.
    AggregateOperationNotAllowed = 459,
    /// The server supports none of the offered transports.
    UnsupportedTransport = 461,
    /// The version is not RTSP/1.0.
    VersionNotSupported = 505,
    /// The request needs an unknown option.
    OptionNotSupported = 551,
}

impl Status {
    /// The status code.
    pub fn code(self) -> u16 {
        self as u16
    }

    /// The reason phrase.
    pub fn reason(self) -> &'static str {
        match self {
            Self::Ok => "OK",
            Self::BadRequest => "Bad Request",
            Self::NotFound => "Not Found",
            Self::MethodNotAllowed => "Method Not Allowed",
            Self::UnsupportedMediaType => "Unsupported Media Type",
            Self::NotEnoughBandwidth => "Not Enough Bandwidth",
            Self::SessionNotFound => "Session Not Found",
            Self::MethodNotValidInThisState => "Method Not Valid in This State",
            Self::InvalidRange => "Invalid Range",
            Self::AggregateOperationNotAllowed => "Aggregate Operation Not Allowed",
            Self::UnsupportedTransport => "Unsupported Transport",
            Self::VersionNotSupported => "RTSP Version Not Supported",
            Self::OptionNotSupported => "Option Not Supported",
        }
    }
}
