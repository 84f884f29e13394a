//! [`FaultyStore`]: a store that fails when a test says so.

use std::fmt;
use std::future::{pending, poll_fn};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};
use std::time::Duration;

use crate::rule::RuleSummary;
use crate::store::layered::{acquires, built_in, outermost};
use crate::store::{
    Answer, BuiltInStore, Health, Page, PermitRequest, PermitVerdict, Request, Sealed, Settled,
    Store, StoreError, StoreErrorKind, Verdict,
};

/// A store around another one, which works, fails or hangs as the test tells it. Clones are the
/// same store: one goes to the limiter, the other stays with the test.
///
/// A call that fails or hangs does not reach the inner store: nothing is charged. An operation that
/// cannot fail reaches it in any case: the permit of a call in flight is released.
///
/// ```
/// use ratelimit_runtime::testkit::FaultyStore;
/// use ratelimit_runtime::{Key, Limit, MemoryStore, OnUnavailable, RateLimitError, RateLimiter, Rule};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), RateLimitError> {
/// const LOGIN: Rule = Rule::new("login", Limit::per_minute(5)).with_on_unavailable(OnUnavailable::Deny);
///
/// let store = FaultyStore::new(MemoryStore::new());
/// let limiter = RateLimiter::builder().store(store.clone()).build()?;
///
/// store.fail();
/// let refused = limiter.acquire(&LOGIN, &Key::of("alice")).await;
/// assert!(matches!(refused, Err(RateLimitError::Unavailable(_))));
///
/// store.heal();
/// assert_eq!(limiter.acquire(&LOGIN, &Key::of("alice")).await?.remaining(), 4);
/// # Ok(())
/// # }
/// ```
pub struct FaultyStore<S> {
    shared: Arc<FaultState<S>>,
}

struct FaultState<S> {
    inner: S,
    calls: AtomicU64,
    fault: Mutex<Fault>,
}

#[derive(Default)]
struct Fault {
    mode: Mode,
    /// The tasks that wait in `ready` for the store to heal.
    waiting: Vec<Waker>,
}

#[derive(Debug, Clone, Copy, Default)]
enum Mode {
    #[default]
    Healthy,
    Failing(StoreErrorKind),
    Hanging,
}

impl<S: Store> FaultyStore<S> {
    /// A healthy store around `inner`.
    pub fn new(inner: S) -> Self {
        Self {
            shared: Arc::new(FaultState {
                inner,
                calls: AtomicU64::new(0),
                fault: Mutex::default(),
            }),
        }
    }

    /// From now on every call fails at once, as [`StoreErrorKind::Unavailable`].
    pub fn fail(&self) {
        self.fail_with(StoreErrorKind::Unavailable);
    }

    /// From now on every call fails at once with an error of this kind.
    pub fn fail_with(&self, kind: StoreErrorKind) {
        self.switch(Mode::Failing(kind));
    }

    /// From now on no call is answered. Calls that hang stay unanswered, also when the store heals.
    pub fn hang(&self) {
        self.switch(Mode::Hanging);
    }

    /// From now on calls reach the inner store again.
    pub fn heal(&self) {
        self.switch(Mode::Healthy);
    }

    /// How many calls there were so far, answered or not; those of `ready` are not counted.
    #[must_use]
    pub fn calls(&self) -> u64 {
        self.shared.calls.load(Ordering::SeqCst)
    }

    fn switch(&self, mode: Mode) {
        let waiting = {
            let mut fault = self.shared.lock();
            fault.mode = mode;
            std::mem::take(&mut fault.waiting)
        };
        for waker in waiting {
            waker.wake();
        }
    }

    fn call<'a, T: Send + 'a>(
        &'a self,
        healthy: impl FnOnce(&'a S) -> Answer<'a, T>,
    ) -> Answer<'a, T> {
        self.shared.calls.fetch_add(1, Ordering::SeqCst);
        let mode = self.shared.lock().mode;
        match mode {
            Mode::Healthy => healthy(&self.shared.inner),
            Mode::Failing(kind) => Answer::ready(Err(made_to_fail(kind))),
            Mode::Hanging => Answer::later(pending()),
        }
    }
}

impl<S: Store> FaultyStore<S> {
    async fn healed(&self) -> Result<(), StoreError> {
        poll_fn(|cx| {
            let mut fault = self.shared.lock();
            match fault.mode {
                Mode::Healthy => Poll::Ready(Ok(())),
                Mode::Failing(
                    kind @ (StoreErrorKind::Misconfigured | StoreErrorKind::Unsupported),
                ) => Poll::Ready(Err(made_to_fail(kind))),
                Mode::Failing(_) | Mode::Hanging => {
                    if !fault
                        .waiting
                        .iter()
                        .any(|waker| waker.will_wake(cx.waker()))
                    {
                        fault.waiting.push(cx.waker().clone());
                    }
                    Poll::Pending
                }
            }
        })
        .await
    }
}

impl<S> FaultState<S> {
    fn lock(&self) -> MutexGuard<'_, Fault> {
        self.fault.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<S: Store> Store for FaultyStore<S> {
    fn inner(&self) -> Option<&dyn Store> {
        Some(&self.shared.inner)
    }

    fn acquire<'a>(&'a self, request: Request<'a>) -> Answer<'a, Verdict> {
        self.call(|inner| inner.acquire(request))
    }

    fn peek<'a>(&'a self, request: Request<'a>) -> Answer<'a, Verdict> {
        self.call(|inner| inner.peek(request))
    }

    fn reset<'a>(&'a self, request: Request<'a>) -> Answer<'a, bool> {
        self.call(|inner| inner.reset(request))
    }

    fn refund<'a>(&'a self, request: Request<'a>, ticket: u64) -> Answer<'a, bool> {
        self.call(move |inner| inner.refund(request, ticket))
    }

    fn settle<'a>(
        &'a self,
        request: Request<'a>,
        ticket: u64,
        actual_cost: u64,
    ) -> Answer<'a, Settled> {
        self.call(move |inner| inner.settle(request, ticket, actual_cost))
    }

    fn block<'a>(&'a self, request: Request<'a>, duration: Duration) -> Answer<'a, ()> {
        self.call(|inner| inner.block(request, duration))
    }

    fn unblock<'a>(&'a self, request: Request<'a>) -> Answer<'a, bool> {
        self.call(|inner| inner.unblock(request))
    }

    fn keys<'a>(&'a self, request: Request<'a>, from: Option<Vec<u8>>) -> Answer<'a, Page> {
        self.call(|inner| inner.keys(request, from))
    }

    fn built_in(&self, _: Sealed) -> Option<&dyn BuiltInStore> {
        Some(self)
    }
}

impl<S: Store> BuiltInStore for FaultyStore<S> {
    fn decides_together(&self, permit: Option<&PermitRequest>, requests: &[Request<'_>]) -> bool {
        outermost(&self.shared.inner).decides_together(permit, requests)
    }

    fn offend<'a>(&'a self, request: Request<'a>) -> Answer<'a, Verdict> {
        self.call(|_| self.inner_built_in().offend(request))
    }

    fn acquire_all<'a>(
        &'a self,
        permit: Option<PermitRequest>,
        requests: &'a [Request<'a>],
    ) -> Answer<'a, PermitVerdict> {
        self.call(|inner| acquires(inner, requests).acquire_all(permit, requests))
    }

    fn release_permit(&self, permit: &PermitRequest) {
        self.inner_built_in().release_permit(permit);
    }

    fn in_flight(&self, permit: PermitRequest) -> Answer<'_, u64> {
        self.call(|_| self.inner_built_in().in_flight(permit))
    }

    fn supports(&self, request: &Request<'_>) -> Result<(), StoreError> {
        self.inner_built_in().supports(request)
    }

    fn server(&self) -> &str {
        self.inner_built_in().server()
    }

    fn known_refusal(&self, request: &Request<'_>, is_away: bool) -> Option<Verdict> {
        self.inner_built_in().known_refusal(request, is_away)
    }

    fn health(&self, request: &Request<'_>) -> Health {
        match self.shared.lock().mode {
            Mode::Healthy => self.inner_built_in().health(request),
            Mode::Failing(_) => Health::Down,
            Mode::Hanging => Health::Slow,
        }
    }

    fn give_back(&self) {
        self.inner_built_in().give_back();
    }

    fn answers_within(&self, timeout: Duration) {
        self.inner_built_in().answers_within(timeout);
    }

    fn note_rule(&self, prefix: &str, rule: &RuleSummary) {
        self.inner_built_in().note_rule(prefix, rule);
    }

    fn settled(&self) -> Answer<'_, ()> {
        self.inner_built_in().settled()
    }

    /// Waits until the store heals; a fault that waiting cannot cure is an error at once.
    fn ready_for<'a>(&'a self, part: Option<Request<'a>>) -> Answer<'a, ()> {
        Answer::later(async move {
            self.healed().await?;
            self.inner_built_in().ready_for(part).await
        })
    }

    fn ready_under<'a>(&'a self, prefix: &'a str) -> Answer<'a, ()> {
        Answer::later(async move {
            self.healed().await?;
            self.inner_built_in().ready_under(prefix).await
        })
    }
}

impl<S: Store> FaultyStore<S> {
    fn inner_built_in(&self) -> &dyn BuiltInStore {
        built_in(&self.shared.inner)
    }
}

fn made_to_fail(kind: StoreErrorKind) -> StoreError {
    StoreError::new(kind, "a test made this store fail")
}

impl<S> Clone for FaultyStore<S> {
    fn clone(&self) -> Self {
        Self {
            shared: Arc::clone(&self.shared),
        }
    }
}

impl<S> fmt::Debug for FaultyStore<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FaultyStore")
            .field("mode", &self.shared.lock().mode)
            .field("calls", &self.shared.calls)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

    use super::*;
    use crate::store::memory::MemoryStore;
    use crate::{Algorithm, Limit};

    const LIMITS: [Limit; 1] = [Limit::per_minute(3)];

    fn request() -> Request<'static> {
        Request::new(b"key", Algorithm::SlidingWindow, &LIMITS)
    }

    #[tokio::test(start_paused = true)]
    async fn faults_charge_nothing_and_every_call_is_counted() {
        let store = FaultyStore::new(MemoryStore::new());
        let test = store.clone();
        assert_eq!(store.acquire(request()).await.unwrap().remaining, 2);

        test.fail_with(StoreErrorKind::Full);
        assert_eq!(
            store.acquire(request()).await.unwrap_err().kind(),
            StoreErrorKind::Full
        );
        test.fail();
        assert_eq!(
            store.reset(request()).await.unwrap_err().kind(),
            StoreErrorKind::Unavailable
        );

        test.hang();
        let hanging = store.acquire(request());
        test.heal();
        assert!(
            tokio::time::timeout(Duration::from_secs(10), hanging)
                .await
                .is_err(),
            "a call that hangs stays so"
        );

        assert_eq!(store.peek(request()).await.unwrap().remaining, 2);
        assert_eq!(test.calls(), 5);
    }

    #[tokio::test(start_paused = true)]
    async fn ready_waits_for_the_store_to_heal() {
        let store = FaultyStore::new(MemoryStore::new());
        store.hang();
        let waiting = tokio::spawn({
            let store = store.clone();
            async move { store.ready().await }
        });
        tokio::time::sleep(Duration::from_secs(3600)).await;
        assert!(!waiting.is_finished());
        store.heal();
        assert!(waiting.await.unwrap().is_ok());

        store.fail_with(StoreErrorKind::Misconfigured);
        assert_eq!(
            store.ready().await.unwrap_err().kind(),
            StoreErrorKind::Misconfigured
        );
    }
}
