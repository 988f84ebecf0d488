//! Measures profiles: opens the events, runs the window, and computes the report.
//!
//! Counts are read just before the events are enabled and just after they are disabled, so that
//! costs and packets belong to the same window. Slow work is outside of the window: symbols and
//! rules are read before it, and user functions are looked up after it.

use std::fs;
use std::io::{self, Write};
use std::path::Path;
use std::process::{Child, Command};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use perpacket_cost::{EventKind, Rules};
use perpacket_linux::clock::process_cpu_ns;
use perpacket_linux::cpus;

use crate::attribute::Attributor;
use crate::capture::accounts::Accounts;
use crate::capture::events::{EventSet, Pass};
use crate::capture::perf::{self, Kernel};
use crate::capture::{EventProvider, EventSource};
use crate::cgroup::Selector;
use crate::collector::{Collector, Detail, Server};
use crate::count::Sources;
use crate::error::ProfileError;
use crate::kernel::{network_drivers, read_symbols};
use crate::passes::{Context, PassResult};
use crate::process;
use crate::report::Report;
use crate::requests::{RequestCount, RequestCounter};
use crate::settings::{Events, Settings};
use crate::summary;
use crate::{folded, pprof};

/// Interval at which rings are drained and the end of the window is checked.
const DRAIN_INTERVAL: Duration = Duration::from_millis(50);

/// The reason why a window ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The duration is over.
    Duration,
    /// The command ended with this exit status. The status is 128 or more if a signal ended the
    /// command.
    Command(i32),
    /// The server's process ended.
    Process,
    /// A signal stopped the profile.
    Stopped,
}

/// A profiler for any number of windows.
pub struct Profiler {
    settings: Settings,
    cpus: Vec<usize>,
    all_cpus: bool,
    events: EventSet,
    provider: Box<dyn EventProvider>,
    /// The source of the last window. It is used again if the next window has the same events,
    /// because opening events takes time.
    source: Option<Box<dyn EventSource>>,
    sources: Sources,
    requests: Option<RequestCounter>,
    collector: Collector,
    child: Option<Child>,
    exit_status: Option<i32>,
    last: Option<PassResult>,
}

impl Profiler {
    /// Prepares to profile with the events of this machine's kernel.
    ///
    /// # Errors
    /// A setting is wrong, or the machine forbids or lacks something.
    pub fn new(settings: Settings) -> Result<Self, ProfileError> {
        let online = online_cpus()?;
        let first = online.first().copied().unwrap_or(0);
        let hertz = settings.frequency_hz;
        if settings.events == Events::Accounts {
            let events = EventSet::clock(hertz)?;
            return Self::with_provider(settings, events, Box::new(Accounts::default()));
        }
        let opens = |event| perf::try_open(event, first).is_ok();
        let fits = |pass: &Pass| perf::fits(pass, first);
        let counters = opens(EventKind::Cycles);
        let events = match &settings.events {
            Events::Best | Events::Counters if counters => {
                EventSet::counters(hertz)?.counted(opens).fitting(fits)
            }
            Events::Misses => EventSet::misses(hertz)?.counted(opens),
            Events::Best | Events::Clock | Events::Accounts => EventSet::clock(hertz)?,
            Events::Counters => EventSet::counters(hertz)?,
            Events::File(path) => EventSet::read(path, hertz)?,
        };
        Self::with_provider(
            settings,
            events,
            Box::new(Kernel {
                counters,
                processes: true,
            }),
        )
    }

    /// Prepares to profile with events from another provider.
    ///
    /// # Errors
    /// A setting is wrong.
    pub fn with_provider(
        settings: Settings,
        events: EventSet,
        provider: Box<dyn EventProvider>,
    ) -> Result<Self, ProfileError> {
        settings.check()?;
        let online = online_cpus()?;
        let cpus = match &settings.cpus {
            Some(chosen) => check_online(chosen, &online)?,
            None => online.clone(),
        };
        let rules = rules_of(settings.rules.as_deref())?;
        let requests = settings.requests.as_deref().map(RequestCounter::new);
        // Open the events once before a command starts, so that a missing permission is reported
        // first.
        for pass in &events.passes {
            provider.open(pass, &cpus)?;
        }
        let attributor = attributor(&settings.kallsyms, rules);
        let mut collector = Collector::new(
            attributor,
            settings.own_pid,
            Detail::of_code(settings.keeps_offsets),
        );
        collector.set_server(settings.pid.map(|pid| {
            Server {
                originals: [pid]
                    .iter()
                    .chain(&settings.beside)
                    .map(|&pid| process::original(pid))
                    .collect(),
            }
        }));
        collector.set_selector(settings.selector.clone());
        let member = settings.selector.as_ref().map(member).transpose()?;
        Ok(Self {
            all_cpus: cpus.len() == online.len(),
            sources: Sources::open(settings.pid.or(member))?,
            requests: requests.transpose()?,
            settings,
            cpus,
            events,
            provider,
            source: None,
            collector,
            child: None,
            exit_status: None,
            last: None,
        })
    }

    /// Writes the samples of the last window as folded stacks.
    ///
    /// # Errors
    /// The writer fails.
    pub fn write_folded(&self, out: &mut dyn Write) -> io::Result<()> {
        match &self.last {
            Some(pass) => folded::write(out, &pass.tally, &self.collector),
            None => Ok(()),
        }
    }

    /// Writes the samples of the last window as a compressed file for pprof.
    ///
    /// # Errors
    /// The writer fails.
    pub fn write_pprof(&mut self, out: &mut dyn Write) -> io::Result<()> {
        match &self.last {
            Some(pass) => pprof::write(out, pass, &mut self.collector),
            None => Ok(()),
        }
    }

    /// Measures one profile: over the duration of the settings, the life of their command, or until
    /// `stop` becomes true.
    ///
    /// # Errors
    /// The command cannot be started, or measuring fails.
    pub fn run(&mut self, stop: &AtomicBool) -> Result<(Report, End), ProfileError> {
        self.start_command()?;
        let result = self.window(self.settings.duration, stop);
        self.end_command();
        result
    }

    /// Measures profiles of length `every` and calls `each` with them, until the duration of the
    /// settings is over, their command ends, or `stop` becomes true.
    ///
    /// # Errors
    /// The command cannot be started, measuring fails, or `each` fails.
    pub fn run_every<E: From<ProfileError>>(
        &mut self,
        every: Duration,
        stop: &AtomicBool,
        mut each: impl FnMut(&Report) -> Result<(), E>,
    ) -> Result<End, E> {
        let began = Instant::now();
        self.start_command()?;
        loop {
            let left = self
                .settings
                .duration
                .map(|duration| duration.saturating_sub(began.elapsed()));
            let length = left.map_or(every, |left| left.min(every));
            let (report, end) = self.window(Some(length), stop)?;
            each(&report)?;
            // A remainder that is shorter than a window is not measured.
            let over = left.is_some_and(|left| left <= every + DRAIN_INTERVAL);
            if over || end != End::Duration {
                self.end_command();
                return Ok(end);
            }
        }
    }

    /// Measures one window. Each pass takes an equal part of it.
    fn window(
        &mut self,
        duration: Option<Duration>,
        stop: &AtomicBool,
    ) -> Result<(Report, End), ProfileError> {
        self.last = None;
        self.collector.forget_old();
        let cpu_before = own_cpu_s();
        let passes = self.events.passes.clone();
        // If there is no duration, each pass runs for a second.
        let parts = u32::try_from(passes.len()).unwrap_or(1);
        let mut results = Vec::new();
        let mut end = End::Duration;
        for pass in &passes {
            let length = match duration {
                Some(duration) => Some(duration / parts),
                None if parts == 1 => None,
                None => Some(Duration::from_secs(1)),
            };
            let (result, why) = self.pass(pass, length, stop)?;
            results.push(result);
            end = why;
            if end != End::Duration {
                break;
            }
        }
        let context = Context {
            backend: self.provider.backend(),
            cpus: &self.cpus,
            all_cpus: self.all_cpus,
            collector: &self.collector,
            own_cpu_s: own_cpu_s() - cpu_before,
            selector: self.settings.selector.as_ref(),
            server_pid: self.settings.pid.or(self.child.as_ref().map(Child::id)),
            names_parts: self.settings.keeps_offsets,
            exit_status: self.exit_status,
            planned_passes: passes.len(),
            samples_all: true,
            lacking: &self.events.lacking,
            frequency_hz: self.settings.frequency_hz,
        };
        let report = summary::report(&context, &results);
        self.last = results.into_iter().next();
        Ok((report, end))
    }

    fn pass(
        &mut self,
        pass: &Pass,
        length: Option<Duration>,
        stop: &AtomicBool,
    ) -> Result<(PassResult, End), ProfileError> {
        let mut source = match self.source.take() {
            Some(source) => source,
            None => self.provider.open(pass, &self.cpus)?,
        };
        self.collector.begin(pass.sample);
        let before = self.sources.read(&self.cpus)?;
        // Read the requests last, because the server continues to answer requests.
        let requests_before = self.read_requests()?;
        let before = before.with_processors(self.sources.processors(&self.cpus)?);
        source.start()?;
        let began = Instant::now();
        let mut end = None;
        while end.is_none() {
            let left = length.map_or(DRAIN_INTERVAL, |length| {
                length.saturating_sub(began.elapsed())
            });
            thread::sleep(left.min(DRAIN_INTERVAL));
            let collector = &mut self.collector;
            source.drain(&mut |record| collector.add(record))?;
            end = self.is_over(began, length, stop);
        }
        let group = source.stop()?;
        let duration_s = began.elapsed().as_secs_f64();
        let processors = self.sources.processors(&self.cpus)?;
        let requests_after = self.read_requests()?;
        let after = self.sources.read(&self.cpus)?.with_processors(processors);
        let collector = &mut self.collector;
        source.drain(&mut |record| collector.add(record))?;
        self.source = (self.events.passes.len() == 1).then_some(source);
        let mut activity = before.until(&after, duration_s);
        if let (Some(before), Some(after)) = (requests_before, requests_after) {
            activity.window.requests = Some(before.until(after));
        }
        let result = PassResult {
            tally: self.collector.end(&activity.processors),
            activity,
            group,
        };
        Ok((result, end.unwrap_or(End::Duration)))
    }

    fn read_requests(&self) -> Result<Option<RequestCount>, ProfileError> {
        self.requests.as_ref().map(RequestCounter::read).transpose()
    }

    /// Whether the window is over. If so, returns the reason.
    fn is_over(
        &mut self,
        began: Instant,
        length: Option<Duration>,
        stop: &AtomicBool,
    ) -> Option<End> {
        if stop.load(Ordering::Relaxed) {
            return Some(End::Stopped);
        }
        if let Some(child) = &mut self.child {
            if let Ok(Some(status)) = child.try_wait() {
                let code = exit_code(status);
                self.exit_status = Some(code);
                return Some(End::Command(code));
            }
        } else if let Some(pid) = self.settings.pid
            && !Path::new(&format!("/proc/{pid}")).exists()
        {
            return Some(End::Process);
        }
        length
            .is_some_and(|length| began.elapsed() >= length)
            .then_some(End::Duration)
    }

    fn start_command(&mut self) -> Result<(), ProfileError> {
        let [program, arguments @ ..] = self.settings.command.as_slice() else {
            return Ok(());
        };
        let child = Command::new(program)
            .args(arguments)
            .spawn()
            .map_err(|source| ProfileError::Command {
                program: program.clone(),
                source,
            })?;
        if self.settings.pid.is_none() {
            self.collector.set_server(Some(Server {
                originals: vec![child.id()],
            }));
        }
        self.child = Some(child);
        Ok(())
    }

    /// Ends a command that still runs after its window, and waits for it.
    fn end_command(&mut self) {
        let Some(mut child) = self.child.take() else {
            return;
        };
        if !matches!(child.try_wait(), Ok(Some(_)))
            && let Some(pid) = rustix::process::Pid::from_raw(child.id().cast_signed())
        {
            // The command may have ended in the meantime.
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
            let patience = Instant::now();
            while matches!(child.try_wait(), Ok(None)) {
                if patience.elapsed() > Duration::from_secs(5) {
                    let _ = child.kill();
                }
                thread::sleep(Duration::from_millis(10));
            }
        }
    }
}

/// The exit status as a shell computes it. If a signal ended the command, it is 128 plus the
/// signal.
fn exit_code(status: std::process::ExitStatus) -> i32 {
    use std::os::unix::process::ExitStatusExt;
    status
        .code()
        .or_else(|| status.signal().map(|signal| 128 + signal))
        .unwrap_or(-1)
}

/// CPU time of this process so far.
fn own_cpu_s() -> f64 {
    process_cpu_ns() as f64 / 1e9
}

/// The compiled-in rules. If there is a file of rules, its rules have priority.
pub(crate) fn rules_of(path: Option<&Path>) -> Result<Rules, ProfileError> {
    let Some(path) = path else {
        return Ok(Rules::builtin()?);
    };
    let text = fs::read_to_string(path).map_err(ProfileError::option_file("rules", path))?;
    Ok(Rules::with_file(&path.display().to_string(), &text)?)
}

/// A process of the chosen control groups.
pub(crate) fn member(selector: &Selector) -> Result<u32, ProfileError> {
    let (option, value) = selector.option();
    let found = selector.containers();
    if found.len() > 1 {
        return Err(ProfileError::SeveralContainers {
            value: value.to_owned(),
            found: found.join(", "),
        });
    }
    selector.process().ok_or_else(|| ProfileError::NoGroup {
        option,
        value: value.to_owned(),
    })
}

/// An attributor with these rules and with the symbols and drivers of this machine.
pub(crate) fn attributor(kallsyms: &Path, rules: Rules) -> Attributor {
    let symbols = read_symbols(kallsyms).unwrap_or_default();
    let drivers = network_drivers(Path::new("/sys/class/net"));
    Attributor::new(symbols, rules, drivers)
}

fn online_cpus() -> Result<Vec<usize>, ProfileError> {
    cpus::online().map_err(|source| ProfileError::Kernel {
        what: "listing the CPUs that are online",
        source,
    })
}

/// The chosen CPUs, if all of them are online.
fn check_online(chosen: &[usize], online: &[usize]) -> Result<Vec<usize>, ProfileError> {
    match chosen.iter().find(|cpu| !online.contains(cpu)) {
        Some(&missing) => Err(ProfileError::Cpus {
            missing,
            online: cpus::format(online),
        }),
        None => Ok(chosen.to_vec()),
    }
}

/// Measures one profile.
///
/// # Errors
/// A setting is wrong, the machine forbids or lacks something, or measuring fails.
pub fn profile(settings: Settings, stop: &AtomicBool) -> Result<Report, ProfileError> {
    Ok(Profiler::new(settings)?.run(stop)?.0)
}
