//! Any bytes are a request, the beginning of one, or are refused with a status: the parser never
//! panics, more bytes never change what it said of a whole head, and what is built on a head (the
//! path, the body, the range, the dates, the coding) keeps its promises.
#![no_main]

use libfuzzer_sys::fuzz_target;
use perpacket_serve::http::body::BodyReader;
use perpacket_serve::http::coding::{Coding, Codings, choose};
use perpacket_serve::http::date::{read_date, write_date};
use perpacket_serve::http::range::{Asked, read_range};
use perpacket_serve::http::request::{Parsed, Request, parse_request};
use perpacket_serve::http::target::{normal_path, origin_form, split_query};

/// Longest head and longest body, in bytes: small, so that the limits are met too.
const HEAD_BYTES: usize = 1024;
const BODY_BYTES: u64 = 512;

/// The end of 9999, in seconds since 1970: later dates are written as it.
const LAST_SECOND: i64 = 253_402_300_799;

fuzz_target!(|bytes: &[u8]| {
    let (request, head_bytes) = match parse_request(bytes, HEAD_BYTES) {
        Parsed::Whole(request, head_bytes) => (request, head_bytes),
        Parsed::Partial => {
            assert!(bytes.len() < HEAD_BYTES, "a partial head may still grow");
            return;
        }
        Parsed::Refused(status) => {
            assert!((400..600).contains(&status.code()));
            return;
        }
    };
    assert!(head_bytes <= bytes.len().min(HEAD_BYTES));
    assert_eq!(
        parse_request(&bytes[..head_bytes], HEAD_BYTES),
        Parsed::Whole(request, head_bytes),
        "what follows a head is none of its business"
    );
    follow_target(request.target);
    follow_fields(&request, bytes.len() as u64);
    follow_body(&request, &bytes[head_bytes..]);
});

/// A path stays below the root, and is its own normal form where nothing is escaped.
fn follow_target(target: &[u8]) {
    let Some(target) = origin_form(target) else {
        return;
    };
    let Ok(path) = normal_path(split_query(target).0) else {
        return;
    };
    assert!(path.starts_with(b"/") && !path.contains(&0));
    let mut segments = path[1..].split(|&byte| byte == b'/');
    assert!(segments.all(|segment| segment != b"." && segment != b".."));
    assert!(!path.windows(2).any(|pair| pair == b"//"));
    if !path.contains(&b'%') {
        assert_eq!(normal_path(&path), Ok(path));
    }
}

/// A part is not empty and lies within the file; a date that is read can be written and read.
fn follow_fields(request: &Request<'_>, length: u64) {
    if let Some(range) = request.range
        && let Asked::Part(part) = read_range(range, length)
    {
        assert!(part.start < part.end && part.end <= length);
    }
    if let Some(date) = request.conditions.if_modified_since.and_then(read_date)
        && (0..=LAST_SECOND).contains(&date)
    {
        assert_eq!(read_date(&write_date(date)), Some(date));
    }
    if let Some(accepted) = request.accept_encoding {
        let available = Codings::default().with(Coding::Gzip);
        assert!(matches!(
            choose(accepted, available),
            Coding::Plain | Coding::Gzip
        ));
        assert_eq!(choose(accepted, Codings::default()), Coding::Plain);
    }
}

/// A body keeps its limit, and is the same whether it comes at once or byte by byte.
fn follow_body(request: &Request<'_>, input: &[u8]) {
    let Ok(mut at_once) = BodyReader::new(request.framing, BODY_BYTES) else {
        return;
    };
    let mut by_byte = at_once.clone();
    let mut whole = Vec::new();
    let taken = at_once.read(input, &mut whole);
    assert!(whole.len() as u64 <= BODY_BYTES);
    let mut pieced = Vec::new();
    let mut used = 0;
    let mut refused = None;
    for byte in input.chunks(1) {
        if by_byte.is_done() {
            break;
        }
        match by_byte.read(byte, &mut pieced) {
            Ok(bytes) => used += bytes,
            Err(status) => {
                refused = Some(status);
                break;
            }
        }
    }
    match taken {
        Ok(bytes) => {
            assert!(bytes <= input.len());
            assert_eq!((refused, used, &pieced), (None, bytes, &whole));
            assert_eq!(by_byte.is_done(), at_once.is_done());
        }
        Err(status) => assert_eq!(refused, Some(status)),
    }
}
