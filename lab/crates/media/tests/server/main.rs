//! The media server over real sockets: the requests of RFC 2326, and wrong requests and files.
#![expect(clippy::unwrap_used, reason = "a failed step fails the test")]

mod client;
mod files;
mod limits;

use std::time::Duration;

use perpacket_media::server::Buffering;
use perpacket_media::wire::Header;
use perpacket_media::wire::synthesis::Stream;

use client::{
    BUFFERINGS, Client, Folder, INTERLEAVED, STEP_LIMIT, STREAM, receive, receiver, serve,
    synthesized, wait_for,
};

#[test]
fn a_client_describes_sets_up_plays_pauses_seeks_and_tears_down() {
    let folder = Folder::new();
    let server = serve(&folder, |_| {});
    let mut client = Client::new(&server);
    assert!(client.request("OPTIONS", "a.ts", "").headers["public"].contains("DESCRIBE"));
    let description = client.request("DESCRIBE", "a.ts", "Accept: application/sdp\r\n");
    assert!(description.body.contains("m=video 0 RTP/AVP 33\r\n"));
    let (socket, port) = receiver();
    let session = client.set_up("a.ts/track1", port);
    let played = client.request("PLAY", "a.ts", &session);
    let sequence = played.headers["rtp-info"].split("seq=").nth(1).unwrap();
    let sequence: u16 = sequence.split(';').next().unwrap().parse().unwrap();
    let mut buffer = [0; 2048];
    let bytes = socket.recv(&mut buffer).unwrap();
    let (header, payload) = Header::split(&buffer[..bytes]).unwrap();
    assert_eq!((header.sequence, header.payload_type), (sequence, 33));
    assert_eq!(&payload[..188], STREAM.packet(0));
    receive(&socket, STREAM, 7, 20);
    assert_eq!(client.request("PAUSE", "a.ts", &session).code, 200);
    // Packets that are still in flight arrive within this time.
    socket
        .set_read_timeout(Some(Duration::from_millis(300)))
        .unwrap();
    while socket.recv(&mut buffer).is_ok() {}
    socket.set_read_timeout(Some(STEP_LIMIT)).unwrap();
    // Expect the first packet that is due at 5 s or later.
    let seek = client.request("PLAY", "a.ts", &format!("{session}Range: npt=5-\r\n"));
    let start: f64 = seek.headers["range"][4..]
        .split('-')
        .next()
        .unwrap()
        .parse()
        .unwrap();
    assert!((5.0..5.1).contains(&start), "{start}");
    let index = (5.0f64 * 2e6 / 8.0 / 1316.0).ceil() as u64 * 7;
    receive(&socket, STREAM, index, 20);
    assert_eq!(client.request("GET_PARAMETER", "a.ts", &session).code, 200);
    assert_eq!(client.request("TEARDOWN", "a.ts", &session).code, 200);
    assert_eq!(client.request("PLAY", "a.ts", &session).code, 454);
    let report = wait_for(&server, |report| report.sessions_open == 0);
    assert_eq!((report.playing, report.rate_bps, report.failed), (0, 0, 0));
}

#[test]
fn an_interleaved_connection_stays_open_after_a_pause_and_the_end_of_its_stream() {
    for buffering in BUFFERINGS {
        let folder = Folder::new();
        let brief = synthesized(STREAM, 0.5);
        folder.write("brief.ts", &brief);
        let server = serve(&folder, |spec| spec.buffering = buffering);
        let mut client = Client::new(&server);
        let session = client.request("SETUP", "brief.ts", INTERLEAVED).session();
        assert_eq!(client.request("PLAY", "brief.ts", &session).code, 200);
        client.frame();
        for _ in 0..2 {
            assert_eq!(client.request("PAUSE", "brief.ts", &session).code, 200);
        }
        client.frames.clear();
        // On a busy machine the stream may have ended before the pause.
        let finished = server.report().finished;
        let played = client.request("PLAY", "brief.ts", &format!("{session}Range: npt=0-\r\n"));
        assert_eq!(played.code, 200);
        let mut received = Vec::new();
        while received.len() < brief.len() / 1316 * 1316 {
            // RTCP uses the other channel.
            if let (0, packet) = client.frame() {
                received.extend_from_slice(Header::split(&packet).unwrap().1);
            }
        }
        assert!(brief.starts_with(&received), "{buffering:?}");
        wait_for(&server, |report| report.finished == finished + 1);
        // Players send PAUSE at the end.
        assert_eq!(client.request("PAUSE", "brief.ts", &session).code, 200);
        assert_eq!(client.request("TEARDOWN", "brief.ts", &session).code, 200);
        assert_eq!(client.request("OPTIONS", "brief.ts", "").code, 200);
    }
}

#[test]
fn each_buffering_sends_every_byte_to_the_end() {
    for buffering in BUFFERINGS {
        let folder = Folder::new();
        // The file has three blocks, at a rate for which the receive buffer is large enough even on
        // a busy machine.
        let fast = Stream {
            rate_bps: 4_000_000,
            ..STREAM
        };
        folder.write("fast.ts", &synthesized(fast, 2.5));
        let server = serve(&folder, |spec| spec.buffering = buffering);
        let mut client = Client::new(&server);
        let (socket, _) = client.play("fast.ts");
        let packets = fast.packets_in(2.5) as usize / 7;
        receive(&socket, fast, 0, packets);
        let report = wait_for(&server, |report| report.finished == 1);
        assert_eq!(report.packets, packets as u64, "{buffering:?}");
        assert_eq!((report.failed, report.playing), (0, 0), "{buffering:?}");
    }
}

#[test]
fn without_a_buffer_every_packet_has_a_read_and_none_is_read_ahead() {
    let folder = Folder::new();
    folder.write("brief.ts", &synthesized(STREAM, 1.0));
    let packets = STREAM.packets_in(1.0) / 7;
    for (buffering, reads) in [
        (Buffering::Unbuffered, packets),
        (Buffering::Single, packets.div_ceil(10)),
    ] {
        let server = serve(&folder, |spec| spec.buffering = buffering);
        let mut client = Client::new(&server);
        let (socket, _) = client.play("brief.ts");
        for sent in 0..packets {
            receive(&socket, STREAM, 7 * sent, 1);
            if buffering == Buffering::Unbuffered {
                // The packets are counted after the reads. So they include all packets that were
                // sent when the reads were counted.
                let reads = server.report().reads;
                let sent = server.report().packets;
                assert!(reads <= sent + 1, "{reads} reads of {sent} packets");
            }
        }
        let report = wait_for(&server, |report| report.finished == 1);
        assert_eq!((report.reads, report.packets), (reads, packets));
    }
}

#[test]
fn wrong_requests_are_answered_with_their_status() {
    let folder = Folder::new();
    let server = serve(&folder, |_| {});
    let mut client = Client::new(&server);
    assert_eq!(client.request("DESCRIBE", "missing.ts", "").code, 404);
    assert_eq!(client.request("DESCRIBE", "../a.ts", "").code, 404);
    assert_eq!(client.request("RECORD", "a.ts", "").code, 405);
    assert_eq!(client.request("PLAY", "a.ts", "Session: 1\r\n").code, 454);
    assert_eq!(client.request("SETUP", "a.ts", "Session: 1\r\n").code, 454);
    let required = client.request("OPTIONS", "a.ts", "Require: implicit-play\r\n");
    assert_eq!(required.code, 551);
    assert_eq!(required.headers["unsupported"], "implicit-play");
    let (_socket, port) = receiver();
    let session = client.set_up("a.ts", port);
    for range in ["npt=11-", "npt=5-4", "smpte=0:10:00-", "npt=x-"] {
        let headers = format!("{session}Range: {range}\r\n");
        assert_eq!(
            client.request("PLAY", "a.ts", &headers).code,
            457,
            "{range}"
        );
    }
    folder.write("b.ts", &synthesized(STREAM, 1.0));
    let transport = format!("{INTERLEAVED}{session}");
    assert_eq!(client.request("SETUP", "b.ts", &transport).code, 459);
    assert_eq!(client.request("PLAY", "a.ts", &session).code, 200);
    assert_eq!(client.request("SETUP", "a.ts", &transport).code, 455);
    client.send("OPTIONS * RTSP/2.0\r\nCSeq: 99\r\n\r\n");
    assert_eq!(client.response().code, 505);
}

#[test]
fn transports_to_other_receivers_are_refused() {
    let folder = Folder::new();
    let server = serve(&folder, |_| {});
    let mut client = Client::new(&server);
    for transport in [
        "RTP/AVP;unicast;destination=127.0.0.2;client_port=5000-5001",
        "RTP/AVP;unicast;client_port=0-1",
        "RTP/AVP;unicast;client_port=65535-65536",
        "RTP/AVP;unicast;client_port=70000-70001",
        "RTP/AVP;unicast;client_port=53-54",
        "RTP/AVP;multicast;client_port=5000-5001",
        "RTP/AVP;unicast",
    ] {
        let response = client.request("SETUP", "a.ts", &format!("Transport: {transport}\r\n"));
        assert_eq!(response.code, 461, "{transport}");
    }
    assert_eq!(server.report().sessions, 0);
}

#[test]
fn a_malformed_request_closes_its_connection_only() {
    let folder = Folder::new();
    let server = serve(&folder, |_| {});
    let mut good = Client::new(&server);
    assert_eq!(good.request("OPTIONS", "a.ts", "").code, 200);
    let long = format!("OPTIONS {} RTSP/1.0\r\nCSeq: 1\r\n\r\n", "x".repeat(9_000));
    for bytes in [
        "\u{1}\u{2}\r\n\r\n",
        "GET / HTTP/1.1\r\n\r\n",
        "PLAY\r\n\r\n",
        &long,
    ] {
        let mut bad = Client::new(&server);
        bad.send(bytes);
        assert_eq!(bad.response().code, 400);
        assert!(bad.is_closed());
    }
    assert_eq!(good.request("OPTIONS", "a.ts", "").code, 200);
    assert_eq!(server.report().malformed, 4);
}
