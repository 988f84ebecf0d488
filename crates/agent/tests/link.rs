//! `link` on the command line.

mod command;

use command::{agent, error};

/// Runs `link` between namespaces that do not exist. Options are checked before namespaces.
fn link(options: &[&str]) -> String {
    let ends = ["link", "--left", "no-such", "--right", "neither"];
    let output = agent(&[&ends, options].concat());
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    error(&output)
}

#[test]
fn the_length_of_a_queue_without_a_rate_is_refused() {
    for (options, refused) in [
        ("--queue-packets 9", "--queue-packets"),
        (
            "--bit-rate 1Mb/s --queue-packets 9 --left-to-right-queue-packets 9",
            "no-such",
        ),
        (
            "--right-to-left-bit-rate 1Mb/s --queue-packets 9",
            "no-such",
        ),
        (
            "--right-to-left-bit-rate 1Mb/s --left-to-right-queue-packets 9",
            "--left-to-right-queue-packets",
        ),
        (
            "--left-to-right-bit-rate 1Mb/s --right-to-left-queue-packets 9",
            "--right-to-left-queue-packets",
        ),
    ] {
        let options: Vec<&str> = options.split(' ').collect();
        let message = link(&options);
        let subject = if refused == "no-such" {
            "network namespace no-such: ".to_owned()
        } else {
            format!("{refused} has no effect without --bit-rate")
        };
        assert!(message.contains(&subject), "{options:?}: {message}");
    }
}
