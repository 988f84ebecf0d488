//! The kernel's accounts of processor time, for users who are not allowed to sample.
//!
//! Every user may read `/proc/stat`. The file counts, in ticks, how long each processor was in user
//! code, in the kernel, in interrupts and idle. It has no layers, so kernel time is in no layer.

use std::path::PathBuf;

use perpacket_cost::Layer;
use perpacket_linux::clock::monotonic_ns;
use perpacket_linux::text;

use crate::capture::events::Pass;
use crate::capture::{Backend, EventProvider, EventSource, GroupCounts, Record};
use crate::count::TICKS_PER_S;
use crate::error::ProfileError;

/// The file of the accounts (Linux, `fs/proc/stat.c`).
pub const STAT: &str = "/proc/stat";

/// The layer of each column in a processor's line. Stolen time is omitted, because this machine did
/// not run in it.
const COLUMNS: [Layer; 7] = [
    Layer::User,
    Layer::User,
    Layer::Other,
    Layer::Idle,
    Layer::Idle,
    Layer::Interrupt,
    Layer::Interrupt,
];

/// Opens the accounts of this machine, or accounts in another file.
#[derive(Clone, Debug)]
pub struct Accounts {
    /// The file.
    pub stat: PathBuf,
}

impl Default for Accounts {
    fn default() -> Self {
        Self { stat: STAT.into() }
    }
}

impl EventProvider for Accounts {
    fn backend(&self) -> Backend {
        Backend::Accounts
    }

    fn open(&self, _pass: &Pass, cpus: &[usize]) -> Result<Box<dyn EventSource>, ProfileError> {
        let mut source = AccountSource {
            stat: self.stat.clone(),
            cpus: cpus.to_vec(),
            ticks: Vec::new(),
            undrained: Vec::new(),
            running: false,
        };
        source.ticks = source.read()?;
        Ok(Box::new(source))
    }
}

struct AccountSource {
    stat: PathBuf,
    cpus: Vec<usize>,
    /// The ticks in all columns of all processors at the last read.
    ticks: Vec<u64>,
    /// Ticks between the last drain and the stop.
    undrained: Vec<u64>,
    running: bool,
}

impl AccountSource {
    fn read(&self) -> Result<Vec<u64>, ProfileError> {
        let text = text::read(&self.stat).map_err(|error| ProfileError::file(&self.stat, error))?;
        Ok(text
            .lines()
            .filter_map(|line| {
                let (name, columns) = line.split_once(' ')?;
                let cpu: usize = name.strip_prefix("cpu")?.parse().ok()?;
                self.cpus.contains(&cpu).then_some(columns)
            })
            .flat_map(|columns| columns.split_ascii_whitespace().take(COLUMNS.len()))
            .filter_map(|column| column.parse().ok())
            .collect())
    }

    /// Ticks since the last read.
    fn elapsed(&mut self) -> Result<Vec<u64>, ProfileError> {
        let now = self.read()?;
        let before = std::mem::replace(&mut self.ticks, now);
        let pairs = self.ticks.iter().zip(&before);
        Ok(pairs
            .map(|(now, before)| now.saturating_sub(*before))
            .collect())
    }
}

impl EventSource for AccountSource {
    fn start(&mut self) -> Result<(), ProfileError> {
        self.ticks = self.read()?;
        self.running = true;
        Ok(())
    }

    fn drain(&mut self, sink: &mut dyn FnMut(&Record<'_>)) -> Result<(), ProfileError> {
        let elapsed = if self.running {
            self.elapsed()?
        } else {
            std::mem::take(&mut self.undrained)
        };
        let time_ns = monotonic_ns();
        for (layer, ticks) in COLUMNS.into_iter().cycle().zip(elapsed) {
            if ticks > 0 {
                sink(&Record::Account {
                    time_ns,
                    layer,
                    weight: ticks * (1_000_000_000 / TICKS_PER_S as u64),
                });
            }
        }
        Ok(())
    }

    fn stop(&mut self) -> Result<GroupCounts, ProfileError> {
        self.undrained = self.elapsed()?;
        self.running = false;
        Ok(GroupCounts::default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capture::events::EventSet;

    #[test]
    fn ticks_of_the_chosen_processors_become_time_by_layer() {
        let file = std::env::temp_dir().join(format!("perpacket-stat-{}", std::process::id()));
        let write = |user: u64, system: u64, softirq: u64| {
            let text = format!(
                "cpu  0 0 0 0 0 0 0\ncpu0 9 9 9 9 9 9 9 0\ncpu1 {user} 0 {system} 50 0 0 {softirq} 3\n"
            );
            std::fs::write(&file, text).unwrap();
        };
        write(10, 20, 30);
        let accounts = Accounts { stat: file.clone() };
        let pass = &EventSet::clock(499).unwrap().passes[0];
        let mut source = accounts.open(pass, &[1]).unwrap();
        source.start().unwrap();
        write(11, 22, 33);
        source.stop().unwrap();
        let mut found = Vec::new();
        source
            .drain(&mut |record| {
                if let Record::Account { layer, weight, .. } = record {
                    found.push((*layer, weight / 10_000_000));
                }
            })
            .unwrap();
        std::fs::remove_file(&file).unwrap();
        assert_eq!(
            found,
            [(Layer::User, 1), (Layer::Other, 2), (Layer::Interrupt, 3)]
        );
    }
}
