//! The parts of two real servers with TLS, by the names of their functions.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;

use perpacket_cost::{Clue, Rules};

const GO: &str = include_str!("parts/go_tls.txt");
const NODE: &str = include_str!("parts/node_tls.txt");

/// The samples of each part, of cryptography and of other code. Unclaimed code is in the part `-`.
fn parts(recorded: &str) -> BTreeMap<(String, bool), u64> {
    let rules = Rules::builtin().unwrap();
    let mut sums = BTreeMap::new();
    for line in recorded.lines().filter(|line| !line.starts_with('#')) {
        let columns: [&str; 4] = line.split('\t').collect::<Vec<_>>().try_into().unwrap();
        let [samples, truth, file, function] = columns;
        let part = rules
            .part(Clue::Function(function))
            .or_else(|| rules.part(Clue::File(file)))
            .unwrap_or("-");
        let key = (part.to_owned(), truth == "crypto");
        *sums.entry(key).or_default() += samples.parse::<u64>().unwrap();
    }
    sums
}

fn sum(parts: &BTreeMap<(String, bool), u64>, accepts: impl Fn(&str, bool) -> bool) -> f64 {
    let rows = parts
        .iter()
        .filter(|((part, truth), _)| accepts(part, *truth));
    rows.map(|(_, &samples)| samples as f64).sum()
}

#[test]
fn a_go_server_is_divided_by_its_packages() {
    let parts = parts(GO);
    assert_eq!(sum(&parts, |part, _| part == "-"), 0.0, "{parts:?}");
    assert_eq!(
        sum(&parts, |part, is_crypto| (part == "tls") != is_crypto),
        0.0
    );
    let all = sum(&parts, |_, _| true);
    let share = |name: &str| sum(&parts, |part, _| part == name) / all;
    eprintln!("{parts:?}");
    for part in [
        "tls",
        "go runtime",
        "garbage collector",
        "net/http",
        "go library",
    ] {
        assert!(share(part) > 0.02, "{part}: {}", share(part));
    }
    let rules = Rules::builtin().unwrap();
    for (function, part) in [
        ("runtime.mallocgcSmallNoscan", "go runtime"),
        ("runtime.scanblock", "garbage collector"),
        ("net.(*netFD).Write", "go library"),
        ("net/http.(*conn).readRequest", "net/http"),
        ("main.main.func1", "application"),
    ] {
        assert_eq!(
            rules.part(Clue::Function(function)),
            Some(part),
            "{function}"
        );
    }
}

#[test]
fn openssl_inside_node_is_tls_and_nothing_else_is() {
    let parts = parts(NODE);
    let crypto = sum(&parts, |_, is_crypto| is_crypto);
    assert!(crypto / sum(&parts, |_, _| true) > 0.1);
    let known = sum(&parts, |part, is_crypto| is_crypto && part == "tls");
    assert!(known / crypto > 0.95, "{known} of {crypto}: {parts:?}");
    assert_eq!(
        sum(&parts, |part, is_crypto| !is_crypto && part == "tls"),
        0.0
    );
    eprintln!("{parts:?}");
}
