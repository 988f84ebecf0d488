//! The Transport header (RFC 2326, section 12.39).

use std::fmt;

use thiserror::Error;

/// The lower transport: how RTP packets are carried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LowerTransport {
    /// UDP datagrams.
    Udp {
        /// Ports of the client for RTP and RTCP.
        client: Option<(u16, u16)>,
        /// Ports of the server for RTP and RTCP.
        server: Option<(u16, u16)>,
    },
    /// Interleaved frames on the RTSP connection.
    Interleaved {
        /// Channels for RTP and RTCP.
        channels: Option<(u8, u8)>,
    },
}

/// One transport of a Transport header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transport {
    pub lower: LowerTransport,
    /// Whether the transport is unicast. If not, it is multicast.
    pub unicast: bool,
    /// Address of the receiver, if it is not the client's.
    pub destination: Option<String>,
    /// Synchronization source of the stream.
    pub ssrc: Option<u32>,
    /// Whether the client wants to record instead of play.
    pub is_recording: bool,
}

/// The reason why a transport cannot be parsed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum TransportError {
    #[error("transport `{name}`, expected RTP/AVP, RTP/AVP/UDP or RTP/AVP/TCP")]
    Protocol { name: String },
    #[error("transport parameter `{parameter}`, expected {expected}")]
    Parameter {
        parameter: String,
        expected: &'static str,
    },
}

impl Transport {
    /// Parses the transports of a header, in order of preference.
    pub fn parse_all(value: &str) -> impl Iterator<Item = Result<Self, TransportError>> + '_ {
        value.split(',').map(|offer| Self::parse(offer.trim()))
    }

    fn parse(text: &str) -> Result<Self, TransportError> {
        let mut parameters = text.split(';').map(str::trim);
        let name = parameters.next().unwrap_or_default();
        let lower = match name.to_ascii_uppercase().as_str() {
            "RTP/AVP" | "RTP/AVP/UDP" => LowerTransport::Udp {
                client: None,
                server: None,
            },
            "RTP/AVP/TCP" => LowerTransport::Interleaved { channels: None },
            _ => {
                return Err(TransportError::Protocol {
                    name: name.chars().take(60).collect(),
                });
            }
        };
        // The RFC's default for UDP is multicast. Interleaved frames always have one receiver.
        let mut transport = Self {
            lower,
            unicast: matches!(lower, LowerTransport::Interleaved { .. }),
            destination: None,
            ssrc: None,
            is_recording: false,
        };
        for parameter in parameters.filter(|parameter| !parameter.is_empty()) {
            transport.set(parameter)?;
        }
        Ok(transport)
    }

    fn set(&mut self, parameter: &str) -> Result<(), TransportError> {
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
                self.is_recording = value.trim_matches('"').eq_ignore_ascii_case("record");
            }
            ("ssrc", _) => {
                let number = u32::from_str_radix(value.trim(), 16);
                self.ssrc = Some(number.map_err(|_| error("at most eight hexadecimal digits"))?);
            }
            ("client_port", LowerTransport::Udp { client, .. }) => {
                *client = Some(ports().ok_or_else(|| error("two ports from 1 to 65535"))?);
            }
            ("server_port", LowerTransport::Udp { server, .. }) => {
                *server = Some(ports().ok_or_else(|| error("two ports from 1 to 65535"))?);
            }
            ("interleaved", LowerTransport::Interleaved { channels }) => {
                *channels = Some(pair(value).ok_or_else(|| error("two channels from 0 to 255"))?);
            }
            // A receiver ignores other parameters (section 12.39).
            _ => {}
        }
        Ok(())
    }
}

/// Parses `A-B` with A below B. `A` alone is the pair of A and the next number.
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
            LowerTransport::Udp { client, server } => {
                formatter.write_str("RTP/AVP;unicast")?;
                for (name, ports) in [("client_port", client), ("server_port", server)] {
                    if let Some((rtp, rtcp)) = ports {
                        write!(formatter, ";{name}={rtp}-{rtcp}")?;
                    }
                }
            }
            LowerTransport::Interleaved { channels } => {
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
    fn transports_keep_the_order_of_preference() {
        let value = "RAW/X, RTP/AVP;unicast;client_port=4588-4589;mode=\"PLAY\",\
                     RTP/AVP/TCP;interleaved=0-1";
        let offers: Vec<_> = Transport::parse_all(value).collect();
        assert!(offers[0].is_err());
        let udp = LowerTransport::Udp {
            client: Some((4588, 4589)),
            server: None,
        };
        assert_eq!(offers[1].as_ref().unwrap().lower, udp);
        let interleaved = LowerTransport::Interleaved {
            channels: Some((0, 1)),
        };
        assert_eq!(offers[2].as_ref().unwrap().lower, interleaved);
    }

    #[test]
    fn ports_out_of_range_are_errors() {
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
    fn a_udp_transport_is_multicast_by_default() {
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
        fn a_written_transport_is_read_back(port in 1u16..65535, ssrc: u32, channel in 0u8..255) {
            for lower in [
                LowerTransport::Udp { client: Some((port, port + 1)), server: Some((port, port + 1)) },
                LowerTransport::Interleaved { channels: Some((channel, channel + 1)) },
            ] {
                let transport = Transport {
                    lower, unicast: true, destination: None, ssrc: Some(ssrc), is_recording: false,
                };
                let text = transport.to_string();
                let read: Vec<_> = Transport::parse_all(&text).collect();
                prop_assert_eq!(read, [Ok(transport)]);
            }
        }

        #[test]
        fn any_text_is_accepted(value: String) {
            prop_assert!(Transport::parse_all(&value).count() <= value.len() + 1);
        }
    }
}
