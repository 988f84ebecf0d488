//! Surge: users that read pages and think (Barford and Crovella, SIGMETRICS 1998).
//!
//! A user requests the files of a page one after the other with short pauses, thinks, and requests
//! the next page. The paper specifies the distributions of file sizes, of requested sizes and of
//! popularity. The assignment of popularity ranks to files satisfies all three.
//!
//! Pareto distributions with an alpha below 2 have no finite variance, and the mean of Surge's
//! tail, with an alpha near 1, is barely finite. So every draw with a heavy tail is capped. The
//! caps are parameters, and reports print them.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::normal;
use crate::generators::parameter::{ParameterError, require, require_ranges};
use crate::generators::random::{AliasTable, Stream, zipf_weights};

/// Maximum number of requests between a request and its repetition.
const HISTORY: usize = 1024;
/// Number of files in a bin. The files of a bin have similar sizes and one quota of requests.
const FILES_PER_BIN: usize = 50;
/// Maximum number of bins. The limit exists because each rank compares all bins.
const BINS_LIMIT: usize = 400;

/// Parameters of Surge. The defaults are the published values, except where a comment states
/// otherwise.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Surge {
    /// Number of files on the server.
    pub files: u32,
    /// Total bytes of all files. The number of files in the tail follows from it.
    pub total_bytes: u64,
    /// Mean of ln(bytes) of the files in the body of the distribution of sizes.
    pub body_mu: f64,
    /// Standard deviation of ln(bytes) of the body.
    pub body_sigma: f64,
    /// Bytes at which the tail begins: the Pareto distribution's k.
    pub tail_bytes: f64,
    /// Exponent of the tail.
    pub tail_alpha: f64,
    /// Bytes of the largest file. The default is the largest of the Surge load of Patwardhan, Lebeck
    /// and Sorin (ISPASS 2004, section 4.1.2).
    pub tail_limit_bytes: f64,
    /// Smallest size of the Pareto distribution of requested bytes, whose exponent is 1.
    pub request_bytes: f64,
    /// Exponent of Zipf's law of popularity.
    pub popularity_exponent: f64,
    /// Fraction of requests that repeat a recent request. The paper instead reorders a finished
    /// list of requests.
    pub locality_share: f64,
    /// Mean of ln(distance) to the repeated request.
    pub distance_mu: f64,
    /// Standard deviation of ln(distance).
    pub distance_sigma: f64,
    /// Exponent of the Pareto distribution of the number of files in a page. The distribution
    /// begins at 1.
    pub page_alpha: f64,
    /// Maximum number of files in a page. This limit is not in the paper.
    pub page_limit: u32,
    /// Weibull scale, in seconds, of the pause between two files of a page.
    pub active_off_scale_s: f64,
    /// Weibull shape of that pause.
    pub active_off_shape: f64,
    /// Longest such pause. This limit is not in the paper.
    pub active_off_limit_s: f64,
    /// Shortest think time: the k of the Pareto distribution.
    pub think_s: f64,
    /// Exponent of the think time.
    pub think_alpha: f64,
    /// Longest think time. This limit is not in the paper.
    pub think_limit_s: f64,
}

impl Default for Surge {
    fn default() -> Self {
        Self {
            files: 20_000,
            total_bytes: 480_000_000,
            body_mu: 9.357,
            body_sigma: 1.318,
            tail_bytes: 133_000.0,
            tail_alpha: 1.1,
            tail_limit_bytes: 6e6,
            request_bytes: 1000.0,
            popularity_exponent: 1.0,
            locality_share: 0.3,
            distance_mu: 1.5,
            distance_sigma: 0.80,
            page_alpha: 2.43,
            page_limit: 150,
            active_off_scale_s: 1.46,
            active_off_shape: 0.382,
            active_off_limit_s: 300.0,
            think_s: 1.0,
            think_alpha: 1.5,
            think_limit_s: 1800.0,
        }
    }
}

/// One request of a user.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SurgeRequest {
    /// The file, by rank of popularity from 0.
    pub object: u32,
    pub response_bytes: u32,
    /// Wait before the request, in seconds: the think time before the first file of a page, and a
    /// pause before other files.
    pub wait_s: f64,
}

impl Surge {
    /// Checks every parameter, as [`generator`](Self::generator) does first.
    ///
    /// # Errors
    /// The error names the first parameter that is out of its range.
    pub fn check(&self) -> Result<(), ParameterError> {
        let positive = [
            ("body_sigma", self.body_sigma),
            ("tail_bytes", self.tail_bytes),
            ("tail_alpha", self.tail_alpha),
            ("request_bytes", self.request_bytes),
            ("popularity_exponent", self.popularity_exponent),
            ("distance_sigma", self.distance_sigma),
            ("page_alpha", self.page_alpha),
            ("active_off_scale_s", self.active_off_scale_s),
            ("active_off_shape", self.active_off_shape),
            ("think_s", self.think_s),
            ("think_alpha", self.think_alpha),
        ];
        for (name, value) in positive {
            require(value > 0.0 && value.is_finite(), name, value, "above 0")?;
        }
        require_ranges(&[
            ("files", self.files.into(), 100.0, 1e7),
            ("locality_share", self.locality_share, 0.0, 0.9),
            ("page_limit", self.page_limit.into(), 1.0, u32::MAX.into()),
        ])?;
        require(
            self.tail_limit_bytes > self.tail_bytes && self.tail_limit_bytes < 4e9,
            "tail_limit_bytes",
            self.tail_limit_bytes,
            "above tail_bytes and below 4e9",
        )?;
        let share = self.tail_share();
        require(
            (0.0..=0.5).contains(&share),
            "total_bytes",
            self.total_bytes,
            "a possible sum of file sizes with at most half of the files in the tail",
        )
    }

    /// The fraction of files in the tail for which all files together have `total_bytes`.
    pub fn tail_share(&self) -> f64 {
        let mean = self.total_bytes as f64 / f64::from(self.files);
        let body = self.body_mean_bytes();
        (mean - body) / (self.tail_mean_bytes() - body)
    }

    /// Mean of a lognormal distribution cut at `tail_bytes`.
    fn body_mean_bytes(&self) -> f64 {
        let cut = (libm::log(self.tail_bytes) - self.body_mu) / self.body_sigma;
        libm::exp(self.body_mu + self.body_sigma * self.body_sigma / 2.0)
            * normal::cumulative(cut - self.body_sigma)
            / normal::cumulative(cut)
    }

    /// Mean of a Pareto distribution cut at `tail_limit_bytes`.
    fn tail_mean_bytes(&self) -> f64 {
        let (k, alpha) = (self.tail_bytes, self.tail_alpha);
        let ratio = k / self.tail_limit_bytes;
        let above = 1.0 - libm::pow(ratio, alpha);
        if (alpha - 1.0).abs() < 1e-9 {
            return k * -libm::log(ratio) / above;
        }
        k * alpha / (alpha - 1.0) * (1.0 - libm::pow(ratio, alpha - 1.0)) / above
    }

    /// A quantile of the sizes of the body's files.
    fn body_quantile_bytes(&self, share: f64) -> f64 {
        let cut = (libm::log(self.tail_bytes) - self.body_mu) / self.body_sigma;
        let deviate = normal::quantile(share * normal::cumulative(cut));
        libm::exp(self.body_mu + self.body_sigma * deviate)
    }

    /// A quantile of the sizes of the tail's files.
    fn tail_quantile_bytes(&self, share: f64) -> f64 {
        let above = 1.0 - libm::pow(self.tail_bytes / self.tail_limit_bytes, self.tail_alpha);
        self.tail_bytes / libm::pow(1.0 - share * above, 1.0 / self.tail_alpha)
    }

    /// The size of a new file. `uniform` is a uniform number in (0, 1).
    pub fn size_bytes(&self, uniform: f64) -> f64 {
        let tail = self.tail_share();
        if uniform < tail {
            self.tail_quantile_bytes(uniform / tail)
        } else {
            self.body_quantile_bytes((uniform - tail) / (1.0 - tail))
        }
    }

    /// Sizes of the files in bytes, in ascending order. They are quantiles of the distribution, so
    /// that the files have its mean.
    fn sorted_sizes(&self) -> Vec<u32> {
        let tail = libm::rint(self.tail_share() * f64::from(self.files)) as u32;
        let body = self.files - tail;
        let middle = |index: u32, count: u32| (f64::from(index) + 0.5) / f64::from(count);
        let body = (0..body).map(|index| self.body_quantile_bytes(middle(index, body)));
        let tail = (0..tail).map(|index| self.tail_quantile_bytes(middle(index, tail)));
        let size = |bytes: f64| libm::rint(bytes).max(1.0) as u32;
        body.chain(tail).map(size).collect()
    }

    /// Sizes of the files in bytes, from the most to the least popular file.
    ///
    /// Files of similar size form a bin. The quota of a bin is the fraction of requests that the
    /// Pareto distribution of requested sizes has between the bounds of the bin. Ranks are assigned
    /// to bins in order of popularity, the most popular first. Each rank goes to the bin with the
    /// largest remaining quota. If the rank has more requests than that quota, the rest is
    /// subtracted from the quotas of the nearest bins, which changes requested sizes least.
    ///
    /// # Errors
    /// The error names the first parameter that is out of its range.
    pub fn file_sizes(&self) -> Result<Vec<u32>, ParameterError> {
        self.check()?;
        let sorted = self.sorted_sizes();
        let files_per_bin = FILES_PER_BIN.max(sorted.len() / BINS_LIMIT);
        let mut bins: Vec<_> = sorted.chunks(files_per_bin).map(<[u32]>::iter).collect();
        let mut due = Vec::with_capacity(bins.len());
        let mut below = 0.0;
        for (index, bin) in sorted.chunks(files_per_bin).enumerate() {
            let largest = f64::from(bin[bin.len() - 1]);
            let upto = match index + 1 == bins.len() {
                true => 1.0,
                false => (1.0 - self.request_bytes / largest).max(0.0),
            };
            due.push(upto - below);
            below = upto;
        }
        let weights = zipf_weights(self.files, self.popularity_exponent);
        let total: f64 = weights.iter().sum();
        let mut sizes = Vec::with_capacity(sorted.len());
        for weight in weights {
            let open = (0..bins.len()).filter(|bin| bins[*bin].len() > 0);
            let Some(bin) = open.max_by(|a, b| due[*a].total_cmp(&due[*b])) else {
                break;
            };
            sizes.extend(bins[bin].next());
            subtract_around(&mut due, bin, weight / total);
        }
        Ok(sizes)
    }

    /// A generator of one user's pages, with a seed.
    ///
    /// # Errors
    /// The error names the first parameter that is out of its range.
    pub fn generator(&self, seed: u64) -> Result<SurgeGenerator, ParameterError> {
        Ok(SurgeGenerator {
            size_bytes: self.file_sizes()?.into(),
            popularity: AliasTable::new(&zipf_weights(self.files, self.popularity_exponent)).into(),
            recent: Vec::with_capacity(HISTORY),
            at: 0,
            streams: Streams::new(seed),
            parameters: self.clone(),
        })
    }
}

/// Subtracts a share from a bin, and the rest from its nearest neighbours.
fn subtract_around(due: &mut [f64], bin: usize, share: f64) {
    let mut left = share;
    for distance in 0..due.len() {
        let above = Some(bin + distance);
        let under = bin.checked_sub(distance).filter(|_| distance > 0);
        for place in [above, under].into_iter().flatten() {
            if let Some(own) = due.get_mut(place) {
                let taken = own.min(left);
                *own -= taken;
                left -= taken;
            }
        }
        if left <= 0.0 {
            return;
        }
    }
}

/// Pages of Surge. Clones share the tables.
#[derive(Clone, Debug)]
pub struct SurgeGenerator {
    parameters: Surge,
    size_bytes: Arc<[u32]>,
    popularity: Arc<AliasTable>,
    /// The last requested objects, as a ring buffer.
    recent: Vec<u32>,
    at: usize,
    streams: Streams,
}

/// One random stream for each purpose.
#[derive(Clone, Debug)]
struct Streams {
    objects: Stream,
    locality: Stream,
    pages: Stream,
    waits: Stream,
}

impl Streams {
    fn new(seed: u64) -> Self {
        Self {
            objects: Stream::new(seed, "objects"),
            locality: Stream::new(seed, "locality"),
            pages: Stream::new(seed, "pages"),
            waits: Stream::new(seed, "waits"),
        }
    }
}

impl SurgeGenerator {
    /// The same tables with random streams of another seed.
    pub fn with_seed(&self, seed: u64) -> Self {
        Self {
            recent: Vec::with_capacity(HISTORY),
            at: 0,
            streams: Streams::new(seed),
            ..self.clone()
        }
    }

    /// Sizes of the files in bytes, from the most to the least popular file.
    pub fn sizes(&self) -> &[u32] {
        &self.size_bytes
    }

    /// Replaces `page` by the files of the next page.
    pub fn next_page(&mut self, page: &mut Vec<SurgeRequest>) {
        let parameters = &self.parameters;
        let files = libm::pow(self.streams.pages.uniform(), -1.0 / parameters.page_alpha);
        let files = (files as u32).clamp(1, parameters.page_limit);
        page.clear();
        for place in 0..files {
            let wait_s = if place == 0 {
                self.think_s()
            } else {
                self.active_off_s()
            };
            let object = self.object();
            page.push(SurgeRequest {
                object,
                response_bytes: self.size_bytes[object as usize],
                wait_s,
            });
        }
    }

    /// The next file.
    ///
    /// A repeated request repeats one of the recent requests. So every request has Zipf's
    /// distribution, for any fraction of repeated requests.
    fn object(&mut self) -> u32 {
        let parameters = &self.parameters;
        let repeats = self.streams.locality.uniform() < parameters.locality_share;
        let deviate = self.streams.locality.normal();
        let distance = libm::exp(parameters.distance_mu + parameters.distance_sigma * deviate);
        let distance = libm::ceil(distance) as usize;
        let object = if repeats && distance <= self.recent.len() {
            self.recent[(self.at + HISTORY - distance) % HISTORY]
        } else {
            self.popularity.draw(&mut self.streams.objects)
        };
        if self.recent.len() < HISTORY {
            self.recent.push(object);
        } else {
            self.recent[self.at] = object;
        }
        self.at = (self.at + 1) % HISTORY;
        object
    }

    /// Think time before a page.
    fn think_s(&mut self) -> f64 {
        let parameters = &self.parameters;
        let drawn = parameters.think_s
            * libm::pow(self.streams.waits.uniform(), -1.0 / parameters.think_alpha);
        drawn.min(parameters.think_limit_s)
    }

    /// Pause between two files of a page.
    fn active_off_s(&mut self) -> f64 {
        let parameters = &self.parameters;
        let drawn = parameters.active_off_scale_s
            * libm::pow(
                self.streams.waits.exponential(),
                1.0 / parameters.active_off_shape,
            );
        drawn.min(parameters.active_off_limit_s)
    }
}

/// Path of a file under the server's root.
pub fn object_path(object: u32) -> String {
    format!("/surge/file{object:05}")
}
