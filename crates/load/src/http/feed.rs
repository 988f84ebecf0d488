//! Where connections get their sessions from: one thread's part of a workload.

use std::sync::Arc;

use perpacket_workload::{
    LognormalSessions, PlannedRequest, SessionSource, Sessions, SpecWeb99, Stream, Surge,
    SurgeGenerator, SurgeRequest, WebStoneGenerator, specweb99, surge, webstone,
};

use super::paths::Paths;
use super::settings::{Arrivals, Lengths, Part, Settings, Workload};
use super::step::{ANY_SIZE, Operation, Script, Step};
use super::trace::Trace;
use crate::error::LoadError;

/// Shares of SPECweb99's dynamic operations among dynamic requests, of 30 in all (marked as from
/// general knowledge in the workload's description).
const DYNAMIC_SHARES: [(Operation, f64); 4] = [
    (Operation::DynamicGet, 12.45),
    (Operation::Advertisement, 12.60),
    (Operation::DynamicPost, 4.80),
    (Operation::Cgi, 0.15),
];
/// Rounds of a session without end.
const ENDLESS: u64 = u64::MAX;
/// Spreads part numbers over seeds.
const SEED_STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// A workload before it is dealt to threads.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    /// What the objects are called.
    pub paths: Arc<Paths>,
    kind: Kind,
    seed: u64,
    part: Part,
}

#[derive(Clone, Debug)]
enum Kind {
    File {
        lengths: Option<Lengths>,
        kept_session_share: f64,
    },
    SpecWeb99(SpecWeb99),
    Lognormal(LognormalSessions),
    Surge(SurgeGenerator),
    WebStone,
    Trace {
        trace: Arc<Trace>,
        recorded: bool,
        repeats: bool,
    },
}

impl Plan {
    /// Makes ready what all threads share.
    pub(crate) fn new(settings: &Settings, prefix: &str, path: &str) -> Result<Self, LoadError> {
        let (kind, paths) = match &settings.workload {
            Workload::File => {
                let kind = Kind::File {
                    lengths: settings.requests_per_connection,
                    kept_session_share: kept_sessions(settings),
                };
                (kind, Paths::new("", [path]))
            }
            Workload::SpecWeb99 { dynamic } => {
                let mut parameters = match dynamic {
                    true => SpecWeb99::mixed(settings.connections),
                    false => SpecWeb99::static_only(settings.connections),
                };
                if let Some(share) = settings.keep_alive_share {
                    parameters.keep_alive_share = share;
                }
                parameters.check()?;
                let objects = parameters.directories() * specweb99::FILES_PER_DIRECTORY;
                let paths = Paths::new(prefix, (0..objects).map(specweb99::object_path));
                (Kind::SpecWeb99(parameters), paths)
            }
            Workload::WorldCup | Workload::Ibm => {
                let parameters = match settings.workload {
                    Workload::Ibm => LognormalSessions::ibm(),
                    _ => LognormalSessions::world_cup(),
                };
                let generator = Sessions::Lognormal(parameters.generator(settings.seed)?);
                let paths = (0..parameters.objects).map(|object| generator.object_path(object));
                let paths = Paths::new(prefix, paths);
                (Kind::Lognormal(parameters), paths)
            }
            Workload::Surge { .. } => {
                let generator = Surge::default().generator(settings.seed)?;
                let files = generator.sizes().len() as u32;
                let paths = Paths::new(prefix, (0..files).map(surge::object_path));
                (Kind::Surge(generator), paths)
            }
            Workload::WebStone => {
                let paths = Paths::new(prefix, webstone::FILES.map(|(path, ..)| path));
                (Kind::WebStone, paths)
            }
            Workload::Trace {
                file,
                objects,
                spread,
                repeats,
            } => {
                let trace = Trace::read(file, objects.as_deref(), *spread, prefix, settings.seed)?;
                let paths = Arc::clone(&trace.paths);
                let kind = Kind::Trace {
                    trace: Arc::new(trace),
                    recorded: matches!(settings.arrivals, Arrivals::Recorded { .. }),
                    repeats: *repeats,
                };
                return Ok(Self {
                    paths,
                    kind,
                    seed: settings.seed,
                    part: settings.part,
                });
            }
        };
        Ok(Self {
            paths: Arc::new(paths),
            kind,
            seed: settings.seed,
            part: settings.part,
        })
    }

    /// The part of one thread of several.
    pub(crate) fn feed(&self, thread: u32, threads: u32) -> Result<Feed, LoadError> {
        let part = self.part.split(thread, threads);
        let seed = self
            .seed
            .wrapping_add(SEED_STEP.wrapping_mul(u64::from(part.index)));
        Ok(match &self.kind {
            Kind::File {
                lengths,
                kept_session_share,
            } => Feed::File {
                lengths: *lengths,
                kept_session_share: *kept_session_share,
                stream: Stream::new(seed, "session lengths"),
            },
            Kind::SpecWeb99(parameters) => Feed::Planned {
                sessions: Sessions::SpecWeb99(parameters.generator(seed)?),
                planned: Vec::new(),
                operations: Stream::new(seed, "dynamic operations"),
            },
            Kind::Lognormal(parameters) => Feed::Planned {
                sessions: Sessions::Lognormal(parameters.generator(seed)?),
                planned: Vec::new(),
                operations: Stream::new(seed, "dynamic operations"),
            },
            Kind::Surge(generator) => Feed::Surge {
                pages: generator.with_seed(seed),
                page: Vec::new(),
            },
            Kind::WebStone => Feed::WebStone(WebStoneGenerator::new(seed)),
            Kind::Trace {
                trace,
                recorded,
                repeats,
            } => Feed::Trace {
                trace: Arc::clone(trace),
                recorded: *recorded,
                repeats: *repeats,
                next: 0,
                part,
            },
        })
    }

    /// The trace, if the workload is one.
    pub(crate) fn trace(&self) -> Option<&Trace> {
        match &self.kind {
            Kind::Trace { trace, .. } => Some(trace),
            _ => None,
        }
    }
}

/// Share of sessions that are kept, so that the asked share of *requests* is.
fn kept_sessions(settings: &Settings) -> f64 {
    let share = settings.keep_alive_share.unwrap_or(1.0);
    let mean = settings
        .requests_per_connection
        .map_or(f64::INFINITY, Lengths::mean);
    if share >= 1.0 {
        return 1.0;
    }
    match mean.is_finite() {
        true => share / mean / (share / mean + 1.0 - share),
        // Connections without end never leave room for others: the share is of connections then.
        false => share,
    }
}

/// One thread's sessions.
#[derive(Debug)]
pub(crate) enum Feed {
    /// One file.
    File {
        lengths: Option<Lengths>,
        kept_session_share: f64,
        stream: Stream,
    },
    /// Sessions of a generator.
    Planned {
        sessions: Sessions,
        planned: Vec<PlannedRequest>,
        operations: Stream,
    },
    /// Pages of users.
    Surge {
        pages: SurgeGenerator,
        page: Vec<SurgeRequest>,
    },
    /// One request a session.
    WebStone(WebStoneGenerator),
    /// Sessions of a log: at its times or not, once or over and over.
    Trace {
        trace: Arc<Trace>,
        recorded: bool,
        repeats: bool,
        next: usize,
        part: Part,
    },
}

impl Feed {
    /// Puts the next session into a script; false when there is none left.
    pub(crate) fn next_session(&mut self, script: &mut Script) -> bool {
        script.steps.clear();
        let mut rounds = 1;
        match self {
            Self::File {
                lengths,
                kept_session_share,
                stream,
            } => {
                script.steps.push(Step::default());
                let kept = *kept_session_share >= 1.0 || stream.uniform() < *kept_session_share;
                rounds = match lengths {
                    _ if !kept => 1,
                    Some(lengths) => lengths.draw(stream).into(),
                    None => ENDLESS,
                };
            }
            Self::Planned {
                sessions,
                planned,
                operations,
            } => {
                sessions.next_session(planned);
                script.steps.extend(
                    planned
                        .iter()
                        .map(|request| planned_step(request, operations)),
                );
            }
            Self::Surge { pages, page } => {
                pages.next_page(page);
                script.steps.extend(page.iter().map(|request| Step {
                    object: request.object,
                    expected_bytes: request.response_bytes,
                    due_ns: (request.wait_s * 1e9) as u64,
                    ..Step::default()
                }));
            }
            Self::WebStone(generator) => {
                let (object, expected_bytes) = generator.next_request();
                script.steps.push(Step {
                    object,
                    expected_bytes,
                    ..Step::default()
                });
            }
            Self::Trace {
                trace,
                recorded,
                repeats,
                next,
                part,
            } => {
                let Some(steps) = next_of_trace(trace, next, *part, *repeats) else {
                    script.clear();
                    return false;
                };
                let due = |step: &Step| if *recorded { step.due_ns } else { 0 };
                script.steps.extend(steps.iter().map(|step| Step {
                    due_ns: due(step),
                    ..*step
                }));
            }
        }
        script.start(rounds);
        true
    }

    /// When the next session of a log begins, in the log's nanoseconds from its start.
    pub(crate) fn next_due_ns(&mut self) -> Option<u64> {
        let Self::Trace {
            trace, next, part, ..
        } = self
        else {
            return None;
        };
        while *next < trace.sessions() {
            if let Some(steps) = trace.session(*next, *part) {
                return steps.first().map(|step| step.due_ns);
            }
            *next += 1;
        }
        None
    }
}

/// The steps of the part's next session; with `again`, the first's after the last's.
fn next_of_trace<'a>(
    trace: &'a Trace,
    next: &mut usize,
    part: Part,
    again: bool,
) -> Option<&'a [Step]> {
    let mut passed = 0;
    while passed < trace.sessions() {
        if *next >= trace.sessions() {
            if !again {
                return None;
            }
            *next = 0;
        }
        let session = *next;
        *next += 1;
        passed += 1;
        if let Some(steps) = trace.session(session, part) {
            return Some(steps);
        }
    }
    None
}

/// A generator's request as a step. What a dynamic operation answers is the server's affair.
fn planned_step(request: &PlannedRequest, operations: &mut Stream) -> Step {
    let mut step = Step {
        object: request.object,
        expected_bytes: request.response_bytes,
        ..Step::default()
    };
    if request.dynamic {
        let total: f64 = DYNAMIC_SHARES.iter().map(|(_, share)| share).sum();
        let mut drawn = operations.uniform() * total;
        step.expected_bytes = ANY_SIZE;
        for (operation, share) in DYNAMIC_SHARES {
            step.operation = operation;
            drawn -= share;
            if drawn < 0.0 {
                break;
            }
        }
    }
    step
}
