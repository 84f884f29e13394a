//! Attempts to connect. They have a timeout of their own: a slow handshake is not cut short by requests that give up.

use std::time::{Duration, Instant};

use tokio::task::JoinSet;

use super::race::{Either, either};
use super::server::Connection;
use super::target::Target;
use crate::error::StoreError;
use crate::error::StoreErrorKind::Unavailable;
use crate::real_time;

/// For one attempt: looking up the name, connecting, TLS, logging in and the first reply.
const CONNECT: Duration = Duration::from_secs(5);
/// After this long without success, another attempt starts beside, in case a packet was lost.
const HANGING: Duration = Duration::from_secs(1);
/// How many attempts run at the same time.
const ABREAST: usize = 5;

/// One attempt.
pub(super) async fn connect_within(target: &Target) -> Result<Connection, StoreError> {
    match real_time::timeout_at(Instant::now() + CONNECT, target.connect()).await {
        Ok(connection) => connection,
        Err(_) => Err(StoreError::unavailable(format!("no answer from Redis at {target} within {CONNECT:?}"))),
    }
}

/// As many attempts as it takes for one to succeed, or to fail at once. While they hang, `hangs` says whether to go on.
pub(super) async fn connect(target: &Target, mut hangs: impl FnMut() -> bool) -> Result<Connection, StoreError> {
    let mut attempts = JoinSet::new();
    loop {
        if attempts.len() < ABREAST {
            let target = target.clone();
            attempts.spawn(async move { connect_within(&target).await });
        }
        match either(attempts.join_next(), real_time::sleep(HANGING)).await {
            // One that hung has ended; those beside it may still succeed.
            Either::First(Some(Ok(Err(error)))) if error.kind() == Unavailable && !attempts.is_empty() => {}
            Either::First(Some(Ok(result))) => return result,
            Either::First(Some(Err(error))) if error.is_panic() => {
                return Err(StoreError::misconfigured(
                    "connecting to Redis panicked: the tokio runtime needs `enable_all()`, TLS needs a rustls crypto \
                     provider to be installed first, and a provider of credentials must not panic",
                ));
            }
            Either::First(_) => return Err(StoreError::unavailable("connecting to Redis was cut short")),
            Either::Second(()) if hangs() => {}
            Either::Second(()) => return Err(StoreError::unavailable("nobody waits for Redis any more")),
        }
    }
}
