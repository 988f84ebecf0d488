//! The sessions of a workload, divided among threads.

use std::sync::Arc;

use perpacket_workload::{
    LognormalSessions, PlannedRequest, SessionSource, Sessions, SpecWeb99, Stream, Surge,
    SurgeGenerator, SurgeRequest, WebStoneGenerator, specweb99, surge, webstone,
};

use super::application::{Application, FreeValues};
use super::arrivals::Arrivals;
use super::log::Log;
use super::paths::Paths;
use super::session::{ANY_SIZE, Operation, Session, SessionRequest};
use super::shard::Shard;
use super::spec::{RequestsPerConnection, Spec};
use super::workload::Workload;
use crate::error::LoadError;

/// SPECweb99's dynamic operations, in percent of all requests. They add up to 30 %. The shares are
/// from general knowledge of the benchmark, as the report notes.
const DYNAMIC_SHARES: [(Operation, f64); 4] = [
    (Operation::DynamicGet, 12.45),
    (Operation::Advertisement, 12.60),
    (Operation::DynamicPost, 4.80),
    (Operation::Cgi, 0.15),
];
/// Rounds of a session that never ends.
const ENDLESS: u64 = u64::MAX;
/// Difference between the seeds of two shards.
const SEED_STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// A workload before it is divided among threads.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    /// Paths of the objects.
    pub paths: Arc<Paths>,
    kind: Kind,
    seed: u64,
    shard: Shard,
}

#[derive(Clone, Debug)]
enum Kind {
    File {
        lengths: Option<RequestsPerConnection>,
        kept_session_share: f64,
    },
    SpecWeb99(SpecWeb99),
    Lognormal(LognormalSessions),
    Surge(SurgeGenerator),
    WebStone,
    Application(Arc<Application>),
    Log {
        log: Arc<Log>,
        repeats: bool,
    },
}

impl Plan {
    /// Generates or reads the state that all threads share.
    pub(crate) fn new(spec: &Spec, prefix: &str, path: &str) -> Result<Self, LoadError> {
        let (kind, paths) = match spec.workload() {
            Workload::File => {
                let kind = Kind::File {
                    lengths: spec.requests_per_connection,
                    kept_session_share: persistent_session_share(spec),
                };
                (kind, Arc::new(Paths::new("", [path])))
            }
            Workload::SpecWeb99 { dynamic } => {
                let mut parameters = match dynamic {
                    true => SpecWeb99::mixed(spec.connections()),
                    false => SpecWeb99::static_only(spec.connections()),
                };
                if let Some(share) = spec.keep_alive {
                    parameters.keep_alive_share = share.0;
                }
                parameters.check()?;
                let objects = parameters.directories() * specweb99::FILES_PER_DIRECTORY;
                let paths = Paths::new(prefix, (0..objects).map(specweb99::object_path));
                (Kind::SpecWeb99(parameters), Arc::new(paths))
            }
            workload @ (Workload::WorldCup | Workload::Ibm) => {
                let parameters = match workload {
                    Workload::Ibm => LognormalSessions::ibm(),
                    _ => LognormalSessions::world_cup(),
                };
                let generator = Sessions::Lognormal(parameters.generator(spec.seed.seed)?);
                let paths = (0..parameters.objects).map(|object| generator.object_path(object));
                let paths = Paths::new(prefix, paths);
                (Kind::Lognormal(parameters), Arc::new(paths))
            }
            Workload::Surge { .. } => {
                let generator = Surge::default().generator(spec.seed.seed)?;
                let files = generator.sizes().len() as u32;
                let paths = Paths::new(prefix, (0..files).map(surge::object_path));
                (Kind::Surge(generator), Arc::new(paths))
            }
            Workload::WebStone => {
                let paths = Paths::new(prefix, webstone::FILES.map(|(path, ..)| path));
                (Kind::WebStone, Arc::new(paths))
            }
            Workload::Application { file, .. } => {
                let application = Application::read(file)?;
                let most = application.max_clients();
                if f64::from(spec.connections()) > most {
                    return Err(LoadError::Usage(format!(
                        "clients: {}: expected at most {most}, because a number in {} has {most} \
                         values and each client needs one of its own",
                        spec.connections(),
                        file.display()
                    )));
                }
                let kind = Kind::Application(Arc::new(application));
                (kind, Arc::new(Paths::new(prefix, [""; 0])))
            }
            Workload::Trace {
                file,
                objects,
                spread,
                repeats,
            } => {
                let is_recorded = matches!(spec.arrivals(), Arrivals::Recorded { .. });
                let spread = is_recorded.then_some(spread);
                let log = Log::read(file, objects, spread, prefix, spec.seed.seed)?;
                let paths = Arc::clone(&log.paths);
                let kind = Kind::Log {
                    log: Arc::new(log),
                    repeats,
                };
                (kind, paths)
            }
        };
        Ok(Self {
            paths,
            kind,
            seed: spec.seed.seed,
            shard: spec.shard(),
        })
    }

    pub(crate) fn thread_sessions(
        &self,
        thread: u32,
        threads: u32,
    ) -> Result<ThreadSessions, LoadError> {
        let shard = self.shard.split(thread, threads);
        let seed = self
            .seed
            .wrapping_add(SEED_STEP.wrapping_mul(u64::from(shard.index)));
        Ok(match &self.kind {
            Kind::File {
                lengths,
                kept_session_share,
            } => ThreadSessions::File {
                lengths: *lengths,
                kept_session_share: *kept_session_share,
                stream: Stream::new(seed, "session lengths"),
            },
            Kind::SpecWeb99(parameters) => ThreadSessions::Planned {
                sessions: Sessions::SpecWeb99(parameters.generator(seed)?),
                planned: Vec::new(),
                operations: Stream::new(seed, "dynamic operations"),
            },
            Kind::Lognormal(parameters) => ThreadSessions::Planned {
                sessions: Sessions::Lognormal(parameters.generator(seed)?),
                planned: Vec::new(),
                operations: Stream::new(seed, "dynamic operations"),
            },
            Kind::Surge(generator) => ThreadSessions::Surge {
                pages: generator.with_seed(seed),
                page: Vec::new(),
            },
            Kind::WebStone => ThreadSessions::WebStone(WebStoneGenerator::new(seed)),
            Kind::Application(application) => ThreadSessions::Application {
                application: Arc::clone(application),
                // Values are divided as connections are: among processes, then among the threads of
                // a process.
                free: application.free_values(
                    self.shard.index + self.shard.shards * thread,
                    self.shard.shards * threads,
                ),
                random: Stream::new(seed, "walks of clients"),
            },
            Kind::Log { log, repeats } => ThreadSessions::Log {
                log: Arc::clone(log),
                repeats: *repeats,
                next: 0,
                shard,
            },
        })
    }

    /// The application, if the workload is one.
    pub(crate) fn application(&self) -> Option<&Arc<Application>> {
        match &self.kind {
            Kind::Application(application) => Some(application),
            _ => None,
        }
    }

    /// The log, if the workload is one.
    pub(crate) fn log(&self) -> Option<&Log> {
        match &self.kind {
            Kind::Log { log, .. } => Some(log),
            _ => None,
        }
    }
}

/// The share of sessions on persistent connections that results in the configured share of
/// *requests*.
fn persistent_session_share(spec: &Spec) -> f64 {
    let share = spec.keep_alive.map_or(1.0, |share| share.0);
    let mean = spec
        .requests_per_connection
        .map_or(f64::INFINITY, RequestsPerConnection::mean);
    if share >= 1.0 {
        return 1.0;
    }
    match mean.is_finite() {
        true => share / mean / (share / mean + 1.0 - share),
        // The sessions never end, so the share of requests is the share of connections.
        false => share,
    }
}

#[derive(Debug)]
pub(crate) enum ThreadSessions {
    File {
        lengths: Option<RequestsPerConnection>,
        kept_session_share: f64,
        stream: Stream,
    },
    /// Sessions of a generator.
    Planned {
        sessions: Sessions,
        planned: Vec<PlannedRequest>,
        operations: Stream,
    },
    /// Pages that users read.
    Surge {
        pages: SurgeGenerator,
        page: Vec<SurgeRequest>,
    },
    /// Sessions of one request.
    WebStone(WebStoneGenerator),
    /// Walks of clients through an application.
    Application {
        application: Arc<Application>,
        free: FreeValues,
        random: Stream,
    },
    /// Sessions of a log: at the log's times or as fast as possible, once or repeatedly.
    Log {
        log: Arc<Log>,
        repeats: bool,
        next: usize,
        shard: Shard,
    },
}

impl ThreadSessions {
    /// Replaces `session` by the next session. Returns false if there is none.
    pub(crate) fn next_session(&mut self, session: &mut Session) -> bool {
        let requests = session.requests.own();
        requests.clear();
        let mut rounds = 1;
        match self {
            Self::File {
                lengths,
                kept_session_share,
                stream,
            } => {
                requests.push(SessionRequest::default());
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
                requests.extend(
                    planned
                        .iter()
                        .map(|request| session_request(request, operations)),
                );
            }
            Self::Surge { pages, page } => {
                pages.next_page(page);
                requests.extend(page.iter().map(|request| SessionRequest {
                    object: request.object,
                    expected_bytes: request.response_bytes,
                    due_ns: (request.wait_s * 1e9) as u64,
                    ..SessionRequest::default()
                }));
            }
            Self::WebStone(generator) => {
                let (object, expected_bytes) = generator.next_request();
                requests.push(SessionRequest {
                    object,
                    expected_bytes,
                    ..SessionRequest::default()
                });
            }
            Self::Application {
                application,
                free,
                random,
            } => {
                let first = application.first(&mut session.client, random, free);
                requests.push(first);
                rounds = ENDLESS;
            }
            Self::Log {
                log,
                repeats,
                next,
                shard,
            } => {
                let Some(number) = next_of_log(log, next, *shard, *repeats) else {
                    session.clear();
                    return false;
                };
                session.requests = log.shared(number);
            }
        }
        session.start(rounds);
        true
    }

    /// Draws the next page of a client. A wrong answer ends the session, because later requests
    /// need texts of that answer.
    pub(crate) fn next_page(&mut self, session: &mut Session, is_right: bool) {
        let Self::Application {
            application,
            random,
            ..
        } = self
        else {
            return;
        };
        let next = session
            .current()
            .filter(|_| is_right)
            .and_then(|request| application.next(request.object, &mut session.client, random));
        match next {
            Some(next) => session.requests.own()[0] = next,
            None => session.clear(),
        }
    }

    /// Start of the next session of a log, in nanoseconds since the start of the log.
    pub(crate) fn next_due_ns(&mut self) -> Option<u64> {
        let Self::Log {
            log, next, shard, ..
        } = self
        else {
            return None;
        };
        while *next < log.sessions() {
            if let Some(requests) = log.session(*next, *shard) {
                return requests.first().map(|request| request.due_ns);
            }
            *next += 1;
        }
        None
    }
}

/// The number of the next session of this shard. After the last session, the first one if the log
/// repeats.
fn next_of_log(log: &Log, next: &mut usize, shard: Shard, repeats: bool) -> Option<usize> {
    for _ in 0..log.sessions() {
        if *next >= log.sessions() {
            if !repeats {
                return None;
            }
            *next = 0;
        }
        let number = *next;
        *next += 1;
        if log.session(number, shard).is_some() {
            return Some(number);
        }
    }
    None
}

/// A generated request. The size of a dynamic response depends on the server.
fn session_request(request: &PlannedRequest, operations: &mut Stream) -> SessionRequest {
    let mut first = SessionRequest {
        object: request.object,
        expected_bytes: request.response_bytes,
        ..SessionRequest::default()
    };
    if request.dynamic {
        let total: f64 = DYNAMIC_SHARES.iter().map(|(_, share)| share).sum();
        let mut drawn = operations.uniform() * total;
        first.expected_bytes = ANY_SIZE;
        for (operation, share) in DYNAMIC_SHARES {
            first.operation = operation;
            drawn -= share;
            if drawn < 0.0 {
                break;
            }
        }
    }
    first
}
