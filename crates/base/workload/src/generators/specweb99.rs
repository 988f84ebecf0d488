//! SPECweb99's file set and request mix, static or with dynamic requests.
//!
//! Each request names a directory and a file in it, both by Zipf's law. A request shares a
//! kept-alive connection with others or has a connection of its own. Here the benchmark's four
//! dynamic operations are one kind: the server computes a response with the size of the requested
//! file. The network model limits a client's reads to 400 kb/s.

use serde::{Deserialize, Serialize};

use crate::generators::parameter::{ParameterError, require_ranges};
use crate::generators::random::{AliasTable, Stream, zipf_weights};
use crate::sessions::planned::{PlannedRequest, SessionSource};

pub const FILES_PER_CLASS: u32 = 9;
/// Number of files in a directory, which has four classes.
pub const FILES_PER_DIRECTORY: u32 = 4 * FILES_PER_CLASS;
/// Shares of the four classes among requests.
pub const CLASS_SHARES: [f64; 4] = [0.35, 0.50, 0.14, 0.01];
/// Files of a class from the most to the least popular.
const POPULARITY_ORDER: [u32; 9] = [4, 3, 5, 2, 6, 1, 7, 8, 0];
/// Smallest and largest number of requests of a kept-alive connection. The number is drawn
/// uniformly.
const KEEP_ALIVE_REQUESTS: (u32, u32) = (5, 15);

/// Parameters of a SPECweb99 workload.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct SpecWeb99 {
    /// Number of simultaneous connections. Each one is a client. The number of directories depends
    /// on it.
    pub connections: u32,
    /// Fraction of requests that are dynamic, 0 to 1. It is 0.30 in the benchmark's own mix.
    pub dynamic_share: f64,
    /// Share of requests that come over kept-alive connections, 0 to 1.
    pub keep_alive_share: f64,
}

impl SpecWeb99 {
    /// Workload S: static requests only.
    pub fn static_only(connections: u32) -> Self {
        Self {
            connections,
            dynamic_share: 0.0,
            keep_alive_share: 0.70,
        }
    }

    /// Workload D: 70 % static, 30 % dynamic.
    pub fn mixed(connections: u32) -> Self {
        Self {
            dynamic_share: 0.30,
            ..Self::static_only(connections)
        }
    }

    /// Number of directories of the file set: floor(25 + (400000 / 122000) L / 5) for L
    /// connections.
    pub fn directories(&self) -> u32 {
        // 400000 / 122000 / 5 = 40 / 61. Integers avoid rounding before the floor.
        (25 + 40 * u64::from(self.connections) / 61) as u32
    }

    pub fn requests_per_session_mean(&self) -> f64 {
        1.0 / (self.keep_alive_share / keep_alive_mean() + 1.0 - self.keep_alive_share)
    }

    /// The fraction of sessions that are kept alive. With it, the fraction of *requests* in
    /// kept-alive sessions is `keep_alive_share`.
    fn keep_alive_session_share(&self) -> f64 {
        self.keep_alive_share / keep_alive_mean() * self.requests_per_session_mean()
    }

    /// A generator with a seed.
    ///
    /// # Errors
    /// The error names the first parameter that is out of its range.
    pub fn generator(&self, seed: u64) -> Result<SpecWeb99Generator, ParameterError> {
        self.check()?;
        Ok(SpecWeb99Generator {
            connections: self.connections,
            dynamic_share: self.dynamic_share,
            keep_alive_session_share: self.keep_alive_session_share(),
            directories: AliasTable::new(&zipf_weights(self.directories(), 1.0)),
            files: AliasTable::new(&file_weights()),
            size_bytes: core::array::from_fn(|file| file_bytes(file as u32)),
            clients: Stream::new(seed, "clients"),
            lengths: Stream::new(seed, "session lengths"),
            objects: Stream::new(seed, "objects"),
            kinds: Stream::new(seed, "static or dynamic"),
        })
    }

    /// Checks every parameter, as [`generator`](Self::generator) does first.
    ///
    /// # Errors
    /// The error names the first parameter that is out of its range.
    pub fn check(&self) -> Result<(), ParameterError> {
        require_ranges(&[
            ("connections", self.connections.into(), 1.0, 1e6),
            ("dynamic_share", self.dynamic_share, 0.0, 1.0),
            ("keep_alive_share", self.keep_alive_share, 0.0, 1.0),
        ])
    }
}

/// Size in bytes of one of the 36 files of a directory. File i of class c has (i + 1) x 0.1 KiB x
/// 10^c, rounded down.
pub fn file_bytes(file_of_directory: u32) -> u32 {
    let (class, file) = (
        file_of_directory / FILES_PER_CLASS,
        file_of_directory % FILES_PER_CLASS,
    );
    (file + 1) * 1024 * 10u32.pow(class) / 10
}

/// Path of an object under the server's root.
pub fn object_path(object: u32) -> String {
    let (directory, file) = (object / FILES_PER_DIRECTORY, object % FILES_PER_DIRECTORY);
    let (class, file) = (file / FILES_PER_CLASS, file % FILES_PER_CLASS);
    format!("/file_set/dir{directory:05}/class{class}_{file}")
}

/// Weights of the 36 files of a directory.
fn file_weights() -> [f64; FILES_PER_DIRECTORY as usize] {
    let zipf = zipf_weights(FILES_PER_CLASS, 1.0);
    let total: f64 = zipf.iter().sum();
    let mut weights = [0.0; FILES_PER_DIRECTORY as usize];
    for (class, share) in CLASS_SHARES.iter().enumerate() {
        for (file, weight) in POPULARITY_ORDER.iter().zip(&zipf) {
            weights[class * FILES_PER_CLASS as usize + *file as usize] = share * weight / total;
        }
    }
    weights
}

/// Mean requests of a kept-alive session.
fn keep_alive_mean() -> f64 {
    f64::from(KEEP_ALIVE_REQUESTS.0 + KEEP_ALIVE_REQUESTS.1) / 2.0
}

/// Sessions of SPECweb99. Object d x 36 + c x 9 + i is file i of class c in directory d.
#[derive(Clone, Debug)]
pub struct SpecWeb99Generator {
    connections: u32,
    dynamic_share: f64,
    keep_alive_session_share: f64,
    directories: AliasTable,
    files: AliasTable,
    size_bytes: [u32; FILES_PER_DIRECTORY as usize],
    clients: Stream,
    lengths: Stream,
    objects: Stream,
    kinds: Stream,
}

impl SessionSource for SpecWeb99Generator {
    fn next_session(&mut self, requests: &mut Vec<PlannedRequest>) -> u32 {
        let (fewest, most) = KEEP_ALIVE_REQUESTS;
        let keep_alive = self.lengths.uniform() < self.keep_alive_session_share;
        let length = if keep_alive {
            fewest + self.lengths.below(most - fewest + 1)
        } else {
            1
        };
        requests.clear();
        for _ in 0..length {
            let directory = self.directories.draw(&mut self.objects);
            let file = self.files.draw(&mut self.objects);
            requests.push(PlannedRequest {
                object: directory * FILES_PER_DIRECTORY + file,
                response_bytes: self.size_bytes[file as usize],
                dynamic: self.kinds.uniform() < self.dynamic_share,
            });
        }
        self.clients.below(self.connections)
    }
}
