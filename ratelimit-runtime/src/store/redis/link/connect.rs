//! Connecting to one server, and logging in.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use redis::{Cmd, ErrorKind, Pipeline, Value, cmd};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::connection::Connection;
use super::probe::{Probed, may_expire, probe};
use super::stream::{ByteStream, PLAIN, open, within};
use crate::error::StoreError;
use crate::store::redis::errors;
use crate::store::redis::settings::server::Server;

/// The time that a provider of credentials has.
const CREDENTIALS: Duration = Duration::from_secs(5);
/// The time that a server has for each reply of the login, for the reply to the probe, and for the
/// replies to the greeting: a network may drop all packets without an error.
const SILENCE: Duration = Duration::from_secs(2);
/// The further round trips for the greeting. Its scripts are some 200 kB; a new TCP connection
/// sends 15 kB in the first round trip, and at most twice as much in each next one.
const SLOW_START: u32 = 8;
/// The length from which on an incomplete reply of the login is an error, in bytes.
const LONGEST: usize = 4_096;
/// The advice for a server with TLS.
const TLS: &str = "write `rediss` in place of `redis`";
const NO_REDIS: &str = "what answers does not speak the protocol of Redis";
/// What a load balancer answers while the server behind it is away, and something else at this port
/// always: text in place of Redis or, as rustls says, of TLS; and that it knows no such name.
const MAY_PASS: [&str; 3] = [NO_REDIS, "InvalidContentType", "UnrecognisedName"];

/// A connection, and the state of its server.
pub(super) type Connected = (Connection, Probed);

/// Connects, logs in, asks the server for its state, and sends the scripts.
pub(super) async fn connect(
    server: &Arc<Server>,
    greeting: Option<&Pipeline>,
) -> Result<Connected, StoreError> {
    let unreachable = |error| unreachable(server, error);
    let connection = log_in(server).await?;
    let probed = within(SILENCE, probe(&connection, greeting)).await;
    let probed = probed.map_err(unreachable)??;
    if let Some(scripts) = greeting
        && !scripts.is_empty()
    {
        let time = SILENCE + SLOW_START * connection.round_trip();
        let greeted = within(time, connection.ask(scripts)).await;
        may_expire(&greeted.map_err(unreachable)??)?;
    }
    Ok((connection, probed))
}

/// Connects and logs in.
pub(crate) async fn log_in(server: &Arc<Server>) -> Result<Connection, StoreError> {
    let unreachable = |error| unreachable(server, error);
    let (mut stream, socket) = open(server).await.map_err(unreachable)?;
    // Asked late, so that they are fresh.
    let credentials = within(CREDENTIALS, server.login.credentials()).await;
    let credentials =
        credentials.map_err(|_| StoreError::unavailable("no credentials for Redis in time"))??;
    let commands = server.login.commands(credentials.as_ref());
    // A server that is full, or lets no client in, says so in reply to whatever comes first. How it
    // is otherwise, `connect` asks.
    let ping = commands.is_empty().then(|| cmd("PING"));
    for command in commands.iter().chain(&ping) {
        let reply = exchange(&mut stream, command).await.map_err(unreachable)?;
        if let Value::ServerError(error) = reply
            && !(ping.is_some() && (errors::is_no_service(&error) || errors::is_forbidden(&error)))
        {
            return Err(errors::from_server(&error));
        }
    }
    let renew_after = credentials.and_then(|credentials| credentials.renew_after);
    // The futures of the crate are large.
    let connection = Connection::new((stream, socket), server, renew_after);
    let connection = Box::pin(connection).await;
    connection.map_err(|error| unreachable(io::Error::other(error)))
}

/// Sends a command of the login by hand, and reads the reply: the crate would not tell why a login
/// is refused, nor what a server sends unasked before it hangs up. So the reply is read even if
/// nothing can be written.
async fn exchange(stream: &mut Box<dyn ByteStream>, command: &Cmd) -> io::Result<Value> {
    let exchange = async {
        if stream
            .write_all(&command.get_packed_command())
            .await
            .is_ok()
        {
            let _ = stream.flush().await;
        }
        let mut reply = Vec::new();
        while stream.read_buf(&mut reply).await? > 0 {
            match redis::parse_redis_value(&reply) {
                Ok(value) => return Ok(value),
                // There is more to come.
                Err(error) if error.kind() == ErrorKind::Io && reply.len() < LONGEST => {}
                // An alert of TLS.
                Err(_) if reply.first() == Some(&0x15) => {
                    let tls = format!("the server speaks TLS: {TLS}");
                    return Err(io::Error::new(io::ErrorKind::InvalidData, tls));
                }
                Err(_) => return Err(io::Error::new(io::ErrorKind::InvalidData, NO_REDIS)),
            }
        }
        Err(io::Error::new(
            io::ErrorKind::UnexpectedEof,
            "it has closed the connection",
        ))
    };
    within(SILENCE, exchange).await?
}

fn unreachable(server: &Server, error: io::Error) -> StoreError {
    let text = error.to_string();
    // What happens to a server, no setting corrects.
    let error = if text.contains("InternalError") {
        io::Error::other(error)
    } else {
        error
    };
    let passes = || MAY_PASS.iter().any(|name| text.contains(name));
    match error.kind() {
        io::ErrorKind::InvalidData if !passes() => {
            let check = "check the scheme and the certificate";
            let message = format!("TLS failed: {check} (Redis at {server}): {error}");
            return StoreError::misconfigured(message).with_source(error);
        }
        // The path of a socket that is longer than the system takes.
        io::ErrorKind::InvalidInput => {
            let message = format!("no connection to Redis at {server}: {error}");
            return StoreError::misconfigured(message).with_source(error);
        }
        _ => {}
    }
    // Redis hangs up on a client without TLS, in place of an alert.
    let hangs_up = matches!(
        error.kind(),
        io::ErrorKind::ConnectionReset | io::ErrorKind::UnexpectedEof
    );
    let hint = if text.contains("InvalidContentType") {
        format!(" ({PLAIN})")
    } else if hangs_up && server.tls.is_none() {
        format!(" (if it speaks TLS, {TLS})")
    } else {
        String::new()
    };
    StoreError::unavailable(format!("no connection to Redis at {server}: {error}{hint}"))
        .with_source(error)
}
