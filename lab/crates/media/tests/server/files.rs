//! Files that are malformed, or change while they play.

use std::{fs, thread};

use perpacket_media::wire::synthesis::Stream;

use perpacket_spec::Size;

use super::client::{BUFFERINGS, Client, Folder, STREAM, receive, serve, synthesized, wait_for};

#[test]
fn files_of_unknown_format_are_refused_with_the_reason() {
    let folder = Folder::new();
    folder.write("empty.ts", b"");
    folder.write(
        "text.ts",
        b"this is not a transport stream, although its name ends in .ts"
            .repeat(20)
            .as_slice(),
    );
    folder.write("text.wav", b"RIFF");
    folder.write("short.ts", &synthesized(STREAM, 10.0)[..100]);
    fs::create_dir(folder.0.join("folder.ts")).unwrap();
    let server = serve(&folder, |_| {});
    let mut client = Client::new(&server);
    for name in ["empty.ts", "text.ts", "text.wav", "short.ts"] {
        let response = client.request("DESCRIBE", name, "");
        assert_eq!(response.code, 415, "{name}");
        assert!(response.body.starts_with(name), "{}", response.body);
    }
    assert_eq!(client.request("DESCRIBE", "folder.ts", "").code, 404);
}

#[test]
fn a_file_that_shrinks_while_it_plays_ends_its_stream_only() {
    for buffering in BUFFERINGS {
        let folder = Folder::new();
        folder.write("cut.ts", &synthesized(STREAM, 10.0));
        let server = serve(&folder, |spec| {
            spec.buffering = buffering;
            spec.cache_size = Some(Size(0));
        });
        let (mut client, mut other) = (Client::new(&server), Client::new(&server));
        let (socket, _) = client.play("cut.ts");
        receive(&socket, STREAM, 0, 1);
        fs::File::options()
            .write(true)
            .open(folder.0.join("cut.ts"))
            .and_then(|file| file.set_len(1000))
            .unwrap();
        let (steady, _) = other.play("a.ts");
        wait_for(&server, |report| report.failed == 1);
        receive(&steady, STREAM, 0, 50);
    }
}

#[test]
fn a_replaced_file_plays_on_and_the_next_client_receives_the_new_one() {
    let folder = Folder::new();
    let server = serve(&folder, |spec| spec.cache_size = Some(Size(0)));
    let mut client = Client::new(&server);
    let (socket, _) = client.play("a.ts");
    receive(&socket, STREAM, 0, 1);
    // The stream plays past the blocks of the old file that are in memory, while the next client starts.
    let old_stream = thread::spawn(move || receive(&socket, STREAM, 7, 450));
    let new = Stream { seed: 2, ..STREAM };
    folder.write("new.ts", &synthesized(new, 10.0));
    fs::rename(folder.0.join("new.ts"), folder.0.join("a.ts")).unwrap();
    let mut next = Client::new(&server);
    let (next_socket, _) = next.play("a.ts");
    receive(&next_socket, new, 0, 50);
    old_stream.join().unwrap();
}

#[test]
fn a_file_that_ends_within_a_packet_plays_its_complete_packets() {
    let folder = Folder::new();
    folder.write("cut.ts", &synthesized(STREAM, 10.0)[..70 * 188 + 100]);
    let server = serve(&folder, |_| {});
    let mut client = Client::new(&server);
    let (socket, _) = client.play("cut.ts");
    receive(&socket, STREAM, 0, 10);
    let report = wait_for(&server, |report| report.finished == 1);
    assert_eq!(
        (report.packets, report.bytes, report.failed),
        (10, 70 * 188, 0)
    );
}

#[test]
fn a_viewer_after_another_is_served_from_the_cache() {
    let folder = Folder::new();
    folder.write("short.ts", &synthesized(STREAM, 0.5));
    let server = serve(&folder, |_| {});
    let packets = STREAM.packets_in(0.5) as usize / 7;
    let mut reads = Vec::new();
    for viewer in 1..=3 {
        let mut client = Client::new(&server);
        let (socket, _) = client.play("short.ts");
        receive(&socket, STREAM, 0, packets);
        wait_for(&server, |report| report.finished == viewer);
        drop((client, socket));
        reads.push(wait_for(&server, |report| report.connections_open == 0).reads);
    }
    assert!(reads[0] > 0 && reads[2] == reads[0], "{reads:?}");
}

#[test]
fn a_viewer_after_a_change_of_the_file_receives_the_new_content() {
    let folder = Folder::new();
    let server = serve(&folder, |_| {});
    for seed in [1, 2] {
        let stream = Stream { seed, ..STREAM };
        folder.write("new.ts", &synthesized(stream, 10.0));
        fs::rename(folder.0.join("new.ts"), folder.0.join("a.ts")).unwrap();
        let mut client = Client::new(&server);
        let (socket, _) = client.play("a.ts");
        receive(&socket, stream, 0, 50);
        drop(client);
        wait_for(&server, |report| report.connections_open == 0);
    }
}
