//! The synthetic World Cup 1998 and IBM workloads: lognormal sizes and session lengths.
//!
//! The workloads must have the shares of Kim and Rixner (OSDI 2006, section 3.3). The shorter half
//! of the connections sends under 10 % of the packets. In the World Cup workload, the longest tenth
//! sends over 60 %. A connection is long because it has many requests or large responses. Both are
//! properties of the connection, because some clients read pages of pictures and others fetch
//! archives. So a session draws a length and a size factor, and the sizes of its responses vary
//! around that factor.
//!
//! The defaults were fitted to a 16.8 % sample of day 6 of the 1998 World Cup logs (199,993
//! requests), cut into sessions by the fifteen-second rule. The workload has the sample's spread of
//! sizes and popularity of objects. It also has the sample's correlations of responses within a
//! session, and of sessions within a client. Workload W, sampled in the same way, has 2.5 requests
//! a connection. Its shorter half has 9.1 % of the packets, and its longest tenth has 57 %. The
//! sample has 2.33 requests, 8.7 % and 62.7 %, because it has more files above 1 MB than a
//! lognormal distribution.

use serde::{Deserialize, Serialize};

use super::normal;
use crate::generators::catalogue::Catalogue;
use crate::generators::parameter::{ParameterError, require, require_ranges};
use crate::generators::random::Stream;
use crate::sessions::planned::{PlannedRequest, SessionSource};

/// Maximum number of requests of a session, which bounds memory. With the default
/// parameters one session in 10^8 reaches it.
const REQUESTS_PER_SESSION_LIMIT: f64 = 10_000.0;

/// Parameters of a workload of lognormal sessions.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct LognormalSessions {
    /// Mean bytes of a response's body over all requests.
    pub response_mean_bytes: f64,
    /// Standard deviation of ln(response bytes). It is 1.63 for the successful requests of day 6.
    pub response_sigma: f64,
    /// Share of the variance of ln(response bytes) between sessions, 0 to 1. At 1, all responses of
    /// a session have the same size. It is 0.22 for day 6 (one-way random effects).
    pub response_session_share: f64,
    pub requests_per_session_mean: f64,
    /// Standard deviation of ln(requests of a session) before rounding up to whole requests.
    pub requests_per_session_sigma: f64,
    /// Share of the variance of ln(requests of a session) between clients, 0 to 1. At 1, all
    /// sessions of a client have the same length. It is 0.11 for day 6.
    pub requests_client_share: f64,
    /// Number of objects that clients request. It must be a multiple of `size_classes`.
    pub objects: u32,
    /// Number of classes of objects of similar size. All classes are drawn equally often.
    pub size_classes: u32,
    /// Exponent of Zipf's law inside a size class. With 100 classes and an exponent of 1.9, the 100
    /// most popular objects get 57 % of the requests, and the 300 most popular get 80 %. On day 6
    /// they got 58 % and 84 %.
    pub popularity_exponent: f64,
    /// Number of clients. All have equally many sessions on average.
    pub clients: u32,
}

impl LognormalSessions {
    /// Workload W, like the 1998 World Cup.
    pub fn world_cup() -> Self {
        Self {
            response_mean_bytes: 7000.0,
            response_sigma: 1.63,
            response_session_share: 0.22,
            requests_per_session_mean: 7.0,
            requests_per_session_sigma: 1.5,
            requests_client_share: 0.11,
            objects: 20_000,
            size_classes: 100,
            popularity_exponent: 1.9,
            clients: 17_500,
        }
    }

    /// Workload I, like IBM's site. The trace of that site is unpublished. So the parameters are
    /// those of W with smaller responses: a request has at most 0.73 times as many packets as in W.
    pub fn ibm() -> Self {
        Self {
            response_mean_bytes: 3800.0,
            ..Self::world_cup()
        }
    }

    /// A generator with a seed.
    ///
    /// # Errors
    /// The error names the first parameter that is out of its range.
    pub fn generator(&self, seed: u64) -> Result<LognormalGenerator, ParameterError> {
        self.check()?;
        let sigma = self.requests_per_session_sigma;
        let mut traits = Stream::new(seed, "client traits");
        Ok(LognormalGenerator {
            catalogue: Catalogue::new(
                self.response_mean_bytes,
                self.response_sigma,
                self.objects,
                self.size_classes,
                self.popularity_exponent,
            ),
            client_length: (0..self.clients)
                .map(|_| libm::sqrt(self.requests_client_share) * traits.normal())
                .collect(),
            length_mu: mu_of_rounded_up(self.requests_per_session_mean, sigma),
            length_sigma: sigma,
            length_own: libm::sqrt(1.0 - self.requests_client_share),
            size_shared: libm::sqrt(self.response_session_share),
            size_own: libm::sqrt(1.0 - self.response_session_share),
            clients: Stream::new(seed, "clients"),
            lengths: Stream::new(seed, "session lengths"),
            factors: Stream::new(seed, "session sizes"),
            sizes: Stream::new(seed, "request sizes"),
            popularity: Stream::new(seed, "object popularity"),
        })
    }

    /// Checks every parameter, as [`generator`](Self::generator) does first.
    ///
    /// # Errors
    /// The error names the first parameter that is out of its range.
    pub fn check(&self) -> Result<(), ParameterError> {
        let (sizes, lengths) = (self.response_sigma, self.requests_per_session_sigma);
        require_ranges(&[
            ("response_mean_bytes", self.response_mean_bytes, 1.0, 1e6),
            ("response_sigma", sizes, 0.0, 3.0),
            (
                "response_session_share",
                self.response_session_share,
                0.0,
                1.0,
            ),
            (
                "requests_per_session_mean",
                self.requests_per_session_mean,
                1.0,
                1e3,
            ),
            ("requests_per_session_sigma", lengths, 0.0, 3.0),
            (
                "requests_client_share",
                self.requests_client_share,
                0.0,
                1.0,
            ),
            ("size_classes", self.size_classes.into(), 1.0, 1e4),
            ("popularity_exponent", self.popularity_exponent, 0.0, 10.0),
            ("clients", self.clients.into(), 1.0, 1e8),
        ])?;
        require(
            (1..=10_000_000).contains(&self.objects)
                && self.objects.is_multiple_of(self.size_classes),
            "objects",
            self.objects,
            "a multiple of size_classes, at most 10000000",
        )
    }
}

/// Sessions of the World Cup and IBM kind.
#[derive(Clone, Debug)]
pub struct LognormalGenerator {
    catalogue: Catalogue,
    /// For each client, a constant that is added to the deviate of its sessions' lengths.
    client_length: Vec<f64>,
    length_mu: f64,
    length_sigma: f64,
    length_own: f64,
    size_shared: f64,
    size_own: f64,
    clients: Stream,
    lengths: Stream,
    factors: Stream,
    sizes: Stream,
    popularity: Stream,
}

impl SessionSource for LognormalGenerator {
    fn next_session(&mut self, requests: &mut Vec<PlannedRequest>) -> u32 {
        let client = self.clients.below(self.client_length.len() as u32);
        let deviate = self.client_length[client as usize] + self.length_own * self.lengths.normal();
        let length = libm::exp(self.length_mu + self.length_sigma * deviate);
        let factor = self.size_shared * self.factors.normal();
        requests.clear();
        for _ in 0..rounded_up(length) {
            let deviate = factor + self.size_own * self.sizes.normal();
            let (object, response_bytes) = self.catalogue.draw(deviate, &mut self.popularity);
            requests.push(PlannedRequest {
                object,
                response_bytes,
                dynamic: false,
            });
        }
        client
    }
}

/// A length in whole requests: at least one, at most the limit.
#[inline]
fn rounded_up(length: f64) -> u32 {
    libm::ceil(length).clamp(1.0, REQUESTS_PER_SESSION_LIMIT) as u32
}

/// The mean of ln(length) for which lengths, rounded up, have the mean `mean`.
///
/// The secant method starts at the value for which rounding up would add a half. It needs about six
/// evaluations of a long sum. Bisection would need fifty.
fn mu_of_rounded_up(mean: f64, sigma: f64) -> f64 {
    const CLOSE_ENOUGH: f64 = 1e-12;
    let range = (-40.0, libm::log(REQUESTS_PER_SESSION_LIMIT));
    let missed = |mu: f64| mean_of_rounded_up(mu, sigma) - mean;
    let guess = libm::log((mean - 0.5).max(0.01)) - sigma * sigma / 2.0;
    let (mut before, mut mu) = (guess - 0.1, guess.clamp(range.0, range.1));
    let (mut missed_before, mut missed_now) = (missed(before), missed(mu));
    for _ in 0..60 {
        let slope = (missed_now - missed_before) / (mu - before);
        if libm::fabs(mu - before) < CLOSE_ENOUGH || slope <= 0.0 || !slope.is_finite() {
            break;
        }
        (before, missed_before) = (mu, missed_now);
        mu = (mu - missed_now / slope).clamp(range.0, range.1);
        missed_now = missed(mu);
    }
    mu
}

/// The mean length after rounding up: 1 + P(length > 1) + P(length > 2) + ...
fn mean_of_rounded_up(mu: f64, sigma: f64) -> f64 {
    let mut mean = 1.0;
    let mut requests = 1.0;
    while requests < REQUESTS_PER_SESSION_LIMIT {
        let above = mu - libm::log(requests);
        let longer = if sigma > 0.0 {
            normal::cumulative(above / sigma)
        } else {
            f64::from(u8::from(above > 0.0))
        };
        if longer < 1e-12 {
            break;
        }
        mean += longer;
        requests += 1.0;
    }
    mean
}
