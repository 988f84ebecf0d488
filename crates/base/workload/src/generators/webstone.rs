//! WebStone 2.5: five files, one request a connection.

use crate::generators::random::{AliasTable, Stream};

/// Path, size in bytes and fraction of the requests of each file.
pub const FILES: [(&str, u32, f64); 5] = [
    ("/webstone/file500.html", 500, 0.35),
    ("/webstone/file5k.html", 5_000, 0.50),
    ("/webstone/file50k.html", 50_000, 0.14),
    ("/webstone/file500k.html", 500_000, 0.009),
    ("/webstone/file5m.html", 5_000_000, 0.001),
];

/// Requests of WebStone's clients.
#[derive(Clone, Debug)]
pub struct WebStoneGenerator {
    shares: AliasTable,
    stream: Stream,
}

impl WebStoneGenerator {
    pub fn new(seed: u64) -> Self {
        Self {
            shares: AliasTable::new(&FILES.map(|(.., share)| share)),
            stream: Stream::new(seed, "objects"),
        }
    }

    /// The next file: its index in [`FILES`] and its size in bytes.
    pub fn next_request(&mut self) -> (u32, u32) {
        let object = self.shares.draw(&mut self.stream);
        (object, FILES[object as usize].1)
    }
}
