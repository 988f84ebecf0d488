//! Session descriptions (SDP, RFC 4566): the server writes the description of a file, and the
//! client reads the fields that it needs from the description of any server.

use core::net::IpAddr;
use std::fmt::Write;

use crate::wire::layout::PacketLayout;

/// The first RTP stream of a session description.
#[derive(Clone, Debug, PartialEq)]
pub struct Description {
    /// URI of the stream, absolute or relative to the base of the description.
    pub control: Option<String>,
    /// Payload type in the RTP header.
    pub payload_type: u8,
    /// Ticks of the timestamps a second, if the description or RFC 3551 defines them.
    pub clock_hz: Option<u32>,
}

/// Describes a file with one stream. `track` is the relative URI of the stream.
pub fn describe(
    layout: &PacketLayout,
    name: &str,
    server: IpAddr,
    track: &str,
    session: u64,
) -> String {
    let family = if server.is_ipv4() { "IP4" } else { "IP6" };
    let any = if server.is_ipv4() { "0.0.0.0" } else { "::" };
    let payload = &layout.payload;
    // Drop line ends from the name, because a line end would start another field (section 5.3).
    let name: String = name.chars().filter(|letter| !letter.is_control()).collect();
    let mut text = format!(
        "v=0\r\no=- {session} {session} IN {family} {server}\r\ns={name}\r\n\
         c=IN {family} {any}\r\nt=0 0\r\na=control:*\r\na=range:npt=0-{:.3}\r\n\
         m={} 0 RTP/AVP {}\r\nb=AS:{}\r\na=rtpmap:{} {}/{}",
        layout.duration_ns() as f64 / 1e9,
        payload.media_type,
        payload.payload_type,
        layout.rate_bps().div_ceil(1000),
        payload.payload_type,
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

/// Reads a description. `None` if it is malformed or has no RTP stream.
pub fn parse(text: &str) -> Option<Description> {
    let mut description: Option<Description> = None;
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
                if let (None, true, Some(payload_type)) = (&description, is_rtp, number) {
                    description = Some(Description {
                        control: None,
                        payload_type,
                        clock_hz: fixed_clock_hz(payload_type),
                    });
                }
            }
            "a" => {
                if let (Some(description), 1) = (&mut description, streams) {
                    read_attribute(description, value);
                }
            }
            _ => {}
        }
    }
    description
}

fn read_attribute(description: &mut Description, value: &str) {
    if let Some(control) = value.strip_prefix("control:") {
        description.control = Some(control.trim().to_owned());
    } else if let Some(map) = value.strip_prefix("rtpmap:") {
        let clock = map.split_once(' ').filter(|(number, _)| {
            number
                .parse()
                .is_ok_and(|number: u8| number == description.payload_type)
        });
        let clock = clock.and_then(|(_, encoding)| encoding.split('/').nth(1)?.trim().parse().ok());
        description.clock_hz = clock.or(description.clock_hz);
    }
}

/// The clock of a static payload type (RFC 3551, tables 4 and 5).
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
    fn a_written_description_is_read_back() {
        let layout = PacketLayout::detect("a.pcmu", 80_000, &[0; 100], &[0; 100]).unwrap();
        let text = describe(&layout, "a\r\nb", "127.0.0.1".parse().unwrap(), "track1", 7);
        assert!(text.contains("\r\ns=ab\r\n"));
        let read = parse(&text).unwrap();
        let expected = Description {
            control: Some("track1".into()),
            payload_type: 0,
            clock_hz: Some(8000),
        };
        assert_eq!(read, expected);
    }

    #[test]
    fn the_rtpmap_attribute_sets_the_clock_of_a_dynamic_payload() {
        let text = "v=0\r\nm=audio 0 RTP/AVP 96\r\na=rtpmap:97 X/1\r\na=rtpmap:96 L16/48000/2\r\n";
        assert_eq!(parse(text).unwrap().clock_hz, Some(48_000));
    }

    #[test]
    fn a_description_without_a_stream_is_rejected() {
        assert_eq!(parse("v=0\r\ns=x\r\n"), None);
        assert_eq!(parse("not a description"), None);
    }
}
