//! The readers find the published figures in the real logs of `../shared/traces`.
//!
//! The logs are not part of the project. If this folder, or the one that `PERPACKET_SHARED` names,
//! does not exist, these tests print that and pass.

#![allow(clippy::unwrap_used)]

use perpacket_requirements::skip;
use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};

use perpacket_workload::{
    ObjectPaths, Replay, SESSION_WINDOW_S, SessionSource, Summary, TraceFormat, summarize,
};

/// A file of the shared traces; `None` if it does not exist.
fn shared_trace(name: &str) -> Option<PathBuf> {
    let shared = std::env::var_os("PERPACKET_SHARED").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../../shared"),
        PathBuf::from,
    );
    let path = shared.join("traces").join(name);
    if !path.exists() {
        skip(
            "traces",
            format_args!("{name} is not among the shared traces"),
        );
        return None;
    }
    Some(path)
}

fn summary_of(name: &str) -> Option<Summary> {
    let file = File::open(shared_trace(name)?).unwrap();
    Some(summarize(file, None, SESSION_WINDOW_S).unwrap())
}

/// The figures of an official World Cup summary. Its lines are `name: value`, and servers are
/// `Server N`.
fn official(name: &str) -> Option<BTreeMap<String, f64>> {
    let text = std::fs::read_to_string(shared_trace(name)?).unwrap();
    let figure = |line: &str| {
        let (name, value) = line.split_once(':')?;
        Some((name.trim().to_owned(), value.trim().parse().ok()?))
    };
    Some(text.lines().filter_map(figure).collect())
}

fn agrees_with_official(trace: &str, check: &str) {
    let (Some(summary), Some(official)) = (summary_of(trace), official(check)) else {
        return;
    };
    assert_eq!(summary.format, TraceFormat::WorldCup);
    assert_eq!(summary.rejected, 0);
    let check = &summary.check;
    let mut figures = BTreeMap::from(
        [
            ("Total Requests", summary.requests as f64),
            ("Total Bytes", summary.bytes as f64),
            ("Min Client ID", f64::from(check.client_min.unwrap())),
            ("Max Client ID", f64::from(check.client_max.unwrap())),
            ("Min Object ID", f64::from(check.object_min.unwrap())),
            ("Max Object ID", f64::from(check.object_max.unwrap())),
            ("Min Size", check.size_min_bytes.unwrap() as f64),
            ("Max Size", check.size_max_bytes.unwrap() as f64),
            ("Min Time", check.min_time_s.unwrap() as f64),
            ("Max Time", check.max_time_s.unwrap() as f64),
            ("Start Time", check.start_time_s.unwrap() as f64),
            ("Finish Time", check.finish_time_s.unwrap() as f64),
            ("Out of Order", check.out_of_order as f64),
            ("Unique Servers", check.servers.len() as f64),
        ]
        .map(|(name, value)| (name.to_owned(), value)),
    );
    for (server, requests) in &check.servers {
        figures.insert(format!("Server {server}"), *requests as f64);
    }
    let mean = check.mean_transfer_bytes.unwrap();
    assert!(
        (mean - official["Mean Transfer Size"]).abs() < 1e-6,
        "{mean}"
    );
    figures.insert(
        "Mean Transfer Size".to_owned(),
        official["Mean Transfer Size"],
    );
    assert_eq!(figures, official);
}

#[test]
fn the_world_cup_test_log_has_every_figure_of_its_official_summary() {
    agrees_with_official("wc98-test-log.bin.gz", "wc98-test-log.check");
}

#[test]
fn day_5_of_the_world_cup_has_every_figure_of_its_official_summary() {
    agrees_with_official("wc98-day5.bin", "wc98-day5.check");
}

#[test]
fn nasa_on_1_august_1995_has_the_known_counts() {
    let Some(summary) = summary_of("nasa-1995-08-01.clf.gz") else {
        return;
    };
    assert_eq!(summary.format, TraceFormat::Common);
    assert_eq!((summary.requests, summary.rejected), (33_996, 0));
    assert_eq!((summary.clients, summary.objects), (2_582, 2_220));
    assert_eq!(summary.bytes, 529_321_719);
    assert_eq!(summary.peak_per_s, 17);
    let share = summary.status[&304] as f64 / summary.requests as f64;
    assert!((share - 0.077).abs() < 0.0005, "{share}");
    assert_eq!(summary.first_time.as_deref(), Some("1995-08-01T04:00:01Z"));
    // The server was shut down at 14:52:01, four hours behind UTC.
    assert_eq!(summary.last_time.as_deref(), Some("1995-08-01T18:52:01Z"));
}

#[test]
fn the_start_of_july_1995_is_read_with_its_missing_sizes_and_version() {
    let Some(summary) = summary_of("nasa-1995-07-01-head.clf") else {
        return;
    };
    assert_eq!((summary.requests, summary.rejected), (2_000, 0));
    assert_eq!(summary.check.size_min_bytes, Some(0));
}

#[test]
fn every_torn_line_of_august_1995_is_counted_and_listed() {
    let Some(summary) = summary_of("nasa-1995-08-torn.clf.gz") else {
        return;
    };
    assert_eq!(summary.requests + summary.rejected, 1_930);
    // A wrapped request makes one or two bad lines. 88 lines do not end in a status and a size.
    assert_eq!((summary.rejected, summary.rejects.len()), (88, 88));
    assert!(
        summary
            .rejects
            .windows(2)
            .all(|pair| pair[0].line < pair[1].line)
    );
}

#[test]
fn day_6_of_the_world_cup_has_the_published_shape_of_sessions() {
    let Some(summary) = summary_of("wc98-day6-sample.bin.gz") else {
        return;
    };
    assert_eq!((summary.requests, summary.rejected), (199_993, 0));
    let mean = summary.requests_per_session.mean.unwrap();
    assert!((mean - 2.33).abs() < 0.005, "{mean}");
    let shares = summary.session_packets;
    let (bottom, top) = (
        shares.bottom_half_share.unwrap(),
        shares.top_tenth_share.unwrap(),
    );
    assert!((bottom - 0.087).abs() < 0.0005, "{bottom}");
    assert!((top - 0.627).abs() < 0.0005, "{top}");
}

#[test]
fn a_replay_returns_every_request_of_the_trace_and_repeats_it() {
    let Some(path) = shared_trace("wc98-day6-sample.bin.gz") else {
        return;
    };
    let file = File::open(path).unwrap();
    let mut replay = Replay::read(file, None, SESSION_WINDOW_S).unwrap();
    assert_eq!(replay.usable_requests(), 199_993);
    let mut session = Vec::new();
    let first_client = replay.clone().next_session(&mut session);
    let first = session.clone();
    let mut requests = 0;
    for _ in 0..replay.sessions() {
        replay.next_session(&mut session);
        requests += session.len() as u64;
    }
    assert_eq!(requests, replay.usable_requests());
    assert_eq!(replay.next_session(&mut session), first_client);
    assert_eq!(session, first);
}

#[test]
fn the_object_mappings_have_a_path_for_each_of_their_rows() {
    let Some(path) = shared_trace("wc98-object-mappings.gz") else {
        return;
    };
    let paths = ObjectPaths::read(File::open(path).unwrap()).unwrap();
    assert_eq!(paths.len(), 89_997);
    assert_eq!(paths.path(0), b"/images/home_intro.anim.gif");
    assert_eq!(paths.path(89_995), b"/\" target=\"_blank/");
}
