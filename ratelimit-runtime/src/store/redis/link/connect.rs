//! [`Connector`]: connecting to one server and logging in.

use std::io;
use std::sync::atomic::AtomicU32;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Cmd, ProtocolVersion, RedisConnectionInfo, ServerError, Value};
use tokio::sync::Notify;

use super::connection::{Connection, Lost};
use super::probe::Probed;
use super::stream::{NotedStream, Socket};
use super::vitals::Vitals;
use crate::error::StoreError;
use crate::real_time;
use crate::store::redis::errors;
use crate::store::redis::settings::server::Server;

/// The time for TLS, credentials and login.
const LOGIN: Duration = Duration::from_secs(5);
/// The time of a server for each reply of the login: a network may swallow all that is sent.
const SILENCE: Duration = Duration::from_secs(2);
/// More than the calls and PINGs that may be in flight: sending never waits for room.
const CHANNEL: usize = 128;
/// The bytes that a reply may begin with.
const REPLIES: &[u8] = b"+-:$*_,#(!=%~>|";

/// A connection, and how its server is.
pub(crate) type Connected = (Connection, Probed);

/// Connects to servers, on behalf of a link whose task it wakes when a connection ends.
#[derive(Debug, Clone, Default)]
pub(crate) struct Connector {
    wake: Arc<Notify>,
    greeting: Arc<[Cmd]>,
}

impl Connector {
    pub(super) fn new(greeting: Arc<[Cmd]>) -> Self {
        Self { wake: Arc::default(), greeting }
    }

    pub(super) async fn woken(&self) {
        self.wake.notified().await;
    }

    /// Connects, logs in, asks the server how it is, and sends the greeting.
    pub(crate) async fn connect(&self, server: &Arc<Server>) -> Result<Connected, StoreError> {
        let socket = open(server).await?;
        let login = async {
            let connection = self.log_in(server, socket).await?;
            let lost = |Lost| lost(server, &connection);
            let probed = within(server, SILENCE, connection.probe()).await?.map_err(lost)?;
            if let Probed::Refused(error) = probed {
                return Err(error);
            }
            connection.vitals.take_beginning();
            let mut greeting = redis::pipe();
            for command in &*self.greeting {
                greeting.add_command(command.clone());
            }
            if !greeting.is_empty() {
                within(server, SILENCE, connection.ask(&greeting, greeting.len())).await?.map_err(lost)?;
            }
            Ok((connection, probed))
        };
        // The futures of the crate are large.
        within(server, LOGIN, Box::pin(login)).await?
    }

    /// Connects and logs in.
    pub(crate) async fn connect_only(&self, server: &Arc<Server>) -> Result<Connection, StoreError> {
        let socket = open(server).await?;
        within(server, LOGIN, Box::pin(self.log_in(server, socket))).await?
    }

    async fn log_in(&self, server: &Arc<Server>, socket: Socket) -> Result<Connection, StoreError> {
        let stream = socket.secure(server).await.map_err(|error| unreachable(server, error))?;
        // Asked late, so that they are fresh.
        let credentials = server.login.credentials().await?;
        let vitals = Arc::new(Vitals::new(Arc::clone(&self.wake)));
        let stream = NotedStream { stream, vitals: Arc::clone(&vitals) };
        // The crate is told of no login, and sends nothing: it would not say why one is refused.
        let settings = RedisConnectionInfo::default().set_protocol(ProtocolVersion::RESP2).set_skip_set_lib_name();
        let config = AsyncConnectionConfig::new()
            .set_response_timeout(None)
            .set_connection_timeout(None)
            .set_pipeline_buffer_size(CHANNEL);
        let connected = MultiplexedConnection::new_with_config(&settings, stream, config).await;
        let (redis, driver) = connected
            .map_err(|error| StoreError::unavailable(format!("no connection to Redis at {server}: {error}")))?;
        let driver = tokio::spawn(Arc::clone(&vitals).watch(driver)).abort_handle();
        let renew_after = credentials.as_ref().and_then(|credentials| credentials.renew_after);
        let (server_of, role_question) = (Arc::clone(server), Mutex::default());
        let (numbers, round_trip) = (AtomicU32::new(0), AtomicU32::new(u32::MAX));
        let connection =
            Connection { redis, driver, server: server_of, vitals, renew_after, role_question, numbers, round_trip };
        for command in server.login.commands(credentials.as_ref()) {
            let mut pipeline = redis::pipe();
            pipeline.add_command(command);
            match within(server, SILENCE, connection.ask(&pipeline, 1)).await?.as_deref() {
                Ok([Value::ServerError(error)]) => return Err(refused(error)),
                Ok(_) => {}
                Err(Lost) => return Err(lost(server, &connection)),
            }
        }
        Ok(connection)
    }
}

async fn open(server: &Server) -> Result<Socket, StoreError> {
    Socket::connect(server).await.map_err(|error| unreachable(server, error))
}

/// What a server has so much time for.
async fn within<T>(server: &Server, time: Duration, reply: impl Future<Output = T>) -> Result<T, StoreError> {
    let silent = || StoreError::unavailable(format!("no answer from Redis at {server} within {time:?}"));
    real_time::timeout_at(Instant::now() + time, reply).await.map_err(|_| silent())
}

fn unreachable(server: &Server, error: io::Error) -> StoreError {
    if error.kind() == io::ErrorKind::InvalidData {
        let message = format!("TLS failed: check the scheme and the certificate (Redis at {server}): {error}");
        return StoreError::misconfigured(message).with_source(error);
    }
    StoreError::unavailable(format!("no connection to Redis at {server}: {error}")).with_source(error)
}

/// Why a connection has ended before the login was done. A server that is full, or that lets no
/// client in, says so unasked and hangs up.
fn lost(server: &Server, connection: &Connection) -> StoreError {
    let (beginning, (kind, cause)) = (connection.vitals.take_beginning(), connection.vitals.cause());
    if let Ok(Value::ServerError(error)) = redis::parse_redis_value(&beginning) {
        return refused(&error);
    }
    if beginning.first().is_some_and(|first| !REPLIES.contains(first)) {
        return StoreError::unavailable(format!("what answers at {server} does not speak the protocol of Redis"));
    }
    unreachable(server, io::Error::new(kind, cause.message().to_owned()))
}

/// The server's answer to a command of the login.
fn refused(error: &ServerError) -> StoreError {
    let text = error.details().unwrap_or_default();
    if text.contains("AUTH") && errors::code(error) == "ERR" {
        return StoreError::misconfigured(errors::WRONG_LOGIN);
    }
    errors::from_server(error)
}
