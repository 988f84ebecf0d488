//! A conversion preserves the fields that both formats have, and a synthesized trace contains the
//! sessions from which it was made.

#![allow(clippy::unwrap_used)]

use perpacket_workload::{
    Compression, Conversion, Expected, LognormalSessions, ObjectPaths, RECORD_BYTES, Replay,
    SESSION_WINDOW_S, SessionSource, Sessions, SpecWeb99, Synthesis, TraceFormat, WorldCupRecord,
    convert, response_packets, summarize, synthesize,
};
use proptest::prelude::*;

fn conversion(to: TraceFormat) -> Conversion<'static> {
    Conversion {
        from: Expected::default(),
        to,
        compression: Compression::None,
        paths: ObjectPaths::default(),
        mappings: None,
    }
}

fn converted(bytes: &[u8], to: TraceFormat) -> Vec<u8> {
    let mut rewritten = Vec::new();
    convert(bytes, &mut rewritten, conversion(to)).unwrap();
    rewritten
}

/// Log lines as servers write them, in a format.
fn log_line(format: TraceFormat) -> impl Strategy<Value = String> {
    let uri = if format == TraceFormat::Common {
        "/[ -~]{0,20}"
    } else {
        "/[ !#-~]{0,20}"
    };
    let size = prop_oneof![
        Just("-".to_owned()),
        (0u64..1 << 40).prop_map(|size| size.to_string())
    ];
    (
        "[a-z0-9.]{1,20}",
        "(-|[a-z]{1,5}) (-|[a-z]{1,5})",
        1u8..29,
        uri,
        0u16..1000,
        size,
    )
        .prop_map(move |(host, identity, day, uri, status, size)| {
            let tail = match format {
                TraceFormat::Combined => " \"http://a/\" \"agent (1) \\\"x\\\"\"",
                _ => "",
            };
            let day = format!("{day:02}/Feb/1996:01:02:03 -0430");
            format!("{host} {identity} [{day}] \"GET {uri} HTTP/1.0\" {status:03} {size}{tail}\n")
        })
}

fn record() -> impl Strategy<Value = WorldCupRecord> {
    let size = prop_oneof![Just(None), (0..u32::MAX).prop_map(Some)];
    (
        any::<u32>(),
        0u32..100,
        0u32..100,
        size,
        0u8..9,
        0u8..4,
        0u8..38,
        0u8..13,
    )
        .prop_map(
            |(time_s, client, object, size_bytes, method, version, status_index, kind)| {
                WorldCupRecord {
                    time_s,
                    client,
                    object,
                    size_bytes,
                    method,
                    version,
                    status_index,
                    kind,
                    server: 33,
                }
            },
        )
}

fn encoded(records: &[WorldCupRecord]) -> Vec<u8> {
    records.iter().flat_map(WorldCupRecord::encode).collect()
}

/// Replaces each number by its rank in order of first appearance.
fn renumbered(numbers: impl Iterator<Item = u32>) -> Vec<usize> {
    let mut seen = Vec::new();
    numbers
        .map(|number| {
            seen.iter()
                .position(|known| *known == number)
                .unwrap_or_else(|| {
                    seen.push(number);
                    seen.len() - 1
                })
        })
        .collect()
}

proptest! {
    #[test]
    fn a_log_in_its_own_format_is_rewritten_byte_by_byte(
        common in prop::collection::vec(log_line(TraceFormat::Common), 1..20),
        combined in prop::collection::vec(log_line(TraceFormat::Combined), 1..20),
    ) {
        for (lines, format) in [(common, TraceFormat::Common), (combined, TraceFormat::Combined)] {
            let text = lines.concat();
            let rewritten = converted(text.as_bytes(), format);
            prop_assert_eq!(String::from_utf8(rewritten).unwrap(), text);
        }
    }

    #[test]
    fn a_common_log_without_quotes_in_requests_is_unchanged_by_combined_format(
        lines in prop::collection::vec(log_line(TraceFormat::Common), 1..20)
    ) {
        let text = lines.concat();
        let back =
            converted(&converted(text.as_bytes(), TraceFormat::Combined), TraceFormat::Common);
        // The two quotes around the request stay. Quotes inside became `%22`.
        let escaped: String = text
            .lines()
            .map(|line| {
                let first = line.find('"').unwrap() + 1;
                let last = line.rfind("\" ").unwrap();
                let inside = line[first..last].replace('"', "%22");
                format!("{}{inside}{}\n", &line[..first], &line[last..])
            })
            .collect();
        prop_assert_eq!(String::from_utf8(back).unwrap(), escaped);
    }

    #[test]
    fn records_are_rewritten_byte_by_byte(records in prop::collection::vec(record(), 1..50)) {
        let bytes = encoded(&records);
        prop_assert_eq!(converted(&bytes, TraceFormat::WorldCup), bytes);
    }

    #[test]
    fn records_keep_all_but_type_and_server_through_a_log(
        records in prop::collection::vec(record(), 1..50)
    ) {
        for format in [TraceFormat::Common, TraceFormat::Combined] {
            let log = converted(&encoded(&records), format);
            let back = converted(&log, TraceFormat::WorldCup);
            let back: Vec<_> = back
                .chunks_exact(RECORD_BYTES)
                .map(|bytes| WorldCupRecord::decode(bytes.try_into().unwrap()).unwrap())
                .collect();
            prop_assert_eq!(back.len(), records.len());
            let clients = renumbered(records.iter().map(|record| record.client));
            let objects = renumbered(records.iter().map(|record| record.object));
            for (index, (actual, record)) in back.iter().zip(&records).enumerate() {
                let expected = WorldCupRecord {
                    client: clients[index] as u32,
                    object: objects[index] as u32,
                    kind: actual.kind,
                    server: 0,
                    ..*record
                };
                prop_assert_eq!(*actual, expected);
            }
        }
    }
}

#[test]
fn a_world_cup_object_has_the_path_of_its_mapping_or_its_number() {
    let mapping = b"         7 /images/a b.gif\n         8 /\" target=\"_blank/\n";
    let paths = || ObjectPaths::read(&mapping[..]).unwrap();
    let request = |object| WorldCupRecord {
        time_s: 893_971_817,
        client: 3,
        object,
        size_bytes: Some(10),
        method: 0,
        version: 1,
        status_index: 2,
        kind: 1,
        server: 0,
    };
    let bytes = encoded(&[request(7), request(8), request(9)]);
    let written = |to| {
        let mut text = Vec::new();
        convert(
            &bytes[..],
            &mut text,
            Conversion {
                paths: paths(),
                ..conversion(to)
            },
        )
        .unwrap();
        String::from_utf8(text).unwrap()
    };
    let stamp = "client3 - - [30/Apr/1998:21:30:17 +0000]";
    let expected = format!(
        "{stamp} \"GET /images/a b.gif HTTP/1.0\" 200 10\n\
         {stamp} \"GET /\" target=\"_blank/ HTTP/1.0\" 200 10\n\
         {stamp} \"GET /object/9 HTTP/1.0\" 200 10\n"
    );
    assert_eq!(written(TraceFormat::Common), expected);
    assert!(written(TraceFormat::Combined).contains("GET /%22 target=%22_blank/ HTTP/1.0"));
}

#[test]
fn written_mappings_restore_the_paths_of_a_log() {
    let line =
        |path| format!("client0 - - [30/Apr/1998:21:30:17 +0000] \"GET {path} HTTP/1.0\" 200 10\n");
    let log = [line("/b"), line("/a c"), line("/b")].concat();
    let (mut records, mut mappings) = (Vec::new(), Vec::new());
    let to_records = Conversion {
        mappings: Some(&mut mappings),
        ..conversion(TraceFormat::WorldCup)
    };
    convert(log.as_bytes(), &mut records, to_records).unwrap();
    assert_eq!(mappings, b"         0 /b\n         1 /a c\n");
    let paths = ObjectPaths::read(mappings.as_slice()).unwrap();
    let mut back = Vec::new();
    let to_log = Conversion {
        paths,
        ..conversion(TraceFormat::Common)
    };
    convert(records.as_slice(), &mut back, to_log).unwrap();
    assert_eq!(String::from_utf8(back).unwrap(), log);
}

#[test]
fn a_mappings_line_without_a_number_is_an_error() {
    let actual = ObjectPaths::read(&b"         0 /a\nnothing\n"[..]);
    let message = actual.unwrap_err().to_string();
    assert!(
        message.starts_with("line 2 of the object mappings"),
        "{message}"
    );
}

#[test]
fn a_size_of_four_gigabytes_does_not_fit_a_record() {
    let line = b"a - - [30/Apr/1998:21:30:17 +0000] \"GET / HTTP/1.0\" 200 4294967295\n";
    let actual = convert(&line[..], Vec::new(), conversion(TraceFormat::WorldCup));
    let message = actual.unwrap_err().to_string();
    assert!(
        message.starts_with("line 1: size 4294967295 does not fit"),
        "{message}"
    );
}

fn generators() -> [Sessions; 3] {
    [
        Sessions::Lognormal(LognormalSessions::world_cup().generator(5).unwrap()),
        Sessions::SpecWeb99(SpecWeb99::mixed(500).generator(5).unwrap()),
        // There are only twenty clients, so a new session of a client must wait for the end of the
        // client's last session.
        Sessions::SpecWeb99(SpecWeb99::static_only(20).generator(5).unwrap()),
    ]
}

#[test]
fn the_fifteen_second_rule_finds_the_sessions_that_were_synthesized() {
    for sessions in generators() {
        for (format, compression) in [
            (TraceFormat::Common, Compression::None),
            (TraceFormat::Combined, Compression::Gzip),
            (TraceFormat::WorldCup, Compression::Zstd),
        ] {
            let synthesis = Synthesis {
                requests: 5_000,
                format,
                compression,
                ..Synthesis::default()
            };
            let mut trace = Vec::new();
            let written = synthesize(&mut sessions.clone(), &mut trace, &synthesis).unwrap();
            let summary = summarize(trace.as_slice(), None, SESSION_WINDOW_S).unwrap();
            assert_eq!(summary.format, format);
            assert_eq!((summary.requests, summary.rejected), (written.requests, 0));
            assert_eq!(
                (summary.sessions, summary.bytes),
                (written.sessions, written.bytes)
            );
            assert_eq!(summary.check.out_of_order, 0);
            assert_eq!(
                multiset(&mut sessions.clone(), written.sessions),
                replayed(&trace)
            );
        }
    }
}

/// Length, packets and computed responses of `sessions` sessions, sorted.
fn multiset(source: &mut Sessions, sessions: u64) -> Vec<(usize, u64, usize)> {
    let mut requests = Vec::new();
    let mut actual: Vec<_> = (0..sessions)
        .map(|_| {
            source.next_session(&mut requests);
            let packets = requests
                .iter()
                .map(|request| response_packets(request.response_bytes.into()));
            let dynamic = requests.iter().filter(|request| request.dynamic).count();
            (requests.len(), packets.sum(), dynamic)
        })
        .collect();
    actual.sort_unstable();
    actual
}

fn replayed(trace: &[u8]) -> Vec<(usize, u64, usize)> {
    let replay = Replay::read(trace, None, SESSION_WINDOW_S).unwrap();
    let sessions = replay.sessions();
    multiset(&mut Sessions::Replay(replay), sessions)
}

#[test]
fn a_synthesized_trace_is_the_same_every_time() {
    let written = |seed| {
        let mut sessions = Sessions::Lognormal(LognormalSessions::ibm().generator(seed).unwrap());
        let mut trace = Vec::new();
        let synthesis = Synthesis {
            requests: 500,
            seed,
            ..Synthesis::default()
        };
        synthesize(&mut sessions, &mut trace, &synthesis).unwrap();
        trace
    };
    assert_eq!(written(1), written(1));
    assert_ne!(written(1), written(2));
}

#[test]
fn an_invalid_rate_is_an_error_that_names_the_range() {
    let mut sessions = generators();
    let synthesis = Synthesis {
        sessions_per_s: 0.0,
        ..Synthesis::default()
    };
    let error = synthesize(&mut sessions[0], Vec::new(), &synthesis).unwrap_err();
    assert_eq!(
        error.to_string(),
        "sessions_per_s is 0: it must be from 0.001 to 1000000"
    );
}
