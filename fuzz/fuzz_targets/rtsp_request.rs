//! Any bytes on an RTSP connection are messages and frames, an error, or incomplete. The parsers do
//! not panic, do not read beyond the bytes, and consume at least one byte of every element.
#![no_main]

use libfuzzer_sys::fuzz_target;
use perpacket_media::wire::rtcp;
use perpacket_media::wire::rtsp::{
    Limits, MessageOrFrame, Range, Request, Response, Transport, parse_next,
};

fuzz_target!(|bytes: &[u8]| {
    let mut rest = bytes;
    while let Ok(Some((element, used))) = parse_next(rest, Limits::default()) {
        assert!(used > 0 && used <= rest.len());
        match element {
            MessageOrFrame::Frame(frame) => {
                assert!(frame.data.end <= used);
                let _ = rtcp::packets(&rest[frame.data]).count();
            }
            MessageOrFrame::Message(message) => {
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
