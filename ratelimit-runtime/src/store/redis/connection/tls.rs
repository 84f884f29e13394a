//! TLS with the certificates of the platform.

use std::io;
use std::sync::Arc;

use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::crypto::CryptoProvider;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

/// # Errors
///
/// `InvalidData` for what no waiting will cure.
pub(super) async fn connect(host: &str, tcp: TcpStream) -> io::Result<TlsStream<TcpStream>> {
    let name = ServerName::try_from(host.to_owned()).map_err(|_| wrong("this host name cannot be in a certificate"))?;
    // It reads many files.
    let config = tokio::task::spawn_blocking(config).await.map_err(|_| wrong("rustls needs a crypto provider"))??;
    TlsConnector::from(Arc::new(config)).connect(name, tcp).await
}

/// Read anew for each connection: certificates are replaced while a service runs.
fn config() -> io::Result<ClientConfig> {
    // Where there is no choice, rustls chooses; else the application has to.
    let provider = CryptoProvider::get_default().cloned();
    let builder = match provider {
        Some(provider) => ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|_| wrong("the crypto provider of rustls has no safe protocol version"))?,
        None => ClientConfig::builder(),
    };
    let mut roots = RootCertStore::empty();
    let found = rustls_native_certs::load_native_certs();
    roots.add_parsable_certificates(found.certs);
    if roots.is_empty() {
        return Err(wrong("the platform has no root certificates"));
    }
    Ok(builder.with_root_certificates(roots).with_no_client_auth())
}

fn wrong(what: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}
