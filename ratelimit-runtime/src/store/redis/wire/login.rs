//! [`Login`]: what is said first on a new connection, and what the server says to it.

use std::io;

use redis::{Cmd, ProtocolVersion, RedisConnectionInfo, ServerError, Value, cmd};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::credentials::{Provider, RedisCredentials};
use super::resp::{Parsed, Progress};
use super::stream::Stream;
use crate::error::{StoreError, StoreErrorKind};
use crate::store::redis::errors;

/// Who we are, and which database is ours.
#[derive(Clone)]
pub(super) struct Login {
    who: Who,
    database: i64,
    protocol: ProtocolVersion,
    client_name: Option<String>,
}

#[derive(Clone)]
enum Who {
    /// A user who needs no password.
    Anybody,
    This(RedisCredentials),
    /// The user whom the provider names at each login.
    Provided(Provider),
}

/// What a server has to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    Any,
    Master,
}

/// Why a login failed.
pub(crate) enum LoginError {
    Lost(io::Error),
    /// What answers is no Redis.
    Foreign,
    /// There was more to read than answers to what was asked.
    OutOfStep,
    Refused(StoreError),
}

impl From<io::Error> for LoginError {
    fn from(error: io::Error) -> Self {
        Self::Lost(error)
    }
}

impl Login {
    pub(crate) fn new(settings: &RedisConnectionInfo, protocol: ProtocolVersion) -> Self {
        let who = Who::of(settings.username(), settings.password());
        Self { who, database: settings.db(), protocol, client_name: None }
    }

    /// That of another user, on no database, in the protocol that every version speaks.
    pub(super) fn of_user(user: Option<&str>, password: Option<&str>) -> Self {
        Self { who: Who::of(user, password), database: 0, protocol: ProtocolVersion::RESP2, client_name: None }
    }

    pub(crate) fn set_provider(&mut self, provider: &Provider) {
        self.who = Who::Provided(provider.clone());
    }

    pub(crate) fn set_client_name(&mut self, name: &str) {
        self.client_name = Some(name.to_owned());
    }

    pub(crate) fn database(&self) -> i64 {
        self.database
    }

    /// What to log in with now.
    pub(crate) async fn credentials(&self) -> Result<Option<RedisCredentials>, StoreError> {
        match &self.who {
            Who::Anybody => Ok(None),
            Who::This(credentials) => Ok(Some(credentials.clone())),
            Who::Provided(provider) => provider.ask().await.map(Some),
        }
    }

    /// Logs in, chooses the database, asks for the role and sends a PING, in one round trip. What
    /// the server says if it does not serve.
    pub(super) async fn log_in(
        &self,
        stream: &mut Stream,
        credentials: Option<&RedisCredentials>,
        role: Role,
    ) -> Result<Option<StoreError>, LoginError> {
        let mut steps = self.steps(credentials);
        if role == Role::Master {
            steps.push(cmd("ROLE"));
        }
        steps.push(cmd("PING"));
        let replies = converse(stream, &steps).await?;
        if let ([Value::ServerError(error)], 2..) = (replies.as_slice(), steps.len()) {
            return Err(LoginError::Refused(login_failed(error)));
        }
        let Some((pong, others)) = replies.split_last() else { return Ok(None) };
        if let Some(error) = others.iter().find_map(as_error) {
            return Err(LoginError::Refused(errors::from_server(error)));
        }
        if role == Role::Master && !others.last().is_some_and(is_master) {
            return Err(LoginError::Refused(StoreError::unavailable(
                "Redis is not the master that Sentinel takes it for",
            )));
        }
        match serves(pong) {
            Err(error) if error.kind() != StoreErrorKind::Unavailable => Err(LoginError::Refused(error)),
            said => Ok(said.err()),
        }
    }

    /// What comes before all else. May be nothing.
    pub(super) fn steps(&self, credentials: Option<&RedisCredentials>) -> Vec<Cmd> {
        let mut steps = Vec::with_capacity(5);
        if self.protocol == ProtocolVersion::RESP2 {
            steps.extend(credentials.map(auth));
            if let Some(name) = &self.client_name {
                steps.push(cmd("CLIENT").arg("SETNAME").arg(name).take());
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
            steps.push(hello);
        }
        if self.database != 0 {
            steps.push(cmd("SELECT").arg(self.database).take());
        }
        steps
    }
}

impl Who {
    fn of(user: Option<&str>, password: Option<&str>) -> Self {
        let user = user.map(str::to_owned);
        let this =
            |password: &str| Self::This(RedisCredentials { user, password: password.to_owned(), renew_after: None });
        password.map_or(Self::Anybody, this)
    }
}

/// Logs in, in either protocol.
fn auth(credentials: &RedisCredentials) -> Cmd {
    cmd("AUTH").arg(credentials.user.as_deref()).arg(&credentials.password).take()
}

/// Sends commands on a stream of its own, and gives as many replies; only one if that is
/// an error. A server that is full says so, unasked, and hangs up.
pub(crate) async fn converse(stream: &mut Stream, commands: &[Cmd]) -> Result<Vec<Value>, LoginError> {
    let mut packed = Vec::new();
    for command in commands {
        command.write_packed_command(&mut packed);
    }
    stream.writer.write_all(&packed).await?;
    stream.writer.flush().await?;
    let (mut buffer, mut progress, mut replies) = (Vec::new(), Progress::default(), Vec::new());
    while replies.len() < commands.len() {
        match progress.parse(&buffer) {
            Parsed::Reply(reply, taken) => {
                buffer.drain(..taken);
                replies.push(reply);
                if let [Value::ServerError(_)] = replies.as_slice() {
                    return Ok(replies);
                }
            }
            Parsed::Push(taken) => drop(buffer.drain(..taken)),
            Parsed::Incomplete => {
                let mut chunk = [0; 1024];
                let came = stream.reader.read(&mut chunk).await?;
                if came == 0 {
                    return Err(LoginError::Lost(io::ErrorKind::UnexpectedEof.into()));
                }
                buffer.extend_from_slice(chunk.get(..came).unwrap_or_default());
            }
            Parsed::Malformed => return Err(LoginError::Foreign),
        }
    }
    if buffer.is_empty() { Ok(replies) } else { Err(LoginError::OutOfStep) }
}

/// Whether this is what a master replies to ROLE.
fn is_master(reply: &Value) -> bool {
    matches!(reply, Value::Array(parts) if matches!(parts.first(), Some(Value::BulkString(role)) if role == b"master"))
}

fn as_error(reply: &Value) -> Option<&ServerError> {
    match reply {
        Value::ServerError(error) => Some(error),
        _ => None,
    }
}

fn login_failed(error: &ServerError) -> StoreError {
    let text = error.details().unwrap_or_default();
    if errors::code(error) == "NOPROTO" || text.contains("unknown command") {
        return StoreError::misconfigured("Redis is older than 6.0: add ?protocol=resp2 to the URL");
    }
    if text.contains("AUTH") && errors::code(error) == "ERR" {
        return StoreError::misconfigured(errors::WRONG_LOGIN);
    }
    errors::from_server(error)
}

/// Whether the reply to a PING is that of a server that serves. A user who may not PING is being
/// served.
pub(crate) fn serves(reply: &Value) -> Result<(), StoreError> {
    match reply {
        Value::ServerError(error) if errors::code(error) != "NOPERM" => Err(errors::from_server(error)),
        _ => Ok(()),
    }
}
