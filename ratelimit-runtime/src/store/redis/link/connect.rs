//! Connecting to one server and logging in.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use redis::{Cmd, ErrorKind, Value, cmd};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::connection::{Connection, Lost};
use super::probe::{Probed, probe};
use super::stream::{ByteStream, open};
use crate::error::StoreError;
use crate::real_time;
use crate::store::redis::errors;
use crate::store::redis::settings::server::Server;

/// The time for credentials and login.
const LOGIN: Duration = Duration::from_secs(5);
/// The time of a server for each reply of the login: a network may swallow all that is sent.
const SILENCE: Duration = Duration::from_secs(2);
/// More bytes than a reply of the login has.
const LONGEST: usize = 4_096;

/// A connection, and how its server is.
pub(super) type Connected = (Connection, Probed);

/// Connects, logs in, asks the server how it is, and sends the greeting.
pub(super) async fn connect(server: &Arc<Server>, greeting: &[Cmd]) -> Result<Connected, StoreError> {
    let connection = log_in(server).await?;
    let probed = within(server, SILENCE, probe(&connection)).await??;
    if !greeting.is_empty() {
        let mut pipeline = redis::pipe();
        for command in greeting {
            pipeline.add_command(command.clone());
        }
        within(server, SILENCE, connection.ask(&pipeline)).await?.map_err(|Lost| connection.cause())?;
    }
    Ok((connection, probed))
}

/// Connects and logs in.
pub(crate) async fn log_in(server: &Arc<Server>) -> Result<Connection, StoreError> {
    let mut stream = open(server).await.map_err(|error| unreachable(server, error))?;
    let login = async {
        // Asked late, so that they are fresh.
        let credentials = server.login.credentials().await?;
        let commands = server.login.commands(credentials.as_ref());
        for command in &commands {
            if let Value::ServerError(error) = exchange(server, &mut stream, command).await? {
                return Err(errors::from_server(&error));
            }
        }
        // A server that is full, or lets no client in, says so in reply to whatever comes first.
        if commands.is_empty()
            && let Value::ServerError(error) = exchange(server, &mut stream, &cmd("PING")).await?
            && !errors::is_no_service(&error)
            && !errors::is_forbidden(&error)
        {
            return Err(errors::from_server(&error));
        }
        let renew_after = credentials.and_then(|credentials| credentials.renew_after);
        let connection = Connection::new(stream, server, renew_after).await;
        connection.map_err(|error| StoreError::unavailable(format!("no connection to Redis at {server}: {error}")))
    };
    // The futures of the crate are large.
    within(server, LOGIN, Box::pin(login)).await?
}

/// Sends a command of the login by hand, and reads the reply: the crate would not say why a login
/// is refused, nor what a server says unasked before it hangs up. So the reply is read also where
/// nothing can be written.
async fn exchange(server: &Server, stream: &mut Box<dyn ByteStream>, command: &Cmd) -> Result<Value, StoreError> {
    let exchange = async {
        if stream.write_all(&command.get_packed_command()).await.is_ok() {
            let _ = stream.flush().await;
        }
        let mut reply = Vec::new();
        loop {
            let read = stream.read_buf(&mut reply).await.map_err(|error| unreachable(server, error))?;
            if read == 0 {
                return Err(StoreError::unavailable(format!("Redis at {server} has closed the connection")));
            }
            match redis::parse_redis_value(&reply) {
                Ok(value) => return Ok(value),
                // There is more to come.
                Err(error) if error.kind() == ErrorKind::Io && reply.len() < LONGEST => {}
                Err(_) => {
                    let message = format!("what answers at {server} does not speak the protocol of Redis");
                    return Err(StoreError::unavailable(message));
                }
            }
        }
    };
    within(server, SILENCE, exchange).await?
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
