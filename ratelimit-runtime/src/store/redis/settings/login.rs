//! [`Login`]: user, database, protocol and name of a connection, and the commands that say them.

use redis::{Cmd, ProtocolVersion, RedisConnectionInfo, cmd};

use super::credentials::{Provider, RedisCredentials};
use crate::error::StoreError;

/// User, database, protocol and name of a connection.
#[derive(Debug, Clone)]
pub(crate) struct Login {
    user: User,
    pub(crate) database: i64,
    protocol: ProtocolVersion,
    pub(crate) client_name: Option<String>,
}

#[derive(Debug, Clone)]
enum User {
    /// The default user, who needs no password.
    Default,
    This(RedisCredentials),
    /// The user whom the provider names at each login.
    Provided(Provider),
}

impl Login {
    pub(super) fn new(settings: &RedisConnectionInfo, protocol: ProtocolVersion) -> Self {
        let user = settings.username().map(str::to_owned);
        let login = Self::of_user(user, settings.password().map(str::to_owned));
        Self { database: settings.db(), protocol, ..login }
    }

    /// The login of a user on no database, in the protocol that every version speaks.
    pub(super) fn of_user(user: Option<String>, password: Option<String>) -> Self {
        let this = |password| User::This(RedisCredentials { user, password, renew_after: None });
        let user = password.map_or(User::Default, this);
        Self { user, database: 0, protocol: ProtocolVersion::RESP2, client_name: None }
    }

    pub(crate) fn set_provider(&mut self, provider: Provider) {
        self.user = User::Provided(provider);
    }

    /// The user name and the password of this moment; `None` for the default user.
    pub(crate) async fn credentials(&self) -> Result<Option<RedisCredentials>, StoreError> {
        match &self.user {
            User::Default => Ok(None),
            User::This(credentials) => Ok(Some(credentials.clone())),
            User::Provided(provider) => provider.ask().await.map(Some),
        }
    }

    /// The commands that log in, name the connection and select the database. There may be none.
    pub(crate) fn commands(&self, credentials: Option<&RedisCredentials>) -> Vec<Cmd> {
        let mut commands = Vec::with_capacity(3);
        if self.protocol == ProtocolVersion::RESP2 {
            if let Some(RedisCredentials { user, password, .. }) = credentials {
                commands.push(cmd("AUTH").arg(user.as_deref()).arg(password).take());
            }
            if let Some(name) = &self.client_name {
                commands.push(cmd("CLIENT").arg("SETNAME").arg(name).take());
            }
        } else {
            let mut hello = cmd("HELLO").arg(3).take();
            if let Some(RedisCredentials { user, password, .. }) = credentials {
                hello.arg("AUTH").arg(user.as_deref().unwrap_or("default")).arg(password);
            }
            if let Some(name) = &self.client_name {
                hello.arg("SETNAME").arg(name);
            }
            commands.push(hello);
        }
        if self.database != 0 {
            commands.push(cmd("SELECT").arg(self.database).take());
        }
        commands
    }
}
