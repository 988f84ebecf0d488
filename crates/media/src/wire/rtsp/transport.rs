//! The Transport header (RFC 2326, section 12.39).

use std::fmt;

use thiserror::Error;

/// How packets travel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lower {
    /// In datagrams, RTP and RTCP to a port each.
    Udp {
        /// The receiver's ports, where given.
        client: Option<(u16, u16)>,
        /// The sender's ports, where given.
        server: Option<(u16, u16)>,
    },
    /// In frames on the RTSP connection, RTP and RTCP on a channel each.
    Interleaved {
        /// The channels, where given.
        channels: Option<(u8, u8)>,
    },
}

/// One way to deliver a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transport {
    /// How packets travel.
    pub lower: Lower,
    /// To one receiver; false asks for multicast.
    pub unicast: bool,
    /// Where to send, if not to whoever asks.
    pub destination: Option<String>,
    /// The stream's identifier, where given.
    pub ssrc: Option<u32>,
    /// The client wants to record.
    pub records: bool,
}

/// Why a way to deliver cannot be understood.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum TransportError {
    /// No protocol of ours.
    #[error("transport `{name}`, expected RTP/AVP, RTP/AVP/UDP or RTP/AVP/TCP")]
    Protocol {
        /// What was asked.
        name: String,
    },
    /// A parameter that is not well formed or out of range.
    #[error("transport parameter `{parameter}`, expected {expected}")]
    Parameter {
        /// What was asked.
        parameter: String,
        /// What would do.
        expected: &'static str,
    },
}

impl Transport {
    /// The ways that a header offers, in order of preference, each understood or not.
    pub fn parse_all(value: &str) -> impl Iterator<Item = Result<Self, TransportError>> + '_ {
        value.split(',').map(|one| Self::parse(one.trim()))
    }

    fn parse(text: &str) -> Result<Self, TransportError> {
        let mut parameters = text.split(';').map(str::trim);
        let name = parameters.next().unwrap_or_default();
        let lower = match name.to_ascii_uppercase().as_str() {
            "RTP/AVP" | "RTP/AVP/UDP" => Lower::Udp {
                client: None,
                server: None,
            },
            "RTP/AVP/TCP" => Lower::Interleaved { channels: None },
            _ => {
                return Err(TransportError::Protocol {
                    name: name.chars().take(60).collect(),
                });
            }
        };
        // Unicast must be asked for: multicast is the default of the RFC. Interleaved frames can
        // go to one receiver only.
        let mut transport = Self {
            lower,
            unicast: matches!(lower, Lower::Interleaved { .. }),
            destination: None,
            ssrc: None,
            records: false,
        };
        for parameter in parameters.filter(|parameter| !parameter.is_empty()) {
            transport.take(parameter)?;
        }
        Ok(transport)
    }

    fn take(&mut self, parameter: &str) -> Result<(), TransportError> {
        let error = |expected| TransportError::Parameter {
            parameter: parameter.chars().take(60).collect(),
            expected,
        };
        let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
        let ports = || pair::<u16>(value).filter(|ports| ports.0 > 0 && ports.1 > 0);
        match (name.to_ascii_lowercase().as_str(), &mut self.lower) {
            ("unicast", _) => self.unicast = true,
            ("multicast", _) => self.unicast = false,
            ("destination", _) => self.destination = Some(value.to_owned()),
            ("mode", _) => {
                self.records = value.trim_matches('"').eq_ignore_ascii_case("record");
            }
            ("ssrc", _) => {
                let number = u32::from_str_radix(value.trim(), 16);
                self.ssrc = Some(number.map_err(|_| error("at most eight hexadecimal digits"))?);
            }
            ("client_port", Lower::Udp { client, .. }) => {
                *client = Some(ports().ok_or_else(|| error("two ports from 1 to 65535"))?);
            }
            ("server_port", Lower::Udp { server, .. }) => {
                *server = Some(ports().ok_or_else(|| error("two ports from 1 to 65535"))?);
            }
            ("interleaved", Lower::Interleaved { channels }) => {
                *channels = Some(pair(value).ok_or_else(|| error("two channels from 0 to 255"))?);
            }
            // Others, and what does not belong here, may be ignored (section 12.39).
            _ => {}
        }
        Ok(())
    }
}

/// `A-B` with A below B, or `A`, which means A and the next.
fn pair<N: std::str::FromStr + Copy + PartialOrd + TryFrom<u32> + Into<u32>>(
    text: &str,
) -> Option<(N, N)> {
    let (first, second) = match text.split_once('-') {
        Some((first, second)) => (first.trim().parse().ok()?, second.trim().parse().ok()?),
        None => {
            let first: N = text.trim().parse().ok()?;
            (first, N::try_from(first.into() + 1).ok()?)
        }
    };
    (first < second).then_some((first, second))
}

impl fmt::Display for Transport {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.lower {
            Lower::Udp { client, server } => {
                formatter.write_str("RTP/AVP;unicast")?;
                for (name, ports) in [("client_port", client), ("server_port", server)] {
                    if let Some((rtp, rtcp)) = ports {
                        write!(formatter, ";{name}={rtp}-{rtcp}")?;
                    }
                }
            }
            Lower::Interleaved { channels } => {
                formatter.write_str("RTP/AVP/TCP;unicast")?;
                if let Some((rtp, rtcp)) = channels {
                    write!(formatter, ";interleaved={rtp}-{rtcp}")?;
                }
            }
        }
        match self.ssrc {
            Some(ssrc) => write!(formatter, ";ssrc={ssrc:08X}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn offers_come_in_order_of_preference() {
        let value = "RAW/X, RTP/AVP;unicast;client_port=4588-4589;mode=\"PLAY\",\
                     RTP/AVP/TCP;interleaved=0-1";
        let offers: Vec<_> = Transport::parse_all(value).collect();
        assert!(offers[0].is_err());
        let udp = Lower::Udp {
            client: Some((4588, 4589)),
            server: None,
        };
        assert_eq!(offers[1].as_ref().unwrap().lower, udp);
        let interleaved = Lower::Interleaved {
            channels: Some((0, 1)),
        };
        assert_eq!(offers[2].as_ref().unwrap().lower, interleaved);
    }

    #[test]
    fn ports_out_of_range_are_refused() {
        for ports in [
            "0-1",
            "65535-65536",
            "70000-70001",
            "-1-2",
            "5-4",
            "5-5",
            "x",
            "",
            "65535",
        ] {
            let value = format!("RTP/AVP;unicast;client_port={ports}");
            assert!(
                Transport::parse_all(&value).all(|offer| offer.is_err()),
                "{ports}"
            );
        }
    }

    #[test]
    fn a_datagram_transport_is_multicast_unless_it_says_otherwise() {
        let offer = |text| Transport::parse_all(text).next().unwrap().unwrap();
        assert!(!offer("RTP/AVP;client_port=2-3").unicast);
        assert!(offer("rtp/avp/udp;Unicast").unicast);
        assert_eq!(
            offer("RTP/AVP;destination=10.0.0.9").destination.unwrap(),
            "10.0.0.9"
        );
    }

    proptest! {
        #[test]
        fn what_was_written_is_read(port in 1u16..65535, ssrc: u32, channel in 0u8..255) {
            for lower in [
                Lower::Udp { client: Some((port, port + 1)), server: Some((port, port + 1)) },
                Lower::Interleaved { channels: Some((channel, channel + 1)) },
            ] {
                let transport = Transport {
                    lower, unicast: true, destination: None, ssrc: Some(ssrc), records: false,
                };
                let text = transport.to_string();
                let read: Vec<_> = Transport::parse_all(&text).collect();
                prop_assert_eq!(read, [Ok(transport)]);
            }
        }

        #[test]
        fn any_text_is_read_or_refused(value: String) {
            prop_assert!(Transport::parse_all(&value).count() <= value.len() + 1);
        }
    }
}
