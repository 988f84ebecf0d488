//! Profiles of this machine. The tests are skipped if whole processors cannot be profiled.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod quiet;

use perpacket_requirements::{DISTURBED, lacks_perf, skip};
use std::env;
use std::hint::black_box;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use perpacket_profiler::settings::Events;
use perpacket_profiler::spec::Spec;
use perpacket_profiler::{End, ProfileError, Profiler, Report, Settings};
use quiet::Verdict;
use rustix::time::{ClockId, clock_gettime};

/// The environment variable that makes this test program a server.
const SERVER: &str = "PERPACKET_TEST_SERVER";

/// Processor time that the server uses for a request.
const BURN: Duration = Duration::from_micros(20);

/// Largest share of missing timer samples with which a profile is judged.
const MAX_MISSING_SHARE: f64 = 0.05;

/// Shortest busy time, in seconds, in which every layer of a loaded server has samples.
const MIN_BUSY_S: f64 = 0.5;

/// The reason not to judge a profile if it has too little work.
fn too_little_work(report: &Report) -> Option<String> {
    let busy_s = report.total.cpu_s.unwrap_or(0.0);
    (busy_s < MIN_BUSY_S).then(|| format!("only {busy_s:.2} s of work on this busy machine"))
}

/// The reason not to judge a profile if too many samples are missing.
fn too_few_samples(missing_share: f64) -> Option<String> {
    (missing_share > MAX_MISSING_SHARE)
        .then(|| format!("{missing_share:.2} of the timer's samples are missing"))
}

/// This is not a test: `Server` runs it in another process. It answers a byte 0 at once, and a byte
/// 1 after using processor time. At the end it prints the difference between the mean processor
/// times of the two answers, by its thread's clock.
#[test]
fn serve_if_the_variable_is_set() {
    if env::var_os(SERVER).is_none() {
        return;
    }
    let rounds = rounds_of(BURN);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    println!("port {}", listener.local_addr().unwrap().port());
    let (mut stream, _) = listener.accept().unwrap();
    stream.set_nodelay(true).unwrap();
    let (mut burned_ns, mut requests) = ([0, 0], [0_u64, 0]);
    let mut byte = [0];
    while stream.read(&mut byte).unwrap() > 0 {
        let injected = usize::from(byte[0]);
        let before = thread_cpu_ns();
        burn(rounds * injected as u64);
        burned_ns[injected] += thread_cpu_ns() - before;
        requests[injected] += 1;
        stream.write_all(&byte).unwrap();
    }
    let mean = |of: usize| burned_ns[of] as f64 / requests[of].max(1) as f64;
    println!("burned {}", mean(1) - mean(0));
}

fn thread_cpu_ns() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// The function is not inlined, so that folded stacks can name it.
#[inline(never)]
fn burn(rounds: u64) {
    let mut state = 1_u64;
    for round in 0..rounds {
        state = black_box(
            state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(round),
        );
    }
}

/// The number of rounds that run for about this time, from the fastest of several tries.
fn rounds_of(time: Duration) -> u64 {
    let rounds = 100_000;
    let best = (0..20).map(|_| {
        let before = thread_cpu_ns();
        burn(rounds);
        thread_cpu_ns() - before
    });
    let best_ns = best.min().unwrap().max(1);
    rounds * time.as_nanos() as u64 / best_ns
}

/// The server process, and a client that sends a request after each response.
struct Server {
    child: Child,
    lines: BufReader<std::process::ChildStdout>,
    requests: Arc<AtomicU64>,
    injecting: Arc<AtomicBool>,
    stop: Arc<AtomicBool>,
    client: Option<thread::JoinHandle<()>>,
    _folder: tempfile::TempDir,
}

impl Server {
    fn start() -> Self {
        // The server runs a copy of the executable, so that folded stacks distinguish it from the
        // client.
        let folder = tempfile::tempdir().unwrap();
        let original = env::current_exe().unwrap();
        let copy = folder.path().join(original.file_name().unwrap());
        // Another process copies: a child of another test would inherit this one's descriptor, and nobody can run
        // a file that is open for writing.
        let copied = Command::new("cp").args([&original, &copy]).status();
        assert!(copied.unwrap().success());
        let mut child = Command::new(&copy)
            .args(["--exact", "serve_if_the_variable_is_set", "--nocapture"])
            .env(SERVER, "1")
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap());
        let port: u16 = value_after(&mut lines, "port ").parse().unwrap();
        let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        stream.set_nodelay(true).unwrap();
        let requests = Arc::new(AtomicU64::new(0));
        let stop = Arc::new(AtomicBool::new(false));
        let injecting = Arc::new(AtomicBool::new(true));
        let (counter, flag) = (Arc::clone(&requests), Arc::clone(&stop));
        let injects = Arc::clone(&injecting);
        let client = thread::spawn(move || {
            let mut byte = [0];
            while !flag.load(Ordering::Relaxed) {
                byte[0] = u8::from(injects.load(Ordering::Relaxed));
                stream.write_all(&byte).unwrap();
                stream.read_exact(&mut byte).unwrap();
                counter.fetch_add(1, Ordering::Relaxed);
            }
        });
        Self {
            child,
            lines,
            requests,
            injecting,
            stop,
            client: Some(client),
            _folder: folder,
        }
    }

    /// Ends the server. Returns the nanoseconds that each request used, by the server's clock.
    fn end(&mut self) -> f64 {
        self.stop.store(true, Ordering::Relaxed);
        self.client.take().unwrap().join().unwrap();
        let burned = value_after(&mut self.lines, "burned ");
        self.child.wait().unwrap();
        burned.parse().unwrap()
    }

    /// Measures a profile. Returns the user time of a request in nanoseconds, the half width of its
    /// interval, and the share of missing samples.
    fn profiled(&self, injecting: bool) -> [f64; 3] {
        self.injecting.store(injecting, Ordering::Relaxed);
        let settings = Settings {
            duration: Some(Duration::from_secs(2)),
            pid: Some(self.child.id()),
            frequency_hz: 1999,
            ..Settings::default()
        };
        let mut profiler = Profiler::new(settings).unwrap();
        let before = self.requests.load(Ordering::Relaxed);
        let (report, _) = profiler.run(&AtomicBool::new(false)).unwrap();
        let requests = (self.requests.load(Ordering::Relaxed) - before) as f64;
        let user = report.layers.get("user").unwrap().clone();
        let others = report.categories.get("other_programs").unwrap().share;
        assert_eq!(
            user,
            report.server.unwrap().user,
            "the client's code was charged to the server"
        );
        assert!(report.layers.get("other").unwrap().share >= others);
        let scale = report.total.cpu_s.unwrap() * 1e9 / requests;
        let half = (user.high.unwrap() - user.low.unwrap()) / 2.0;
        let missing = report.missing_share.unwrap_or(0.0);
        [user.share * scale, half * scale, missing]
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // The process has ended unless the test failed before.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The text after `mark` in the first line that contains it. The test harness prints other lines.
fn value_after(lines: &mut impl BufRead, mark: &str) -> String {
    for line in lines.lines() {
        let line = line.unwrap();
        if let Some((_, rest)) = line.split_once(mark) {
            return rest.to_owned();
        }
    }
    panic!("the server did not print `{mark}`");
}

fn run(settings: Settings) -> Result<(Report, End), ProfileError> {
    Profiler::new(settings)?.run(&AtomicBool::new(false))
}

#[test]
fn a_profile_finds_the_known_cost_of_a_request() {
    if lacks_perf() {
        return;
    }
    quiet::judge(|| {
        let mut server = Server::start();
        let [with_ns, with_half, with_missing] = server.profiled(true);
        let [without_ns, without_half, without_missing] = server.profiled(false);
        let known_ns = server.end();
        let found_ns = with_ns - without_ns;
        let half = with_half.hypot(without_half);
        let found =
            format!("injected {known_ns:.0} ns a request, found {found_ns:.0} +- {half:.0}");
        eprintln!("{found}");
        if let Some(why) = too_few_samples(with_missing.max(without_missing)) {
            Verdict::Undecided(why)
        } else if half > known_ns / 4.0 {
            Verdict::Undecided("the interval is wider than the cost allows".to_owned())
        } else if (found_ns - known_ns).abs() < half + known_ns / 4.0 {
            // One interval in twenty excludes the true value. So the tolerance is the interval plus
            // a quarter of the cost.
            Verdict::Right
        } else {
            Verdict::Wrong(found)
        }
    });
}

#[test]
fn serving_over_loopback_leaves_little_unclaimed_and_layers_sum_to_the_total() {
    if lacks_perf() {
        return;
    }
    quiet::judge(|| {
        let mut server = Server::start();
        let settings = Settings {
            duration: Some(Duration::from_secs(2)),
            ..Settings::default()
        };
        let (report, end) = run(settings).unwrap();
        server.end();
        assert_eq!(end, End::Duration);
        let shares: f64 = report.layers.0.iter().map(|(_, cost)| cost.share).sum();
        assert!((shares - 1.0).abs() < 1e-9);
        assert!(report.packets.sent > 0 && report.packets.segments_sent > 0);
        let reason = too_little_work(&report)
            .or_else(|| too_few_samples(report.missing_share.unwrap_or(0.0)));
        if let Some(why) = reason {
            return Verdict::Undecided(why);
        }
        for layer in ["tcp", "ip", "ethernet", "user", "syscall"] {
            if report.layers.get(layer).unwrap().share == 0.0 {
                return Verdict::Wrong(format!("no samples in {layer}"));
            }
        }
        // The share is 1 % on a quiet machine, and higher on a busy one.
        if report.unclaimed_share < 0.05 {
            Verdict::Right
        } else {
            Verdict::Wrong(format!("unclaimed: {:?}", report.unclaimed_top))
        }
    });
}

#[test]
fn folded_stacks_name_programs_and_kernel_functions() {
    if lacks_perf() {
        return;
    }
    let mut server = Server::start();
    let settings = Settings {
        duration: Some(Duration::from_secs(1)),
        keeps_offsets: true,
        ..Settings::default()
    };
    let mut profiler = Profiler::new(settings).unwrap();
    let (report, _) = profiler.run(&AtomicBool::new(false)).unwrap();
    server.end();
    let mut bytes = Vec::new();
    profiler.write_folded(&mut bytes).unwrap();
    let text = String::from_utf8(bytes).unwrap();
    let samples = |line: &str| line.rsplit_once(' ').unwrap().1.parse::<u64>().unwrap();
    assert_eq!(text.lines().map(samples).sum::<u64>(), report.samples);
    if let Some(why) = too_little_work(&report) {
        skip(DISTURBED, why);
        return;
    }
    assert!(text.lines().any(|line| line.contains(";tcp_")), "{text}");
    assert!(
        text.lines().any(|line| line.contains("machine::burn")),
        "{text}"
    );
}

#[test]
fn every_kind_of_miss_is_counted_or_named() {
    if lacks_perf() {
        return;
    }
    let settings = Settings {
        duration: Some(Duration::from_millis(300)),
        events: Events::Misses,
        ..Settings::default()
    };
    let (report, _) = run(settings).unwrap();
    let lacking = report
        .limits
        .iter()
        .find(|limit| limit.starts_with("this machine does not count "));
    for event in ["l1i", "l1d", "itlb", "dtlb", "branch"] {
        let name = format!("{event}_misses");
        let is_counted = report.counters.iter().any(|pass| pass.contains_key(&name));
        let is_named = lacking.is_some_and(|limit| limit.contains(&name));
        assert_ne!(is_counted, is_named, "{name}: {:?}", report.limits);
    }
}

#[test]
fn a_command_is_profiled_until_it_ends() {
    if lacks_perf() {
        return;
    }
    let settings = Settings {
        duration: None,
        command: ["sh", "-c", "exit 7"].map(str::to_owned).to_vec(),
        ..Settings::default()
    };
    let (report, end) = run(settings).unwrap();
    assert_eq!(end, End::Command(7));
    assert_eq!(report.exit_status, Some(7));
}

#[test]
fn a_command_that_outlives_its_window_is_ended() {
    if lacks_perf() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("process");
    let script = format!("echo $$ > {}; exec sleep 600", file.display());
    let settings = Settings {
        duration: Some(Duration::from_millis(500)),
        command: ["sh", "-c", &script].map(str::to_owned).to_vec(),
        ..Settings::default()
    };
    let (_, end) = run(settings).unwrap();
    assert_eq!(end, End::Duration);
    // The file is empty or absent if the command was ended before it wrote its pid.
    if let Ok(process) = std::fs::read_to_string(&file) {
        let folder = PathBuf::from("/proc").join(process.trim());
        assert!(process.trim().is_empty() || !folder.exists(), "{process}");
    }
}

#[test]
fn windows_follow_each_other_until_the_duration_is_over() {
    if lacks_perf() {
        return;
    }
    let settings = Settings {
        duration: Some(Duration::from_millis(600)),
        ..Settings::default()
    };
    let mut windows = 0;
    let mut profiler = Profiler::new(settings).unwrap();
    let end = profiler
        .run_every(
            Duration::from_millis(200),
            &AtomicBool::new(false),
            |report| {
                // The number of samples depends on the machine.
                assert!(report.window_s > 0.0);
                windows += 1;
                Ok::<(), ProfileError>(())
            },
        )
        .unwrap();
    assert_eq!(end, End::Duration);
    assert!((1..=3).contains(&windows), "{windows}");
}

#[test]
fn wrong_settings_are_errors_before_anything_runs() {
    let message = |settings: Settings| Profiler::new(settings).err().unwrap().to_string();
    let text = message(Settings {
        cpus: Some(vec![0, 1023]),
        ..Settings::default()
    });
    assert!(text.contains("CPU 1023 is not online"), "{text}");
    let text = message(Settings {
        pid: Some(999_999_999),
        ..Settings::default()
    });
    assert!(text.contains("--pid 999999999: no such process"), "{text}");
    let text = perpacket_spec::parse::<Spec>("--frequency 0")
        .unwrap_err()
        .message;
    assert!(
        text.contains("expected a whole number from 1 to 20000"),
        "{text}"
    );
    let text = message(Settings {
        rules: Some(PathBuf::from("/nowhere/rules.toml")),
        ..Settings::default()
    });
    assert!(text.starts_with("--rules /nowhere/rules.toml"), "{text}");
}
