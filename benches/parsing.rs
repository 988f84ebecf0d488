//! Measures the cost of parsing a request, of parsing a date, and of formatting a date.
//!
//! Run it with `cargo bench --bench parsing`.
//!
//! # Results
//!
//! Medians of one run, 2-core VM, AMD EPYC, other work on both cores: read
//! the ratios, not the times.
//!
//! | benchmark | ns |
//! |---|---|
//! | `request_short_httparse`: two lines | 140 |
//! | `request_short_ours`: the same, split by httparse and checked | 251 |
//! | `request_long_httparse`: thirteen lines, as from a browser | 727 |
//! | `request_long_ours`: the same, split by httparse and checked | 1144 |
//! | a date parsed by our earlier code, by httpdate | 334, 183 |
//! | a date formatted by our earlier code, by httpdate | 671, 311 |
//!
//! Now httparse splits the heads of requests, and httpdate has replaced our earlier code for dates.

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use perpacket_http::date::{format_date, parse_date};
use perpacket_http::request::parse_request;

/// A request as `load http` sends it.
const SHORT: &[u8] = b"GET /dir00012/class1_3 HTTP/1.1\r\nHost: 127.0.0.1:8080\r\n\r\n";

/// A request as a browser sends it.
const LONG: &[u8] = b"GET /articles/index.html?page=2 HTTP/1.1\r\nHost: www.example.org\r\n\
User-Agent: Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0\r\n\
Accept: text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8\r\n\
Accept-Language: en-US,en;q=0.5\r\nAccept-Encoding: gzip, deflate, br, zstd\r\n\
Connection: keep-alive\r\nCookie: session=0123456789abcdef; theme=dark\r\n\
If-Modified-Since: Sun, 06 Nov 1994 08:49:37 GMT\r\nSec-Fetch-Dest: document\r\n\
Sec-Fetch-Mode: navigate\r\nSec-Fetch-Site: none\r\n\r\n";

const DATE: &str = "Sun, 06 Nov 1994 08:49:37 GMT";

fn requests(criterion: &mut Criterion) {
    for (name, head) in [("short", SHORT), ("long", LONG)] {
        criterion.bench_function(&format!("request_{name}_ours"), |bencher| {
            bencher.iter(|| parse_request(black_box(head), 16_384));
        });
        criterion.bench_function(&format!("request_{name}_httparse"), |bencher| {
            bencher.iter(|| {
                let mut fields = [const { std::mem::MaybeUninit::uninit() }; 96];
                let mut request = httparse::Request::new(&mut []);
                let parsed = request.parse_with_uninit_headers(black_box(head), &mut fields);
                black_box(parsed.is_ok() && !request.headers.is_empty())
            });
        });
    }
}

fn dates(criterion: &mut Criterion) {
    criterion.bench_function("date_parse", |bencher| {
        bencher.iter(|| parse_date(black_box(DATE.as_bytes())));
    });
    criterion.bench_function("date_format", |bencher| {
        bencher.iter(|| format_date(black_box(784_111_777)));
    });
}

criterion_group!(benches, requests, dates);
criterion_main!(benches);
