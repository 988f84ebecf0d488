//! The executable that runs beside the server under test. It also runs on machines without Python.
//!
//! Each verb has a file or a folder with its options, its table, and a call of the crate that does
//! the work. [`options`] has what several verbs share.

#![forbid(unsafe_code)]

// Other modules use its macro.
#[macro_use]
mod output;

mod added_cost;
mod bench;
mod config;
mod export;
mod guest;
mod link;
mod load;
mod media;
mod media_load;
mod media_server;
mod options;
mod probe;
mod profile;
mod program;
mod renamed;
mod route;
mod serve;
mod status;
mod stop;
mod table;

use std::env;
use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

use status::{Failure, Status};

const EXAMPLE: &str = "\
Example: a server, a load on it, and what each of its packets costs:

  perpacket-agent serve web --root site --listen 127.0.0.1:8080
  perpacket-agent load http http://127.0.0.1:8080/index.html --duration 20s
  perpacket-agent profile --duration 10s";

/// Servers, loads, links and profiles: perpacket's part beside the server under test.
#[derive(Parser)]
#[command(name = "perpacket-agent", version, arg_required_else_help = true, after_help = EXAMPLE)]
struct Arguments {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Run a server under test in the foreground until a signal.
    #[command(subcommand)]
    Serve(serve::Verb),
    /// Load a server and report its responses.
    #[command(subcommand)]
    Load(load::Verb),
    /// Join two hosts by a link with latency, bandwidth and loss.
    Link(Box<link::Arguments>),
    /// Measure what memory and context switches cost on this machine.
    #[command(subcommand)]
    Bench(bench::Verb),
    /// Check a router's forwarding and measure its throughput.
    #[command(subcommand)]
    Route(route::Verb),
    /// Spend a known processor time on every packet of an interface.
    AddCost(added_cost::Arguments),
    /// Generate media files to serve.
    #[command(subcommand)]
    Media(media::Verb),
    /// Report what a packet costs, layer by layer.
    Profile(profile::Arguments),
    /// Prepare an emulated machine from inside, for `perpacket emulate`.
    #[command(subcommand, hide = true)]
    Guest(guest::Verb),
    /// Serve the cost of packets as counters for Prometheus.
    Export(export::Arguments),
    /// Report what this machine can do, and what each missing capability costs.
    Probe(probe::Arguments),
}

fn main() -> ExitCode {
    match run() {
        Ok(status) => status.into(),
        Err(failure) => {
            failure.print();
            failure.status.into()
        }
    }
}

fn run() -> Result<Status, Failure> {
    let command = program::prepared(Arguments::command());
    let arguments = config::expand(&command, renamed::replace(env::args().collect()))?;
    let matches = command.clone().get_matches_from(arguments);
    // Parsing succeeded before, so this rarely fails. If it does, clap prints the reason.
    let arguments = Arguments::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
    match arguments.verb {
        Verb::Serve(verb) => serve::run(verb),
        Verb::Load(verb) => load::run(verb),
        Verb::Link(arguments) => link::run(&arguments),
        Verb::Bench(verb) => bench::run(verb),
        Verb::Route(verb) => route::run(verb),
        Verb::AddCost(arguments) => added_cost::run(&arguments),
        Verb::Media(verb) => media::run(verb),
        Verb::Profile(arguments) => profile::run(&arguments),
        Verb::Guest(verb) => guest::run(verb),
        Verb::Export(arguments) => export::run(&arguments),
        Verb::Probe(arguments) => probe::run(&arguments),
    }
}
