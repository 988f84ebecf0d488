//! The agent with the verbs of the lab: it has all verbs of `perpacket-agent`, and serves and plays media,
//! measures routers, memory and context switches, and works inside emulated machines.

#![forbid(unsafe_code)]

mod bench;
mod datagrams;
mod guest;
mod load_media;
mod route;
mod serve_media;
mod server_card;
mod synthesize;

use std::process::ExitCode;

use perpacket_agent::verb::Verb;

fn main() -> ExitCode {
    let own = [
        vec![serve_media::verb(), load_media::verb(), synthesize::verb()],
        bench::verbs(),
        route::verbs(),
        guest::verbs(),
    ];
    let own = own.into_iter().flatten();
    let verbs: Vec<Verb> = perpacket_agent::verbs().into_iter().chain(own).collect();
    perpacket_agent::verb::main(&perpacket_agent::GROUPS, &verbs)
}
