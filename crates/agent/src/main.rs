//! The executable that is copied to the machines under test and runs there alone.
//!
//! One file a verb: its options, its table, and a call of the crate that does the work.

#![forbid(unsafe_code)]

mod bench;
mod config;
mod link;
mod load;
mod media;
mod media_load;
mod media_server;
mod options;
mod output;
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

/// The part of perpacket that runs beside the server under test.
#[derive(Parser)]
#[command(name = "perpacket-agent", version, arg_required_else_help = true)]
struct Arguments {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Run a server under test in the foreground, until a signal.
    #[command(subcommand)]
    Serve(serve::Verb),
    /// Put load on a server and say what came back.
    #[command(subcommand)]
    Load(load::Verb),
    /// Join two hosts by a link with latency, bandwidth and loss.
    Link(Box<link::Arguments>),
    /// Measure what memory and context switches cost on this machine.
    #[command(subcommand)]
    Bench(bench::Verb),
    /// Hold a router to the rules, and find what it carries.
    #[command(subcommand)]
    Route(route::Verb),
    /// Make media to serve.
    #[command(subcommand)]
    Media(media::Verb),
    /// Say what a packet costs, layer by layer.
    Profile(profile::Arguments),
    /// Say what this machine can do, and what each lack costs.
    Probe(probe::Arguments),
}

fn main() -> ExitCode {
    match run() {
        Ok(status) => status.into(),
        Err(failure) => {
            failure.show();
            failure.status.into()
        }
    }
}

fn run() -> Result<Status, Failure> {
    let command = program::prepared(Arguments::command());
    let arguments = config::expand(&command, renamed::replace(env::args().collect()))?;
    let matches = command.clone().get_matches_from(arguments);
    // What clap has parsed it also takes; its own message is the better one if it does not.
    let arguments = Arguments::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
    match arguments.verb {
        Verb::Serve(verb) => serve::run(verb),
        Verb::Load(verb) => load::run(verb),
        Verb::Link(arguments) => link::run(&arguments),
        Verb::Bench(verb) => bench::run(verb),
        Verb::Route(verb) => route::run(verb),
        Verb::Media(verb) => media::run(verb),
        Verb::Profile(arguments) => profile::run(&arguments),
        Verb::Probe(arguments) => probe::run(&arguments),
    }
}
