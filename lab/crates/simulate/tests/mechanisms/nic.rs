//! The NIC, and what it and the host send each other.

use perpacket_simulate::Simulation;

use super::{calls, explained, owned, run, small, trace_of};

/// OSDI 2006, section 2: the host forwards socket operations to the NIC. A request on a connection
/// of the NIC causes three commands: a read, a write of the header, and a write of a file of one
/// page.
#[test]
fn the_host_reads_requests_of_connections_on_the_nic_by_commands() {
    let commands = |reads: &str| {
        let overrides = small(&[
            ("client.read_rate_bps", "0"),
            ("host.reads_by_command", reads),
        ]);
        let trace = Some(trace_of(1_000));
        let (outcome, explanation) = explained("W-64-N-N-FCFS-400", &overrides, trace);
        assert!(outcome.conserved);
        let closes = calls(&explanation, "syscall.close");
        calls(&explanation, "bypass.command") - closes
    };
    let (by_command, by_nic) = (commands("true"), commands("false"));
    assert!((by_command - 3.0).abs() < 0.02, "{by_command}");
    assert!((by_nic - 2.0).abs() < 0.02, "{by_nic}");
}

/// The NIC keeps a partial segment, and has not reported some acknowledgments. The server must wake
/// nevertheless, so the reports have a limit.
#[test]
fn reports_leave_the_room_that_wakes_a_server() {
    let overrides = |report_bytes| {
        let more = [
            ("tcp.send_buffer_bytes", "8000"),
            ("server.writable_room_bytes", "3540"),
            ("nic.report_bytes", report_bytes),
            ("run.packets", "100000"),
        ];
        small(&more)
    };
    // 8,000 B less 3,540 and a segment.
    let refused = Simulation::new("S-64-P-N-FCFS-400", &owned(&overrides("3001")), None);
    let error = refused.unwrap_err();
    assert!(error.to_string().contains("nic.report_bytes"), "{error}");
    assert!(Simulation::new("S-0-N-N-FCFS-400", &owned(&overrides("3001")), None).is_ok());
    let share = run("S-64-P-N-FCFS-400", &overrides("3000"), None).nic_packet_share;
    assert!(share > 0.8, "{share}");
}

/// OSDI 2006, section 2: the NIC may aggregate acknowledgments into one message.
#[test]
fn the_nic_reports_acknowledgments_together() {
    let messages = |report_bytes: &str| {
        let overrides = small(&[
            ("nic.report_bytes", report_bytes),
            ("network.added_latency_ms", "1"),
        ]);
        let trace = Some(trace_of(29_000));
        let (outcome, explanation) = explained("W-64-P-N-FCFS-400", &overrides, trace);
        assert!(outcome.conserved);
        calls(&explanation, "bypass.message")
    };
    // The response has 29,250 B: three times 8,192 B, rounded up to segments, and the rest. The
    // request needs a message too.
    let (together, each) = (messages("8192"), messages("0"));
    assert!((together - 5.0).abs() < 0.3, "{together}");
    assert!(each > 7.0, "{each}");
}
