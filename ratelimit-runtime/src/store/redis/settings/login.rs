//! [`Login`]: user, database, protocol and name of a connection, and the commands that say them.

use redis::{Cmd, ProtocolVersion, RedisConnectionInfo, cmd};

use super::credentials::{Provider, RedisCredentials};
use crate::error::StoreError;

/// User, database, protocol and name of a connection.
#[derive(Debug, Clone)]
pub(crate) struct Login {
    user: User,
    database: i64,
    protocol: ProtocolVersion,
    client_name: Option<String>,
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
        let user = User::of(settings.username(), settings.password());
        Self { user, database: settings.db(), protocol, client_name: None }
    }

    /// The login of another user, on no database, in the protocol that every version speaks.
    pub(super) fn of_user(user: Option<&str>, password: Option<&str>) -> Self {
        Self { user: User::of(user, password), database: 0, protocol: ProtocolVersion::RESP2, client_name: None }
    }

    pub(crate) fn set_provider(&mut self, provider: &Provider) {
        self.user = User::Provided(provider.clone());
    }

    pub(crate) fn set_client_name(&mut self, name: &str) {
        self.client_name = Some(name.to_owned());
    }

    pub(crate) fn database(&self) -> i64 {
        self.database
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
            commands.extend(
                credentials
                    .map(|credentials| cmd("AUTH").arg(credentials.user.as_deref()).arg(&credentials.password).take()),
            );
            if let Some(name) = &self.client_name {
                commands.push(cmd("CLIENT").arg("SETNAME").arg(name).take());
            }
        } else {
            let mut hello = cmd("HELLO");
            hello.arg(3);
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

    /// The commands of a login whose credentials are known, as words.
    #[cfg(test)]
    pub(super) fn words(&self) -> String {
        let credentials = match &self.user {
            User::This(credentials) => Some(credentials),
            User::Default | User::Provided(_) => None,
        };
        let words = |command: Cmd| {
            let packed = String::from_utf8_lossy(&command.get_packed_command()).into_owned();
            packed.split("\r\n").skip(2).step_by(2).map(str::to_owned).collect::<Vec<_>>()
        };
        self.commands(credentials).into_iter().flat_map(words).collect::<Vec<_>>().join(" ")
    }
}

impl User {
    fn of(user: Option<&str>, password: Option<&str>) -> Self {
        let user = user.map(str::to_owned);
        let this =
            |password: &str| Self::This(RedisCredentials { user, password: password.to_owned(), renew_after: None });
        password.map_or(Self::Default, this)
    }
}
