//! The answers a server gives (RFC 2326, section 7.1.1).

/// A status with its number on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub enum Status {
    /// Done as asked.
    Ok = 200,
    /// Not understood.
    BadRequest = 400,
    /// No such medium beneath the root.
    NotFound = 404,
    /// A method that this server or resource lacks.
    MethodNotAllowed = 405,
    /// A file that cannot be streamed.
    UnsupportedMediaType = 415,
    /// More rate or sessions than are admitted.
    NotEnoughBandwidth = 453,
    /// The session does not exist, or has ended.
    SessionNotFound = 454,
    /// The method makes no sense in the session's state.
    MethodNotValidInThisState = 455,
    /// A range beyond the medium, or of a kind that is not known.
    InvalidRange = 457,
    /// One stream was asked for what concerns them all.
    AggregateOperationNotAllowed = 459,
    /// None of the ways to deliver that were offered can be used.
    UnsupportedTransport = 461,
    /// The server failed.
    InternalServerError = 500,
    /// An RTSP of another version.
    VersionNotSupported = 505,
    /// Something was required that this server does not know.
    OptionNotSupported = 551,
}

impl Status {
    /// The number on the wire.
    #[must_use]
    pub fn code(self) -> u16 {
        self as u16
    }

    /// The words beside it.
    #[must_use]
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
            Self::InternalServerError => "Internal Server Error",
            Self::VersionNotSupported => "RTSP Version Not Supported",
            Self::OptionNotSupported => "Option Not Supported",
        }
    }
}
