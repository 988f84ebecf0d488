//! Parses a line of a JSON log into the fields of a line of Combined Log Format.

use serde_json::Value;

use crate::trace::json_fields::{JsonFields, Part};
use crate::trace::log_line::{LogLine, Reject};
use crate::trace::timestamp::{StampReader, UnixTime, push_stamp, unix_of_iso, unix_of_number};

/// Reads lines of a JSON log. It owns the text of the fields of the last line.
#[derive(Debug)]
pub(crate) struct JsonReader<'a> {
    fields: &'a JsonFields,
    client: String,
    identity: String,
    request: String,
    tail: String,
}

impl<'a> JsonReader<'a> {
    pub(crate) fn new(fields: &'a JsonFields) -> Self {
        Self {
            fields,
            client: String::new(),
            identity: String::new(),
            request: String::new(),
            tail: String::new(),
        }
    }

    /// Parses a line without its line feed.
    pub(crate) fn parse(&mut self, line: &[u8]) -> Result<LogLine<'_>, Reject> {
        if line.trim_ascii().is_empty() {
            return Err(Reject::Blank);
        }
        let value: Value = serde_json::from_slice(line).map_err(|_| Reject::NotJson)?;
        if !value.is_object() {
            return Err(Reject::NotJson);
        }
        let part = |part| self.fields.value(&value, part);
        let time = part(Part::Time).ok_or(Reject::NoJsonTime)?;
        let time = unix_time(time).ok_or(Reject::BadJsonTime)?;
        let request = request_line(&part).ok_or(Reject::NoJsonRequest)?;
        let status = part(Part::Status).and_then(whole);
        let status = status
            .and_then(|status| u16::try_from(status).ok())
            .filter(|status| *status < 1000)
            .ok_or(Reject::NoJsonStatus)?;
        let size_bytes = match part(Part::Size) {
            Some(size) => Some(whole(size).ok_or(Reject::BadBytes)?),
            None => None,
        };
        let client = part(Part::Client).map(text).ok_or(Reject::NoJsonClient)?;
        let user = part(Part::User).map_or_else(|| "-".to_owned(), text);
        let (referer, agent) = (part(Part::Referer), part(Part::Agent));
        self.client = without_port(&client).replace(char::is_whitespace, "");
        self.identity = format!("- {}", user.replace(" [", " %5b"));
        self.request = request;
        self.tail = format!(" {} {}", quoted(referer), quoted(agent));
        let mut stamp = String::new();
        push_stamp(&mut stamp, time.s);
        Ok(LogLine {
            host: self.client.as_bytes(),
            identity: self.identity.as_bytes(),
            stamp: stamp
                .as_bytes()
                .try_into()
                .map_err(|_| Reject::BadJsonTime)?,
            fraction_ns: time.fraction_ns,
            request: self.request.as_bytes(),
            status,
            size_bytes,
            tail: self.tail.as_bytes(),
        })
    }
}

/// The request line, from its parts or as it is in the log.
fn request_line<'a>(part: &impl Fn(Part) -> Option<&'a Value>) -> Option<String> {
    let line = match (part(Part::Uri), part(Part::Request)) {
        (Some(uri), _) => {
            let method = part(Part::Method).map_or_else(|| "GET".to_owned(), text);
            let protocol = part(Part::Protocol).map_or_else(|| "HTTP/1.1".to_owned(), text);
            format!("{method} {} {protocol}", text(uri))
        }
        (None, Some(Value::String(line))) => line.clone(),
        (None, _) => return None,
    };
    Some(line.replace(['\n', '\r'], " "))
}

/// The text of a value.
fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// A whole number, quoted or not.
fn whole(value: &Value) -> Option<u64> {
    match value {
        Value::Number(number) => number.as_u64(),
        Value::String(text) => text.parse().ok(),
        _ => None,
    }
}

/// Unix time, as a number or a text, ISO 8601, or the time of Common Log Format.
fn unix_time(value: &Value) -> Option<UnixTime> {
    match value {
        Value::Number(number) => unix_of_number(number.as_f64()?),
        Value::String(text) => match text.parse() {
            Ok(number) => unix_of_number(number),
            Err(_) => unix_of_iso(text.as_bytes()).or_else(|| {
                let stamp = text.as_bytes().try_into().ok()?;
                Some(UnixTime {
                    s: StampReader::default().read(stamp)?,
                    fraction_ns: None,
                })
            }),
        },
        _ => None,
    }
}

/// An address without the port that Go's servers add to it.
fn without_port(address: &str) -> &str {
    if let Some((inner, _)) = address
        .strip_prefix('[')
        .and_then(|rest| rest.split_once(']'))
    {
        return inner;
    }
    match address.split_once(':') {
        Some((host, port)) if !port.contains(':') => host,
        _ => address,
    }
}

/// A header as Combined Log Format quotes it.
fn quoted(header: Option<&Value>) -> String {
    let header = header.map_or_else(|| "-".to_owned(), text);
    let escaped = header.replace('\\', "\\\\").replace('"', "\\\"");
    format!("\"{}\"", escaped.replace(['\n', '\r'], " "))
}
