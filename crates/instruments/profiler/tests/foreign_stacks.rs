//! Profiles from stacks that other tools print as text.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;

use perpacket_profiler::recording::{Recorded, Settings, Traffic, analyse};
use perpacket_profiler::{Fault, ProfileError};

const TIMER: &str = "\
ksoftirqd/0;kthread;smpboot_thread_fn;net_tx_action;sch_direct_xmit;dev_hard_start_xmit;stmmac_xmit;\
hrtimer_start_range_ns;_raw_spin_unlock_irqrestore 60
swapper;cpu_startup_entry;do_idle;cpuidle_enter 20
iperf;main;__libc_send;do_syscall_64;__sys_sendto;tcp_sendmsg;_copy_from_iter 30
iperf;main;work 10
";

fn read(text: &[u8], traffic: Traffic) -> Result<Recorded, ProfileError> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("stacks.txt");
    fs::write(&file, text).unwrap();
    analyse(&Settings {
        file,
        traffic,
        kallsyms: None,
        rules: None,
        pid: None,
        keeps_offsets: true,
    })
}

fn seconds(recorded: &Recorded, layer: &str) -> f64 {
    recorded.report.layers.get(layer).unwrap().cpu_s.unwrap()
}

#[test]
fn folded_stacks_have_layers_and_the_lock_of_a_timer_is_the_drivers() {
    let recorded = read(TIMER.as_bytes(), Traffic::Unknown).unwrap();
    assert_eq!(recorded.report.samples, 120);
    for (layer, ms) in [("driver", 60.0), ("tcp", 30.0), ("user", 10.0)] {
        let found = 1000.0 * seconds(&recorded, layer);
        assert!((found - ms).abs() < 1e-9, "{layer}: {found}");
    }
    let lock = recorded
        .report
        .layer_kinds
        .get("driver")
        .unwrap()
        .get("lock");
    assert_eq!(lock.copied().unwrap_or_default(), 0.0);
    let limits = recorded.report.limits.join("\n");
    assert!(limits.contains("only shares are measured"), "{limits}");
    let mut lines = Vec::new();
    recorded.write_folded(&mut lines).unwrap();
    let lines = String::from_utf8(lines).unwrap();
    assert!(lines.contains("iperf;main;work 10\n"), "{lines}");
}

#[test]
fn the_text_of_perf_script_has_costs_a_packet() {
    let text = "\
server 7 [001] 10.000000: 250000 cpu-clock:pppH: 
\tffffffff81000010 tcp_ack+0x10 ([kernel.kallsyms])
\tffffffff81000000 tcp_v4_rcv+0x10 ([kernel.kallsyms])

server 7 [001] 12.000000: 750000 cpu-clock:pppH: 
\tffffffff81000010 nft_do_chain+0x10 ([nf_tables])
\tffffffff81000000 ip_rcv+0x10 ([kernel.kallsyms])

";
    let recorded = read(text.as_bytes(), Traffic::Packets(10)).unwrap();
    let report = &recorded.report;
    assert!((report.window_s - 2.0).abs() < 1e-9);
    assert_eq!(
        report.layers.get("tcp").unwrap().cpu_ns_per_packet,
        Some(25_000.0)
    );
    assert_eq!(
        report.layers.get("ip").unwrap().cpu_ns_per_packet,
        Some(75_000.0)
    );
}

#[test]
fn what_cannot_be_read_is_refused_with_a_way_out() {
    let hidden =
        "a 1 1.0: 250000 cpu-clock: \n\tffffffff81000010 [unknown] ([kernel.kallsyms])\n\n";
    let two = "a 1 1.0: 5 cycles: \n\t1 x (y)\n\na 1 1.0: 5 cpu-clock: \n\t1 x (y)\n\n";
    for (content, traffic, part) in [
        (&b"hello\n"[..], Traffic::Unknown, "folded stacks"),
        (b"", Traffic::Unknown, "folded stacks"),
        (b"\x1f\x8b\x08\0\0\0\0\0\0\x03", Traffic::Unknown, "damaged"),
        (b"a;b 1\na;b\n", Traffic::Unknown, "line 2"),
        (b"a;b 0\n", Traffic::Unknown, "no samples"),
        (TIMER.as_bytes(), Traffic::Packets(1), "have no times"),
        (hidden.as_bytes(), Traffic::Unknown, "kptr_restrict"),
        (two.as_bytes(), Traffic::Unknown, "several events"),
        (b"2ELIFREP\0\0\0\0", Traffic::Unknown, "perf script -i FILE"),
    ] {
        let error = read(content, traffic).unwrap_err();
        assert_eq!(error.fault(), Fault::Usage);
        assert!(error.to_string().contains(part), "{part}: {error}");
    }
}

#[test]
fn counts_that_are_no_samples_are_scaled_with_a_note() {
    let text = "a;do_syscall_64;tcp_sendmsg 3000000000\na;main 1000000000\n";
    let recorded = read(text.as_bytes(), Traffic::Unknown).unwrap();
    assert_eq!(recorded.report.samples, 10_000);
    let (tcp, user) = (seconds(&recorded, "tcp"), seconds(&recorded, "user"));
    assert!((tcp / user - 3.0).abs() < 1e-9);
    assert!(recorded.report.limits.join("\n").contains("no interval"));
}

#[test]
fn a_profile_of_pprof_has_the_layers_of_its_stacks() {
    let mut written = read(TIMER.as_bytes(), Traffic::Unknown).unwrap();
    let mut file = Vec::new();
    written.write_pprof(&mut file).unwrap();
    let recorded = read(&file, Traffic::Unknown).unwrap();
    for layer in ["driver", "tcp", "user"] {
        let (before, after) = (seconds(&written, layer), seconds(&recorded, layer));
        assert!((before - after).abs() < 1e-6, "{layer}: {before} {after}");
    }
    let mut lines = Vec::new();
    recorded.write_folded(&mut lines).unwrap();
    let lines = String::from_utf8(lines).unwrap();
    assert!(
        lines.contains("iperf;do_syscall_64;__sys_sendto;tcp_sendmsg;_copy_from_iter 30\n"),
        "{lines}"
    );
}

#[test]
fn the_table_of_perf_report_tells_who_takes_a_lock() {
    let text = "\
# Samples: 1K of event 'cycles'
    60.00%  swapper  [kernel.kallsyms]  [k] native_queued_spin_lock_slowpath
            |
            ---native_queued_spin_lock_slowpath
               _raw_spin_lock
               __dev_xmit_skb
               __dev_queue_xmit
               ip_finish_output2

    40.00%  nginx    nginx              [.] main
";
    let recorded = read(text.as_bytes(), Traffic::Unknown).unwrap();
    let total: f64 = ["ethernet", "user"]
        .map(|layer| seconds(&recorded, layer))
        .iter()
        .sum();
    assert!((total - 1.0).abs() < 1e-9, "{total}");
    assert!((seconds(&recorded, "ethernet") - 0.6).abs() < 1e-9);
}
