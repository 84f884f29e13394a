//! Connecting anew before the credentials of a connection expire.
//!
//! No `AUTH` is sent on a connection in use: a server may leave an `AUTH` that fails without a reply, and every later reply
//! would be taken for that to the question before. So there is a new connection beside it, which takes its place.

use std::time::Duration;

use tokio::task::JoinHandle;

use crate::store::redis::connection::attempt::connect_within;
use crate::store::redis::connection::resolve::Target;
use crate::store::redis::wire::server::Connection;
use crate::{observe, real_time};

/// After an attempt that failed.
const PAUSE: Duration = Duration::from_secs(1);

/// A connection with new credentials, after this time; it is tried until the server serves on it.
pub(super) async fn renewed(target: Target, after: Duration) -> Connection {
    let mut pause = after;
    loop {
        real_time::sleep(pause).await;
        let error = match connect_within(&target).await {
            Ok(Connection { says: Some(error), .. }) | Err(error) => error,
            Ok(connection) => return connection,
        };
        // If the server ends the session meanwhile, the next connection asks for credentials too.
        observe::log::login_expires(&target, &error);
        pause = PAUSE;
    }
}

/// The connection that a task makes; never, if there is none or it panics.
pub(super) async fn renewal_of(task: Option<JoinHandle<Connection>>) -> Connection {
    if let Some(task) = task
        && let Ok(connection) = task.await
    {
        return connection;
    }
    std::future::pending().await
}
