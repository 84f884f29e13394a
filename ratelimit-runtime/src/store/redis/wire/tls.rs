//! [`Tls`]: whom to trust, and what to show.

use std::io;
use std::sync::Arc;

use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::crypto::CryptoProvider;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

use crate::error::StoreError;

#[derive(Clone)]
pub(crate) struct Tls {
    authorities: Option<Arc<RootCertStore>>,
    identity: Option<Arc<Identity>>,
}

struct Identity {
    certificates: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
}

/// Trusts the authorities of the platform, and shows nothing.
pub(crate) const PLATFORM: Option<Tls> = Some(Tls { authorities: None, identity: None });

impl Tls {
    /// The same, trusting these authorities.
    pub(crate) fn trusting(&self, pem: &[u8]) -> Result<Self, StoreError> {
        let malformed = || StoreError::misconfigured("the CA certificates are not certificates in PEM form");
        let mut authorities = RootCertStore::empty();
        for certificate in certificates(pem).ok_or_else(malformed)? {
            authorities.add(certificate).map_err(|_| malformed())?;
        }
        Ok(Self { authorities: Some(Arc::new(authorities)), ..self.clone() })
    }

    /// The same, showing this.
    pub(crate) fn showing(&self, pem: &[u8], key: &[u8]) -> Result<Self, StoreError> {
        let what = |what| StoreError::misconfigured(format!("the {what} of the client is not in PEM form"));
        let certificates = certificates(pem).ok_or_else(|| what("certificate"))?;
        let key = PrivateKeyDer::from_pem_slice(key).map_err(|_| what("key"))?;
        Ok(Self { identity: Some(Arc::new(Identity { certificates, key })), ..self.clone() })
    }

    /// # Errors
    ///
    /// `InvalidData` for what no waiting will cure.
    pub(crate) async fn connect(&self, host: &str, tcp: TcpStream) -> io::Result<TlsStream<TcpStream>> {
        let name =
            ServerName::try_from(host.to_owned()).map_err(|_| wrong("this host name cannot be in a certificate"))?;
        let tls = self.clone();
        // It reads many files.
        let config = tokio::task::spawn_blocking(move || tls.config()).await;
        let config = config.map_err(|_| wrong("rustls needs a crypto provider"))??;
        TlsConnector::from(Arc::new(config)).connect(name, tcp).await
    }

    /// Made anew for each connection: the platform's certificates are replaced while a
    /// service runs.
    fn config(&self) -> io::Result<ClientConfig> {
        // Where there is no choice, rustls chooses; else the application has to.
        let provider = CryptoProvider::get_default().cloned();
        let builder = match provider {
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
                .with_client_auth_cert(identity.certificates.clone(), identity.key.clone_key())
                .map_err(|_| wrong("the key of the client does not fit its certificate")),
        }
    }
}

fn of_the_platform() -> io::Result<Arc<RootCertStore>> {
    let mut authorities = RootCertStore::empty();
    let found = rustls_native_certs::load_native_certs();
    authorities.add_parsable_certificates(found.certs);
    if authorities.is_empty() {
        return Err(wrong("the platform has no root certificates"));
    }
    Ok(Arc::new(authorities))
}

/// All of them; none if one cannot be read or there is none.
fn certificates(pem: &[u8]) -> Option<Vec<CertificateDer<'static>>> {
    let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    certificates.ok().filter(|certificates| !certificates.is_empty())
}

fn wrong(what: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}
