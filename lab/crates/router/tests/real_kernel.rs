//! The oracle checks forwarding by the kernel and forwarding in XDP. A generator and a receiver
//! measure both. The tests skip if the machine has no network namespaces.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

use perpacket_linux::interface::Interface;
use perpacket_requirements::{lacks_xdp, skip};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use perpacket_router::frame::UdpFrame;
use perpacket_router::generator::{self, Generator};
use perpacket_router::plane;
use perpacket_router::probe::{Port, Probe};
use perpacket_router::receiver::{self, Receiver};
use perpacket_router::search::{Trial, TrialOutcome};
use perpacket_router::trial::TrafficTrial;
use perpacket_router::{RouterError, Stream};

/// Three hosts around a router, each in its own namespace. Dropping it removes them.
struct Laboratory {
    name: String,
    hosts: usize,
}

fn ip(arguments: &str) -> bool {
    let output = Command::new("ip").args(arguments.split(' ')).output();
    output.is_ok_and(|output| output.status.success())
}

impl Laboratory {
    /// Creates the namespaces; `None`, after printing the reason, if the machine does not allow them.
    fn build(test: &str) -> Option<Self> {
        let laboratory = Self {
            name: format!("pp{}{test}", std::process::id()),
            hosts: 3,
        };
        let router = laboratory.router();
        if !ip(&format!("netns add {router}")) {
            skip("netns", "`ip netns add` is missing or not allowed");
            return None;
        }
        for setting in [
            "net.ipv4.ip_forward=1",
            "net.ipv4.icmp_ratemask=0",
            "net.ipv4.icmp_msgs_per_sec=10000",
        ] {
            let (key, value) = setting.split_once('=').unwrap();
            let file = format!("/proc/sys/{}", key.replace('.', "/"));
            let script = format!("echo {value} > {file}");
            let _ = Command::new("ip")
                .args(["netns", "exec", &router, "sh", "-c", &script])
                .status();
        }
        for host in 0..laboratory.hosts {
            let name = laboratory.host(host);
            assert!(ip(&format!("netns add {name}")));
            assert!(ip(&format!(
                "link add h{host} netns {name} type veth peer name r{host} netns {router}"
            )));
            // The MTU of the last network is smaller.
            let mtu = if host + 1 == laboratory.hosts {
                600
            } else {
                1500
            };
            for (namespace, interface, last) in [
                (&name, format!("h{host}"), 2),
                (&router, format!("r{host}"), 1),
            ] {
                assert!(ip(&format!(
                    "-n {namespace} addr add 10.77.{host}.{last}/24 dev {interface}"
                )));
                assert!(ip(&format!(
                    "-n {namespace} link set {interface} mtu {mtu} up"
                )));
            }
            assert!(ip(&format!("-n {name} link set lo up")));
            assert!(ip(&format!(
                "-n {name} route add default via 10.77.{host}.1"
            )));
        }
        // Use permanent neighbours, so that no packet waits for ARP.
        for host in 0..laboratory.hosts {
            let mac = laboratory.host_interface(host).hardware().unwrap().mac;
            let octets: Vec<String> = mac.iter().map(|byte| format!("{byte:02x}")).collect();
            assert!(ip(&format!(
                "-n {router} neigh replace 10.77.{host}.2 lladdr {} dev r{host} nud permanent",
                octets.join(":")
            )));
        }
        Some(laboratory)
    }

    fn router(&self) -> String {
        format!("{}r", self.name)
    }

    fn host(&self, host: usize) -> String {
        format!("{}h{host}", self.name)
    }

    fn host_interface(&self, host: usize) -> Interface {
        format!("{}:h{host}", self.host(host)).parse().unwrap()
    }

    fn router_interface(&self, host: usize) -> Interface {
        format!("{}:r{host}", self.router()).parse().unwrap()
    }

    fn ports(&self) -> Vec<Port> {
        (0..self.hosts)
            .map(|host| Port {
                router: self.router_interface(host),
                host: self.host_interface(host),
            })
            .collect()
    }

    /// Packets that the router's kernel has forwarded (`IpForwDatagrams` of RFC 4293).
    fn forwarded_by_kernel(&self) -> u64 {
        let output = Command::new("ip")
            .args(["netns", "exec", &self.router(), "cat", "/proc/net/snmp"])
            .output()
            .unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let mut lines = text.lines().filter_map(|line| line.strip_prefix("Ip: "));
        let names = lines.next().unwrap().split(' ');
        let mut pairs = names.zip(lines.next().unwrap().split(' '));
        let (_, count) = pairs.find(|(name, _)| *name == "ForwDatagrams").unwrap();
        count.parse().unwrap()
    }

    fn stream(&self) -> Stream {
        Stream {
            headers: UdpFrame {
                source_mac: self.host_interface(0).hardware().unwrap().mac,
                target_mac: self.router_interface(0).hardware().unwrap().mac,
                source: [10, 77, 0, 2].into(),
                target: [10, 77, 1, 2].into(),
                source_port: 9,
                target_port: 9,
                ttl: 64,
                identification: 1,
                dont_fragment: true,
            },
            number: 5,
            frame_bytes: 64,
        }
    }

    /// A trial from host 0 to host 1.
    fn trial(
        &self,
        sending: generator::Method,
        counting: receiver::Method,
        rate_pps: f64,
    ) -> Result<TrialOutcome, RouterError> {
        let stream = self.stream();
        TrafficTrial {
            generator: &mut Generator::open(&self.host_interface(0), &stream, sending)?,
            receiver: &mut Receiver::open(&self.host_interface(1), &stream, counting)?,
            duration: Duration::from_millis(200),
            stop: &AtomicBool::new(false),
        }
        .run(rate_pps)
    }
}

impl Drop for Laboratory {
    fn drop(&mut self) {
        for host in 0..self.hosts {
            ip(&format!("netns del {}", self.host(host)));
        }
        ip(&format!("netns del {}", self.router()));
    }
}

fn assert_every_case_passes(laboratory: &Laboratory) {
    let mut probe = Probe::open(&laboratory.ports()).unwrap();
    let results = probe.run(|| true).unwrap();
    let wrong: Vec<_> = results
        .iter()
        .filter(|case| case.breach.is_some())
        .collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(results.len() > 60);
    let forwarded = results
        .iter()
        .filter(|case| case.expected.starts_with("Forward"));
    assert!(forwarded.count() >= 9);
}

#[test]
fn linux_forwards_as_rfc_1812_requires() {
    if let Some(laboratory) = Laboratory::build("k") {
        assert_every_case_passes(&laboratory);
    }
}

#[test]
fn xdp_forwards_as_the_kernel_does() {
    if lacks_xdp() {
        return;
    }
    let Some(laboratory) = Laboratory::build("x") else {
        return;
    };
    let routers: Vec<_> = (0..3)
        .map(|host| laboratory.router_interface(host))
        .collect();
    let hosts: Vec<_> = (0..3).map(|host| laboratory.host_interface(host)).collect();
    let planes = plane::accept_redirected(&hosts).and_then(|_hosts| {
        let forwarding = plane::in_xdp(&routers)?;
        Ok((forwarding, _hosts))
    });
    match planes {
        Ok(_attached) => {
            assert_every_case_passes(&laboratory);
            // XDP forwards the ordinary packets, so the kernel itself does not.
            let before = laboratory.forwarded_by_kernel();
            let ordinary =
                laboratory.trial(generator::Method::Socket, receiver::Method::Socket, 2000.0);
            let ordinary = ordinary.unwrap();
            assert_eq!(ordinary.received + ordinary.not_counted, ordinary.sent);
            assert!(laboratory.forwarded_by_kernel() - before < ordinary.sent / 2);
        }
        Err(error) => std::panic::panic_any(error.to_string()),
    }
}

#[test]
fn the_probe_finds_a_router_that_does_not_forward() {
    let Some(laboratory) = Laboratory::build("n") else {
        return;
    };
    let off = Command::new("ip")
        .args(["netns", "exec", &laboratory.router(), "sh", "-c"])
        .arg("echo 0 > /proc/sys/net/ipv4/ip_forward")
        .status();
    assert!(off.unwrap().success());
    // The first three cases are packets to forward.
    let mut cases = 0;
    let results = Probe::open(&laboratory.ports()).unwrap().run(|| {
        cases += 1;
        cases <= 3
    });
    for case in results.unwrap() {
        let breach = case.breach.unwrap();
        assert!(breach.starts_with("no frame"), "{breach}");
    }
}

#[test]
fn every_frame_of_a_slow_stream_arrives_once_and_in_order() {
    let Some(laboratory) = Laboratory::build("s") else {
        return;
    };
    let outcome = laboratory
        .trial(generator::Method::Socket, receiver::Method::Socket, 2000.0)
        .unwrap();
    assert!(outcome.sent > 0);
    assert_eq!(outcome.received + outcome.not_counted, outcome.sent);
    assert_eq!(outcome.out_of_order, Some(0));
}

#[test]
fn all_live_frames_arrive_although_the_kernel_reuses_their_pages() {
    if lacks_xdp() {
        return;
    }
    let Some(laboratory) = Laboratory::build("l") else {
        return;
    };
    // The kernel reuses pages after one batch. The router has changed addresses and TTLs in these
    // pages.
    let outcome =
        plane::accept_redirected(&[laboratory.router_interface(0)]).and_then(|_accepting| {
            laboratory.trial(generator::Method::Live, receiver::Method::Xdp, 20_000.0)
        });
    match outcome {
        Ok(outcome) => {
            assert!(outcome.sent > 500, "{outcome:?}");
            assert_eq!(outcome.received, outcome.sent);
        }
        Err(error) => std::panic::panic_any(error.to_string()),
    }
}

#[test]
fn a_generator_that_may_not_continue_stops() {
    let Some(laboratory) = Laboratory::build("e") else {
        return;
    };
    let stream = laboratory.stream();
    let interface = laboratory.host_interface(0);
    let mut generator = Generator::open(&interface, &stream, generator::Method::Socket).unwrap();
    let stop = AtomicBool::new(true);
    let sent = generator.send(1 << 40, 1000.0, || !stop.load(Ordering::Relaxed));
    assert_eq!(sent.unwrap().frames, 0);
}
