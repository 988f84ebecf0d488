//! Any bytes on an RTSP connection are messages and frames, or are refused, or are not whole: the
//! parsers never panic, never read beyond what came, and always get on.
#![no_main]

use libfuzzer_sys::fuzz_target;
use perpacket_media::wire::rtcp;
use perpacket_media::wire::rtsp::{Limits, Range, Request, Response, Transport, Unit, split};

fuzz_target!(|bytes: &[u8]| {
    let mut rest = bytes;
    while let Ok(Some((unit, used))) = split(rest, Limits::default()) {
        assert!(used > 0 && used <= rest.len());
        match unit {
            Unit::Frame(frame) => {
                assert!(frame.data.end <= used);
                let _ = rtcp::packets(&rest[frame.data]).count();
            }
            Unit::Message(message) => {
                let _ = (message.sequence(), message.session());
                if let Some(transport) = message.header("Transport") {
                    let _ = Transport::parse_all(transport).count();
                }
                if let Some(range) = message.header("Range") {
                    let _ = Range::parse(range);
                }
                let _ = (Request::try_from(message.clone()), Response::try_from(message));
            }
        }
        rest = &rest[used..];
    }
});
