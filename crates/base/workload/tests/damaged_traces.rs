//! The error for a damaged trace names the fault and its byte. Reading never panics.

#![allow(clippy::unwrap_used)]

use std::io::{Read, Write};

use perpacket_workload::{
    Compression, RECORD_BYTES, Reject, Replay, SESSION_WINDOW_S, Summary, TraceError, TraceFormat,
    summarize,
};
use proptest::prelude::*;

const LINE: &str = "host - - [01/Jul/1995:00:00:01 -0400] \"GET /a b\"c HTTP/1.0\" 200 6245\n";
const COMBINED: &str = "10.0.0.1 - me [01/Jul/1995:00:00:01 -0400] \"GET /a HTTP/1.1\" 304 - \
                        \"-\" \"Mozilla \\\"5\\\" 200 7 \"\n";

fn read(bytes: &[u8]) -> Result<Summary, TraceError> {
    summarize(bytes, None, SESSION_WINDOW_S)
}

fn read_as(bytes: &[u8], format: TraceFormat) -> Result<Summary, TraceError> {
    summarize(bytes, Some(format), SESSION_WINDOW_S)
}

fn reasons(text: &str, format: TraceFormat) -> Vec<(u64, Reject)> {
    let summary = read_as(text.as_bytes(), format).unwrap();
    summary
        .rejects
        .iter()
        .map(|rejected| (rejected.line, rejected.reason))
        .collect()
}

/// A record of the test log's time with valid codes.
fn record() -> [u8; RECORD_BYTES] {
    let mut record = [0; RECORD_BYTES];
    record[..4].copy_from_slice(&893_971_817u32.to_be_bytes());
    record[17] = 0b0100_0010;
    record
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn zstd(bytes: &[u8]) -> Vec<u8> {
    zstd::encode_all(bytes, 1).unwrap()
}

/// A source that returns few bytes per read, as pipes do.
struct Trickle<'a>(&'a [u8], usize);

impl Read for Trickle<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let count = buffer.len().min(self.1).min(self.0.len());
        let (now, later) = self.0.split_at(count);
        buffer[..count].copy_from_slice(now);
        self.0 = later;
        Ok(count)
    }
}

#[test]
fn the_error_for_bytes_that_are_no_trace_names_the_byte_and_the_expectation() {
    let mut records = record().repeat(30_000);
    records.truncate(records.len() - 7);
    let mut like_text = record().repeat(3);
    like_text[..4].copy_from_slice(b"5555");
    let log = LINE.repeat(10).into_bytes();
    let notes = b"# Traces\n\nReal access logs to develop and test against.\n".to_vec();
    let (empty, cut) = ("byte 0: the trace is empty", "the last record has 13 of 20");
    let (text, binary) = (
        "byte 0: no World Cup 1998 rec",
        "byte 4: binary data where log",
    );
    for (bytes, format, expected) in [
        (Vec::new(), None, empty),
        (gzip(b""), None, empty),
        (zstd(b""), None, empty),
        (gzip(&records), None, cut),
        (records, None, &format!("byte 599980: {cut}")),
        (
            record()[..7].to_vec(),
            None,
            "byte 0: the last record has 7 of 20",
        ),
        (like_text.clone(), Some(TraceFormat::Common), binary),
        (like_text, Some(TraceFormat::Combined), binary),
        (log, Some(TraceFormat::WorldCup), text),
        (notes, None, "the first 56 bytes contain no line"),
    ] {
        let error = summarize(bytes.as_slice(), format, SESSION_WINDOW_S).unwrap_err();
        assert!(error.to_string().contains(expected), "{error}");
    }
    let line = LINE.replace("GET", "PROPFIND");
    let error = Replay::read(line.as_bytes(), None, SESSION_WINDOW_S).unwrap_err();
    let expected = "no usable request among 1 accepted and 0 rejected lines";
    assert!(error.to_string().starts_with(expected), "{error}");
}

#[test]
fn damaged_compression_is_an_error_with_its_offset() {
    let text = LINE.repeat(50_000);
    for (compression, whole) in [
        (Compression::Gzip, gzip(text.as_bytes())),
        (Compression::Zstd, zstd(text.as_bytes())),
    ] {
        for length in [8, whole.len() / 2, whole.len() - 1] {
            match read(&whole[..length]) {
                Err(TraceError::Compression {
                    compression: result,
                    offset,
                    ..
                }) => {
                    assert_eq!(result, compression);
                    assert!(offset <= length as u64, "{offset} of {length}");
                }
                other => assert!(other.is_err(), "cut at {length}: {other:?}"),
            }
        }
        let mut flipped = whole.clone();
        let middle = whole.len() / 2;
        flipped[middle] ^= 0xff;
        let result = read(&flipped);
        assert!(
            matches!(result, Err(TraceError::Compression { .. })),
            "{result:?}"
        );
    }
}

#[test]
fn compressed_files_joined_end_to_end_are_read_to_the_last() {
    for packed in [gzip(LINE.as_bytes()), zstd(LINE.as_bytes())] {
        assert_eq!(read(&packed.repeat(3)).unwrap().requests, 3);
    }
}

#[test]
fn every_rejected_line_is_listed_with_its_reason() {
    let text = [
        LINE,
        "\n",
        "no time at all\n",
        "host - - [01/Jul/1995:00:00:61 -0400] \"GET / HTTP/1.0\" 200 1\n",
        "host - - [01/Jul/1995:00:00:01 -0400] GET / 200 1\n",
        "host - - [01/Jul/1995:00:00:01 -0400] \"GET / HT\n",
        "host - - [01/Jul/1995:00:00:01 -0400] \"GET / HTTP/1.0\" 2xx 1\n",
        "host - - [01/Jul/1995:00:00:01 -0400] \"GET / HTTP/1.0\" 200\n",
        "host - - [01/Jul/1995:00:00:01 -0400] \"GET / HTTP/1.0\" 200 1k\n",
        "host - - [01/Jul/1995\n",
        " - - [01/Jul/1995:00:00:01 -0400] \"GET / HTTP/1.0\" 200 1\r\n",
    ]
    .concat();
    let expected = [
        (2, Reject::Blank),
        (3, Reject::NoTime),
        (4, Reject::BadTime),
        (5, Reject::NoRequest),
        (6, Reject::OpenRequest),
        (7, Reject::BadStatus),
        (8, Reject::BadBytes),
        (9, Reject::BadBytes),
        (10, Reject::BadTime),
        (11, Reject::NoTime),
    ];
    assert_eq!(reasons(&text, TraceFormat::Common), expected);
}

#[test]
fn a_line_that_is_too_long_is_rejected_at_any_position() {
    for length in [65_537, 300_000, 1_000_000] {
        let long = "x".repeat(length);
        let text = format!("{LINE}{long}\n{LINE}{long}");
        let expected = [(2, Reject::TooLong), (4, Reject::TooLong)];
        assert_eq!(reasons(&text, TraceFormat::Common), expected);
    }
}

#[test]
fn a_combined_line_with_a_torn_agent_is_rejected() {
    let torn = COMBINED
        .trim_end()
        .trim_end_matches('"')
        .replace("\\\"", "");
    let text = format!("{COMBINED}{torn}\n{LINE}");
    let expected = [(2, Reject::BadTail), (3, Reject::BadTail)];
    assert_eq!(reasons(&text, TraceFormat::Combined), expected);
}

#[test]
fn the_first_complete_line_decides_the_format() {
    let torn = "4 0\nhost - - [01/Jul";
    for (line, format) in [
        (LINE, TraceFormat::Common),
        (COMBINED, TraceFormat::Combined),
    ] {
        let summary = read(format!("{torn}\n{line}").as_bytes()).unwrap();
        assert_eq!(
            (summary.format, summary.requests, summary.rejected),
            (format, 1, 2)
        );
    }
}

#[test]
fn a_record_with_an_invalid_code_is_rejected_with_its_number() {
    let mut bytes = record().repeat(8);
    bytes[2 * RECORD_BYTES + 16] = 9;
    bytes[3 * RECORD_BYTES + 17] = 38;
    bytes[4 * RECORD_BYTES + 18] = 13;
    let summary = read(&bytes).unwrap();
    assert_eq!((summary.requests, summary.rejected), (5, 3));
    assert_eq!(
        summary
            .rejects
            .iter()
            .map(|reject| reject.line)
            .collect::<Vec<_>>(),
        [3, 4, 5]
    );
}

/// Pieces of log lines, so that random text resembles a log.
fn nearly_log() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        Just(LINE.as_bytes().to_vec()),
        Just(COMBINED.as_bytes().to_vec()),
        Just(b" [01/Jul/1995:00:00:01 -0400] \"".to_vec()),
        Just(b"\" ".to_vec()),
        Just(b"200 ".to_vec()),
        Just(b"\r\n".to_vec()),
        Just(b"\n".to_vec()),
        prop::collection::vec(any::<u8>(), 0..8),
    ];
    prop::collection::vec(piece, 0..40).prop_map(|pieces| pieces.concat())
}

fn formats() -> impl Strategy<Value = Option<TraceFormat>> {
    prop_oneof![
        Just(None),
        Just(Some(TraceFormat::Common)),
        Just(Some(TraceFormat::Combined)),
        Just(Some(TraceFormat::WorldCup)),
    ]
}

proptest! {
    #[test]
    fn arbitrary_bytes_never_panic(
        bytes in prop::collection::vec(any::<u8>(), 0..400),
        format in formats(),
    ) {
        let _ = summarize(bytes.as_slice(), format, SESSION_WINDOW_S);
        for packed in [gzip(&bytes), zstd(&bytes)] {
            let _ = summarize(packed.as_slice(), format, SESSION_WINDOW_S);
        }
        for magic in [&b"\x1f\x8b\x08"[..], b"\x28\xb5\x2f\xfd"] {
            let _ = summarize([magic, &bytes].concat().as_slice(), format, SESSION_WINDOW_S);
        }
    }

    #[test]
    fn every_line_is_either_a_request_or_a_reject(bytes in nearly_log(), format in formats()) {
        let lines = bytes.split_inclusive(|byte| *byte == b'\n').count() as u64;
        if let Ok(summary) = summarize(bytes.as_slice(), format, SESSION_WINDOW_S)
            && summary.format != TraceFormat::WorldCup {
                prop_assert_eq!(summary.requests + summary.rejected, lines);
                prop_assert_eq!(summary.rejects.len() as u64, summary.rejected);
            }
    }

    #[test]
    fn every_record_is_either_a_request_or_a_reject(
        records in prop::collection::vec((0u8..12, any::<u8>(), 0u8..16, any::<u32>()), 1..50)
    ) {
        let mut bytes = record().repeat(51);
        for (method, status, kind, client) in &records {
            let mut next = record();
            next[4..8].copy_from_slice(&client.to_be_bytes());
            next[16..19].copy_from_slice(&[*method, *status, *kind]);
            bytes.extend_from_slice(&next);
        }
        let summary = read(&bytes).unwrap();
        prop_assert_eq!(summary.requests + summary.rejected, 51 + records.len() as u64);
    }

    #[test]
    fn the_requests_do_not_depend_on_the_sizes_of_the_reads(
        bytes in nearly_log(), step in 1usize..50
    ) {
        let whole = read(&bytes);
        let trickled = summarize(Trickle(&bytes, step), None, SESSION_WINDOW_S);
        prop_assert_eq!(format!("{whole:?}"), format!("{trickled:?}"));
        for packed in [gzip(&bytes), zstd(&bytes)] {
            prop_assert_eq!(format!("{whole:?}"), format!("{:?}", read(&packed)));
        }
    }
}
