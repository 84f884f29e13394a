//! Optimistic transactions: read under WATCH, decide here, write in MULTI … EXEC; again if somebody else wrote in
//! between.
//!
//! Whoever dies on the way leaves nothing behind: until EXEC nothing is written, and EXEC writes all of it.

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

use redis::{Cmd, Pipeline, ServerError, Value};

use crate::error::StoreError;
use crate::store::redis::errors::{self, unexpected_reply};
use crate::store::redis::topology::{Calls, Turn};

/// The longest pause between two attempts is twice this to the power of that, in milliseconds.
const LONGEST_PAUSE: u32 = 4;

/// What one attempt decided, and what it takes to make it so. Without commands it is so already.
pub(super) struct Attempt<D> {
    pub(super) commands: Vec<Cmd>,
    pub(super) decided: D,
}

/// Reads with `read`, decides with `decide` from the replies, and writes; then `finish` turns the replies to what was
/// written into the answer.
///
/// It goes on until it succeeds: each time it fails, somebody else's transaction on the same key went through. The
/// caller's timeout ends it by dropping it.
pub(super) async fn run<D, T>(
    calls: Calls<'_>,
    keys: &[&[u8]],
    read: &[Cmd],
    decide: impl Fn(&[Value]) -> Result<Attempt<D>, StoreError>,
    finish: impl Fn(D, &[Value]) -> Option<T>,
) -> Result<T, StoreError> {
    let mut turn = calls.turn().await?;
    loop {
        let said = run_at(&turn, keys, read, &decide, &finish).await;
        if let Some(answer) = turn.arrived(said).await {
            return answer?.map_err(|error| errors::from_server(&error));
        }
    }
}

/// The same at one server. The inner error is its reply; then nothing was written.
async fn run_at<D, T>(
    turn: &Turn<'_>,
    keys: &[&[u8]],
    read: &[Cmd],
    decide: &impl Fn(&[Value]) -> Result<Attempt<D>, StoreError>,
    finish: &impl Fn(D, &[Value]) -> Option<T>,
) -> Result<Result<T, ServerError>, StoreError> {
    let exclusive = turn.exclusive().await?;
    let _line = exclusive.stand_in_line(keys).await;
    let mut lease = exclusive.lease().await?;
    for failures in 0_u32.. {
        let replies = match lease.watch(keys, read).await? {
            Ok(replies) => replies,
            Err(error) => return Ok(Err(error)),
        };
        let attempt = decide(&replies)?;
        if attempt.commands.is_empty() {
            return finish(attempt.decided, &[]).map(Ok).ok_or_else(unexpected_reply);
        }
        let mut writes = Pipeline::with_capacity(attempt.commands.len());
        for command in attempt.commands {
            writes.add_command(command);
        }
        match lease.execute(&writes).await? {
            Ok(Some(replies)) => return finish(attempt.decided, &replies).map(Ok).ok_or_else(unexpected_reply),
            Ok(None) => pause(failures).await,
            Err(error) => return Ok(Err(error)),
        }
    }
    Err(unexpected_reply())
}

/// Not at all at first, then longer and longer, and never in step with others.
async fn pause(failures: u32) {
    if failures == 0 {
        return tokio::task::yield_now().await;
    }
    let longest = 2_u64 << failures.min(LONGEST_PAUSE);
    let micros = RandomState::new().hash_one(failures) % (longest * 1000);
    tokio::time::sleep(Duration::from_micros(micros)).await;
}
