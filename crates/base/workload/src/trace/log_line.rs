//! Parses a line of Common or Combined Log Format without copying.

use memchr::{memchr, memmem, memrchr};

use crate::trace::format::TraceFormat;
use crate::trace::method::{HttpVersion, Method};
use crate::trace::timestamp::{SECONDS_END, STAMP_BYTES, fraction_ns};

/// The reason why a line or record is rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reject {
    /// The line is empty.
    Blank,
    /// The line is longer than a request can be.
    TooLong,
    /// No bracket follows host, identity and user.
    NoTime,
    /// The bracket contains no time.
    BadTime,
    /// No quoted request follows the time.
    NoRequest,
    /// The request has no closing quote, so the line is truncated.
    OpenRequest,
    /// The status is not three digits.
    BadStatus,
    /// The bytes are neither a number nor `-`.
    BadBytes,
    /// Referer and user agent are missing or truncated.
    BadTail,
    /// The method, status or type of a record is not a code of the format.
    BadCode,
    /// The line is not a JSON object.
    NotJson,
    /// No field of the mapping has the time.
    NoJsonTime,
    /// The value of the field is no time.
    BadJsonTime,
    /// No field of the mapping has the URI or the request line.
    NoJsonRequest,
    /// No field of the mapping has a status.
    NoJsonStatus,
    /// No field of the mapping has the client.
    NoJsonClient,
}

impl Reject {
    /// The reason in words.
    pub fn reason(self) -> &'static str {
        match self {
            Self::Blank => "empty line",
            Self::TooLong => "line longer than 65536 bytes",
            Self::NoTime => "no \" [\" before the time",
            Self::BadTime => "time is not DD/Mon/YYYY:HH:MM:SS zone",
            Self::NoRequest => "no '] \"' before the request",
            Self::OpenRequest => "request is not closed by '\" '",
            Self::BadStatus => "status is not three digits",
            Self::BadBytes => "bytes are neither a number nor -",
            Self::BadTail => "no quoted referer and user agent after the bytes",
            Self::BadCode => "method, status or type is not a code of the format",
            Self::NotJson => "line is not a JSON object in UTF-8",
            Self::NoJsonTime => "no field of the mapping has the time",
            Self::BadJsonTime => {
                "time is neither Unix time, ISO 8601 with a zone, nor DD/Mon/YYYY:HH:MM:SS zone"
            }
            Self::NoJsonRequest => "no field of the mapping has the uri or the request",
            Self::NoJsonStatus => "no field of the mapping has a status below 1000",
            Self::NoJsonClient => "no field of the mapping has the client",
        }
    }
}

/// The fields of a line, as bytes of the line.
#[derive(Clone, Copy, Debug)]
pub struct LogLine<'a> {
    /// The client's name or address.
    pub host: &'a [u8],
    /// Identity and user, unparsed.
    pub identity: &'a [u8],
    /// The time in whole seconds, without brackets.
    pub stamp: [u8; STAMP_BYTES],
    /// Nanoseconds of the second, if the log has parts of seconds.
    pub fraction_ns: Option<u32>,
    /// The request line without quotes.
    pub request: &'a [u8],
    /// Status code.
    pub status: u16,
    /// Bytes of the response, if the log has them.
    pub size_bytes: Option<u64>,
    /// The rest of a line of Combined Log Format, with its leading blank.
    pub tail: &'a [u8],
}

impl<'a> LogLine<'a> {
    /// Parses a line without its line feed.
    ///
    /// Fields may contain blanks and quotes. So the parser looks for the time after the first ` [`.
    /// In Common format, the request extends from there to the last `" `. In Combined format,
    /// quotes inside the request are escaped, and the request extends to the first `" ` that is
    /// followed by a status, bytes and a quote. A virtual host before the client is left out.
    pub(crate) fn parse(line: &'a [u8], format: TraceFormat) -> Result<Self, Reject> {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if line.is_empty() {
            return Err(Reject::Blank);
        }
        let bracket = time_bracket(line).ok_or(Reject::NoTime)?;
        let (client, rest) = (&line[..bracket - 1], &line[bracket + 1..]);
        let (stamp, fraction_ns, rest) = split_time(rest).ok_or(Reject::BadTime)?;
        let rest = rest.strip_prefix(b"] \"").ok_or(Reject::NoRequest)?;
        let (request, status, size_bytes, tail) = match format {
            TraceFormat::Combined => split_combined(rest)?,
            _ => split_common(rest)?,
        };
        let client = without_virtual_host(client);
        let blank = memchr(b' ', client).ok_or(Reject::NoTime)?;
        if blank == 0 {
            return Err(Reject::NoTime);
        }
        Ok(Self {
            host: &client[..blank],
            identity: &client[blank + 1..],
            stamp,
            fraction_ns,
            request,
            status,
            size_bytes,
            tail,
        })
    }

    /// Method, URI and protocol of the request line. If the protocol is missing, the version is
    /// HTTP/0.9. If the request is not a request line, all of it is the URI.
    #[inline]
    pub fn request_parts(&self) -> (Method, &'a [u8], HttpVersion) {
        let Some(blank) = memchr(b' ', self.request) else {
            return (Method::Other, self.request, HttpVersion::Http09);
        };
        let (method, target) = (&self.request[..blank], &self.request[blank + 1..]);
        let method = Method::from_name(method);
        if let Some(last) = memrchr(b' ', target)
            && let Some(version) = target[last + 1..].strip_prefix(b"HTTP/")
        {
            return (method, &target[..last], HttpVersion::from_number(version));
        }
        (method, target, HttpVersion::Http09)
    }
}

/// The client, identity and user of a line. Some servers write a virtual host before them; then the
/// identity, which is almost always `-`, is the third word and not the second.
#[inline]
fn without_virtual_host(words: &[u8]) -> &[u8] {
    let Some(first) = memchr(b' ', words) else {
        return words;
    };
    let rest = &words[first + 1..];
    match memchr(b' ', rest) {
        Some(second) if &rest[..second] != b"-" && rest[second..].starts_with(b" - ") => rest,
        _ => words,
    }
}

/// The time in whole seconds, the nanoseconds of a second as in `13:55:36.123 +0000`, and the rest of
/// the line.
#[inline]
fn split_time(text: &[u8]) -> Option<([u8; STAMP_BYTES], Option<u32>, &[u8])> {
    if text.get(SECONDS_END) != Some(&b'.') {
        let (stamp, rest) = text.split_first_chunk::<STAMP_BYTES>()?;
        return Some((*stamp, None, rest));
    }
    let digits = &text[SECONDS_END + 1..];
    let digits = &digits[..digits
        .iter()
        .take_while(|byte| byte.is_ascii_digit())
        .count()];
    let fraction_ns = fraction_ns(digits)?;
    let (zone, rest) = text[SECONDS_END + 1 + digits.len()..]
        .split_first_chunk::<{ STAMP_BYTES - SECONDS_END }>()?;
    let mut stamp = [0; STAMP_BYTES];
    stamp[..SECONDS_END].copy_from_slice(&text[..SECONDS_END]);
    stamp[SECONDS_END..].copy_from_slice(zone);
    Some((stamp, Some(fraction_ns), rest))
}

/// Position of the first `[` after a blank.
#[inline]
fn time_bracket(line: &[u8]) -> Option<usize> {
    let mut from = 0;
    loop {
        let at = from + memchr(b'[', &line[from..])?;
        if at > 0 && line[at - 1] == b' ' {
            return Some(at);
        }
        from = at + 1;
    }
}

/// Request, status, bytes and the rest of the line.
type Fields<'a> = (&'a [u8], u16, Option<u64>, &'a [u8]);

/// Request, status and bytes of a line of Common Log Format.
#[inline]
fn split_common(rest: &[u8]) -> Result<Fields<'_>, Reject> {
    let mut before = rest.len();
    let quote = loop {
        let at = memrchr(b'"', &rest[..before]).ok_or(Reject::OpenRequest)?;
        if rest.get(at + 1) == Some(&b' ') {
            break at;
        }
        before = at;
    };
    let (status, bytes) = status_and_bytes(&rest[quote + 2..])?;
    let size_bytes = size(bytes).ok_or(Reject::BadBytes)?;
    Ok((&rest[..quote], status, size_bytes, &[]))
}

/// Request, status, bytes and the rest of a line of Combined Log Format.
fn split_combined(rest: &[u8]) -> Result<Fields<'_>, Reject> {
    let mut reason = Reject::OpenRequest;
    for quote in memmem::find_iter(rest, b"\" ") {
        let fields = match status_and_bytes(&rest[quote + 2..]) {
            Ok((status, after)) => memchr(b' ', after)
                .ok_or(Reject::BadTail)
                .and_then(|blank| {
                    let size_bytes = size(&after[..blank]).ok_or(Reject::BadBytes)?;
                    let tail = &after[blank..];
                    if is_tail(tail) {
                        Ok((size_bytes, tail))
                    } else {
                        Err(Reject::BadTail)
                    }
                })
                .map(|(size_bytes, tail)| (&rest[..quote], status, size_bytes, tail)),
            Err(refused) => Err(refused),
        };
        match fields {
            Ok(fields) => return Ok(fields),
            // The rejection at the first quote that may end the request describes the line best.
            Err(refused) if reason == Reject::OpenRequest => reason = refused,
            Err(_) => {}
        }
    }
    Err(reason)
}

/// Whether a tail starts with a quoted referer and a quoted user agent. More text may follow.
fn is_tail(tail: &[u8]) -> bool {
    let Some(quoted) = tail.strip_prefix(b" \"") else {
        return false;
    };
    memmem::find(quoted, b"\" \"").is_some_and(|gap| memchr(b'"', &quoted[gap + 3..]).is_some())
}

/// Splits a text such as `200 1234...` after the status and the blank that follows it.
#[inline]
fn status_and_bytes(fields: &[u8]) -> Result<(u16, &[u8]), Reject> {
    let (status, rest) = fields.split_first_chunk::<3>().ok_or(Reject::BadStatus)?;
    if !status.iter().all(u8::is_ascii_digit) {
        return Err(Reject::BadStatus);
    }
    let code = status
        .iter()
        .fold(0, |code, digit| code * 10 + u16::from(digit - b'0'));
    match rest.split_first() {
        Some((b' ', bytes)) => Ok((code, bytes)),
        Some(_) => Err(Reject::BadStatus),
        None => Err(Reject::BadBytes),
    }
}

/// A size in bytes; `Some(None)` for `-`.
#[inline]
fn size(field: &[u8]) -> Option<Option<u64>> {
    if field == b"-" {
        return Some(None);
    }
    // Eighteen digits cannot overflow.
    if field.is_empty() || field.len() > 18 {
        return None;
    }
    field
        .iter()
        .try_fold(0, |sum: u64, digit| {
            digit
                .is_ascii_digit()
                .then(|| sum * 10 + u64::from(digit - b'0'))
        })
        .map(Some)
}
