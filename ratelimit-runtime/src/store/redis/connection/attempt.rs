//! Attempts to connect. They have a timeout of their own, so that a slow handshake is not cut short
//! by calls that are cancelled.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::task::{AbortHandle, JoinSet};

use super::pulse::BEAT;
use super::resolve::Resolver;
use crate::error::StoreError;
use crate::error::StoreErrorKind::Unavailable;
use crate::real_time;
use crate::store::redis::wire::server::Session;

/// The timeout of one attempt: looking up the name, connecting, TLS, login and the first reply.
const CONNECT: Duration = Duration::from_secs(5);
/// Another attempt starts beside one that takes so many [`BEAT`]s, a second: a packet may be lost.
const SLOW: u32 = 20;
/// How many times that an attempt is given: [`CONNECT`].
const SPANS: u32 = 5;

/// One attempt, which fails after [`CONNECT`].
pub(crate) async fn connect_within(resolver: &Resolver) -> Result<Session, StoreError> {
    match real_time::timeout_at(Instant::now() + CONNECT, Arc::clone(resolver).connect()).await {
        Ok(session) => session,
        Err(_) => Err(StoreError::unavailable(format!("no answer from Redis at {resolver} within {CONNECT:?}"))),
    }
}

/// Attempts until one succeeds, or none is under way any more. Each second without an answer,
/// another one starts beside the oldest, in place of the one before.
///
/// `goes_on` is asked at each [`BEAT`], and told whether a second has passed. Time is counted in
/// beats, so that an attempt is not cut short while its runtime is not driven.
pub(crate) async fn connect(resolver: &Resolver, mut goes_on: impl FnMut(bool) -> bool) -> Result<Session, StoreError> {
    let mut attempts = Attempts::default();
    attempts.start(resolver);
    let mut beats = 0;
    loop {
        tokio::select! {
            biased;
            ended = attempts.next() => match ended {
                Some(Err(error)) if error.kind() == Unavailable && !attempts.pending.is_empty() => {}
                Some(result) => return result,
                None => return Err(StoreError::unavailable("connecting to Redis was cut short")),
            },
            () = real_time::sleep(BEAT) => {
                beats += 1;
                let is_slow = beats % SLOW == 0;
                if !goes_on(is_slow) {
                    return Err(StoreError::unavailable("no call waits for Redis any more"));
                }
                if is_slow {
                    attempts.replace(resolver);
                }
            }
        }
    }
}

/// Two at most, which end with this.
#[derive(Default)]
struct Attempts {
    tasks: JoinSet<Result<Session, StoreError>>,
    /// The oldest first.
    pending: Vec<Attempt>,
}

struct Attempt {
    task: AbortHandle,
    /// How many times [`SLOW`] it has been under way.
    spans: u32,
}

impl Attempts {
    fn start(&mut self, resolver: &Resolver) {
        let task = self.tasks.spawn(Arc::clone(resolver).connect());
        self.pending.push(Attempt { task, spans: 0 });
    }

    /// Gives up all but the oldest, and that one once it has had its time; starts another.
    fn replace(&mut self, resolver: &Resolver) {
        let mut is_oldest = true;
        self.pending.retain_mut(|attempt| {
            attempt.spans += 1;
            let is_kept = std::mem::take(&mut is_oldest) && attempt.spans < SPANS;
            if !is_kept {
                attempt.task.abort();
            }
            is_kept
        });
        self.start(resolver);
    }

    /// What came of the next that ends; `None` if none is under way.
    async fn next(&mut self) -> Option<Result<Session, StoreError>> {
        loop {
            let (id, result) = match self.tasks.join_next_with_id().await? {
                Ok(ended) => ended,
                Err(error) if error.is_panic() => (
                    error.id(),
                    Err(StoreError::misconfigured(
                        "connecting to Redis panicked: the tokio runtime needs `enable_all()`, TLS needs a rustls \
                         crypto provider to be installed first, and a provider of credentials must not panic",
                    )),
                ),
                // Given up.
                Err(_) => continue,
            };
            self.pending.retain(|attempt| attempt.task.id() != id);
            return Some(result);
        }
    }
}
