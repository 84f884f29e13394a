//! Builder methods of [`RedisStore`], for what a URL cannot say.

use std::fmt;
use std::future::Future;

use super::RedisStore;
use super::settings::login::{self, RedisCredentials};
#[cfg(feature = "redis-tls")]
use super::settings::tls::Tls;
#[cfg(feature = "redis-client")]
use super::settings::url;
#[cfg(any(feature = "redis-client", feature = "redis-tls"))]
use crate::error::StoreError;

impl RedisStore {
    /// A store on the server that a client of the application leads to, with its user, password
    /// and database.
    ///
    /// The store makes connections of its own: one that the application has open does not tell
    /// whether a command was sent, nor when the server last replied. Certificates that the client
    /// was built with cannot be read back from it: repeat them with
    /// [`ca_certificates`](Self::ca_certificates) and
    /// [`client_certificate`](Self::client_certificate).
    ///
    /// # Errors
    ///
    /// [`Misconfigured`](crate::store::StoreErrorKind::Misconfigured) if the client does not check
    /// certificates, or uses TLS and the feature `redis-tls` is off.
    #[cfg(feature = "redis-client")]
    #[cfg_attr(docsrs, doc(cfg(feature = "redis-client")))]
    pub fn from_client(client: &redis::Client) -> Result<Self, StoreError> {
        url::from_info(client.get_connection_info()).map(Self::on)
    }

    /// Logs in with what `provider` gives, in the place of a user and a password of the URL. It is
    /// asked for each connection, so passwords and tokens may change while the service runs:
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
    /// An error of the provider counts as an outage, as a server does that cannot be reached;
    /// attempts go on, with pauses of up to a second.
    ///
    /// For the servers, not for sentinels, whose login is in the URL.
    #[must_use]
    pub fn credentials<F, A, E>(mut self, provider: F) -> Self
    where
        F: Fn() -> A + Send + Sync + 'static,
        A: Future<Output = Result<RedisCredentials, E>> + Send + 'static,
        E: fmt::Display,
    {
        self.server_mut().login.provider = Some(login::provider(provider));
        self
    }

    /// The name of the connections in `CLIENT LIST`, without spaces. They have none unless set.
    #[must_use]
    pub fn client_name(mut self, name: &str) -> Self {
        self.server_mut().login.client_name = Some(name.to_owned());
        self
    }

    /// Trusts these authorities instead of those of the platform: one or more certificates, as PEM.
    /// Sentinels are held to the same.
    ///
    /// # Errors
    ///
    /// [`Misconfigured`](crate::store::StoreErrorKind::Misconfigured) if there is none, one cannot
    /// be read, or the URL is not of TLS.
    #[cfg(feature = "redis-tls")]
    #[cfg_attr(docsrs, doc(cfg(feature = "redis-tls")))]
    pub fn ca_certificates(mut self, pem: impl AsRef<[u8]>) -> Result<Self, StoreError> {
        self.tls_mut()?.trust(pem.as_ref())?;
        Ok(self)
    }

    /// Shows this certificate, with those that lead to its authority, to servers that ask for one;
    /// both as PEM. Sentinels are shown the same.
    ///
    /// # Errors
    ///
    /// [`Misconfigured`](crate::store::StoreErrorKind::Misconfigured) if one cannot be read, or the
    /// URL is not of TLS.
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
            StoreError::misconfigured("certificates are for TLS: the scheme of the URL has to begin with rediss")
        })
    }
}
