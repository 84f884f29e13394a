//! Optimistic transactions: read under `WATCH`, decide here, write in `MULTI … EXEC`; again if
//! another client has written in between.
//!
//! A process that dies halfway leaves nothing behind: until `EXEC` nothing is written, and `EXEC`
//! writes all of it.

use std::time::Duration;

use redis::{Cmd, Pipeline, Value};

use crate::error::StoreError;
use crate::real_time;
use crate::store::redis::backoff::{Backoff, random_part};
use crate::store::redis::errors::{self, unexpected_reply};
use crate::store::redis::topology::{Calls, Destination};
use crate::store::redis::wire::commands::ServerResult;

/// The first pause is none; the others are a random part of this and more.
const SHORTEST_PAUSE: Duration = Duration::from_millis(4);
const LONGEST_PAUSE: Duration = Duration::from_millis(32);

/// What one attempt decided, and the commands that write it. Without commands there is nothing to
/// write.
pub(super) struct Plan<D> {
    pub(super) commands: Vec<Cmd>,
    pub(super) decided: D,
}

/// Reads with `read`, decides with `decide` from the replies, and writes; then `finish` turns the
/// replies to what was written into the answer.
///
/// It goes on until it succeeds: each time it fails, another transaction on the same key has
/// succeeded. The caller's timeout ends it by dropping it.
pub(super) async fn run<D, T>(
    calls: Calls<'_>,
    keys: &[&[u8]],
    read: &[Cmd],
    decide: impl Fn(&[Value]) -> Result<Plan<D>, StoreError>,
    finish: impl Fn(D, &[Value]) -> Option<T>,
) -> Result<T, StoreError> {
    let mut destination = calls.destination().await?;
    loop {
        let answer = run_at(&destination, keys, read, &decide, &finish).await;
        if let Some(answer) = destination.follow_redirect(answer).await {
            return answer?.map_err(|error| errors::from_server(&error));
        }
    }
}

/// The same at one server. With an inner error, nothing was written.
async fn run_at<D, T>(
    destination: &Destination<'_>,
    keys: &[&[u8]],
    read: &[Cmd],
    decide: &impl Fn(&[Value]) -> Result<Plan<D>, StoreError>,
    finish: &impl Fn(D, &[Value]) -> Option<T>,
) -> ServerResult<T> {
    let exclusive = destination.exclusive().await?;
    let _guards = exclusive.lock_keys(keys).await;
    let mut lease = exclusive.lease().await?;
    let (mut backoff, mut has_failed) = (Backoff::new(SHORTEST_PAUSE, LONGEST_PAUSE), false);
    loop {
        let replies = match lease.watch(keys, read).await? {
            Ok(replies) => replies,
            Err(error) => return Ok(Err(error)),
        };
        let plan = decide(&replies)?;
        if plan.commands.is_empty() {
            return finish(plan.decided, &[]).map(Ok).ok_or_else(unexpected_reply);
        }
        let mut writes = Pipeline::with_capacity(plan.commands.len());
        for command in plan.commands {
            writes.add_command(command);
        }
        match lease.execute(&writes).await? {
            Ok(Some(replies)) => return finish(plan.decided, &replies).map(Ok).ok_or_else(unexpected_reply),
            // Never in step with others.
            Ok(None) if has_failed => real_time::sleep(random_part(backoff.pause())).await,
            Ok(None) => {
                has_failed = true;
                tokio::task::yield_now().await;
            }
            Err(error) => return Ok(Err(error)),
        }
    }
}
