//! [`Login`]: user, database and name of a connection; and [`RedisCredentials`].

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use redis::{Cmd, RedisConnectionInfo, cmd};

use crate::error::StoreError;

/// A user and a password to log in to Redis with, returned by the provider of
/// [`RedisStore::credentials`](crate::RedisStore::credentials).
#[derive(Clone, PartialEq, Eq)]
pub struct RedisCredentials {
    /// `None` for the user `default`.
    pub(super) user: Option<String>,
    pub(super) password: String,
    pub(crate) renew_after: Option<Duration>,
}

impl RedisCredentials {
    /// Credentials of `user`, which is `default` on a server that has no other users.
    #[must_use]
    pub fn new(user: impl Into<String>, password: impl Into<String>) -> Self {
        Self {
            user: Some(user.into()),
            password: password.into(),
            renew_after: None,
        }
    }

    /// Sets when the store calls the provider again and reconnects, at least a second after login:
    /// for tokens that expire. Calls use the old connection until the new one is up; the old one
    /// stays open for 2 seconds more, for the replies to calls in flight.
    #[must_use]
    pub fn renew_after(mut self, time: Duration) -> Self {
        self.renew_after = Some(time.max(Duration::from_secs(1)));
        self
    }
}

impl fmt::Debug for RedisCredentials {
    /// Without the user name and the password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisCredentials")
            .field("renew_after", &self.renew_after)
            .finish_non_exhaustive()
    }
}

/// A function that returns credentials, called at each login.
pub(crate) type Provider =
    Arc<dyn Fn() -> Pin<Box<dyn Future<Output = Provided> + Send>> + Send + Sync>;
type Provided = Result<RedisCredentials, String>;

/// User, database and name of a connection.
#[derive(Clone)]
pub(crate) struct Login {
    /// `None` for the default user without a password.
    credentials: Option<RedisCredentials>,
    /// Called at each login, instead of `credentials`.
    pub(crate) provider: Option<Provider>,
    pub(crate) database: i64,
    pub(crate) client_name: Option<String>,
}

impl Login {
    pub(super) fn new(settings: &RedisConnectionInfo) -> Result<Self, StoreError> {
        let user = settings.username().map(str::to_owned);
        let login = Self::of_user(user, settings.password().map(str::to_owned))?;
        Ok(Self {
            database: settings.db(),
            ..login
        })
    }

    /// The login of a user, on database 0.
    ///
    /// # Errors
    ///
    /// `Misconfigured` for a user without a password: no login is possible, and the connection
    /// would be one of the user `default`.
    pub(super) fn of_user(
        user: Option<String>,
        password: Option<String>,
    ) -> Result<Self, StoreError> {
        if user.is_some() && password.is_none() {
            return Err(StoreError::misconfigured(
                "a user of Redis is named without a password: write user:password@host, or leave \
                 the user out to connect as `default` (any password serves for a `nopass` user)",
            ));
        }
        let credentials = password.map(|password| RedisCredentials {
            user,
            password,
            renew_after: None,
        });
        Ok(Self {
            credentials,
            provider: None,
            database: 0,
            client_name: None,
        })
    }

    /// The current user name and password; `None` for the default user without a password.
    pub(crate) async fn credentials(&self) -> Result<Option<RedisCredentials>, StoreError> {
        match &self.provider {
            Some(provider) => {
                let failed =
                    |error| StoreError::unavailable(format!("no credentials for Redis: {error}"));
                provider().await.map(Some).map_err(failed)
            }
            None => Ok(self.credentials.clone()),
        }
    }

    /// The commands that log in, name the connection and select the database, if any.
    pub(crate) fn commands(&self, credentials: Option<&RedisCredentials>) -> Vec<Cmd> {
        let mut commands = Vec::with_capacity(3);
        if let Some(RedisCredentials { user, password, .. }) = credentials {
            commands.push(cmd("AUTH").arg(user.as_deref()).arg(password).take());
        }
        if let Some(name) = &self.client_name {
            commands.push(cmd("CLIENT").arg("SETNAME").arg(name).take());
        }
        if self.database != 0 {
            commands.push(cmd("SELECT").arg(self.database).take());
        }
        commands
    }
}
