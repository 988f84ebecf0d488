//! Summarizes a trace in one pass.

use std::collections::BTreeMap;
use std::io::Read;

use serde::{Serialize, Serializer};

use crate::trace::curve::{Curve, CurvePoint};
use crate::trace::error::TraceError;
use crate::trace::format::{Expected, TraceFormat};
use crate::trace::histogram::Histogram;
use crate::trace::log_line::Reject;
use crate::trace::packets::response_packets;
use crate::trace::peak::Peak;
use crate::trace::read::{TraceSink, read_trace};
use crate::trace::rejects::{RejectedLine, Rejects};
use crate::trace::request::{Request, Source};
use crate::trace::session_cutter::SessionCutter;
use crate::trace::timestamp::iso;

/// Summary of a trace. `trace info` prints it as JSON.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Summary {
    pub format: TraceFormat,
    /// Accepted lines or records.
    pub requests: u64,
    /// Number of rejected lines or records. Accepted and rejected ones add up to the lines of the
    /// file.
    pub rejected: u64,
    /// The first [`crate::LISTED_REJECTS`] rejected lines.
    pub rejects: Vec<RejectedLine>,
    /// Distinct clients. They are the hosts of a log, or the client numbers of a World Cup trace.
    pub clients: u64,
    /// Distinct objects. They are the URIs of a log, or the object numbers of a World Cup trace.
    pub objects: u64,
    /// Bytes of all responses with a size.
    pub bytes: u64,
    /// Earliest time, ISO 8601 in UTC; null without requests.
    pub first_time: Option<String>,
    /// Latest time, ISO 8601 in UTC; null without requests.
    pub last_time: Option<String>,
    /// Maximum number of requests in one second.
    pub peak_per_s: u64,
    /// Requests by status code; `other` for World Cup records without a known code.
    #[serde(serialize_with = "by_status")]
    pub status: BTreeMap<u16, u64>,
    /// Sessions by the window rule.
    pub sessions: u64,
    pub requests_per_session: Spread,
    /// The sessions with the fewest and with the most packets: their shares of all packets that the
    /// server sends.
    pub session_packets: SessionPackets,
    /// A point for 0 %, 1 % and so on to 100 % of the sessions, counted from the session with the
    /// fewest packets. Each point has the share of the packets and the share of the bytes that
    /// belong to these sessions. Empty without sessions.
    pub session_curve: Vec<CurvePoint>,
    /// Other values of the official World Cup summaries (`*.check`).
    pub check: Check,
}

/// Mean and median; null without sessions.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Spread {
    pub mean: Option<f64>,
    pub median: Option<f64>,
}

/// Shares, 0 to 1, of the packets that a server sends ([`response_packets`]); null without
/// sessions. If a half or a tenth of the number of sessions is not a whole number, the session at
/// the border counts in part.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct SessionPackets {
    /// Share of the half of the sessions that has the fewest packets.
    pub bottom_half_share: Option<f64>,
    /// Share of the tenth of the sessions that has the most packets.
    pub top_tenth_share: Option<f64>,
}

/// Values of the official World Cup summaries. For text logs, values that need numbers of clients,
/// objects or servers are null or empty.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Check {
    /// Bytes per request.
    pub mean_transfer_bytes: Option<f64>,
    /// Smallest client number.
    pub client_min: Option<u32>,
    /// Largest client number.
    pub client_max: Option<u32>,
    /// Smallest object number.
    pub object_min: Option<u32>,
    /// Largest object number.
    pub object_max: Option<u32>,
    /// Smallest response; a missing size is 0.
    pub size_min_bytes: Option<u64>,
    /// Largest response.
    pub size_max_bytes: Option<u64>,
    /// Earliest time, Unix seconds.
    pub min_time_s: Option<i64>,
    /// Latest time, Unix seconds.
    pub max_time_s: Option<i64>,
    /// Time of the first request in the file, Unix seconds.
    pub start_time_s: Option<i64>,
    /// Time of the last request in the file, Unix seconds.
    pub finish_time_s: Option<i64>,
    /// Requests with an earlier time than the previous request.
    pub out_of_order: u64,
    /// Requests by server.
    pub servers: BTreeMap<u8, u64>,
}

/// Reads and summarizes a trace.
///
/// # Errors
/// The errors of [`read_trace`]. Also, `window_s` is not from 0 to 10^6 seconds.
pub fn summarize<R: Read>(
    source: R,
    expected: impl Into<Expected>,
    window_s: f64,
) -> Result<Summary, TraceError> {
    let mut counts = Counts::new(window_s)?;
    let format = read_trace(source, expected, &mut counts)?;
    Ok(counts.finish(format))
}

/// The counts of a summary while the trace is read.
struct Counts {
    requests: u64,
    rejects: Rejects,
    clients: u64,
    objects: u64,
    bytes: u64,
    status: Vec<u64>,
    servers: Vec<u64>,
    numbers: Option<[Range<u32>; 2]>,
    size_bytes: Range<u64>,
    time_s: Range<i64>,
    start_time_s: i64,
    finish_time_s: i64,
    out_of_order: u64,
    peak: Peak,
    cutter: SessionCutter,
    /// The open session of each client.
    open: Vec<OpenSession>,
    session_requests: Histogram,
    session_packets: Histogram,
    curve: Curve,
}

/// A session that may continue.
#[derive(Clone, Copy, Default)]
struct OpenSession {
    requests: u64,
    packets: u64,
    bytes: u64,
}

/// Smallest and largest of some values.
#[derive(Clone, Copy)]
struct Range<T> {
    min: T,
    max: T,
}

impl<T: Ord + Copy> Range<T> {
    #[inline]
    fn include(&mut self, value: T) {
        self.min = self.min.min(value);
        self.max = self.max.max(value);
    }
}

impl Counts {
    fn new(window_s: f64) -> Result<Self, TraceError> {
        Ok(Self {
            requests: 0,
            rejects: Rejects::default(),
            clients: 0,
            objects: 0,
            bytes: 0,
            status: vec![0; 1000],
            servers: vec![0; 256],
            numbers: None,
            size_bytes: Range {
                min: u64::MAX,
                max: 0,
            },
            time_s: Range {
                min: i64::MAX,
                max: i64::MIN,
            },
            start_time_s: 0,
            finish_time_s: 0,
            out_of_order: 0,
            peak: Peak::new(),
            cutter: SessionCutter::new(window_s)?,
            open: Vec::new(),
            session_requests: Histogram::new(),
            session_packets: Histogram::new(),
            curve: Curve::default(),
        })
    }

    /// Adds a request to the open session of its client, or closes that session and opens the next.
    #[inline]
    fn count_session(&mut self, client: u32, time_s: i64, bytes: u64) -> Result<(), TraceError> {
        let packets = response_packets(bytes);
        let place = self.cutter.place(client, time_s)?;
        let at = client as usize;
        if at >= self.open.len() {
            self.open.try_reserve(at + 1 - self.open.len())?;
            self.open.resize(at + 1, OpenSession::default());
        }
        let session = self.open[at];
        if place.first {
            self.close(session);
            self.open[at] = OpenSession {
                requests: 1,
                packets,
                bytes,
            };
        } else {
            self.open[at] = OpenSession {
                requests: session.requests + 1,
                packets: session.packets + packets,
                bytes: session.bytes + bytes,
            };
        }
        Ok(())
    }

    #[inline]
    fn close(&mut self, session: OpenSession) {
        if session.requests > 0 {
            self.session_requests.add(session.requests);
            self.session_packets.add(session.packets);
            self.curve.add(session.packets, session.bytes);
        }
    }

    fn finish(mut self, format: TraceFormat) -> Summary {
        for session in std::mem::take(&mut self.open) {
            self.close(session);
        }
        let any = self.requests > 0;
        Summary {
            format,
            requests: self.requests,
            rejected: self.rejects.count,
            clients: self.clients,
            objects: self.objects,
            bytes: self.bytes,
            first_time: any.then(|| iso(self.time_s.min)),
            last_time: any.then(|| iso(self.time_s.max)),
            peak_per_s: self.peak.requests(),
            status: occurring(&self.status),
            sessions: self.session_requests.count(),
            requests_per_session: Spread {
                mean: self.session_requests.mean(),
                median: self.session_requests.median(),
            },
            session_packets: SessionPackets {
                bottom_half_share: self.session_packets.share_of_smallest(0.5),
                top_tenth_share: self.session_packets.share_of_largest(0.1),
            },
            session_curve: self.curve.points(),
            check: self.check(),
            rejects: self.rejects.lines,
        }
    }

    fn check(&self) -> Check {
        let any = self.requests > 0;
        let [clients, objects] = self.numbers.map_or([None; 2], |ranges| ranges.map(Some));
        Check {
            mean_transfer_bytes: any.then(|| self.bytes as f64 / self.requests as f64),
            client_min: clients.map(|range| range.min),
            client_max: clients.map(|range| range.max),
            object_min: objects.map(|range| range.min),
            object_max: objects.map(|range| range.max),
            size_min_bytes: any.then_some(self.size_bytes.min),
            size_max_bytes: any.then_some(self.size_bytes.max),
            min_time_s: any.then_some(self.time_s.min),
            max_time_s: any.then_some(self.time_s.max),
            start_time_s: any.then_some(self.start_time_s),
            finish_time_s: any.then_some(self.finish_time_s),
            out_of_order: self.out_of_order,
            servers: occurring(&self.servers),
        }
    }
}

impl TraceSink for Counts {
    #[inline]
    fn request(&mut self, request: &Request<'_>) -> Result<(), TraceError> {
        let (time_s, size_bytes) = (request.time_s, request.size_bytes.unwrap_or(0));
        if self.requests == 0 {
            self.start_time_s = time_s;
        } else if time_s < self.finish_time_s {
            self.out_of_order += 1;
        }
        self.finish_time_s = time_s;
        self.requests += 1;
        self.bytes = self.bytes.saturating_add(size_bytes);
        self.clients = self.clients.max(u64::from(request.client) + 1);
        self.objects = self.objects.max(u64::from(request.object) + 1);
        self.size_bytes.include(size_bytes);
        self.time_s.include(time_s);
        self.peak.add(time_s);
        self.status[usize::from(request.status)] += 1;
        if let Source::WorldCup(record) = &request.source {
            self.servers[usize::from(record.server)] += 1;
            let nothing = Range {
                min: u32::MAX,
                max: 0,
            };
            let [clients, objects] = self.numbers.get_or_insert([nothing; 2]);
            clients.include(record.client);
            objects.include(record.object);
        }
        self.count_session(request.client, time_s, size_bytes)
    }

    fn reject(&mut self, line: u64, reason: Reject) {
        self.rejects.add(line, reason);
    }
}

/// The counts above zero, by index.
fn occurring<Place: TryFrom<usize> + Ord>(counts: &[u64]) -> BTreeMap<Place, u64> {
    counts
        .iter()
        .enumerate()
        .filter(|(_, count)| **count > 0)
        .filter_map(|(place, count)| Place::try_from(place).ok().map(|place| (place, *count)))
        .collect()
}

fn by_status<S: Serializer>(status: &BTreeMap<u16, u64>, serializer: S) -> Result<S::Ok, S::Error> {
    let name = |code: u16| {
        if code == 0 {
            "other".to_owned()
        } else {
            code.to_string()
        }
    };
    serializer.collect_map(status.iter().map(|(code, count)| (name(*code), count)))
}
