//! The sessions of a workload, divided among threads.

use std::sync::Arc;

use perpacket_workload::{
    LognormalSessions, ParameterError, PlannedRequest, SessionSource, Sessions, SpecWeb99, Stream,
    Surge, SurgeGenerator, SurgeRequest, WebStoneGenerator, specweb99, surge, webstone,
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
pub(crate) struct Plan {
    /// Paths of the objects.
    pub paths: Arc<Paths>,
    /// The application, if the workload is one.
    pub application: Option<Arc<Application>>,
    /// The log, if the workload is one.
    pub log: Option<Arc<Log>>,
    sessions: Box<NewSessions>,
    seed: u64,
    shard: Shard,
}

/// Makes the sessions of a part.
type NewSessions = dyn Fn(&Part) -> Result<ThreadSessions, ParameterError>;

/// The part of a workload that one thread has.
struct Part {
    seed: u64,
    shard: Shard,
    /// The part of the values of an application that no other thread has: number and count. Values are
    /// divided as connections are: among processes, then among the threads of a process.
    values: (u32, u32),
}

/// The sessions of a generator.
fn planned(
    generator: impl Fn(u64) -> Result<Sessions, ParameterError> + 'static,
) -> Box<NewSessions> {
    Box::new(move |part| {
        Ok(ThreadSessions::Planned {
            sessions: generator(part.seed)?,
            planned: Vec::new(),
            operations: Stream::new(part.seed, "dynamic operations"),
        })
    })
}

impl Plan {
    /// Generates or reads the state that all threads share.
    pub(crate) fn new(spec: &Spec, prefix: &str, path: &str) -> Result<Self, LoadError> {
        let (mut application, mut log) = (None, None);
        let (paths, sessions): (_, Box<NewSessions>) = match spec.workload() {
            Workload::File => {
                let lengths = spec.requests_per_connection;
                let kept_session_share = persistent_session_share(spec);
                let file = move |part: &Part| {
                    Ok(ThreadSessions::File {
                        lengths,
                        kept_session_share,
                        stream: Stream::new(part.seed, "session lengths"),
                    })
                };
                (Paths::new("", [path]).into(), Box::new(file))
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
                let generator = move |seed| Ok(Sessions::SpecWeb99(parameters.generator(seed)?));
                (paths.into(), planned(generator))
            }
            workload @ (Workload::WorldCup | Workload::Ibm) => {
                let parameters = match workload {
                    Workload::Ibm => LognormalSessions::ibm(),
                    _ => LognormalSessions::world_cup(),
                };
                let objects = parameters.objects;
                let generator = move |seed| Ok(Sessions::Lognormal(parameters.generator(seed)?));
                let first = generator(spec.seed.seed)?;
                let paths = (0..objects).map(|object| first.object_path(object));
                (Paths::new(prefix, paths).into(), planned(generator))
            }
            Workload::Surge { .. } => {
                let generator = Surge::default().generator(spec.seed.seed)?;
                let files = generator.sizes().len() as u32;
                let paths = Paths::new(prefix, (0..files).map(surge::object_path));
                let surge = move |part: &Part| {
                    let pages = generator.with_seed(part.seed);
                    Ok(ThreadSessions::Surge {
                        pages,
                        page: Vec::new(),
                    })
                };
                (paths.into(), Box::new(surge))
            }
            Workload::WebStone => {
                let paths = Paths::new(prefix, webstone::FILES.map(|(path, ..)| path));
                let webstone =
                    |part: &Part| Ok(ThreadSessions::WebStone(WebStoneGenerator::new(part.seed)));
                (paths.into(), Box::new(webstone))
            }
            Workload::Application { file, .. } => {
                let pages = Arc::new(Application::read(file)?);
                let most = pages.max_clients();
                if f64::from(spec.connections()) > most {
                    return Err(LoadError::Usage(format!(
                        "clients: {}: expected at most {most}, because a number in {} has {most} \
                         values and each client needs one of its own",
                        spec.connections(),
                        file.display()
                    )));
                }
                application = Some(Arc::clone(&pages));
                let walks = move |part: &Part| {
                    Ok(ThreadSessions::Application {
                        free: pages.free_values(part.values.0, part.values.1),
                        application: Arc::clone(&pages),
                        random: Stream::new(part.seed, "walks of clients"),
                    })
                };
                (Paths::new(prefix, [""; 0]).into(), Box::new(walks))
            }
            Workload::Trace {
                log: file,
                spread,
                repeats,
            } => {
                let is_recorded = matches!(spec.arrivals(), Arrivals::Recorded { .. });
                let spread = is_recorded.then_some(spread);
                let read = Arc::new(Log::read(file, spread, prefix, spec.seed.seed)?);
                let paths = Arc::clone(&read.paths);
                log = Some(Arc::clone(&read));
                let logged = move |part: &Part| {
                    Ok(ThreadSessions::Log {
                        log: Arc::clone(&read),
                        repeats,
                        next: 0,
                        shard: part.shard,
                    })
                };
                (paths, Box::new(logged))
            }
        };
        Ok(Self {
            paths,
            application,
            log,
            sessions,
            seed: spec.seed.seed,
            shard: spec.shard(),
        })
    }

    /// The sessions of one thread.
    pub(crate) fn thread_sessions(
        &self,
        thread: u32,
        threads: u32,
    ) -> Result<ThreadSessions, LoadError> {
        let Shard { index, shards } = self.shard;
        let shard = self.shard.split(thread, threads);
        Ok((self.sessions)(&Part {
            seed: (self.seed).wrapping_add(SEED_STEP.wrapping_mul(u64::from(shard.index))),
            shard,
            values: (index + shards * thread, shards * threads),
        })?)
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
