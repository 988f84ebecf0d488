//! The tolerance for random draws.

/// Whether a share of draws is within four standard deviations of the expected share.
pub fn assert_share(what: &str, count: usize, draws: usize, share: f64) {
    let sigma = (share * (1.0 - share) / draws as f64).sqrt();
    let drawn = count as f64 / draws as f64;
    assert!(
        (drawn - share).abs() <= 4.0 * sigma,
        "{what}: {drawn} instead of {share}"
    );
}
