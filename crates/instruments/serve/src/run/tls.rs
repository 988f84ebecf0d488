//! TLS 1.2 and 1.3 with rustls, between the socket and the request path.

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::sync::Arc;

use rustix::io::Errno;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{NoServerSessionStorage, ServerConfig, ServerConnection};

use crate::counters::Counters;
use crate::error::ServeError;
use crate::send_queue::{SendQueue, SendStatus};

/// Maximum number of plain bytes that a session encrypts before it sends: four full records.
const BUFFER_BYTES: usize = 65_536;

/// Number of bytes to read from a file at a time. sendfile cannot encrypt, so files are read.
const FILE_BYTES: usize = 16_384;

/// Maximum number of slices of one writev.
const SLICES: usize = 32;

/// Reads the certificate and the key. `resumption`: whether clients may resume sessions (session IDs, and
/// tickets of TLS 1.3).
pub fn configure(
    certificate: &Path,
    key: &Path,
    resumption: bool,
) -> Result<Arc<ServerConfig>, ServeError> {
    let key_file = key;
    let fault = |option, path: &Path, problem: String| ServeError::File {
        option,
        path: path.to_owned(),
        problem,
    };
    let certificates = CertificateDer::pem_file_iter(certificate)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|error| fault("--tls-cert", certificate, error.to_string()))?;
    let key = PrivateKeyDer::from_pem_file(key_file)
        .map_err(|error| fault("--tls-key", key_file, error.to_string()))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13, &rustls::version::TLS12])
        .and_then(|builder| {
            builder
                .with_no_client_auth()
                .with_single_cert(certificates, key)
        })
        .map_err(|error| fault("--tls-cert", certificate, error.to_string()))?;
    config.alpn_protocols = vec![b"http/1.1".to_vec(), b"http/1.0".to_vec()];
    if resumption {
        // Tickets work across workers: threads share the key, and processes inherit it.
        config.ticketer = rustls::crypto::ring::Ticketer::new()
            .map_err(|error| fault("--tls-key", key_file, error.to_string()))?;
    } else {
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
    }
    Ok(Arc::new(config))
}

/// The TLS session of a connection.
#[derive(Debug)]
pub struct TlsSession {
    session: ServerConnection,
    /// Bytes have arrived, but they complete neither a record with plain bytes nor the handshake.
    is_within_record: bool,
}

impl TlsSession {
    /// A session before its handshake.
    ///
    /// # Errors
    /// The configuration has no usable cipher suite.
    pub fn new(config: &Arc<ServerConfig>) -> io::Result<Self> {
        let mut session = ServerConnection::new(Arc::clone(config)).map_err(io::Error::other)?;
        session.set_buffer_limit(Some(BUFFER_BYTES));
        Ok(Self {
            session,
            is_within_record: false,
        })
    }

    /// Whether the handshake or a record is incomplete. The time-out of requests then applies.
    pub fn is_within_request(&self) -> bool {
        self.session.is_handshaking() || self.is_within_record
    }

    /// Decrypts bytes from the socket and appends the plain bytes to `plain`. The session's own
    /// messages are sent by the next [`Self::send`], also after an error.
    ///
    /// # Errors
    /// The bytes are not valid TLS for this session.
    pub fn receive(&mut self, mut raw: &[u8], plain: &mut Vec<u8>) -> io::Result<()> {
        let was_handshaking = self.session.is_handshaking();
        let before = plain.len();
        while !raw.is_empty() {
            if self.session.read_tls(&mut raw)? == 0 {
                return Ok(());
            }
            let state = self
                .session
                .process_new_packets()
                .map_err(io::Error::other)?;
            let ready = state.plaintext_bytes_to_read();
            let start = plain.len();
            plain.resize(start + ready, 0);
            self.session.reader().read_exact(&mut plain[start..])?;
        }
        let has_completed = was_handshaking && !self.session.is_handshaking();
        self.is_within_record = plain.len() == before && !has_completed;
        Ok(())
    }

    /// Sends until everything is sent or the socket accepts no more.
    ///
    /// # Errors
    /// Errors of the socket; `UnexpectedEof` if a file became shorter than its `Content-Length`.
    pub fn send(
        &mut self,
        socket: impl AsFd,
        out: &mut SendQueue,
        counters: &Counters,
    ) -> io::Result<SendStatus> {
        loop {
            self.encrypt(out)?;
            if !self.session.wants_write() {
                out.clear();
                return Ok(SendStatus::Complete);
            }
            let mut writer = SocketWriter {
                socket: socket.as_fd(),
                counters,
            };
            match self.session.write_tls(&mut writer) {
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    return Ok(SendStatus::Blocked);
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Appends TLS's `close_notify` to the output, which announces the end of the output.
    pub fn end(&mut self) {
        self.session.send_close_notify();
    }

    /// Moves output into the session until its buffer is full.
    fn encrypt(&mut self, out: &mut SendQueue) -> io::Result<()> {
        while !out.is_empty() {
            let count = match out.next_file_part() {
                Some((file, offset, length)) => {
                    let mut part = [0; FILE_BYTES];
                    let wanted = part.len().min(length as usize);
                    let read = rustix::io::pread(&file, &mut part[..wanted], offset)?;
                    if read == 0 {
                        return Err(io::ErrorKind::UnexpectedEof.into());
                    }
                    self.session.writer().write(&part[..read])?
                }
                None => {
                    let mut slices = [io::IoSlice::new(&[]); SLICES];
                    let slice_count = out.gather(&mut slices);
                    self.session
                        .writer()
                        .write_vectored(&slices[..slice_count])?
                }
            };
            if count == 0 {
                break;
            }
            out.advance(count as u64);
        }
        Ok(())
    }
}

/// A socket that counts the bytes it sends.
struct SocketWriter<'a> {
    socket: BorrowedFd<'a>,
    counters: &'a Counters,
}

impl SocketWriter<'_> {
    fn count(&self, result: Result<usize, Errno>) -> io::Result<usize> {
        let bytes = result?;
        self.counters.bytes_sent.add(bytes as u64);
        Ok(bytes)
    }
}

impl Write for SocketWriter<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.count(rustix::io::write(self.socket, bytes))
    }

    fn write_vectored(&mut self, slices: &[io::IoSlice<'_>]) -> io::Result<usize> {
        self.count(rustix::io::writev(self.socket, slices))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
