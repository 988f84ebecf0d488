//! The generators draw from their documented distributions.

#![allow(clippy::unwrap_used)]

mod draws;

use std::collections::HashMap;

use draws::assert_share;
use perpacket_workload::specweb99::{
    CLASS_SHARES, FILES_PER_CLASS, FILES_PER_DIRECTORY, file_bytes, object_path,
};
use perpacket_workload::{
    LognormalSessions, PlannedRequest, SessionSource, Sessions, SpecWeb99, response_packets,
};

/// Number of draws in each test.
const DRAWS: usize = 1_000_000;

/// The first sessions of a source and their clients, until the sessions have [`DRAWS`] requests.
fn sessions(mut source: Sessions) -> Vec<(u32, Vec<PlannedRequest>)> {
    let mut sessions = Vec::new();
    let mut requests = 0;
    while requests < DRAWS {
        let mut session = Vec::new();
        let client = source.next_session(&mut session);
        requests += session.len();
        sessions.push((client, session));
    }
    sessions
}

fn specweb99(parameters: &SpecWeb99, seed: u64) -> Vec<(u32, Vec<PlannedRequest>)> {
    sessions(Sessions::SpecWeb99(parameters.generator(seed).unwrap()))
}

fn lognormal(parameters: &LognormalSessions, seed: u64) -> Vec<(u32, Vec<PlannedRequest>)> {
    sessions(Sessions::Lognormal(parameters.generator(seed).unwrap()))
}

fn packets(session: &[PlannedRequest]) -> u64 {
    session
        .iter()
        .map(|request| response_packets(request.response_bytes.into()))
        .sum()
}

fn mean(values: impl Iterator<Item = f64>) -> f64 {
    let (sum, count) = values.fold((0.0, 0.0), |(sum, count), value| (sum + value, count + 1.0));
    sum / count
}

/// Fraction of the variance that is between groups: one-way random effects, by analysis of
/// variance.
fn share_between(groups: &[Vec<f64>]) -> f64 {
    let groups: Vec<_> = groups.iter().filter(|group| group.len() > 1).collect();
    let (count, members) = (
        groups.len() as f64,
        groups.iter().map(|group| group.len()).sum::<usize>() as f64,
    );
    let overall = mean(groups.iter().copied().flatten().copied());
    let (mut between, mut within, mut squares) = (0.0, 0.0, 0.0);
    for group in groups {
        let own = mean(group.iter().copied());
        between += group.len() as f64 * (own - overall).powi(2);
        within += group.iter().map(|value| (value - own).powi(2)).sum::<f64>();
        squares += (group.len() as f64).powi(2);
    }
    let size = (members - squares / members) / (count - 1.0);
    let within = within / (members - count);
    let between = (between / (count - 1.0) - within) / size;
    between / (between + within)
}

#[test]
fn specweb99_has_the_published_directories() {
    let of = |connections| SpecWeb99::static_only(connections).directories();
    assert_eq!((of(100), of(1000)), (90, 680));
    let set: u64 = (0..FILES_PER_DIRECTORY)
        .map(|file| u64::from(file_bytes(file)))
        .sum();
    assert_eq!(format!("{:.2}", set as f64 * 90.0 / 1e9), "0.46");
    assert_eq!(format!("{:.2}", set as f64 * 680.0 / 1e9), "3.48");
}

#[test]
fn specweb99_has_the_published_file_sizes_and_paths() {
    let class = |class: u32| [0, 1, 8].map(|file| file_bytes(class * FILES_PER_CLASS + file));
    assert_eq!(class(0), [102, 204, 921]);
    assert_eq!(class(1), [1024, 2048, 9216]);
    assert_eq!(class(2), [10_240, 20_480, 92_160]);
    assert_eq!(class(3), [102_400, 204_800, 921_600]);
    assert_eq!(object_path(0), "/file_set/dir00000/class0_0");
    assert_eq!(object_path(36 * 679 + 35), "/file_set/dir00679/class3_8");
}

#[test]
fn specweb99_requests_classes_files_and_directories_in_their_shares() {
    let parameters = SpecWeb99::static_only(1000);
    let requests: Vec<_> = specweb99(&parameters, 1)
        .into_iter()
        .flat_map(|(_, session)| session)
        .collect();
    let mut files = [0; FILES_PER_DIRECTORY as usize];
    let mut directories = vec![0; parameters.directories() as usize];
    for request in &requests {
        files[(request.object % FILES_PER_DIRECTORY) as usize] += 1;
        directories[(request.object / FILES_PER_DIRECTORY) as usize] += 1;
    }
    let zipf = [
        0.3535, 0.1767, 0.1178, 0.0884, 0.0707, 0.0589, 0.0505, 0.0442, 0.0393,
    ];
    for (class, share) in files.chunks(FILES_PER_CLASS as usize).zip(CLASS_SHARES) {
        let in_class: usize = class.iter().sum();
        assert_share("class", in_class, requests.len(), share);
        for (file, expected) in [4, 3, 5, 2, 6, 1, 7, 8, 0].into_iter().zip(zipf) {
            assert_share("file of a class", class[file], in_class, expected);
        }
    }
    let harmonic: f64 = (1..=680).map(|rank| 1.0 / f64::from(rank)).sum();
    for rank in [1, 2, 10, 100, 680] {
        let expected = 1.0 / (f64::from(rank as u32) * harmonic);
        assert_share("directory", directories[rank - 1], requests.len(), expected);
    }
    let mean = mean(
        requests
            .iter()
            .map(|request| f64::from(request.response_bytes)),
    );
    assert!((mean / 14_727.0 - 1.0).abs() < 0.01, "{mean}");
    assert!(requests.iter().all(|request| !request.dynamic));
}

#[test]
fn specweb99_has_70_percent_persistent_and_30_percent_dynamic_requests() {
    let sessions = specweb99(&SpecWeb99::mixed(1000), 2);
    let requests: usize = sessions.iter().map(|(_, session)| session.len()).sum();
    let kept: Vec<_> = sessions
        .iter()
        .map(|(_, session)| session.len())
        .filter(|length| *length > 1)
        .collect();
    // The generator draws sessions, not requests. So the tolerance is four deviations of the share
    // of sessions, converted to requests.
    let share = kept.iter().sum::<usize>() as f64 / requests as f64;
    assert!((share - 0.70).abs() < 0.003, "{share}");
    for length in 5..=15 {
        let count = kept.iter().filter(|kept| **kept == length).count();
        assert_share("requests of a connection", count, kept.len(), 1.0 / 11.0);
    }
    let per_session = requests as f64 / sessions.len() as f64;
    let expected = SpecWeb99::mixed(1000).requests_per_session_mean();
    assert!(
        (per_session / expected - 1.0).abs() < 0.01,
        "{per_session} {expected}"
    );
    let dynamic = sessions
        .iter()
        .flat_map(|(_, session)| session)
        .filter(|request| request.dynamic)
        .count();
    assert_share("dynamic requests", dynamic, requests, 0.30);
}

#[test]
fn the_longest_tenth_of_world_cup_connections_carries_sixty_percent_of_the_packets() {
    let sessions = lognormal(&LognormalSessions::world_cup(), 1);
    let requests: usize = sessions.iter().map(|(_, session)| session.len()).sum();
    let per_session = requests as f64 / sessions.len() as f64;
    assert!((per_session - 7.0).abs() < 0.25, "{per_session}");
    let bytes = mean(
        sessions
            .iter()
            .flat_map(|(_, session)| session)
            .map(|request| f64::from(request.response_bytes)),
    );
    assert!((bytes / 7000.0 - 1.0).abs() < 0.03, "{bytes}");
    let mut lengths: Vec<_> = sessions
        .iter()
        .map(|(_, session)| packets(session))
        .collect();
    lengths.sort_unstable();
    let total: u64 = lengths.iter().sum();
    let bottom: u64 = lengths[..lengths.len() / 2].iter().sum();
    let top: u64 = lengths[lengths.len() - lengths.len() / 10..].iter().sum();
    assert!(
        (bottom as f64) < 0.10 * total as f64,
        "{}",
        bottom as f64 / total as f64
    );
    assert!(
        (top as f64) > 0.60 * total as f64,
        "{}",
        top as f64 / total as f64
    );
    let logarithms: Vec<_> = lengths.iter().map(|length| (*length as f64).ln()).collect();
    let centre = mean(logarithms.iter().copied());
    let sigma = mean(logarithms.iter().map(|value| (value - centre).powi(2))).sqrt();
    assert!((sigma - 1.5).abs() < 0.1, "{sigma}");
}

#[test]
fn an_ibm_request_takes_at_most_73_percent_of_a_world_cup_requests_packets() {
    // Packets in both directions: the request and the responses, an acknowledgement for each, and
    // seven packets to open and close the connection.
    let per_request = |parameters: &LognormalSessions| {
        let sessions = lognormal(parameters, 1);
        let requests: usize = sessions.iter().map(|(_, session)| session.len()).sum();
        let sent: u64 = sessions.iter().map(|(_, session)| packets(session)).sum();
        2.0 + 2.0 * sent as f64 / requests as f64 + 7.0 * sessions.len() as f64 / requests as f64
    };
    let ratio =
        per_request(&LognormalSessions::ibm()) / per_request(&LognormalSessions::world_cup());
    assert!(ratio <= 0.73, "{ratio}");
}

#[test]
fn responses_of_a_session_and_sessions_of_a_client_are_as_alike_as_on_day_6() {
    let sessions = lognormal(&LognormalSessions::world_cup(), 3);
    let sizes: Vec<Vec<f64>> = sessions
        .iter()
        .map(|(_, session)| {
            session
                .iter()
                .map(|request| f64::from(request.response_bytes).ln())
                .collect()
        })
        .collect();
    let share = share_between(&sizes);
    assert!((share - 0.22).abs() < 0.02, "{share}");
    let mut lengths: HashMap<u32, Vec<f64>> = HashMap::new();
    for (client, session) in &sessions {
        lengths
            .entry(*client)
            .or_default()
            .push((session.len() as f64).ln());
    }
    let share = share_between(&lengths.into_values().collect::<Vec<_>>());
    assert!((share - 0.11).abs() < 0.02, "{share}");
}

#[test]
fn a_world_cup_thinned_like_the_sample_of_day_6_comes_near_it() {
    let sessions = lognormal(&LognormalSessions::world_cup(), 4);
    // Selects one request in six, by a linear congruential generator (Knuth's constants).
    let mut state = 1u64;
    let mut stays = |_: &&PlannedRequest| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 32) as f64 / 4_294_967_296.0 < 0.168
    };
    let thinned: Vec<Vec<PlannedRequest>> = sessions
        .iter()
        .map(|(_, session)| session.iter().filter(&mut stays).copied().collect())
        .filter(|session: &Vec<_>| !session.is_empty())
        .collect();
    let per_session = mean(thinned.iter().map(|session| session.len() as f64));
    assert!((per_session - 2.33).abs() < 0.25, "{per_session}");
    let mut lengths: Vec<_> = thinned.iter().map(|session| packets(session)).collect();
    lengths.sort_unstable();
    let total = lengths.iter().sum::<u64>() as f64;
    let bottom = lengths[..lengths.len() / 2].iter().sum::<u64>() as f64 / total;
    let top = lengths[lengths.len() - lengths.len() / 10..]
        .iter()
        .sum::<u64>() as f64
        / total;
    assert!((bottom - 0.087).abs() < 0.01, "{bottom}");
    assert!((top - 0.627).abs() < 0.07, "{top}");
}

#[test]
fn world_cup_requests_have_the_popularity_of_day_6() {
    let mut requests: HashMap<u32, usize> = HashMap::new();
    for request in lognormal(&LognormalSessions::world_cup(), 1)
        .iter()
        .flat_map(|(_, all)| all)
    {
        *requests.entry(request.object).or_default() += 1;
    }
    let mut counts: Vec<_> = requests.into_values().collect();
    counts.sort_unstable_by(|a, b| b.cmp(a));
    let total = counts.iter().sum::<usize>() as f64;
    let share = |objects: usize| counts[..objects].iter().sum::<usize>() as f64 / total;
    assert!((share(100) - 0.58).abs() < 0.02, "{}", share(100));
    assert!((share(300) - 0.84).abs() < 0.05, "{}", share(300));
}

#[test]
fn an_object_always_has_the_same_size() {
    for source in [
        lognormal(&LognormalSessions::world_cup(), 1),
        lognormal(&LognormalSessions::ibm(), 2),
    ] {
        let mut sizes = HashMap::new();
        for request in source.iter().flat_map(|(_, session)| session) {
            let size = *sizes
                .entry(request.object)
                .or_insert(request.response_bytes);
            assert_eq!(size, request.response_bytes);
        }
    }
}

#[test]
fn the_size_of_responses_does_not_change_clients_and_session_lengths() {
    let shape = |parameters| {
        lognormal(&parameters, 1)
            .into_iter()
            .map(|(client, session)| (client, session.len()))
            .collect::<Vec<_>>()
    };
    assert_eq!(
        shape(LognormalSessions::world_cup()),
        shape(LognormalSessions::ibm())
    );
}

#[test]
fn a_seed_gives_the_same_sessions_on_every_machine() {
    let digest = |sessions: Vec<(u32, Vec<PlannedRequest>)>| {
        let mut digest = 0u64;
        let mut add =
            |value: u32| digest = (digest ^ u64::from(value)).wrapping_mul(0x0100_0000_01b3);
        for (client, session) in sessions {
            add(client);
            for request in session {
                add(request.object);
                add(request.response_bytes);
                add(u32::from(request.dynamic));
            }
        }
        digest
    };
    let digests = [
        digest(lognormal(&LognormalSessions::world_cup(), 1)),
        digest(specweb99(&SpecWeb99::mixed(2048), 1)),
    ];
    assert_eq!(digests, [0x14dd_033f_1b56_2714, 0xd4ba_90c9_0e73_e4d4]);
}

#[test]
fn an_invalid_parameter_is_an_error_that_names_the_range() {
    let broken = LognormalSessions {
        objects: 20_001,
        ..LognormalSessions::world_cup()
    };
    assert_eq!(
        broken.generator(1).unwrap_err().to_string(),
        "objects is 20001: it must be a multiple of size_classes, at most 10000000"
    );
    let broken = SpecWeb99 {
        dynamic_share: f64::NAN,
        ..SpecWeb99::mixed(1)
    };
    assert_eq!(broken.generator(1).unwrap_err().parameter, "dynamic_share");
    for parameter in [
        "response_mean_bytes",
        "requests_per_session_mean",
        "clients",
    ] {
        let mut table: toml::Table = toml::Table::try_from(LognormalSessions::world_cup()).unwrap();
        let zero = if parameter == "clients" {
            0.into()
        } else {
            0.0.into()
        };
        table.insert(parameter.to_owned(), zero);
        let broken: LognormalSessions = table.try_into().unwrap();
        assert_eq!(broken.generator(1).unwrap_err().parameter, parameter);
    }
}

#[test]
fn an_unknown_parameter_is_an_error() {
    let mut table = toml::Table::try_from(SpecWeb99::mixed(10)).unwrap();
    table.insert("conections".to_owned(), 10.into());
    assert!(
        table
            .try_into::<SpecWeb99>()
            .unwrap_err()
            .to_string()
            .contains("conections")
    );
}
