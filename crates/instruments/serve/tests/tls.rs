//! TLS with a real client: both versions, resumption on and off.
#![expect(clippy::unwrap_used, reason = "a failure here is the test's failure")]

mod started;

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

use perpacket_serve::{Architecture, Spec};
use perpacket_spec::{Switch, Time};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, HandshakeKind, RootCertStore, StreamOwned};
use started::{Started, pattern, spec};

struct Secured {
    server: Started,
    certificate: CertificateDer<'static>,
    _keys: tempfile::TempDir,
}

fn secured(spec: Spec, resumption: Switch) -> Secured {
    let keys = tempfile::tempdir().unwrap();
    let generated = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let (certificate, key) = (keys.path().join("cert.pem"), keys.path().join("key.pem"));
    fs::write(&certificate, generated.cert.pem()).unwrap();
    fs::write(&key, generated.signing_key.serialize_pem()).unwrap();
    let server = Started::new(Spec {
        tls_cert: Some(certificate.clone()),
        tls_key: Some(key),
        tls_resumption: Some(resumption),
        ..spec
    });
    Secured {
        server,
        certificate: CertificateDer::from_pem_file(certificate).unwrap(),
        _keys: keys,
    }
}

impl Secured {
    fn client(&self, version: &'static rustls::SupportedProtocolVersion) -> Arc<ClientConfig> {
        let mut roots = RootCertStore::empty();
        roots.add(self.certificate.clone()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[version])
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        Arc::new(config)
    }

    /// Requests a file on a new connection. Returns its bytes and the kind of handshake.
    fn request(&self, config: &Arc<ClientConfig>, target: &str) -> (Vec<u8>, HandshakeKind) {
        let name = ServerName::try_from("localhost").unwrap();
        let connection = ClientConnection::new(Arc::clone(config), name).unwrap();
        let socket = TcpStream::connect(self.server.address).unwrap();
        socket.set_read_timeout(Some(started::WAIT_LIMIT)).unwrap();
        let mut stream = StreamOwned::new(connection, socket);
        let request = format!("GET {target} HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        let end = answer
            .windows(4)
            .position(|part| part == b"\r\n\r\n")
            .unwrap();
        assert!(answer.starts_with(b"HTTP/1.1 200 OK\r\n"));
        (
            answer.split_off(end + 4),
            stream.conn.handshake_kind().unwrap(),
        )
    }
}

#[test]
fn files_arrive_whole_over_both_versions() {
    for architecture in [
        Architecture::Events,
        Architecture::Single,
        Architecture::Threads,
    ] {
        let secured = secured(spec(architecture), Switch::On);
        for version in [&rustls::version::TLS12, &rustls::version::TLS13] {
            let config = secured.client(version);
            assert_eq!(secured.request(&config, "/a.txt").0, pattern(612));
            assert!(secured.request(&config, "/large").0 == pattern(3 << 20));
        }
    }
}

#[test]
fn sessions_are_resumed_only_if_resumption_is_on() {
    for resumption in [Switch::On, Switch::Off] {
        for version in [&rustls::version::TLS12, &rustls::version::TLS13] {
            let secured = secured(spec(Architecture::Events), resumption);
            let config = secured.client(version);
            assert_eq!(secured.request(&config, "/a.txt").1, HandshakeKind::Full);
            let resumed = secured.request(&config, "/a.txt").1 == HandshakeKind::Resumed;
            assert_eq!(resumed, resumption == Switch::On, "{version:?}");
        }
    }
}

#[test]
fn a_slow_handshake_is_closed_by_the_time_out_of_requests() {
    for architecture in [
        Architecture::Events,
        Architecture::Single,
        Architecture::Threads,
    ] {
        let secured = secured(
            Spec {
                request_timeout: Time(Duration::from_secs_f64(0.3)),
                ..spec(architecture)
            },
            Switch::On,
        );
        // There are as many slow clients as threads. None of them may block a thread for ever.
        let mut slow = [(); 4].map(|()| secured.server.connect());
        // The header of a handshake record of 16,384 bytes.
        let header = [22, 3, 1, 64, 0];
        for byte in header.into_iter().chain([0; 200]) {
            for client in &mut slow {
                // The write fails once the server has closed the connection.
                let _ = client.stream.write_all(&[byte]);
            }
            if secured.server.reporter.report().connections.timed_out >= 4 {
                break;
            }
            std::thread::sleep(Duration::from_millis(40));
        }
        let report = secured.server.until(|report| report.connections.open == 0);
        assert_eq!(report.connections.timed_out, 4);
        let config = secured.client(&rustls::version::TLS13);
        assert_eq!(secured.request(&config, "/a.txt").0, pattern(612));
    }
}

#[test]
fn input_that_is_not_tls_closes_only_that_connection() {
    for architecture in [Architecture::Events, Architecture::Threads] {
        let secured = secured(spec(architecture), Switch::On);
        let mut plain = secured.server.connect();
        plain.send("GET /a.txt HTTP/1.1\r\nHost: h\r\n\r\n");
        assert!(!plain.rest().starts_with(b"HTTP"));
        let config = secured.client(&rustls::version::TLS13);
        assert_eq!(secured.request(&config, "/a.txt").0, pattern(612));
    }
}
