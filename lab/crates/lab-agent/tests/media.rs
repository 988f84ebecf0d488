//! Media streams between real programs. Each mode of buffering is tested with our clients, with
//! ffmpeg and with GStreamer.
#![expect(clippy::unwrap_used, reason = "a failed step fails the test")]

use perpacket_requirements::skip;
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use perpacket_media::wire::synthesis::Stream;

const AGENT: &str = env!("CARGO_BIN_EXE_perpacket-lab-agent");

/// A server that is stopped at the end of its test.
struct Served {
    process: Child,
    url: String,
}

impl Served {
    fn start(root: &Path, options: &str) -> Self {
        let process = Command::new(AGENT)
            .args("serve media --listen 127.0.0.1:0 --max-lateness 3600000 --root".split(' '))
            .arg(root)
            .args(options.split_whitespace())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        Self::wait(process)
    }

    /// Waits until a server prints its address.
    fn wait(mut process: Child) -> Self {
        let lines = BufReader::new(process.stderr.take().unwrap()).lines();
        let mut addresses = lines.map_while(Result::ok).filter_map(|line| {
            let url = line.strip_prefix("listening on ")?;
            Some(url.trim().to_owned())
        });
        let url = addresses.next().unwrap();
        Self { process, url }
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Runs a command line, whose words are split at spaces.
fn run(line: &str) -> String {
    // `timeout` ends a program that hangs, and then the test fails.
    let mut command = Command::new("timeout");
    let output = command.arg("600").args(line.split_whitespace()).output();
    let output = output.unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{line}: {errors}");
    String::from_utf8(output.stdout).unwrap()
}

/// Whether a program is installed.
fn has(program: &str) -> bool {
    let path = std::env::var("PATH").unwrap_or_default();
    let exists = path
        .split(':')
        .any(|folder| Path::new(folder).join(program).exists());
    if !exists {
        skip("peers", format_args!("{program} is not installed"));
    }
    exists
}

fn folder(name: &str) -> PathBuf {
    let path = std::env::temp_dir().join(format!("perpacket-agent-{name}-{}", std::process::id()));
    let _ = fs::remove_dir_all(&path);
    fs::create_dir_all(&path).unwrap();
    path
}

/// A folder with one stream of three seconds.
fn short_stream(name: &str) -> PathBuf {
    let root = folder(name);
    synthesize(&root, "--files 1 --bit-rate 400000 --duration 3");
    root
}

fn synthesize(root: &Path, options: &str) {
    run(&format!(
        "{AGENT} media synthesize --into {} {options}",
        root.display()
    ));
}

/// Runs `load media` and returns its output.
fn play(url: &str, options: &str) -> Output {
    let mut command = Command::new(AGENT);
    let line = format!("load media {url} --ramp 0 --warmup 0 {options}");
    command.args(line.split_whitespace()).output().unwrap()
}

/// Runs `load media` and returns its report.
fn load(url: &str, options: &str) -> serde_json::Value {
    let line = format!("{AGENT} load media {url} --ramp 0.2 --check --format json {options}");
    serde_json::from_str(&run(&line)).unwrap()
}

/// Asserts that every client played and that more than 100 packets were compared and equal.
fn assert_whole(report: &serde_json::Value, clients: u64, context: &str) {
    let number = |name: &str| report[name].as_u64().unwrap();
    assert_eq!(number("played"), clients, "{context}: {report}");
    assert_eq!(number("content_errors"), 0, "{context}: {report}");
    assert!(number("packets_checked") > 100, "{context}: {report}");
}

#[test]
fn every_buffering_serves_every_byte_of_one_and_of_many_media() {
    let root = folder("every");
    synthesize(&root, "--files 4 --bit-rate 1000000 --duration 4");
    for buffering in ["unbuffered", "single", "double", "shared", "mapped"] {
        let served = Served::start(&root, &format!("--buffering {buffering}"));
        for options in [
            "--distribution unique --transport udp",
            "--distribution multiple --files 4 --transport udp",
            "--distribution multiple --files 4 --transport tcp",
        ] {
            let url = format!("{}/stream-{{}}.ts", served.url);
            let report = load(
                &url,
                &format!("--clients 8 --warmup 0 --duration 0.9 {options}"),
            );
            let context = format!("{buffering} {options}");
            assert_whole(&report, 8, &context);
            assert_eq!(report["lost"], 0, "{context}: {report}");
        }
    }
    fs::remove_dir_all(root).unwrap();
}

#[test]
fn a_wrong_byte_ends_with_status_1() {
    let root = short_stream("wrong");
    let file = root.join("stream-00000.ts");
    let mut bytes = fs::read(&file).unwrap();
    // Change one byte in each packet of 188 bytes, after the numbers that identify the packet.
    for packet in bytes.chunks_exact_mut(188) {
        packet[187] ^= 1;
    }
    fs::write(&file, bytes).unwrap();
    let served = Served::start(&root, "");
    let url = format!("{}/stream-00000.ts", served.url);
    let output = play(&url, "--check --duration 2.5 --format json");
    let message = String::from_utf8_lossy(&output.stderr);
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(1), "{message}");
    assert!(message.contains("packets compared differ"), "{message}");
    assert!(report["content_errors"].as_u64() > Some(0), "{report}");
    fs::remove_dir_all(root).unwrap();
}

#[test]
fn clients_that_are_all_refused_end_with_status_4_and_the_reason() {
    let root = folder("refused");
    synthesize(&root, "--files 1 --bit-rate 1000000 --duration 2");
    fs::write(root.join("text.ts"), "no transport stream").unwrap();
    let served = Served::start(&root, "--max-sessions 0");
    let cases = [
        ("stream-00000.ts", "status 453 Not Enough Bandwidth"),
        ("nothing.ts", "status 404 Not Found"),
        ("text.ts", "status 415 Unsupported Media Type: text.ts"),
    ];
    for (name, reason) in cases {
        let url = format!("{}/{name}", served.url);
        let output = play(&url, "--clients 2 --duration 1");
        assert_eq!(output.status.code(), Some(4), "{name}");
        let expected = format!("2 refused, {reason}");
        for output in [&output.stdout, &output.stderr] {
            let text = String::from_utf8_lossy(output);
            assert!(
                text.contains(&expected) && text.contains(&url),
                "{name}: {text}"
            );
        }
    }
    fs::remove_dir_all(root).unwrap();
}

#[test]
fn root_becomes_nobody_and_reads_no_private_file() {
    let id = Command::new("id").arg("-u").output().unwrap();
    if id.stdout != b"0\n" {
        skip("root", "this test changes the user of a server");
        return;
    }
    let root = short_stream("private");
    let file = root.join("stream-00000.ts");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    for (options, uid, played) in [("", "65534", false), ("--user root", "0", true)] {
        let served = Served::start(&root, options);
        let status = fs::read_to_string(format!("/proc/{}/status", served.process.id())).unwrap();
        let uids = status
            .lines()
            .find(|line| line.starts_with("Uid:"))
            .unwrap();
        assert!(
            uids.split_whitespace().skip(1).all(|shown| shown == uid),
            "{uids}"
        );
        let url = format!("{}/stream-00000.ts", served.url);
        let output = play(&url, "--duration 0.5");
        assert_eq!(output.status.success(), played, "{options}: {output:?}");
    }
    fs::remove_dir_all(root).unwrap();
}

/// Checks what a foreign player received. Players read a goodbye, which has its own socket over UDP, before the
/// packets that wait in the other socket, and drop these. So on a busy machine, the end may be missing.
fn assert_received(transport: &str, received: &[u8], expected: &[u8]) {
    let whole = match transport {
        "udp" => expected.starts_with(received) && received.len() * 10 >= expected.len() * 9,
        _ => received == expected,
    };
    let (bytes, all) = (received.len(), expected.len());
    assert!(whole, "{transport}: {bytes} of {all} bytes");
}

#[test]
fn ffmpeg_receives_a_synthesized_stream_over_both_transports() {
    if !has("ffmpeg") {
        return;
    }
    let root = short_stream("ffmpeg-data");
    let stream = Stream {
        seed: 1,
        file: 0,
        rate_bps: 400_000,
    };
    // The expected output is the data after the PES headers.
    let expected: Vec<u8> = (0..stream.packets_in(3.0))
        .map(|index| stream.packet(index))
        .filter(|packet| packet[1..3] == [0x41, 0x00])
        .flat_map(|packet| {
            let adaptation = if packet[3] & 0x20 != 0 { 8 } else { 0 };
            packet[4 + adaptation + 14..].to_vec()
        })
        .collect();
    let served = Served::start(&root, "");
    for transport in ["udp", "tcp"] {
        let output = root.join(format!("{transport}.data"));
        let url = format!("{}/stream-00000.ts", served.url);
        run(&format!(
            "ffmpeg -v error -rtsp_transport {transport} -i {url} -map 0 -c copy -f data {}",
            output.display()
        ));
        let received = fs::read(&output).unwrap();
        assert_received(transport, &received, &expected);
    }
    fs::remove_dir_all(root).unwrap();
}

#[test]
fn ffmpeg_decodes_video_and_audio_of_real_files() {
    if !has("ffmpeg") {
        return;
    }
    let root = folder("ffmpeg-media");
    let place = root.display();
    run(&format!(
        "ffmpeg -v error -f lavfi -i testsrc=size=160x120:rate=25:duration=2 -c:v mpeg2video \
         -b:v 400k -muxrate 800k {place}/picture.ts"
    ));
    run(&format!(
        "ffmpeg -v error -f lavfi -i sine=frequency=440:duration=2:sample_rate=44100 -ac 2 \
         -c:a pcm_s16le {place}/sound.wav"
    ));
    let served = Served::start(&root, "");
    for (file, kind, form) in [("picture.ts", "v", "framemd5"), ("sound.wav", "a", "md5")] {
        // Compare decoded frames without their times, because the times in a stream have another
        // start.
        let frames = |input: &str| {
            let text = run(&format!(
                "ffmpeg -v error {input} -map 0:{kind} -fps_mode passthrough -f {form} -"
            ));
            let lines = text.lines().filter(|line| !line.starts_with('#'));
            lines
                .map(|line| line.rsplit(',').next().unwrap().to_owned())
                .collect::<Vec<_>>()
        };
        let expected = frames(&format!("-i {place}/{file}"));
        let url = format!("{}/{file}", served.url);
        let received = frames(&format!("-rtsp_transport tcp -i {url}"));
        // ffmpeg outputs a picture when the next picture starts, so the last picture of a stream is
        // missing.
        let last = usize::from(kind == "v");
        assert!(expected.len() > last, "{url}");
        assert_eq!(received, expected[..expected.len() - last], "{url}");
    }
    fs::remove_dir_all(root).unwrap();
}

#[test]
fn our_clients_play_from_gstreamers_server() {
    let python = "/usr/bin/python3";
    let bindings = "import gi; gi.require_version('GstRtspServer', '1.0')";
    let imported = Command::new(python).args(["-c", bindings]).output();
    if !imported.is_ok_and(|output| output.status.success()) {
        skip("peers", "GStreamer's server has no Python bindings");
        return;
    }
    let root = folder("gstreamer-server");
    synthesize(&root, "--files 1 --bit-rate 1000000 --duration 20");
    let script = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../perpacket_lab/measure/media/gstreamer_server.py"
    );
    let process = Command::new(python)
        .arg(script)
        .arg(&root)
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let served = Served::wait(process);
    let url = format!("{}/stream-00000.ts", served.url);
    let report = load(&url, "--clients 3 --warmup 1 --duration 1");
    assert_whole(&report, 3, "GStreamer's server");
    fs::remove_dir_all(root).unwrap();
}

#[test]
fn gstreamer_receives_the_unchanged_file_over_both_transports() {
    if !has("gst-launch-1.0") {
        return;
    }
    let root = short_stream("gstreamer");
    let expected = fs::read(root.join("stream-00000.ts")).unwrap();
    let served = Served::start(&root, "");
    for transport in ["udp", "tcp"] {
        let output = root.join(format!("{transport}.ts"));
        // At the end, GStreamer's source sends PAUSE and closes the connection without waiting for
        // the response. It may then report an interrupted pause, so the test ignores the exit
        // status.
        let line = format!(
            "600 gst-launch-1.0 -q rtspsrc location={}/stream-00000.ts protocols={transport} \
             latency=200 ! rtpmp2tdepay ! filesink location={}",
            served.url,
            output.display()
        );
        let mut player = Command::new("timeout");
        player.args(line.split(' '));
        player.stderr(Stdio::null()).status().unwrap();
        let received = fs::read(&output).unwrap();
        assert_received(transport, &received, &expected);
    }
    fs::remove_dir_all(root).unwrap();
}
