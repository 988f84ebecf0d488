//! Session descriptions (SDP, RFC 4566): the one a server gives of a medium, and the little that a
//! receiver needs of anybody's.

use core::net::IpAddr;
use std::fmt::Write;

use crate::wire::media::Media;

/// What a receiver takes from a description's first stream.
#[derive(Clone, Debug, PartialEq)]
pub struct Description {
    /// Where to set the stream up: absolute, or relative to the description's base.
    pub control: Option<String>,
    /// Number of the payload.
    pub payload_type: u8,
    /// Ticks of its timestamps a second, where described or fixed by RFC 3551.
    pub clock_hz: Option<u32>,
    /// How long it lasts, in seconds, where it ends.
    pub duration_s: Option<f64>,
    /// Streams that the description has.
    pub streams: usize,
}

/// The description of a medium with one stream, whose control is `track`.
#[must_use]
pub fn describe(media: &Media, name: &str, server: IpAddr, track: &str, session: u64) -> String {
    let family = if server.is_ipv4() { "IP4" } else { "IP6" };
    let any = if server.is_ipv4() { "0.0.0.0" } else { "::" };
    let payload = &media.payload;
    // A session's name may not hold line ends (section 5.3).
    let name: String = name.chars().filter(|letter| !letter.is_control()).collect();
    let mut text = format!(
        "v=0\r\no=- {session} {session} IN {family} {server}\r\ns={name}\r\n\
         c=IN {family} {any}\r\nt=0 0\r\na=control:*\r\na=range:npt=0-{:.3}\r\n\
         m={} 0 RTP/AVP {}\r\nb=AS:{}\r\na=rtpmap:{} {}/{}",
        media.duration_ns() as f64 / 1e9,
        payload.kind,
        payload.number,
        media.rate_bps().div_ceil(1000),
        payload.number,
        payload.encoding,
        payload.clock_hz,
    );
    if payload.channels > 1 {
        // Writing to a string cannot fail.
        let _ = write!(text, "/{}", payload.channels);
    }
    text.push_str("\r\na=control:");
    text.push_str(track);
    text.push_str("\r\n");
    text
}

/// Reads a description; none without a stream over RTP.
#[must_use]
pub fn parse(text: &str) -> Option<Description> {
    let mut found: Option<Description> = None;
    let mut duration_s = None;
    let mut streams = 0;
    for line in text.lines() {
        let (kind, value) = line.split_once('=')?;
        match kind {
            "m" => {
                streams += 1;
                let mut words = value.split(' ').skip(2);
                let is_rtp = words
                    .next()
                    .is_some_and(|profile| profile.starts_with("RTP/"));
                let number = words.next().and_then(|word| word.parse().ok());
                if let (None, true, Some(payload_type)) = (&found, is_rtp, number) {
                    found = Some(Description {
                        control: None,
                        payload_type,
                        clock_hz: fixed_clock_hz(payload_type),
                        duration_s: None,
                        streams: 0,
                    });
                }
            }
            "a" => {
                if let Some(range) = value.strip_prefix("range:npt=") {
                    let end = range
                        .split_once('-')
                        .and_then(|(_, end)| end.trim().parse().ok());
                    duration_s = end.or(duration_s);
                } else if let (Some(found), 1) = (&mut found, streams) {
                    attribute(found, value);
                }
            }
            _ => {}
        }
    }
    found.map(|description| Description {
        duration_s,
        streams,
        ..description
    })
}

fn attribute(found: &mut Description, value: &str) {
    if let Some(control) = value.strip_prefix("control:") {
        found.control = Some(control.trim().to_owned());
    } else if let Some(map) = value.strip_prefix("rtpmap:") {
        let clock = map.split_once(' ').filter(|(number, _)| {
            number
                .parse()
                .is_ok_and(|number: u8| number == found.payload_type)
        });
        let clock = clock.and_then(|(_, encoding)| encoding.split('/').nth(1)?.trim().parse().ok());
        found.clock_hz = clock.or(found.clock_hz);
    }
}

/// The clocks of payloads whose numbers are fixed (RFC 3551, tables 4 and 5), of those sent here.
fn fixed_clock_hz(payload_type: u8) -> Option<u32> {
    match payload_type {
        0 | 3 | 8 | 9 => Some(8000),
        10 | 11 => Some(44_100),
        26 | 32..=34 => Some(90_000),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_description_is_read_as_it_was_written() {
        let media = Media::recognize("a.pcmu", 80_000, &[0; 100], &[0; 100]).unwrap();
        let text = describe(&media, "a\r\nb", "127.0.0.1".parse().unwrap(), "track1", 7);
        assert!(text.contains("\r\ns=ab\r\n"));
        let read = parse(&text).unwrap();
        let expected = Description {
            control: Some("track1".into()),
            payload_type: 0,
            clock_hz: Some(8000),
            duration_s: Some(10.0),
            streams: 1,
        };
        assert_eq!(read, expected);
    }

    #[test]
    fn a_dynamic_payload_has_the_clock_of_its_map() {
        let text = "v=0\r\nm=audio 0 RTP/AVP 96\r\na=rtpmap:97 X/1\r\na=rtpmap:96 L16/48000/2\r\n";
        assert_eq!(parse(text).unwrap().clock_hz, Some(48_000));
    }

    #[test]
    fn no_stream_is_no_description() {
        assert_eq!(parse("v=0\r\ns=x\r\n"), None);
        assert_eq!(parse("not a description"), None);
    }
}
