//! Tests that the sums of a watch continue when processors, permissions and the machine change.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use perpacket_cost::{Kind, Layer};
use perpacket_profiler::ProfileError;
use perpacket_profiler::capture::events::Pass;
use perpacket_profiler::capture::{
    Backend, EventProvider, EventSource, GroupCounts, Record, Sample,
};
use perpacket_profiler::watch::{STACK_LIMIT, Totals, Watch, WatchSettings};

/// Samples of a machine whose state a test changes.
#[derive(Clone, Default)]
struct Machine {
    online: Arc<Mutex<Vec<usize>>>,
    /// Whether perf is allowed.
    allowed: Arc<AtomicBool>,
    /// The processors of each call of `open`.
    opened: Arc<Mutex<Vec<Vec<usize>>>>,
    /// Programs that start, run and end between two steps, each with a stack of its own.
    short_programs: Arc<AtomicU32>,
    started: Arc<AtomicU32>,
}

struct Samples {
    machine: Machine,
    cpus: Vec<usize>,
}

/// The address of `tcp_ack` in the symbols.
const TCP_ACK: u64 = 0xffff_ffff_8100_0010;

const SAMPLE_NS: u64 = 1_000_000;

impl EventProvider for Machine {
    fn backend(&self) -> Backend {
        Backend::CpuClock
    }

    fn open(&self, _: &Pass, cpus: &[usize]) -> Result<Box<dyn EventSource>, ProfileError> {
        if !self.allowed.load(Ordering::Relaxed) {
            return Err(ProfileError::Forbidden {
                paranoid: "3".to_owned(),
            });
        }
        self.opened.lock().unwrap().push(cpus.to_vec());
        Ok(Box::new(Samples {
            machine: self.clone(),
            cpus: cpus.to_vec(),
        }))
    }
}

impl EventSource for Samples {
    fn start(&mut self) -> Result<(), ProfileError> {
        Ok(())
    }

    /// Returns one sample in TCP on each processor that is still online.
    fn drain(&mut self, sink: &mut dyn FnMut(&Record<'_>)) -> Result<(), ProfileError> {
        if !self.machine.allowed.load(Ordering::Relaxed) {
            return Err(ProfileError::Kernel {
                what: "reading the ring of samples",
                source: io::ErrorKind::PermissionDenied.into(),
            });
        }
        self.short_programs(sink);
        let online = self.machine.online.lock().unwrap();
        for &cpu in self.cpus.iter().filter(|cpu| online.contains(cpu)) {
            sink(&Record::Sample(Sample {
                time_ns: 1,
                cpu: u32::try_from(cpu).unwrap(),
                pid: 999_999_999,
                tid: 999_999_999,
                weight: SAMPLE_NS,
                cgroup: None,
                user: false,
                address: TCP_ACK,
                chain: &[TCP_ACK],
            }));
        }
        Ok(())
    }

    fn stop(&mut self) -> Result<GroupCounts, ProfileError> {
        Ok(GroupCounts::default())
    }
}

impl Samples {
    /// The records and a sample of each short program.
    fn short_programs(&self, sink: &mut dyn FnMut(&Record<'_>)) {
        for _ in 0..self.machine.short_programs.load(Ordering::Relaxed) {
            let number = self.machine.started.fetch_add(1, Ordering::Relaxed);
            let pid = 1_000_000_000 + number;
            sink(&Record::Forked { pid, parent: 1 });
            sink(&Record::Command {
                pid,
                leader: true,
                name: "short".to_owned(),
                executed: true,
            });
            sink(&Record::Mapped {
                pid,
                start: 0x1000,
                length: 0x1000,
                offset: 0,
                path: format!("/tmp/build-{number}"),
            });
            for user in [false, true] {
                sink(&Record::Sample(Sample {
                    time_ns: 1,
                    cpu: 0,
                    pid,
                    tid: pid,
                    weight: SAMPLE_NS,
                    cgroup: Some(u64::from(number)),
                    user,
                    address: 0x1010,
                    chain: &[TCP_ACK, u64::from(number)],
                }));
            }
        }
    }
}

/// The fallback without samples.
struct Nothing;

impl EventProvider for Nothing {
    fn backend(&self) -> Backend {
        Backend::Accounts
    }

    fn open(&self, _: &Pass, _: &[usize]) -> Result<Box<dyn EventSource>, ProfileError> {
        Ok(Box::new(Self))
    }
}

impl EventSource for Nothing {
    fn start(&mut self) -> Result<(), ProfileError> {
        Ok(())
    }

    fn drain(&mut self, _: &mut dyn FnMut(&Record<'_>)) -> Result<(), ProfileError> {
        Ok(())
    }

    fn stop(&mut self) -> Result<GroupCounts, ProfileError> {
        Ok(GroupCounts::default())
    }
}

/// A watch of all processors of a machine with two.
fn watch() -> (Watch, Machine, tempfile::TempDir) {
    watch_of(None)
}

/// A watch of some processors of a machine with two, and the machine.
fn watch_of(cpus: Option<Vec<usize>>) -> (Watch, Machine, tempfile::TempDir) {
    let machine = Machine::default();
    *machine.online.lock().unwrap() = vec![0, 1];
    machine.allowed.store(true, Ordering::Relaxed);
    let folder = tempfile::tempdir().unwrap();
    let kallsyms: PathBuf = folder.path().join("kallsyms");
    fs::write(&kallsyms, "ffffffff81000000 T tcp_ack\n").unwrap();
    let online = Arc::clone(&machine.online);
    let watch = Watch::with_providers(
        WatchSettings {
            cpus,
            kallsyms,
            ..WatchSettings::default()
        },
        vec![Box::new(machine.clone()), Box::new(Nothing)],
        Box::new(move || Ok(online.lock().unwrap().clone())),
    );
    (watch.unwrap(), machine, folder)
}

/// Number of samples in TCP so far.
fn in_tcp(totals: &Totals) -> u64 {
    (totals.cpu_ns[Layer::Tcp][Kind::Protocol] / SAMPLE_NS as f64) as u64
}

fn has_limit(totals: &Totals, name: &str) -> bool {
    totals.limits.iter().any(|limit| limit.name == name)
}

#[test]
fn events_follow_processors_that_go_offline_and_come_back() {
    let (mut watch, machine, _folder) = watch();
    assert_eq!(in_tcp(watch.step()), 2);
    *machine.online.lock().unwrap() = vec![0];
    assert_eq!(in_tcp(watch.step()), 3);
    *machine.online.lock().unwrap() = vec![0, 1];
    // The events of the processor that came back are opened at the end of this step.
    assert_eq!(in_tcp(watch.step()), 4);
    let totals = watch.step();
    assert_eq!((in_tcp(totals), totals.reopened), (6, 2));
    let opened = machine.opened.lock().unwrap().clone();
    assert_eq!(opened, [vec![0, 1], vec![0], vec![0, 1]]);
}

#[test]
fn a_chosen_processor_that_is_offline_is_a_limit() {
    let (mut watch, machine, _folder) = watch_of(Some(vec![1, 7]));
    let totals = watch.step();
    let limit = totals.limits.iter().find(|one| one.name == "offline");
    assert!(
        limit
            .unwrap()
            .meaning
            .contains("processors 7 are not online")
    );
    *machine.online.lock().unwrap() = vec![0, 1, 7];
    assert!(!has_limit(watch.step(), "offline"));
}

#[test]
fn sums_continue_without_perf_and_a_limit_reports_it() {
    let (mut watch, machine, _folder) = watch();
    assert!(!has_limit(watch.step(), "no_perf"));
    machine.allowed.store(false, Ordering::Relaxed);
    let totals = watch.step();
    assert_eq!((in_tcp(totals), totals.backend), (2, Backend::Accounts));
    assert!(has_limit(totals, "no_perf"));
    let limit = totals.limits.iter().find(|one| one.name == "no_perf");
    assert!(limit.unwrap().meaning.contains("perf_event_paranoid is 3"));
    // Without a change of processors, the watch would try perf only every few seconds.
    machine.allowed.store(true, Ordering::Relaxed);
    *machine.online.lock().unwrap() = vec![0];
    let totals = watch.step();
    assert_eq!(totals.backend, Backend::CpuClock);
    assert!(!has_limit(totals, "no_perf") && !has_limit(totals, "samples"));
    assert_eq!(in_tcp(watch.step()), 3);
}

#[test]
fn expected_samples_follow_the_number_of_processors() {
    let (mut watch, machine, _folder) = watch();
    *machine.online.lock().unwrap() = Vec::new();
    watch.step();
    let before = watch.step().expected_samples;
    let after = watch.step().expected_samples;
    assert_eq!(before.to_bits(), after.to_bits(), "no processor, no sample");
}

#[test]
fn programs_that_come_and_go_leave_nothing_stored() {
    let (mut watch, machine, _folder) = watch();
    let per_step = STACK_LIMIT as u32 / 3;
    machine.short_programs.store(per_step, Ordering::Relaxed);
    for step in 1..=20 {
        let totals = watch.step();
        let programs = u64::from(step * per_step);
        assert_eq!(in_tcp(totals), programs + 2 * u64::from(step));
        let user_ns = totals.cpu_ns[Layer::User][Kind::Other];
        assert_eq!(user_ns as u64, programs * SAMPLE_NS);
        let [stacks, processes, files] = watch.stored();
        assert!(stacks <= STACK_LIMIT, "{stacks} stacks in step {step}");
        assert_eq!((processes, files), (0, 0));
    }
}

/// Nanoseconds of busy layers, and the run time of the two processors.
fn busy(totals: &Totals) -> (f64, [f64; 2]) {
    let layers = totals.cpu_ns.iter();
    let busy = layers.filter(|(layer, _)| *layer != Layer::Idle);
    let ns = busy.flat_map(|(_, kinds)| kinds.iter().map(|(_, &ns)| ns));
    let run_s = |cpu: usize| totals.busy_s.get(&cpu).copied().unwrap_or(0.0);
    (ns.sum(), [run_s(0), run_s(1)])
}

#[test]
fn the_layers_of_a_step_sum_to_the_run_time_of_its_processors() {
    let (mut watch, _, _folder) = watch();
    watch.step();
    // The run times are those of this machine, because the samples are not.
    let before = busy(watch.step());
    let began = Instant::now();
    while began.elapsed() < Duration::from_millis(400) {}
    let after = busy(watch.step());
    // A processor that ran too short a time keeps the time of its sample.
    let expected_s = [0, 1].map(|cpu| match after.1[cpu] - before.1[cpu] {
        run_s if run_s >= 0.1 => run_s,
        _ => 1e-9 * SAMPLE_NS as f64,
    });
    let shown_s = 1e-9 * (after.0 - before.0);
    let expected_s: f64 = expected_s.iter().sum();
    assert!(expected_s > 0.1, "one of two processors ran");
    assert!(
        (shown_s - expected_s).abs() < 1e-6,
        "{shown_s} of {expected_s} s"
    );
}
