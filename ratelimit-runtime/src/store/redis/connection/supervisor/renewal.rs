//! Connecting anew before the credentials of a connection expire.
//!
//! No `AUTH` is sent on a connection in use: a server may leave an `AUTH` that fails without a
//! reply, and every later reply would be taken for that to the command before. So a new connection
//! takes its place.

use std::time::Duration;

use tokio::task::JoinHandle;

use crate::store::redis::connection::attempt::connect_within;
use crate::store::redis::connection::resolve::Resolver;
use crate::store::redis::wire::server::Session;
use crate::{observe, real_time};

/// After an attempt that failed.
const PAUSE: Duration = Duration::from_secs(1);

/// Logs in with new credentials after this time, again and again until the server serves.
pub(super) async fn renewed(resolver: Resolver, after: Duration) -> Session {
    let mut pause = after;
    loop {
        real_time::sleep(pause).await;
        let error = match connect_within(&resolver).await {
            Ok(Session { unready: Some(error), .. }) | Err(error) => error,
            Ok(session) => return session,
        };
        // If the server ends the session meanwhile, the next connection asks for credentials too.
        observe::log::login_expires(&resolver, &error);
        pause = PAUSE;
    }
}

/// What a task gives; pending for ever if there is none, or it panics.
pub(super) async fn renewal_of(task: Option<JoinHandle<Session>>) -> Session {
    if let Some(task) = task
        && let Ok(session) = task.await
    {
        return session;
    }
    std::future::pending().await
}
