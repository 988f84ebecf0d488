//! Status codes (RFC 2326, section 7.1.1).

perpacket_http::statuses! {
    /// The status of a response.
    Status
    Ok 200 "OK"
    BadRequest 400 "Bad Request"
    NotFound 404 "Not Found"
    MethodNotAllowed 405 "Method Not Allowed"
    UnsupportedMediaType 415 "Unsupported Media Type"
    NotEnoughBandwidth 453 "Not Enough Bandwidth"
    SessionNotFound 454 "Session Not Found"
    MethodNotValidInThisState 455 "Method Not Valid in This State"
    InvalidRange 457 "Invalid Range"
    AggregateOperationNotAllowed 459 "Aggregate Operation Not Allowed"
    UnsupportedTransport 461 "Unsupported Transport"
    VersionNotSupported 505 "RTSP Version Not Supported"
    OptionNotSupported 551 "Option Not Supported"
}
