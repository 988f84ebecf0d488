//! `route throughput` between two namespaces.

mod command;

use std::process::{Command, Output};

use command::{agent, error};
use perpacket_requirements::{lacks_xdp, skip};

/// Two namespaces that a veth device joins. Its ends are `a0` and `r0`. Dropping this value deletes
/// the namespaces.
struct Pair {
    name: String,
}

fn ip(arguments: &str) -> bool {
    let output = Command::new("ip").args(arguments.split(' ')).output();
    output.is_ok_and(|output| output.status.success())
}

impl Pair {
    /// Returns `None` if this process cannot create namespaces.
    fn new() -> Option<Self> {
        let name = format!("pp{}live", std::process::id());
        if !ip(&format!("netns add {name}a")) {
            skip("netns", "`ip netns add` is missing or not allowed");
            return None;
        }
        let pair = Self { name };
        let name = &pair.name;
        for arguments in [
            format!("netns add {name}r"),
            format!("link add a0 netns {name}a type veth peer name r0 netns {name}r"),
            format!("-n {name}a addr add 10.78.0.2/24 dev a0"),
            format!("-n {name}r addr add 10.78.0.1/24 dev r0"),
            format!("-n {name}a link set a0 up"),
            format!("-n {name}r link set r0 up"),
        ] {
            assert!(ip(&arguments), "ip {arguments}");
        }
        Some(pair)
    }

    /// Sends live frames from `a0` to `r0`.
    fn throughput(&self, options: &str) -> Output {
        let (from, to) = (format!("{}a:a0", self.name), format!("{}r:r0", self.name));
        agent(&format!(
            "route throughput --generator live --receiver socket --rates 20k --trial 200ms \
             --from {from} --next-hop {to} --to {to} {options}"
        ))
    }
}

impl Drop for Pair {
    fn drop(&mut self) {
        for end in ["a", "r"] {
            ip(&format!("netns del {}{end}", self.name));
        }
    }
}

#[test]
fn live_frames_that_a_veth_device_drops_end_with_a_hint() {
    if lacks_xdp() {
        return;
    }
    let Some(pair) = Pair::new() else { return };
    let output = pair.throughput("");
    let message = error(&output);
    assert_eq!(output.status.code(), Some(4), "{output:?}");
    let hint = format!("--take-redirected {}r:r0", pair.name);
    assert!(message.contains(&hint), "{message}");
    let output = pair.throughput(&hint);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
}
