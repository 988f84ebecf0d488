//! Which fields of a JSON log have the client, the time and the other parts of a request.

use std::fmt;
use std::str::FromStr;

use serde::{Serialize, Serializer};
use serde_json::Value;

/// A part of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    Time,
    Client,
    User,
    Method,
    Uri,
    Protocol,
    /// The request line, for logs without fields for its parts.
    Request,
    Status,
    Size,
    Referer,
    Agent,
}

/// Each part, its name in a mapping, and the fields that Caddy, Traefik and nginx's variables have
/// for it. The first field that a line has counts. Sources: the documentation of Caddy's directive
/// `log`, of Traefik's access logs, and of the variables of `ngx_http_core_module`.
const PARTS: [(Part, &str, &[&str]); 11] = [
    (
        Part::Time,
        "time",
        &[
            "ts",
            "StartUTC",
            "StartLocal",
            "msec",
            "time_iso8601",
            "time_local",
            "timestamp",
            "@timestamp",
            "time",
        ],
    ),
    (
        Part::Client,
        "client",
        &[
            "request.client_ip",
            "request.remote_ip",
            "request.remote_addr",
            "ClientHost",
            "ClientAddr",
            "remote_addr",
            "client_ip",
            "remote_ip",
            "client",
        ],
    ),
    (
        Part::User,
        "user",
        &["user_id", "ClientUsername", "remote_user", "user"],
    ),
    (
        Part::Method,
        "method",
        &[
            "request.method",
            "RequestMethod",
            "request_method",
            "method",
        ],
    ),
    (
        Part::Uri,
        "uri",
        &["request.uri", "RequestPath", "request_uri", "uri"],
    ),
    (
        Part::Protocol,
        "protocol",
        &[
            "request.proto",
            "RequestProtocol",
            "server_protocol",
            "protocol",
        ],
    ),
    (Part::Request, "request", &["request"]),
    (Part::Status, "status", &["status", "DownstreamStatus"]),
    (
        Part::Size,
        "size",
        &[
            "size",
            "DownstreamContentSize",
            "body_bytes_sent",
            "bytes_sent",
        ],
    ),
    (
        Part::Referer,
        "referer",
        &[
            "request.headers.Referer",
            "request_Referer",
            "http_referer",
            "referer",
        ],
    ),
    (
        Part::Agent,
        "agent",
        &[
            "request.headers.User-Agent",
            "request_User-Agent",
            "http_user_agent",
            "user_agent",
        ],
    ),
];

/// A mapping of the parts of a request to fields of a JSON log, such as `time=when,uri=req.path`. A
/// part that the mapping does not name has the fields of Caddy, Traefik and nginx.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JsonFields {
    named: Vec<(Part, String)>,
}

/// The error of a mapping.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?}: expected PART=FIELD, with a part of {parts}", parts = names())]
pub struct UnknownPart(String);

fn names() -> String {
    PARTS.map(|(_, name, _)| name).join(", ")
}

impl JsonFields {
    /// Whether the mapping names no field.
    pub fn is_empty(&self) -> bool {
        self.named.is_empty()
    }

    /// The value of a part in a line; null and `-` count as missing.
    pub(crate) fn value<'a>(&self, line: &'a Value, part: Part) -> Option<&'a Value> {
        let named = self.named.iter().find(|(own, _)| *own == part);
        match named {
            Some((_, field)) => value_at(line, field),
            None => PARTS
                .iter()
                .find(|(own, ..)| *own == part)?
                .2
                .iter()
                .find_map(|field| value_at(line, field)),
        }
    }
}

/// The value of a field. A key may contain dots, so the whole name is tried first. Of a list, as
/// Caddy has for headers, the first element counts.
fn value_at<'a>(value: &'a Value, field: &str) -> Option<&'a Value> {
    let inner = match (value.get(field), field.split_once('.')) {
        (Some(inner), _) => inner,
        (None, Some((first, rest))) => return value_at(value.get(first)?, rest),
        (None, None) => return None,
    };
    let inner = match inner {
        Value::Array(values) => values.first()?,
        other => other,
    };
    let missing = inner.is_null() || inner == "-" || inner == "";
    (!missing).then_some(inner)
}

impl FromStr for JsonFields {
    type Err = UnknownPart;

    fn from_str(text: &str) -> Result<Self, UnknownPart> {
        let pair = |pair: &str| {
            let (name, field) = pair.split_once('=')?;
            let part = PARTS.iter().find(|(_, own, _)| *own == name)?.0;
            (!field.is_empty()).then(|| (part, field.to_owned()))
        };
        let named = text
            .split(',')
            .map(|text| pair(text).ok_or_else(|| UnknownPart(text.to_owned())));
        Ok(Self {
            named: named.collect::<Result<_, _>>()?,
        })
    }
}

impl Serialize for JsonFields {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl fmt::Display for JsonFields {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, (part, field)) in self.named.iter().enumerate() {
            let comma = if number > 0 { "," } else { "" };
            let name = PARTS
                .iter()
                .find(|(own, ..)| own == part)
                .map_or("", |(_, name, _)| name);
            write!(formatter, "{comma}{name}={field}")?;
        }
        Ok(())
    }
}
