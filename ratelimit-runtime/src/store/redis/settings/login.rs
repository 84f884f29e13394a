//! [`Login`]: user, database and name of a connection, and the commands that say them.

use redis::{Cmd, RedisConnectionInfo, cmd};

use super::credentials::{Provider, RedisCredentials};
use crate::error::StoreError;

/// User, database and name of a connection.
#[derive(Clone)]
pub(crate) struct Login {
    /// `None` for the default user without a password.
    credentials: Option<RedisCredentials>,
    /// Names the user at each login, in the place of the credentials.
    pub(crate) provider: Option<Provider>,
    pub(crate) database: i64,
    pub(crate) client_name: Option<String>,
}

impl Login {
    pub(super) fn new(settings: &RedisConnectionInfo) -> Self {
        let user = settings.username().map(str::to_owned);
        let login = Self::of_user(user, settings.password().map(str::to_owned));
        Self { database: settings.db(), ..login }
    }

    /// The login of a user on no database.
    pub(super) fn of_user(user: Option<String>, password: Option<String>) -> Self {
        let credentials = password.map(|password| RedisCredentials { user, password, renew_after: None });
        Self { credentials, provider: None, database: 0, client_name: None }
    }

    /// The user name and the password of this moment; `None` for the default user.
    pub(crate) async fn credentials(&self) -> Result<Option<RedisCredentials>, StoreError> {
        match &self.provider {
            Some(provider) => {
                let failed = |error| StoreError::unavailable(format!("no credentials for Redis: {error}"));
                provider().await.map(Some).map_err(failed)
            }
            None => Ok(self.credentials.clone()),
        }
    }

    /// The commands that log in, name the connection and select the database. There may be none.
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
