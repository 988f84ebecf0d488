//! `load files`.

use std::path::PathBuf;

use perpacket_load::{FileSet, FileSetReport, make_files};
use serde::Serialize;

use super::failure;
use crate::options::{Size, refuse_ignored};
use crate::output::Shared;
use crate::status::{Failure, Status};

const EXAMPLE: &str = "Examples:
  perpacket-agent load files specweb99 --connections 100 --into /srv/web
  perpacket-agent load files trace --trace access.log --into /srv/web";

/// Connections, if the option is absent.
const DEFAULT_CONNECTIONS: u32 = 100;
const DEFAULT_SEED: u64 = 1;

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
enum Set {
    /// SPECweb99: the directories for the number of `--connections`.
    #[value(name = "specweb99")]
    SpecWeb99,
    /// Surge: 20,000 files, 480 MB.
    Surge,
    /// WebStone: five files.
    #[value(name = "webstone")]
    WebStone,
    /// World Cup 1998: the objects that the generator makes from `--seed`.
    #[value(name = "worldcup")]
    WorldCup,
    /// IBM: the objects that the generator makes from `--seed`.
    Ibm,
    /// The objects of the log `--trace`, each with the largest size of its responses with status
    /// 200.
    Trace,
}

/// Options of `load files`.
#[derive(Clone, Debug, clap::Args, Serialize)]
#[command(after_help = EXAMPLE)]
#[serde(rename_all = "kebab-case")]
pub struct Arguments {
    /// The workload.
    #[arg(value_enum)]
    workload: Set,
    /// The root directory of the server, created if necessary.
    #[arg(long, value_name = "DIR")]
    into: PathBuf,
    /// Simultaneous connections of SPECweb99, which set the number of directories [default: 100].
    #[arg(long, value_name = "L")]
    connections: Option<u32>,
    /// The log of `trace`.
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// Paths of the objects of a World Cup 1998 log.
    #[arg(long, value_name = "FILE")]
    object_mappings: Option<PathBuf>,
    /// Seed of the load that will request the files, for `worldcup` and `ibm` [default: 1].
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Refuse to make more bytes than this.
    #[arg(long, value_name = "SIZE", default_value_t = Size(10_000_000_000))]
    size_limit: Size,
    #[command(flatten)]
    #[serde(skip)]
    shared: Shared,
}

/// Runs the subcommand.
pub fn run(arguments: &Arguments) -> Result<Status, Failure> {
    let set = arguments.set()?;
    if arguments.shared.shows_config(&arguments.resolved(&set))? {
        return Ok(Status::Done);
    }
    let report = make_files(&set, &arguments.into, arguments.size_limit.0).map_err(failure)?;
    arguments.shared.print(&report, table)?;
    Ok(Status::Done)
}

impl Arguments {
    /// The options with all defaults.
    fn resolved(&self, set: &FileSet) -> Self {
        let mut all = self.clone();
        match set {
            FileSet::SpecWeb99 { connections } => all.connections = Some(*connections),
            FileSet::WorldCup { seed } | FileSet::Ibm { seed } => all.seed = Some(*seed),
            FileSet::Surge | FileSet::WebStone | FileSet::Trace { .. } => {}
        }
        all
    }

    fn set(&self) -> Result<FileSet, Failure> {
        refuse_ignored(&[
            (
                self.connections.is_some() && self.workload != Set::SpecWeb99,
                "connections",
                "on other files than specweb99's",
            ),
            (
                self.seed.is_some() && !matches!(self.workload, Set::WorldCup | Set::Ibm),
                "seed",
                "on other files than worldcup's and ibm's",
            ),
            (
                self.object_mappings.is_some() && self.workload != Set::Trace,
                "object-mappings",
                "on other files than a trace's",
            ),
        ])?;
        let seed = self.seed.unwrap_or(DEFAULT_SEED);
        Ok(match (self.workload, &self.trace) {
            (Set::Trace, Some(file)) => FileSet::Trace {
                file: file.clone(),
                objects: self.object_mappings.clone(),
            },
            (Set::Trace, None) => {
                return Err(Failure::usage(
                    "files trace: no log: name it with `--trace FILE`",
                ));
            }
            (_, Some(_)) => return Err(Failure::usage("--trace: only `files trace` reads a log")),
            (Set::SpecWeb99, None) => FileSet::SpecWeb99 {
                connections: self.connections.unwrap_or(DEFAULT_CONNECTIONS),
            },
            (Set::Surge, None) => FileSet::Surge,
            (Set::WebStone, None) => FileSet::WebStone,
            (Set::WorldCup, None) => FileSet::WorldCup { seed },
            (Set::Ibm, None) => FileSet::Ibm { seed },
        })
    }
}

fn table(report: &FileSetReport) -> String {
    let mut text = format!(
        "{}: {} files created, {} bytes; {} existed\n",
        report.into, report.files, report.bytes, report.kept
    );
    if report.left_out > 0 {
        text.push_str(&format!(
            "{} objects cannot be files, such as {}\n",
            report.left_out,
            report.left_out_examples.join(", ")
        ));
    }
    text
}
