//! Any bytes are the head of a response, its beginning, or invalid: the client's parser never
//! panics, and bytes after a head do not change it. A body is the same whether it arrives at once
//! or byte by byte.
#![no_main]

use libfuzzer_sys::fuzz_target;
use perpacket_http::body::{BodyReader, Framing};
use perpacket_http::response::{HEAD_BYTES, parse_response};

fuzz_target!(|bytes: &[u8]| {
    // The first byte selects the method: a response to HEAD has no body.
    let Some((&method, bytes)) = bytes.split_first() else {
        return;
    };
    let (response, head_bytes) = match parse_response(bytes) {
        Ok(Some(parsed)) => parsed,
        Ok(None) => {
            assert!(bytes.len() < HEAD_BYTES, "an incomplete head can still grow");
            return;
        }
        Err(error) => {
            assert!(!error.to_string().is_empty());
            return;
        }
    };
    assert!((100..1000).contains(&response.status));
    assert!(head_bytes <= bytes.len());
    let alone = parse_response(&bytes[..head_bytes]);
    assert_eq!(alone, Ok(Some((response, head_bytes))));
    for end in [head_bytes / 2, head_bytes - 1] {
        assert_eq!(parse_response(&bytes[..end]), Ok(None), "no beginning is invalid");
    }
    follow_body(response.framing(method & 1 == 1), &bytes[head_bytes..]);
});

/// A body has the announced length, and is the same whether it arrives at once or byte by byte.
fn follow_body(framing: Framing, input: &[u8]) {
    let Ok(mut at_once) = BodyReader::new(framing, u64::MAX) else {
        return;
    };
    let mut by_byte = at_once.clone();
    let mut whole = Vec::new();
    let read = at_once.read(input, |data| whole.extend_from_slice(data));
    if let (Framing::Length(length), true) = (framing, at_once.is_complete()) {
        assert_eq!(whole.len() as u64, length);
    }
    let (mut pieces, mut used) = (Vec::new(), 0);
    let mut failed = None;
    for byte in input.chunks(1) {
        if by_byte.is_complete() {
            break;
        }
        match by_byte.read(byte, |data| pieces.extend_from_slice(data)) {
            Ok(count) => used += count,
            Err(error) => {
                failed = Some(error);
                break;
            }
        }
    }
    match read {
        Ok(count) => {
            assert_eq!((failed, used, &pieces), (None, count, &whole));
            assert_eq!(by_byte.is_complete(), at_once.is_complete());
        }
        Err(error) => assert_eq!(failed, Some(error)),
    }
}
