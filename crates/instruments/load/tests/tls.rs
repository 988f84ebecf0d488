//! HTTPS: trusted certificates and session resumption.

#![expect(clippy::unwrap_used, reason = "tests panic on errors")]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use perpacket_load::http::{Report, Spec, run};
use perpacket_spec::parse;
use rustls::crypto::ring;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::{HandshakeKind, ProtocolVersion, ServerConfig, ServerConnection, StreamOwned};

/// A server with a self-signed certificate for `localhost`. It answers one request per connection.
struct Server {
    address: SocketAddr,
    certificate: String,
    resumed: Arc<AtomicU64>,
    /// Number of connections with TLS 1.2.
    old: Arc<AtomicU64>,
    ended: Arc<AtomicBool>,
}

impl Server {
    fn start() -> Self {
        let own = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
        let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(own.signing_key.serialize_der()));
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![own.cert.der().clone()], key)
            .unwrap();
        let config = Arc::new(config);
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let server = Self {
            address: listener.local_addr().unwrap(),
            certificate: own.cert.pem(),
            resumed: Arc::default(),
            old: Arc::default(),
            ended: Arc::default(),
        };
        let (resumed, ended) = (Arc::clone(&server.resumed), Arc::clone(&server.ended));
        let old = Arc::clone(&server.old);
        thread::spawn(move || {
            for stream in listener.incoming() {
                if ended.load(Ordering::SeqCst) {
                    return;
                }
                let (Ok(stream), resumed, old) = (stream, Arc::clone(&resumed), Arc::clone(&old))
                else {
                    return;
                };
                let tls = ServerConnection::new(Arc::clone(&config)).unwrap();
                thread::spawn(move || {
                    let mut stream = StreamOwned::new(tls, stream);
                    if stream.read(&mut [0; 1024]).is_ok_and(|bytes| bytes > 0) {
                        if stream.conn.protocol_version() == Some(ProtocolVersion::TLSv1_2) {
                            old.fetch_add(1, Ordering::SeqCst);
                        }
                        if stream.conn.handshake_kind() == Some(HandshakeKind::Resumed) {
                            resumed.fetch_add(1, Ordering::SeqCst);
                        }
                        let body = vec![b'x'; 100_000];
                        let head = "HTTP/1.1 200 OK\r\nContent-Length: 100000\r\nConnection: close\r\n\r\n";
                        let _ = stream.write_all(head.as_bytes());
                        let _ = stream.write_all(&body);
                        stream.conn.send_close_notify();
                        let _ = stream.flush();
                    }
                });
            }
        });
        server
    }

    /// A load of ten requests.
    fn load(&self, options: &str) -> Report {
        let url = format!("https://localhost:{}/", self.address.port());
        let line = format!("{url} --connections 1 --threads 1 --requests 10 {options}");
        let spec: Spec = parse(&line).unwrap();
        run(spec, &AtomicBool::new(false), &mut |_| ()).unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::SeqCst);
        let _ = std::net::TcpStream::connect(self.address);
    }
}

#[test]
fn an_untrusted_certificate_is_accepted_only_with_ca_or_insecure() {
    let server = Server::start();
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("certificate.pem");
    std::fs::write(&file, &server.certificate).unwrap();
    let other = directory.path().join("other.pem");
    let stranger = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    std::fs::write(&other, stranger.cert.pem()).unwrap();
    let report = server.load(&format!("--ca {}", other.display()));
    assert_eq!(report.errors.get("tls"), Some(&10), "{:?}", report.errors);
    let report = server.load(&format!("--ca {}", file.display()));
    assert_eq!(
        (report.requests, report.body_bytes),
        (10, 1_000_000),
        "{:?}",
        report.errors
    );
    let report = server.load("--insecure");
    assert_eq!(report.requests, 10, "{:?}", report.errors);
}

#[test]
fn sessions_are_resumed_by_default() {
    let server = Server::start();
    for (tls_resumption, expected) in [("on", 9), ("off", 0)] {
        server.resumed.store(0, Ordering::SeqCst);
        let report = server.load(&format!("--insecure --tls-resumption {tls_resumption}"));
        assert_eq!(report.requests, 10, "{:?}", report.errors);
        assert_eq!(server.resumed.load(Ordering::SeqCst), expected);
    }
}

#[test]
fn a_load_with_one_version_of_tls_uses_it() {
    let server = Server::start();
    for (tls_version, expected) in [("", 0), ("--tls-version 1.2", 10), ("--tls-version 1.3", 0)] {
        server.old.store(0, Ordering::SeqCst);
        let report = server.load(&format!("--insecure {tls_version}"));
        assert_eq!(report.requests, 10, "{:?}", report.errors);
        assert_eq!(server.old.load(Ordering::SeqCst), expected);
    }
}
