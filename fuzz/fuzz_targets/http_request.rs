//! Parses any bytes as a request. The parser never panics and rejects with an error status. Bytes
//! after a complete head do not change its parse. Paths, bodies, ranges, dates and codings of the
//! head keep their guarantees.
#![no_main]

use libfuzzer_sys::fuzz_target;
use perpacket_http::body::BodyReader;
use perpacket_http::coding::{Coding, CodingSet, choose};
use perpacket_http::date::{format_date, parse_date};
use perpacket_http::range::{Selection, parse_range};
use perpacket_http::request::{ParsedHead, Request, parse_request};
use perpacket_http::target::{normalize_path, origin_form, split_query};

/// Longest head and longest body, in bytes: small, so that inputs reach the limits.
const HEAD_BYTES: usize = 1024;
const BODY_BYTES: u64 = 512;

/// The end of 9999, in seconds since 1970: the latest date that can be formatted.
const LAST_SECOND: i64 = 253_402_300_799;

fuzz_target!(|bytes: &[u8]| {
    let (request, head_bytes) = match parse_request(bytes, HEAD_BYTES) {
        ParsedHead::Complete(request, head_bytes) => (request, head_bytes),
        ParsedHead::Partial => {
            assert!(bytes.len() < HEAD_BYTES, "a partial head may still grow");
            return;
        }
        ParsedHead::Rejected(status) => {
            assert!((400..600).contains(&status.code()));
            return;
        }
    };
    assert!(head_bytes <= bytes.len().min(HEAD_BYTES));
    assert_eq!(
        parse_request(&bytes[..head_bytes], HEAD_BYTES),
        ParsedHead::Complete(request, head_bytes),
        "bytes after a head do not change it"
    );
    check_target(request.target);
    check_fields(&request, bytes.len() as u64);
    check_body(&request, &bytes[head_bytes..]);
});

/// A normalized path stays below the root. Normalizing it again changes nothing.
fn check_target(target: &[u8]) {
    let Some(target) = origin_form(target) else {
        return;
    };
    let Ok(path) = normalize_path(split_query(target).0) else {
        return;
    };
    assert!(path.starts_with(b"/") && !path.contains(&0));
    let mut segments = path[1..].split(|&byte| byte == b'/');
    assert!(segments.all(|segment| segment != b"." && segment != b".."));
    assert!(!path.windows(2).any(|pair| pair == b"//"));
    if !path.contains(&b'%') {
        assert_eq!(normalize_path(&path), Ok(path));
    }
}

/// A part is not empty and lies within the file. A parsed date can be formatted and parsed again.
fn check_fields(request: &Request<'_>, length: u64) {
    if let Some(range) = request.range
        && let Selection::Part(part) = parse_range(range, length)
    {
        assert!(part.start < part.end && part.end <= length);
    }
    if let Some(date) = request.conditions.if_modified_since.and_then(parse_date)
        && (0..=LAST_SECOND).contains(&date)
    {
        assert_eq!(parse_date(&format_date(date)), Some(date));
    }
    if let Some(accepted) = request.accept_encoding {
        let available = CodingSet::default().with(Coding::Gzip);
        assert!(matches!(
            choose(accepted, available),
            Coding::Identity | Coding::Gzip
        ));
        assert_eq!(choose(accepted, CodingSet::default()), Coding::Identity);
    }
}

/// A body stays within its limit, and is the same whether it arrives at once or byte by byte.
fn check_body(request: &Request<'_>, input: &[u8]) {
    let Ok(mut at_once) = BodyReader::new(request.framing, BODY_BYTES) else {
        return;
    };
    let mut by_byte = at_once.clone();
    let mut body = Vec::new();
    let consumed = at_once.read(input, |data| body.extend_from_slice(data));
    assert!(body.len() as u64 <= BODY_BYTES);
    let mut body_by_byte = Vec::new();
    let mut used = 0;
    let mut failure = None;
    for byte in input.chunks(1) {
        if by_byte.is_complete() {
            break;
        }
        match by_byte.read(byte, |data| body_by_byte.extend_from_slice(data)) {
            Ok(bytes) => used += bytes,
            Err(error) => {
                failure = Some(error);
                break;
            }
        }
    }
    match consumed {
        Ok(bytes) => {
            assert!(bytes <= input.len());
            assert_eq!((failure, used, &body_by_byte), (None, bytes, &body));
            assert_eq!(by_byte.is_complete(), at_once.is_complete());
        }
        Err(error) => assert_eq!(failure, Some(error)),
    }
}
