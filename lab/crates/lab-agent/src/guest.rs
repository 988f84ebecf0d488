//! `guest`: the part of `perpacket emulate` inside an emulated machine. The verb is hidden, because
//! only the init program of that machine runs it.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use perpacket_agent::status::{Failure, Status};
use perpacket_agent::verb::Verb;
use perpacket_linux::emulator::{DATA_BYTES, Emulator};
use perpacket_linux::ethtool;
use perpacket_linux::interface::{self, Offload};
use perpacket_spec::{Spec, Switch};
use schemars::JsonSchema;
use serde::Serialize;

use crate::datagrams::{AnswerSpec, AskSpec, answer, ask};
use crate::server_card::ServerCard;

/// Time between two reads of the counters of a window.
const COUNTER_INTERVAL: Duration = Duration::from_millis(1);

/// Longest time without a frame. The emulator skips idle time, so a long wait takes little real
/// time.
const STALL_LIMIT: Duration = Duration::from_secs(30);

/// Operations of the plugin, as in `lab/crates/emulate-plugin`.
const START: u32 = 1;
const STOP: u32 = 2;
const STORE: u32 = 3;
const MARK: u32 = 4;
const WORK: u32 = 5;
const CARD: u32 = 6;
const ATTACH: u32 = 7;
const IS_COMPLETE: u32 = 8;
const READY: u32 = 9;
const REQUESTS: u32 = 10;

/// Parts of the work.
const SCRIPT: u64 = 0;
const FILES: u64 = 1;

/// Frames without a request after which a window of requests fails. The handshakes of all connections
/// have fewer.
const SILENT_FRAMES: u64 = 100_000;

pub fn verbs() -> Vec<Verb> {
    let verbs = [
        Verb::new("guest offload", "", |spec: OffloadSpec, _| {
            set(&spec.interface, spec.offload, spec.state).map(|()| Status::Done)
        }),
        Verb::new("guest queues", "", |spec: QueuesSpec, _| {
            ethtool::set_queues(&spec.interface, spec.queues)
                .map(|()| Status::Done)
                .map_err(|error| Failure::failed(format!("{}: {error}", spec.interface)))
        }),
        Verb::new("guest rss", "", |spec: FlowsSpec, _| {
            ethtool::set_flow_table(&spec.interface, &spec.queues)
                .map(|()| Status::Done)
                .map_err(|error| Failure::failed(format!("{}: {error}", spec.interface)))
        }),
        Verb::new("guest mark", "", |spec: MarkSpec, _| {
            call(MARK, format!("{}\0", spec.name).as_bytes()).map(|_| Status::Done)
        }),
        Verb::new("guest store", "", |spec: StoreSpec, _| {
            store(spec.what, &spec.file).map(|()| Status::Done)
        }),
        Verb::new("guest work", "", |_: WorkSpec, _| {
            work().map(|()| Status::Done)
        }),
        Verb::new("guest files", "", |_: FilesSpec, _| {
            print_part(FILES).map(|()| Status::Done)
        }),
        Verb::new("guest count", "", |spec: CountSpec, _| {
            count(&spec).map(|()| Status::Done)
        }),
        Verb::new("guest answer", "", |spec: AnswerSpec, _| answer(&spec)),
        Verb::new("guest ask", "", |spec: AskSpec, _| ask(&spec)),
    ];
    verbs.into_iter().map(Verb::hidden).collect()
}

/// Turn an offload of an interface on or off.
#[derive(clap::Args, Clone, Debug, Serialize, JsonSchema)]
struct OffloadSpec {
    /// The interface.
    interface: String,
    /// What to turn on or off.
    offload: Name,
    /// The state.
    state: Switch,
}

/// Set the number of a card's queues.
#[derive(clap::Args, Clone, Debug, Serialize, JsonSchema)]
struct QueuesSpec {
    /// The interface of the card.
    interface: String,
    /// Queues, each for both directions.
    queues: u32,
}

/// Set the table by which a card assigns flows to its queues.
#[derive(clap::Args, Clone, Debug, Serialize, JsonSchema)]
struct FlowsSpec {
    /// The interface of the card.
    interface: String,
    /// The queues of successive hashes, such as 0,0,1; they repeat.
    #[arg(value_delimiter = ',', required = true)]
    queues: Vec<u32>,
}

/// Report to the emulator that the guest has reached a point.
#[derive(clap::Args, Clone, Debug, Serialize, JsonSchema)]
struct MarkSpec {
    /// The name of the point.
    name: String,
}

/// Send the kernel's symbols or types to the emulator.
#[derive(clap::Args, Clone, Debug, Serialize, JsonSchema)]
struct StoreSpec {
    /// What the file has.
    what: Content,
    /// The file.
    file: PathBuf,
}

/// Report that the guest has booted, then print the work of the restored machine.
#[derive(clap::Args, Clone, Debug, Serialize, JsonSchema)]
struct WorkSpec {}

/// Print the archive of files that the emulator has for this guest.
#[derive(clap::Args, Clone, Debug, Serialize, JsonSchema)]
struct FilesSpec {}

/// Have the emulator count a card's frames, first in a warm-up, then in a window.
#[derive(clap::Args, Clone, Debug, Serialize, JsonSchema)]
struct CountSpec {
    /// The interface of the card.
    interface: String,
    /// Frames before the window, both directions.
    warmup: u64,
    /// Frames of the window, both directions.
    frames: u64,
    /// Connections of the clients, which the window reports.
    connections: u64,
    /// Requests of the window, which then has no number of frames. A request is an HTTP response.
    #[arg(long, default_value_t = 0)]
    requests: u64,
    /// Requests before such a window.
    #[arg(long, default_value_t = 0)]
    warmup_requests: u64,
    /// The address of a function of the kernel whose calls are the requests; with `--in`, its offset
    /// in that file.
    #[arg(long, default_value_t = 0)]
    function: u64,
    /// A program or library that a process has mapped.
    #[arg(long = "in")]
    file: Option<PathBuf>,
    /// A script whose second run is the window; the first is the warm-up.
    #[arg(long)]
    script: Option<PathBuf>,
}

impl Spec for OffloadSpec {}
impl Spec for QueuesSpec {}
impl Spec for FlowsSpec {}
impl Spec for MarkSpec {}
impl Spec for StoreSpec {}
impl Spec for WorkSpec {}
impl Spec for FilesSpec {}
impl Spec for CountSpec {}

/// An offload as ethtool abbreviates it.
#[derive(Clone, Copy, Debug, clap::ValueEnum, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Name {
    Tso,
    Gso,
    Gro,
    Tx,
    Rx,
    Sg,
}

/// Files that the emulator stores. The discriminant of each is the argument of the operation.
#[derive(Clone, Copy, Debug, clap::ValueEnum, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Content {
    Symbols = 0,
    Types = 1,
    #[value(skip)]
    Mappings = 2,
}

fn set(interface: &str, name: Name, state: Switch) -> Result<(), Failure> {
    let offload = match name {
        Name::Tso => Offload::Tso,
        Name::Gso => Offload::Gso,
        Name::Gro => Offload::Gro,
        Name::Tx => Offload::SendChecksum,
        Name::Rx => Offload::ReceiveChecksum,
        Name::Sg => Offload::ScatterGather,
    };
    interface::control_socket()
        .and_then(|socket| interface::set_offload(socket, interface, offload, state == Switch::On))
        .map_err(|error| Failure::failed(format!("{interface}: {name:?} {state:?}: {error}")))
}

fn call(operation: u32, data: &[u8]) -> Result<Vec<u8>, Failure> {
    requested(operation, [0; 6], data)
}

fn requested(operation: u32, numbers: [u64; 6], data: &[u8]) -> Result<Vec<u8>, Failure> {
    Emulator::new()
        .and_then(|mut emulator| emulator.call(operation, numbers, data))
        .map_err(refused)
}

fn refused(error: io::Error) -> Failure {
    Failure::failed(format!("the emulator's plugin: {error}"))
}

fn store(what: Content, file: &Path) -> Result<(), Failure> {
    let failed = |error: io::Error| Failure::failed(format!("{}: {error}", file.display()));
    let content = File::open(file).map_err(failed)?;
    store_content(what, content).map_err(failed)
}

fn store_content(what: Content, mut content: impl Read) -> io::Result<()> {
    let mut emulator = Emulator::new()?;
    let mut part = [0; DATA_BYTES];
    loop {
        // An empty part marks the end of the file.
        let length = content.read(&mut part)?;
        emulator.call(STORE, [what as u64, 0, 0, 0, 0, 0], &part[..length])?;
        if length == 0 {
            return Ok(());
        }
    }
}

fn work() -> Result<(), Failure> {
    // The machine stops during this request. It continues when it is restored, with its work.
    call(READY, &[])?;
    print_part(SCRIPT)
}

/// Prints the work's script or its files.
fn print_part(part: u64) -> Result<(), Failure> {
    let mut emulator = Emulator::new().map_err(refused)?;
    let mut offset = 0;
    loop {
        let text = emulator
            .call(WORK, [offset, part, 0, 0, 0, 0], &[])
            .map_err(refused)?;
        perpacket_agent::output::write_bytes(&text)?;
        if text.is_empty() {
            return Ok(());
        }
        offset += text.len() as u64;
    }
}

fn count(spec: &CountSpec) -> Result<(), Failure> {
    let frames = spec.frames;
    let card = ServerCard::new(&spec.interface);
    let numbers = [card.registers()?, card.queues()?, 0, 0, 0, 0];
    if requested(CARD, numbers, &[])?.is_empty() {
        return Err(Failure::failed(format!(
            "{}: the emulator cannot read the rings of this card",
            spec.interface
        )));
    }
    call(ATTACH, &[])?;
    if let Some(script) = &spec.script {
        return count_script(&card, script);
    }
    let function = match &spec.file {
        Some(file) => address_in(file, spec.function)?,
        None => spec.function,
    };
    let begun = card.frames()?;
    if spec.requests == 0 {
        wait(&card, |now| Ok(now >= begun + spec.warmup))?;
    }
    let before = card.steering()?;
    let numbers = [frames, spec.requests, spec.warmup_requests, function, 0, 0];
    requested(START, numbers, b"window\0")?;
    let from = [card.read("tx_packets")?, card.read("rx_packets")?];
    let started = Instant::now();
    wait(&card, |now| {
        if spec.requests > 0 && now > begun + SILENT_FRAMES && call(REQUESTS, &[])? == [0; 8] {
            let lack = match function {
                0 => "an HTTP response: the server does not answer HTTP",
                _ => "a call of the counted function on the server's processors",
            };
            let frames = now - begun;
            return Err(Failure::failed(format!("{frames} frames without {lack}")));
        }
        Ok(!call(IS_COMPLETE, &[])?.is_empty())
    })?;
    let values = [
        started.elapsed().as_nanos() as u64,
        card.read("tx_packets")? - from[0],
        card.read("rx_packets")? - from[1],
        spec.connections,
    ];
    stop(values, &(before + &card.steering()?))
}

/// Counts during the second run of a script.
fn count_script(card: &ServerCard, script: &Path) -> Result<(), Failure> {
    run_script(script)?;
    let before = card.steering()?;
    call(START, b"window\0")?;
    let from = [card.read("tx_packets")?, card.read("rx_packets")?];
    let started = Instant::now();
    run_script(script)?;
    let values = [
        started.elapsed().as_nanos() as u64,
        card.read("tx_packets")? - from[0],
        card.read("rx_packets")? - from[1],
        0,
    ];
    stop(values, &(before + &card.steering()?))
}

fn run_script(script: &Path) -> Result<(), Failure> {
    let failed = |what: String| Failure::failed(format!("{}: {what}", script.display()));
    let status = Command::new("sh")
        .arg(script)
        .status()
        .map_err(|error| failed(error.to_string()))?;
    if status.success() {
        return Ok(());
    }
    Err(failed(format!("ended with {status}")))
}

/// The address of an offset in a file, in the first process that has this part of the file as code.
fn address_in(file: &Path, offset: u64) -> Result<u64, Failure> {
    let path = file.display().to_string();
    for process in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let maps = fs::read_to_string(process.path().join("maps")).unwrap_or_default();
        if let Some(address) = maps
            .lines()
            .find_map(|line| address_in_mapping(line, &path, offset))
        {
            return Ok(address);
        }
    }
    Err(Failure::failed(format!(
        "{path}: no process has its code at {offset:#x}"
    )))
}

/// The address of an offset of a file in a mapping, a line of `/proc/PID/maps`; `None` for another one.
fn address_in_mapping(line: &str, path: &str, offset: u64) -> Option<u64> {
    let mut words = line.split_whitespace();
    let (begin, end) = words.next()?.split_once('-')?;
    words.next()?;
    let from = u64::from_str_radix(words.next()?, 16).ok()?;
    if words.nth(2)? != path || !is_code(line) {
        return None;
    }
    let begin = u64::from_str_radix(begin, 16).ok()?;
    let end = u64::from_str_radix(end, 16).ok()?;
    let inside = offset.checked_sub(from)?;
    (inside < end - begin).then_some(begin + inside)
}

/// Ends the window. The plugin's output has these values as `guest.values`: the nanoseconds, the
/// packets sent and received according to the interface's counters when the end was noticed, and
/// the connections.
/// `steering` are the texts of a card with several queues, before and after the window.
fn stop([window_ns, sent, received, connections]: [u64; 4], steering: &str) -> Result<(), Failure> {
    let values = [window_ns, sent, received, connections, 0, 0];
    requested(STOP, values, steering.as_bytes())?;
    store_content(Content::Mappings, mappings().as_bytes()).map_err(refused)
}

/// The mappings of code of the processes that may run on processor 0, as lines of `/proc/PID/maps`, and
/// the functions that their run-time compilers have written to `/tmp/perf-PID.map`, each line after the
/// word `perf`.
fn mappings() -> String {
    let mut text = String::new();
    for process in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let folder = process.path();
        let read = |name: &str| fs::read_to_string(folder.join(name)).unwrap_or_default();
        let is_server = read("status").lines().any(|line| {
            let list = line.strip_prefix("Cpus_allowed_list:");
            list.is_some_and(|list| list.trim().starts_with('0'))
        });
        if !is_server {
            continue;
        }
        let code = read("maps");
        text.extend(
            code.lines()
                .filter(|line| is_code(line))
                .flat_map(|line| [line, "\n"]),
        );
        let compiled = read(&format!(
            "root/tmp/perf-{}.map",
            process.file_name().display()
        ));
        text.extend(compiled.lines().flat_map(|line| ["perf ", line, "\n"]));
    }
    text
}

/// Whether a line of `/proc/PID/maps` is a mapping of code.
fn is_code(line: &str) -> bool {
    let permissions = line.split_whitespace().nth(1);
    permissions.is_some_and(|own| own.contains('x'))
}

/// Waits until a condition on the packets of a card is true.
fn wait(
    card: &ServerCard,
    mut is_done: impl FnMut(u64) -> Result<bool, Failure>,
) -> Result<(), Failure> {
    let mut last = (card.frames()?, Instant::now());
    loop {
        let now = card.frames()?;
        if is_done(now)? {
            return Ok(());
        }
        if now != last.0 {
            last = (now, Instant::now());
        } else if last.1.elapsed() > STALL_LIMIT {
            return Err(Failure::failed(format!(
                "no frame for {} s after {now} frames: the server does not answer",
                STALL_LIMIT.as_secs()
            )));
        }
        thread::sleep(COUNTER_INTERVAL);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_offset_has_an_address_in_the_mapping_of_its_code() {
        let line = "7f0010002000-7f0010004000 r-xp 00001000 00:01 12   /host/redis-server";
        let at = |offset| address_in_mapping(line, "/host/redis-server", offset);
        assert_eq!(at(0x1010), Some(0x7f00_1000_2010));
        assert_eq!(at(0x0fff), None);
        assert_eq!(at(0x3000), None);
        assert_eq!(address_in_mapping(line, "/host/redis", 0x1010), None);
        let data = line.replace("r-xp", "rw-p");
        assert_eq!(
            address_in_mapping(&data, "/host/redis-server", 0x1010),
            None
        );
    }
}
