//! TLS of the client: trusted certificates and session resumption.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::client::Resumption;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{
    ClientConfig, ClientConnection, DigitallySignedStruct, RootCertStore, SignatureScheme,
    SupportedProtocolVersion,
};

use perpacket_spec::Switch;

use super::spec::{Spec, TlsVersion};
use super::target::Target;
use crate::error::LoadError;

/// Files in which systems keep trusted certificates.
const SYSTEM_CERTIFICATES: [&str; 3] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/cert.pem",
];
/// Number of stored sessions for resumption. A server issues a few sessions per connection.
const STORED_SESSIONS: usize = 256;

/// Makes TLS connections to one server.
#[derive(Clone, Debug)]
pub(crate) struct Connector {
    config: Arc<ClientConfig>,
    name: ServerName<'static>,
}

impl Connector {
    /// A connector for a target.
    ///
    /// # Errors
    /// The host is not a valid TLS name, or no trusted certificate is available.
    pub(crate) fn new(target: &Target, spec: &Spec) -> Result<Self, LoadError> {
        let failed = |error: &dyn std::fmt::Display| LoadError::Tls(error.to_string());
        let name = ServerName::try_from(target.host.clone())
            .map_err(|error| failed(&format!("{}: {error}", target.host)))?;
        let provider = Arc::new(ring::default_provider());
        let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(versions(spec.tls_version))
            .map_err(|error| failed(&error))?;
        let mut config = if spec.insecure {
            builder
                .dangerous()
                .with_custom_certificate_verifier(Arc::new(AnyCertificate(provider)))
                .with_no_client_auth()
        } else {
            let trusted = trusted_certificates(spec.ca.as_deref())?;
            builder
                .with_root_certificates(trusted)
                .with_no_client_auth()
        };
        config.resumption = match spec.tls_resumption {
            Some(Switch::Off) => Resumption::disabled(),
            _ => Resumption::in_memory_sessions(STORED_SESSIONS),
        };
        Ok(Self {
            config: Arc::new(config),
            name,
        })
    }

    /// A connection before its handshake.
    pub(crate) fn start(&self) -> Result<ClientConnection, rustls::Error> {
        ClientConnection::new(Arc::clone(&self.config), self.name.clone())
    }
}

/// The versions that a client offers.
fn versions(only: Option<TlsVersion>) -> &'static [&'static SupportedProtocolVersion] {
    static TLS12: [&SupportedProtocolVersion; 1] = [&rustls::version::TLS12];
    static TLS13: [&SupportedProtocolVersion; 1] = [&rustls::version::TLS13];
    match only {
        None => rustls::DEFAULT_VERSIONS,
        Some(TlsVersion::Tls12) => &TLS12,
        Some(TlsVersion::Tls13) => &TLS13,
    }
}

/// The certificates of a file, or of the system.
fn trusted_certificates(file: Option<&Path>) -> Result<RootCertStore, LoadError> {
    let of_system = SYSTEM_CERTIFICATES
        .iter()
        .map(PathBuf::from)
        .find(|path| path.exists());
    let path = file.map(Path::to_owned).or(of_system).ok_or_else(|| {
        LoadError::Tls(
            "no trusted certificates on this system: name a file with --ca, or trust any with \
             --insecure"
                .to_owned(),
        )
    })?;
    let failed =
        |error: &dyn std::fmt::Display| LoadError::Tls(format!("{}: {error}", path.display()));
    let mut store = RootCertStore::empty();
    for certificate in CertificateDer::pem_file_iter(&path).map_err(|error| failed(&error))? {
        let certificate = certificate.map_err(|error| failed(&error))?;
        // The system's list may contain certificates in forms that are no longer accepted.
        let added = store.add(certificate);
        if file.is_some() {
            added.map_err(|error| failed(&error))?;
        }
    }
    match store.is_empty() {
        true => Err(failed(&"contains no certificate in PEM form")),
        false => Ok(store),
    }
}

/// Accepts any certificate, but still checks signatures.
#[derive(Debug)]
struct AnyCertificate(Arc<CryptoProvider>);

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(
            message,
            certificate,
            signature,
            &self.0.signature_verification_algorithms,
        )
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(
            message,
            certificate,
            signature,
            &self.0.signature_verification_algorithms,
        )
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
