//! A link between two network namespaces.
//!
//! The tests need root, and a kernel with TAP devices. Without either they print the reason and
//! pass.

#![expect(
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test that cannot be set up has failed"
)]

use perpacket_requirements::skip;
use std::fs;
use std::io::Write;
use std::net::UdpSocket;
use std::ops::ControlFlow;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::process::Command;
use std::sync::mpsc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use perpacket_link::{DirectionSpec, Link, LinkError, Report};
use perpacket_linux::interface::{self, Interface};
use rustix::thread::gettid;

type Task = Box<dyn FnOnce() + Send>;

/// A network namespace. A thread inside it keeps it alive.
struct Host {
    path: String,
    tasks: Option<mpsc::Sender<Task>>,
    thread: Option<JoinHandle<()>>,
}

impl Host {
    /// Returns `None` and prints the reason if this process cannot create namespaces.
    fn new() -> Option<Self> {
        let (tasks, received) = mpsc::channel::<Task>();
        let (ready, entered) = mpsc::channel();
        let thread = thread::spawn(move || {
            let created = perpacket_linux::namespace::create();
            ready.send(created.map(|()| gettid())).unwrap();
            for task in received {
                task();
            }
        });
        match entered.recv().unwrap() {
            Ok(number) => Some(Self {
                path: format!("/proc/self/task/{}/ns/net", number.as_raw_nonzero()),
                tasks: Some(tasks),
                thread: Some(thread),
            }),
            Err(error) => {
                skip("netns", error);
                None
            }
        }
    }

    /// Runs a task in the namespace.
    fn run<R: Send + 'static>(&self, task: impl FnOnce() -> R + Send + 'static) -> R {
        let (send, result) = mpsc::channel();
        let task = Box::new(move || send.send(task()).unwrap());
        self.tasks.as_ref().unwrap().send(task).unwrap();
        result.recv().unwrap()
    }

    /// A socket in the namespace, with a time-out.
    fn socket(&self, address: &'static str) -> UdpSocket {
        let socket = self.run(move || UdpSocket::bind(address).unwrap());
        socket
            .set_read_timeout(Some(Duration::from_secs(600)))
            .unwrap();
        socket
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        self.tasks.take();
        self.thread.take().unwrap().join().unwrap();
    }
}

/// Two hosts and a link that runs in a thread.
struct Joined {
    left: Host,
    right: Host,
    interrupt: UnixStream,
    reports: mpsc::Receiver<Report>,
    link: JoinHandle<Result<Report, LinkError>>,
}

/// Returns `None` if this machine cannot have a link.
fn join(left_to_right: DirectionSpec, right_to_left: DirectionSpec) -> Option<Joined> {
    let (left, right) = (Host::new()?, Host::new()?);
    let end = |host: &Host, address: &str| {
        (
            format!("{}:link0", host.path).parse().unwrap(),
            Some(address.parse().unwrap()),
        )
    };
    let ends = (end(&left, "10.9.0.1/24"), end(&right, "10.9.0.2/24"));
    let mut link = match Link::open(&ends.0, &ends.1, left_to_right, right_to_left, 1, &[]) {
        Ok(link) => link,
        Err(error) if error.is_lack_of_machine() => {
            skip("tun", error);
            return None;
        }
        Err(error) => panic!("{error}"),
    };
    let (interrupt, interrupted) = UnixStream::pair().unwrap();
    interrupted.set_nonblocking(true).unwrap();
    let (send, reports) = mpsc::channel();
    let link = thread::spawn(move || {
        let mut interrupts = 0;
        // The first interrupt requests a report. The second interrupt ends the link.
        link.run(None, interrupted.as_fd(), |report| {
            interrupts += 1;
            send.send(report).unwrap();
            if interrupts == 1 {
                ControlFlow::Continue(())
            } else {
                ControlFlow::Break(())
            }
        })
    });
    Some(Joined {
        left,
        right,
        interrupt,
        reports,
        link,
    })
}

impl Joined {
    /// The report until now.
    fn report(&mut self) -> Report {
        self.interrupt.write_all(b"!").unwrap();
        self.reports.recv().unwrap()
    }

    /// Ends the link with a second interrupt. Returns its last report.
    fn end(mut self) -> Report {
        self.report();
        self.link.join().unwrap().unwrap()
    }
}

fn delay(delay_us: f64) -> DirectionSpec {
    DirectionSpec {
        delay_us,
        ..DirectionSpec::default()
    }
}

#[test]
fn a_packet_is_never_early_and_each_direction_has_its_own_delay() {
    let Some(mut joined) = join(delay(30_000.0), delay(10_000.0)) else {
        return;
    };
    let (left, right) = (
        joined.left.socket("10.9.0.1:0"),
        joined.right.socket("10.9.0.2:7"),
    );
    let mut buffer = [0; 16];
    // The test asserts only lower bounds: no packet is early, however busy the machine is. Before
    // the first packet, both kernels resolve the address of their neighbour.
    let start = Instant::now();
    left.send_to(b"first", "10.9.0.2:7").unwrap();
    let (_, from) = right.recv_from(&mut buffer).unwrap();
    assert!(start.elapsed() >= Duration::from_millis(30 + 10 + 30));
    let start = Instant::now();
    left.send_to(b"there", "10.9.0.2:7").unwrap();
    right.recv_from(&mut buffer).unwrap();
    assert!(start.elapsed() >= Duration::from_millis(30));
    let start = Instant::now();
    right.send_to(b"back", from).unwrap();
    let (length, _) = left.recv_from(&mut buffer).unwrap();
    assert!(start.elapsed() >= Duration::from_millis(10));
    assert_eq!(&buffer[..length], b"back");
    let early = joined.report();
    assert!(
        early.left_to_right.packets >= 3,
        "two packets and an ARP request"
    );
    let report = joined.end();
    assert!(report.left_to_right.packets >= early.left_to_right.packets);
    assert_eq!(report.left_to_right.dropped.loss, 0);
    assert_eq!(report.right_to_left.dropped.queue, 0);
}

/// Frames that the kernel sent to the link in the caller's namespace (proc_net(5)).
fn sent_by_device() -> u64 {
    let text = fs::read_to_string("/proc/thread-self/net/dev").unwrap();
    let (_, counts) = text.split_once("link0:").unwrap();
    counts
        .split_ascii_whitespace()
        .nth(9)
        .unwrap()
        .parse()
        .unwrap()
}

#[test]
fn lost_and_queue_dropped_packets_are_counted_and_the_others_arrive_in_order() {
    const PACKETS: u32 = 200;
    let slow = DirectionSpec {
        rate_bps: Some(1_000_000),
        queue_packets: 20,
        loss: 0.2,
        ..DirectionSpec::default()
    };
    let Some(mut joined) = join(slow, DirectionSpec::default()) else {
        return;
    };
    let (left, right) = (
        joined.left.socket("10.9.0.1:0"),
        joined.right.socket("10.9.0.2:7"),
    );
    // First send a packet from the right, so that both kernels resolve the neighbours' addresses.
    // The kernel repeats a lost ARP request after a second.
    let from = left.local_addr().unwrap();
    right.send_to(b"hello", from).unwrap();
    left.recv_from(&mut [0; 16]).unwrap();
    for number in 0..PACKETS {
        let mut packet = [0; 1000];
        packet[..4].copy_from_slice(&number.to_be_bytes());
        left.send_to(&packet, "10.9.0.2:7").unwrap();
    }
    right
        .set_read_timeout(Some(Duration::from_secs(2)))
        .unwrap();
    let mut numbers = Vec::new();
    let mut packet = [0; 1024];
    while right.recv_from(&mut packet).is_ok() {
        numbers.push(u32::from_be_bytes(packet[..4].try_into().unwrap()));
    }
    assert!(numbers.is_sorted());
    let way = joined.report().left_to_right;
    let sent = joined.left.run(sent_by_device);
    joined.end();
    assert!(way.dropped.loss > 0 && way.dropped.queue > 0, "{way:?}");
    // Every frame is counted. The sum of delivered and dropped frames is at least the number that
    // the test sent. It is at most the number that the kernel sent, ARP included.
    let frames = way.packets + way.dropped.loss + way.dropped.queue + way.dropped.not_kept;
    assert!(
        (u64::from(PACKETS)..=sent).contains(&frames),
        "{sent} sent, {way:?}"
    );
    assert!(way.packets >= numbers.len() as u64);
}

#[test]
fn jumbo_frames_arrive_whole_where_both_ends_have_a_larger_mtu() {
    send_a_jumbo_frame(true);
}

/// A TAP device receives frames above its MTU, so the link has no reason to drop them.
#[test]
fn jumbo_frames_arrive_whole_where_only_the_sender_has_a_larger_mtu() {
    send_a_jumbo_frame(false);
}

fn send_a_jumbo_frame(receiver_has_larger_mtu: bool) {
    const MTU_BYTES: usize = 9000;
    let Some(mut joined) = join(DirectionSpec::default(), DirectionSpec::default()) else {
        return;
    };
    for (host, has_larger_mtu) in [
        (&joined.left, true),
        (&joined.right, receiver_has_larger_mtu),
    ] {
        if !has_larger_mtu {
            continue;
        }
        host.run(|| {
            let socket = interface::control_socket().unwrap();
            interface::set_mtu(&socket, "link0", MTU_BYTES).unwrap();
        });
    }
    let left = joined.left.socket("10.9.0.1:0");
    let right = joined.right.socket("10.9.0.2:7");
    // 28 bytes are the headers of IPv4 and UDP. The kernel drops a truncated frame, so the receive
    // would wait for ever. The short datagram behind the long one ends the wait.
    let sent: Vec<u8> = (0..MTU_BYTES - 28).map(|at| at as u8).collect();
    left.send_to(&sent, "10.9.0.2:7").unwrap();
    left.send_to(b"end", "10.9.0.2:7").unwrap();
    let mut received = vec![0; MTU_BYTES];
    let (length, _) = right.recv_from(&mut received).unwrap();
    assert_eq!(&received[..length], sent);
    let way = joined.report().left_to_right;
    assert!(way.bytes > MTU_BYTES as u64, "{way:?}");
    assert_eq!(way.dropped.not_kept, 0);
    joined.end();
}

#[test]
fn a_link_whose_device_is_removed_ends_with_an_error() {
    let Some(joined) = join(delay(0.0), delay(0.0)) else {
        return;
    };
    let removed = joined.left.run(|| {
        Command::new("ip")
            .args(["link", "delete", "link0"])
            .status()
    });
    if let Err(error) = removed {
        skip("netns", format_args!("`ip` cannot be run: {error}"));
        return;
    }
    let error = joined.link.join().unwrap().unwrap_err();
    assert!(error.to_string().contains("link0"), "{error}");
}

#[test]
fn a_namespace_that_does_not_exist_is_an_error_that_names_it() {
    let end = |namespace: &str| (Interface::in_namespace(namespace, "link0").unwrap(), None);
    let (left, right) = (end("no-such-namespace"), end("another"));
    let error = Link::open(&left, &right, delay(0.0), delay(0.0), 1, &[]).unwrap_err();
    assert!(error.to_string().contains("no-such-namespace"));
    assert!(!error.is_lack_of_machine());
}
