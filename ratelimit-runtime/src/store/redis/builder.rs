//! Builder methods of [`RedisStore`], for settings that a URL cannot express.

use std::fmt;
use std::future::Future;
use std::sync::Arc;

use super::RedisStore;
use super::settings::login::RedisCredentials;
#[cfg(feature = "redis-tls")]
use super::settings::tls::Tls;
#[cfg(feature = "redis-client")]
use super::settings::url;
#[cfg(any(feature = "redis-client", feature = "redis-tls"))]
use crate::error::StoreError;

impl RedisStore {
    /// A store on the server of the application's client, with that client's user, password and
    /// database.
    ///
    /// The store opens its own connections: a connection of the client does not tell whether a
    /// command was sent, nor when the server last replied. Certificates that the client was built
    /// with cannot be read back from the client: repeat them with
    /// [`ca_certificates`](Self::ca_certificates) and
    /// [`client_certificate`](Self::client_certificate).
    ///
    /// # Errors
    ///
    /// [`Misconfigured`](crate::store::StoreErrorKind::Misconfigured) if the client does not check
    /// certificates, names a user without a password, or uses TLS and the feature `redis-tls` is
    /// off.
    #[cfg(feature = "redis-client")]
    #[cfg_attr(docsrs, doc(cfg(feature = "redis-client")))]
    pub fn from_client(client: &redis::Client) -> Result<Self, StoreError> {
        url::from_info(client.get_connection_info()).map(Self::on)
    }

    /// Logs in with the credentials that `provider` returns, instead of the user and password of
    /// the URL. Each connection calls `provider`, so passwords and tokens may change at run time:
    ///
    /// ```
    /// # use ratelimit_runtime::{RedisCredentials, RedisStore};
    /// # use std::time::Duration;
    /// # async fn iam_token() -> std::io::Result<String> { Ok(String::new()) }
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let store = RedisStore::new("redis://limits.example.com")?.credentials(|| async {
    ///     let token = iam_token().await?;
    ///     Ok::<_, std::io::Error>(RedisCredentials::new("limiter", token).renew_after(Duration::from_secs(600)))
    /// });
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// An error of `provider`, or no result within 5 seconds, counts as an outage, like a server
    /// that is down.
    ///
    /// Sentinels are not logged in to with these credentials: their login is in the URL.
    #[must_use]
    pub fn credentials<F, A, E>(mut self, provider: F) -> Self
    where
        F: Fn() -> A + Send + Sync + 'static,
        A: Future<Output = Result<RedisCredentials, E>> + Send + 'static,
        E: fmt::Display,
    {
        self.server_mut().login.provider = Some(Arc::new(move || {
            let login = provider();
            Box::pin(async { login.await.map_err(|error| format!("{error:#}")) })
        }));
        self
    }

    /// Sets the name of the connections in `CLIENT LIST`; none by default. A name that the server
    /// does not take, such as one with a space, makes calls `Misconfigured`.
    #[must_use]
    pub fn client_name(mut self, name: &str) -> Self {
        self.server_mut().login.client_name = Some(name.to_owned());
        self
    }

    /// Trusts these authorities instead of those of the platform: one or more certificates, as PEM.
    /// They also apply to sentinels.
    ///
    /// # Errors
    ///
    /// [`Misconfigured`](crate::store::StoreErrorKind::Misconfigured) if `pem` has no certificate,
    /// a certificate cannot be read, or the store does not use TLS.
    #[cfg(feature = "redis-tls")]
    #[cfg_attr(docsrs, doc(cfg(feature = "redis-tls")))]
    pub fn ca_certificates(mut self, pem: impl AsRef<[u8]>) -> Result<Self, StoreError> {
        self.tls_mut()?.trust(pem.as_ref())?;
        Ok(self)
    }

    /// Presents this certificate, with its chain, to servers and sentinels that ask for a client
    /// certificate. Both `certificates` and `key` are PEM. The store presents them as long as it
    /// lives: before they expire, start the process anew.
    ///
    /// # Errors
    ///
    /// [`Misconfigured`](crate::store::StoreErrorKind::Misconfigured) if a certificate or the key
    /// cannot be read, or the store does not use TLS.
    #[cfg(feature = "redis-tls")]
    #[cfg_attr(docsrs, doc(cfg(feature = "redis-tls")))]
    pub fn client_certificate(
        mut self,
        certificates: impl AsRef<[u8]>,
        key: impl AsRef<[u8]>,
    ) -> Result<Self, StoreError> {
        self.tls_mut()?.show(certificates.as_ref(), key.as_ref())?;
        Ok(self)
    }

    #[cfg(feature = "redis-tls")]
    fn tls_mut(&mut self) -> Result<&mut Tls, StoreError> {
        self.server_mut().tls.as_mut().ok_or_else(|| {
            StoreError::misconfigured(
                "certificates are for TLS: the scheme of the URL has to begin with rediss",
            )
        })
    }
}
