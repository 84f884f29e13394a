//! [`Tls`]: the trusted authorities, and the client's certificate. PEM files are read when they are
//! set, so that a mistake in one is an error of the constructor; those of the platform, which takes
//! long, at the first connection.

use std::io;
use std::sync::Arc;

use once_cell::sync::OnceCell;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::crypto::CryptoProvider;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

use crate::error::StoreError;

/// The trusted authorities, and the client's certificate.
#[derive(Clone, Default)]
pub(crate) struct Tls {
    /// The trusted authorities; `None` for those of the platform.
    authorities: Option<Arc<RootCertStore>>,
    /// The client's certificate with its chain, and its private key.
    identity: Option<Arc<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>)>>,
    /// Made at the first connection: reading the certificates of the platform takes long.
    config: Arc<OnceCell<Arc<ClientConfig>>>,
}

/// TLS that trusts the authorities of the platform, without a client certificate.
#[allow(
    clippy::unnecessary_wraps,
    reason = "without the feature there is none"
)]
pub(crate) fn platform() -> Option<Tls> {
    Some(Tls::default())
}

const NO_PROVIDER: &str = "rustls has no crypto provider, or several: let the program depend on \
    `rustls` with one of the features `ring` and `aws_lc_rs`, or call `install_default` of one";

impl Tls {
    /// Sets the trusted authorities.
    pub(crate) fn trust(&mut self, pem: &[u8]) -> Result<(), StoreError> {
        let malformed =
            || StoreError::misconfigured("the CA certificates are not certificates in PEM form");
        let mut authorities = RootCertStore::empty();
        for certificate in certificates(pem).ok_or_else(malformed)? {
            authorities.add(certificate).map_err(|_| malformed())?;
        }
        (self.authorities, self.config) = (Some(Arc::new(authorities)), Arc::default());
        Ok(())
    }

    /// Sets the client's certificate.
    pub(crate) fn show(&mut self, pem: &[u8], key: &[u8]) -> Result<(), StoreError> {
        let malformed = |part| {
            StoreError::misconfigured(format!("the {part} of the client is not in PEM form"))
        };
        let certificates = certificates(pem).ok_or_else(|| malformed("certificate"))?;
        let key = PrivateKeyDer::from_pem_slice(key).map_err(|_| malformed("key"))?;
        (self.identity, self.config) = (Some(Arc::new((certificates, key))), Arc::default());
        Ok(())
    }

    /// Sets up TLS with the server `host`.
    ///
    /// # Errors
    ///
    /// `InvalidData` for an error in the configuration, which a retry does not correct.
    pub(crate) async fn connect(
        &self,
        host: &str,
        tcp: TcpStream,
    ) -> io::Result<TlsStream<TcpStream>> {
        let name = ServerName::try_from(host.to_owned())
            .map_err(|_| wrong("this host name cannot be in a certificate"))?;
        let config = if let Some(config) = self.config.get() {
            Arc::clone(config)
        } else {
            let tls = self.clone();
            let config = move || {
                let config = tls.config.get_or_try_init(|| tls.config().map(Arc::new));
                config.cloned()
            };
            // On the blocking pool, which goes on where its runtime stands still: it reads many
            // files. rustls panics without a crypto provider.
            let config = tokio::task::spawn_blocking(config).await;
            config.map_err(|_| wrong(NO_PROVIDER))??
        };
        TlsConnector::from(config).connect(name, tcp).await
    }

    fn config(&self) -> io::Result<ClientConfig> {
        // If the application has installed no provider, rustls takes the one it was built with; it
        // panics if there is not exactly one.
        let builder = match CryptoProvider::get_default().cloned() {
            Some(provider) => ClientConfig::builder_with_provider(provider)
                .with_safe_default_protocol_versions()
                .map_err(|_| wrong("the crypto provider of rustls has no safe protocol version"))?,
            None => ClientConfig::builder(),
        };
        let authorities = self.authorities.clone().map_or_else(of_the_platform, Ok)?;
        let builder = builder.with_root_certificates(authorities);
        match &self.identity {
            None => Ok(builder.with_no_client_auth()),
            Some(identity) => builder
                .with_client_auth_cert(identity.0.clone(), identity.1.clone_key())
                .map_err(|_| wrong("the key of the client does not fit its certificate")),
        }
    }
}

/// The root certificates of the platform. Malformed ones are skipped.
fn of_the_platform() -> io::Result<Arc<RootCertStore>> {
    let mut authorities = RootCertStore::empty();
    authorities.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if authorities.is_empty() {
        return Err(wrong("the platform has no root certificates"));
    }
    Ok(Arc::new(authorities))
}

/// All certificates; `None` if one cannot be read or there is none.
fn certificates(pem: &[u8]) -> Option<Vec<CertificateDer<'static>>> {
    let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    certificates
        .ok()
        .filter(|certificates| !certificates.is_empty())
}

fn wrong(what: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}
