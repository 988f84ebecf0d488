//! `load stream` sends and receives at the requested rate.

#![expect(clippy::unwrap_used, reason = "tests panic on errors")]

use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use perpacket_load::LoadError;
use perpacket_load::stream::{FarEndReport, Report, Spec, run, serve};
use perpacket_spec::parse;

/// A far end that runs in a thread until the test stops it.
struct Far {
    address: SocketAddr,
    stop: Arc<AtomicBool>,
    thread: JoinHandle<FarEndReport>,
}

impl Far {
    fn start(once: bool) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&stop);
        let (sender, receiver) = mpsc::channel();
        let thread = thread::spawn(move || {
            let once = if once { "--once" } else { "" };
            let spec: Spec = parse(&format!("--listen 127.0.0.1:0 {once}")).unwrap();
            serve(&spec, &flag, &mut |address| sender.send(address).unwrap()).unwrap()
        });
        Self {
            address: receiver.recv().unwrap(),
            stop,
            thread,
        }
    }

    fn end(self) -> FarEndReport {
        self.stop.store(true, Ordering::SeqCst);
        self.thread.join().unwrap()
    }
}

fn load(spec: &Spec) -> Report {
    run(spec, &AtomicBool::new(false), &mut |_| ()).unwrap()
}

fn spec(far: &Far, options: &str) -> Spec {
    let to = far.address;
    parse(&format!("--to {to} --duration 1s --threads 1 {options}")).unwrap()
}

#[test]
fn the_rate_of_all_connections_is_right_in_both_directions() {
    let far = Far::start(false);
    for direction in ["send", "receive"] {
        let options = "--connections 20 --bit-rate 40Mb/s --warmup 200ms --direction";
        let report = load(&spec(&far, &format!("{options} {direction}")));
        // A busy machine may send less, but never more, because a delayed sender catches up on at
        // most 0.1 s.
        assert!(
            report.bytes > 0 && report.goodput_bps < 1.2 * 40e6,
            "{report:?}"
        );
        assert_eq!(
            (report.connections_open, report.errors.len()),
            (20, 0),
            "{report:?}"
        );
        assert!(report.segments > 0, "{report:?}");
        assert_eq!(report.kernel_segment_bytes, 1460, "{report:?}");
        assert!(!report.congestion_control.is_empty());
    }
    let ended = far.end();
    assert_eq!(ended.connections, 40);
    // The far end received the bytes of one load and sent those of the other.
    assert!(ended.bytes > 0 && ended.bytes_sent > 0, "{ended:?}");
}

#[test]
fn a_load_without_a_rate_is_faster_and_busier() {
    let far = Far::start(false);
    let slow = load(&spec(&far, "--connections 2 --bit-rate 8Mb/s"));
    let fast = load(&spec(&far, "--connections 2"));
    assert!(fast.bytes > 2 * slow.bytes, "{} {}", fast.bytes, slow.bytes);
    // A sender with a rate sleeps, so it uses a small part of the fast sender's CPU time.
    assert!(
        slow.cpu_s < 0.5 * fast.cpu_s,
        "{} {}",
        slow.cpu_s,
        fast.cpu_s
    );
    far.end();
}

#[test]
fn two_thousand_connections_are_opened_and_served() {
    let far = Far::start(true);
    let report = load(&spec(&far, "--connections 2048 --bit-rate 50Mb/s"));
    assert_eq!(
        (report.connections_open, report.errors.len()),
        (2048, 0),
        "{report:?}"
    );
    assert!(
        report.bytes > 0 && report.goodput_bps < 1.2 * 50e6,
        "{}",
        report.goodput_bps
    );
    // The far end exits after the connections have closed.
    let ended = far.thread.join().unwrap();
    assert_eq!(ended.connections, 2048);
}

#[test]
fn a_missing_far_end_is_an_error() {
    let far = Far::start(false);
    let spec = spec(&far, "--connections 2");
    let address = far.address.to_string();
    far.end();
    let error = run(&spec, &AtomicBool::new(false), &mut |_| ()).unwrap_err();
    assert!(matches!(error, LoadError::Unreachable { .. }), "{error}");
    assert!(error.to_string().contains(&address), "{error}");
}

#[test]
fn a_far_end_that_dies_is_reported() {
    let far = Far::start(false);
    let spec = spec(&far, "--connections 4 --bit-rate 8Mb/s --duration 1h");
    let ender = thread::spawn(move || {
        thread::sleep(Duration::from_millis(700));
        far.end()
    });
    let report = load(&spec);
    ender.join().unwrap();
    assert_eq!(report.connections_open, 0, "{report:?}");
    assert!(
        report.duration_s < 3600.0 && report.failure().is_some(),
        "{report:?}"
    );
}

#[test]
fn an_unknown_congestion_control_is_an_error() {
    let far = Far::start(false);
    let spec = spec(&far, "--congestion carrier-pigeon");
    let error = run(&spec, &AtomicBool::new(false), &mut |_| ()).unwrap_err();
    assert!(error.to_string().contains("carrier-pigeon"), "{error}");
    far.end();
}

#[test]
fn an_end_that_arrives_with_the_last_bytes_is_noticed() {
    const BYTES: usize = 10_000;
    let far = Far::start(true);
    let mut stream = TcpStream::connect(far.address).unwrap();
    // Send at once: a greeting for segments of 1000 bytes from this end, the bytes, and the end.
    let mut words = b"PPS1".to_vec();
    words.extend([0; 4]);
    words.extend(1000_u32.to_be_bytes());
    words.resize(24 + BYTES, 0);
    stream.write_all(&words).unwrap();
    drop(stream);
    // A far end that misses the end would wait for ever. The test would then stop it and fail.
    let (stop, waited) = (Arc::clone(&far.stop), Arc::new(AtomicBool::new(false)));
    let was_stopped = Arc::clone(&waited);
    let (over, is_over) = mpsc::channel::<()>();
    let watch = thread::spawn(move || {
        if is_over.recv_timeout(Duration::from_secs(600)) == Err(mpsc::RecvTimeoutError::Timeout) {
            was_stopped.store(true, Ordering::SeqCst);
            stop.store(true, Ordering::SeqCst);
        }
    });
    let report = far.thread.join().unwrap();
    drop(over);
    watch.join().unwrap();
    assert!(!waited.load(Ordering::SeqCst), "the end was not seen");
    assert_eq!((report.connections, report.bytes), (1, BYTES as u64));
}
