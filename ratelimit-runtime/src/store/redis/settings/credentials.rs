//! [`RedisCredentials`]: a user name and a password, and what provides them.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

/// What to log in to Redis with: given by
/// [`RedisStore::credentials`](crate::RedisStore::credentials).
#[derive(Clone, PartialEq, Eq)]
pub struct RedisCredentials {
    /// None for the user `default`.
    pub(super) user: Option<String>,
    pub(super) password: String,
    pub(crate) renew_after: Option<Duration>,
}

impl RedisCredentials {
    /// Credentials of this user: `default` where Redis has no others.
    #[must_use]
    pub fn new(user: impl Into<String>, password: impl Into<String>) -> Self {
        Self { user: Some(user.into()), password: password.into(), renew_after: None }
    }

    /// Asks for new ones after this time, at least a second, and connects anew with them: for
    /// tokens that expire. The old connection serves until the new one does, and calls on their way are
    /// answered there.
    #[must_use]
    pub fn renew_after(mut self, time: Duration) -> Self {
        self.renew_after = Some(time.max(Duration::from_secs(1)));
        self
    }
}

impl fmt::Debug for RedisCredentials {
    /// Without the user name and the password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisCredentials").field("renew_after", &self.renew_after).finish_non_exhaustive()
    }
}

/// A function that gives credentials, called at each login.
pub(crate) type Provider = Arc<dyn Fn() -> Pin<Box<dyn Future<Output = Provided> + Send>> + Send + Sync>;
type Provided = Result<RedisCredentials, String>;

pub(crate) fn provider<F, A, E>(provide: F) -> Provider
where
    F: Fn() -> A + Send + Sync + 'static,
    A: Future<Output = Result<RedisCredentials, E>> + Send + 'static,
    E: fmt::Display,
{
    Arc::new(move || {
        let provided = provide();
        Box::pin(async { provided.await.map_err(|error| format!("{error:#}")) })
    })
}
