//! Surge and WebStone draw from their documented distributions.

#![allow(clippy::unwrap_used)]

mod draws;

use draws::assert_share;
use perpacket_workload::{Stream, Surge, SurgeRequest, WebStoneGenerator, webstone};

/// Number of draws in each test.
const DRAWS: usize = 1_000_000;

fn requests(parameters: &Surge, seed: u64, count: usize) -> Vec<SurgeRequest> {
    let mut generator = parameters.generator(seed).unwrap();
    let (mut all, mut page) = (Vec::new(), Vec::new());
    while all.len() < count {
        generator.next_page(&mut page);
        all.extend_from_slice(&page);
    }
    all
}

/// Quantile of the standard normal distribution by bisection on a series of its integral.
fn normal_quantile(share: f64) -> f64 {
    let cumulative = |z: f64| {
        // Marsaglia's series (2004): the density times z + z^3/3 + z^5/15 + ...
        let (mut sum, mut term, mut divisor) = (z, z, 1.0);
        for _ in 0..200 {
            divisor += 2.0;
            term *= z * z / divisor;
            sum += term;
        }
        0.5 + sum * (-z * z / 2.0).exp() / (2.0 * std::f64::consts::PI).sqrt()
    };
    let (mut low, mut high) = (-6.0, 6.0);
    for _ in 0..80 {
        let middle = (low + high) / 2.0;
        if cumulative(middle) < share {
            low = middle
        } else {
            high = middle
        }
    }
    (low + high) / 2.0
}

#[test]
fn surge_s_body_is_the_published_lognormal_to_one_per_cent() {
    let surge = Surge::default();
    let mut stream = Stream::new(3, "sizes");
    let mut body: Vec<f64> = (0..DRAWS)
        .map(|_| surge.size_bytes(stream.uniform()))
        .filter(|bytes| *bytes < surge.tail_bytes)
        .map(f64::ln)
        .collect();
    body.sort_by(f64::total_cmp);
    // The body is cut at 133 KB, which is 1.852 standard deviations above the mean. A fraction of
    // 0.96799 of the whole distribution lies below the cut. So the quantile p of the body is the
    // quantile 0.96799 p of the whole distribution. The line through these pairs of quantiles has
    // mu and sigma.
    let cut_share = 0.967_99;
    let points: Vec<(f64, f64)> = (1..100)
        .map(|percent| f64::from(percent) / 100.0)
        .map(|share| {
            let place = (share * body.len() as f64) as usize;
            (normal_quantile(share * cut_share), body[place])
        })
        .collect();
    let count = points.len() as f64;
    let mean = |of: &dyn Fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / count;
    let (x, y) = (mean(&|point| point.0), mean(&|point| point.1));
    let slope = mean(&|point| (point.0 - x) * (point.1 - y)) / mean(&|point| (point.0 - x).powi(2));
    let mu = y - slope * x;
    assert!((mu / 9.357 - 1.0).abs() < 0.01, "mu {mu}");
    assert!((slope / 1.318 - 1.0).abs() < 0.01, "sigma {slope}");
}

#[test]
fn surge_s_tail_has_the_published_exponent_by_hill_s_estimator() {
    // For an exact estimate, use ten times as many files in the tail and a high cap.
    let surge = Surge {
        total_bytes: 2_000_000_000,
        tail_limit_bytes: 3e9,
        ..Surge::default()
    };
    let mut stream = Stream::new(4, "sizes");
    let tail: Vec<f64> = (0..4 * DRAWS)
        .map(|_| surge.size_bytes(stream.uniform()))
        .filter(|bytes| *bytes > surge.tail_bytes)
        .collect();
    let mean = tail
        .iter()
        .map(|bytes| (bytes / surge.tail_bytes).ln())
        .sum::<f64>()
        / tail.len() as f64;
    let alpha = 1.0 / mean;
    assert!(tail.len() > 10_000, "{}", tail.len());
    assert!(
        (alpha - 1.1).abs() < 4.0 * 1.1 / (tail.len() as f64).sqrt(),
        "alpha {alpha}"
    );
}

#[test]
fn surge_s_popularity_is_zipf_s_with_and_without_locality() {
    let harmonic: f64 = (1..=20_000).map(|rank| 1.0 / f64::from(rank)).sum();
    let independent = Surge {
        locality_share: 0.0,
        ..Surge::default()
    };
    let drawn = requests(&independent, 1, DRAWS);
    for rank in [1u32, 2, 10, 100] {
        let count = drawn
            .iter()
            .filter(|request| request.object == rank - 1)
            .count();
        assert_share(
            "rank",
            count,
            drawn.len(),
            1.0 / (f64::from(rank) * harmonic),
        );
    }
    // Repeated requests are not independent, so their counts spread more.
    let local = requests(&Surge::default(), 1, DRAWS);
    let first = local.iter().filter(|request| request.object == 0).count() as f64;
    let expected = local.len() as f64 / harmonic;
    assert!((first / expected - 1.0).abs() < 0.03, "{first} {expected}");
    let repeats = |all: &[SurgeRequest]| {
        all.windows(6)
            .filter(|six| {
                six[..5]
                    .iter()
                    .any(|earlier| earlier.object == six[5].object)
            })
            .count()
    };
    assert!(
        repeats(&local) > 14 * repeats(&drawn) / 10,
        "locality repeats no more than chance"
    );
}

#[test]
fn a_popular_rank_of_nine_has_the_share_of_specweb99_s_files() {
    let harmonic: f64 = (1..=9).map(|rank| 1.0 / f64::from(rank)).sum();
    assert_eq!(format!("{:.4}", 1.0 / harmonic), "0.3535");
}

#[test]
fn surge_s_files_and_requests_have_their_means() {
    let surge = Surge::default();
    let sizes = surge.file_sizes().unwrap();
    let total: f64 = sizes.iter().map(|bytes| f64::from(*bytes)).sum();
    assert!((total / 480e6 - 1.0).abs() < 0.01, "{total}");
    // Requested sizes follow the Pareto distribution with k 1000 and alpha 1: P(size <= x) is
    // 1 - 1000 / x.
    let drawn = requests(&surge, 2, DRAWS);
    for bytes in [2_000u32, 5_000, 10_000, 50_000, 130_000] {
        let below = drawn
            .iter()
            .filter(|request| request.response_bytes <= bytes)
            .count();
        let (share, expected) = (
            below as f64 / drawn.len() as f64,
            1.0 - 1000.0 / f64::from(bytes),
        );
        assert!(
            (share - expected).abs() < 0.03,
            "{bytes} B: {share} instead of {expected}"
        );
    }
    // The mean of a million requests is the mean of the files weighted by popularity. The largest
    // files are excluded, because a few requests for them would move the mean by more than the
    // tolerance.
    let mean = |all: &mut dyn Iterator<Item = f64>| {
        let values: Vec<f64> = all.collect();
        values.iter().sum::<f64>() / values.len() as f64
    };
    let limit = 133_000.0;
    let body = mean(
        &mut drawn
            .iter()
            .map(|request| f64::from(request.response_bytes))
            .filter(|bytes| *bytes < limit),
    );
    let weights: Vec<f64> = (1..=sizes.len()).map(|rank| 1.0 / rank as f64).collect();
    let weighted = sizes
        .iter()
        .zip(&weights)
        .filter(|(bytes, _)| f64::from(**bytes) < limit);
    let (sum, weight) = weighted.fold((0.0, 0.0), |(sum, total), (bytes, weight)| {
        (sum + f64::from(*bytes) * weight, total + weight)
    });
    assert!(
        (body / (sum / weight) - 1.0).abs() < 0.02,
        "{body} {}",
        sum / weight
    );
}

#[test]
fn surge_users_pause_and_think_as_published() {
    let drawn = requests(&Surge::default(), 5, DRAWS);
    let mut generator = Surge::default().generator(5).unwrap();
    let (mut pauses, mut thoughts, mut pages, mut page) =
        (Vec::new(), Vec::new(), 0usize, Vec::new());
    while pauses.len() < 300_000 {
        generator.next_page(&mut page);
        pages += 1;
        thoughts.push(page[0].wait_s);
        pauses.extend(page[1..].iter().map(|request| request.wait_s));
    }
    let median = |values: &mut Vec<f64>| {
        values.sort_by(f64::total_cmp);
        values[values.len() / 2]
    };
    // The median of the Weibull distribution is 1.46 (ln 2)^(1 / 0.382) = 0.559 s. Its mean is 5.5
    // s, or a little less with the cap.
    let mean = pauses.iter().sum::<f64>() / pauses.len() as f64;
    assert!((5.2..5.7).contains(&mean), "{mean}");
    assert!((median(&mut pauses) / 0.559 - 1.0).abs() < 0.02);
    // The median of the Pareto distribution is 2^(1 / 1.5).
    assert!((median(&mut thoughts) / 1.587 - 1.0).abs() < 0.01);
    assert!(thoughts[0] >= 1.0);
    // The number of files in a page is the floor of a Pareto draw, with mean zeta(2.43) = 1.36.
    let per_page = (pages + pauses.len()) as f64 / pages as f64;
    assert!((per_page / 1.362 - 1.0).abs() < 0.01, "{per_page}");
    assert!(drawn.iter().all(|request| request.wait_s <= 1800.0));
}

#[test]
fn one_seed_gives_one_sequence() {
    assert_eq!(
        requests(&Surge::default(), 9, 1000),
        requests(&Surge::default(), 9, 1000)
    );
    assert_ne!(
        requests(&Surge::default(), 9, 1000),
        requests(&Surge::default(), 10, 1000)
    );
}

#[test]
fn webstone_requests_its_files_in_their_shares() {
    let mut generator = WebStoneGenerator::new(1);
    let (mut counts, mut sum) = ([0; 5], 0.0);
    for _ in 0..DRAWS {
        let (object, bytes) = generator.next_request();
        counts[object as usize] += 1;
        sum += f64::from(bytes);
    }
    for (count, (path, _, share)) in counts.into_iter().zip(webstone::FILES) {
        assert_share(path, count, DRAWS, share);
    }
    // The mean is 175 + 2500 + 7000 + 4500 + 5000 B. The standard deviation of the measured mean is
    // 0.9 % of it.
    assert!((sum / DRAWS as f64 / 19_175.0 - 1.0).abs() < 0.03, "{sum}");
}
