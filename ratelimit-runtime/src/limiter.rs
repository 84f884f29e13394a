//! [`RateLimiter`]: takes a question to the store, and answers by its deadline.

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use arc_swap::ArcSwap;

use crate::builder::RateLimiterBuilder;
use crate::check::Check;
use crate::consult;
use crate::context::{self, DefaultGuard, Scoped};
use crate::decision::Decision;
use crate::error::RateLimitError;
use crate::key::Key;
use crate::local::{self, Local};
use crate::policy::{self, Policies, Policy};
use crate::registry::Registry;
use crate::rule::{OnUnavailable, Rule};
use crate::secret::KeyHasher;
use crate::store::memory::MemoryStore;
use crate::store::{Answer, Request, Store};
use crate::wait::Lines;

/// Decides which calls may go on. Cheap to clone; clones are the same limiter.
///
/// ```
/// use ratelimit_runtime::{Key, Limit, RateLimiter, Rule};
///
/// static LOGIN: Rule = Rule::new("login", Limit::per_minute(5));
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), ratelimit_runtime::RateLimitError> {
/// let limiter = RateLimiter::memory();
/// let decision = limiter.acquire(&LOGIN, &Key::of("alice@example.com")).await?;
/// assert_eq!(decision.remaining(), 4);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct RateLimiter {
    inner: Arc<Inner>,
}

pub(crate) struct Inner {
    pub(crate) store: Box<dyn Store>,
    /// The prefix of every key, with its colon; or empty.
    pub(crate) prefix: Box<str>,
    pub(crate) timeout: Duration,
    pub(crate) on_unavailable: OnUnavailable,
    pub(crate) key_hasher: Option<KeyHasher>,
    pub(crate) registry: Registry,
    pub(crate) policies: ArcSwap<Policies>,
    pub(crate) lines: Lines,
    pub(crate) local: Local,
    pub(crate) id: u64,
}

impl Inner {
    pub(crate) fn new(store: Box<dyn Store>) -> Self {
        static IDS: AtomicU64 = AtomicU64::new(1);
        Self {
            store,
            prefix: Box::default(),
            timeout: DEFAULT_TIMEOUT,
            on_unavailable: OnUnavailable::default(),
            key_hasher: None,
            registry: Registry::default(),
            policies: ArcSwap::default(),
            lines: Lines::default(),
            local: Local::default(),
            id: IDS.fetch_add(1, Ordering::Relaxed),
        }
    }
}

const DEFAULT_TIMEOUT: Duration = Duration::from_millis(100);

impl RateLimiter {
    /// A limiter to be set up: prefix, deadline, policy, store.
    pub fn builder() -> RateLimiterBuilder {
        RateLimiterBuilder::new()
    }

    /// A limiter for this process alone.
    #[must_use]
    pub fn memory() -> Self {
        Self::with_store(MemoryStore::new())
    }

    /// A limiter that all processes on one Redis share. It returns at once; connecting happens in the background.
    ///
    /// # Errors
    ///
    /// [`RateLimitError::Misconfigured`] when the URL is not one of a Redis.
    #[cfg(feature = "redis")]
    pub fn redis(url: &str) -> Result<Self, RateLimitError> {
        Self::builder().redis(url).build()
    }

    /// A limiter on a store of your own.
    pub fn with_store(store: impl Store) -> Self {
        Self::from_inner(Arc::new(Inner::new(Box::new(store))))
    }

    /// A limiter on the Redis that `RATELIMIT_URL`, or else `REDIS_URL`, names; in memory if neither is set or the
    /// value is `memory:`.
    ///
    /// # Errors
    ///
    /// [`RateLimitError::Misconfigured`] when the variable is set to something else.
    pub fn from_env() -> Result<Self, RateLimitError> {
        Self::builder().from_env()?.build()
    }

    /// Makes this the limiter of the whole process: attributes without a `limiter` use it. A later call replaces it.
    pub fn install(self) {
        context::install(self);
    }

    /// Runs a future whose checks use this limiter. Tasks that it spawns are not part of it.
    pub fn scope<F: Future>(&self, future: F) -> Scoped<F> {
        context::scope(self.clone(), future)
    }

    /// Makes this the limiter of the current thread until the guard is dropped: for tests on one thread.
    pub fn set_default(&self) -> DefaultGuard {
        context::set_default(self.clone())
    }

    /// Charges the rule's cost to the key, if all its limits admit it.
    ///
    /// A rule with [`wait`](Rule::wait) waits for its turn. Other processes on the same store see the charge at once.
    ///
    /// # Errors
    ///
    /// Every [`RateLimitError`]. A refused call is charged nothing.
    pub async fn acquire(&self, rule: &Rule, key: &Key) -> Result<Decision, RateLimitError> {
        let check = self.check(rule, key);
        consult::patiently(&check).await
    }

    /// Decides as [`acquire`](Self::acquire) would, without charging, waiting or banning: the answer is the decision,
    /// also when it is a refusal.
    ///
    /// # Errors
    ///
    /// What [`acquire`](Self::acquire) gives, but for `Exceeded`.
    pub async fn peek(&self, rule: &Rule, key: &Key) -> Result<Decision, RateLimitError> {
        consult::peek(&self.check(rule, key)).await
    }

    /// Forgets what was charged to the key and whether it is banned, for everyone on the same store; says whether
    /// there was anything.
    ///
    /// # Errors
    ///
    /// `Unavailable` or `Misconfigured`: the policy for outages does not apply, because nothing was reset.
    pub async fn reset(&self, rule: &Rule, key: &Key) -> Result<bool, RateLimitError> {
        self.inner.local.reset(&self.check(rule, key));
        self.order(rule, key, Store::reset).await
    }

    /// Gives back what an admission was charged; `rule` and `key` are those it was asked with. Says whether anything of
    /// it was left: it may have expired, been reset, or been given back. With a sliding window a charge is given back
    /// once; the other algorithms keep sums, and give back at most what they hold.
    ///
    /// # Errors
    ///
    /// `Unavailable` or `Misconfigured`; then it may or may not have been given back.
    pub async fn refund(&self, rule: &Rule, key: &Key, admission: &Decision) -> Result<bool, RateLimitError> {
        if admission.ticket == 0 {
            return Ok(false);
        }
        let check = self.check(rule, key);
        let (store, ticket) = local::keeper_of(&self.inner, admission.ticket);
        let answer = store.refund(check.any_request()?, ticket);
        consult::by_deadline(check.deadline, answer).await.map_err(Into::into)
    }

    /// Refuses the key for everyone on the same store until `duration` has passed, in place of an earlier ban.
    /// Processes that hold the store's answers back see it once they ask again.
    ///
    /// # Errors
    ///
    /// `Unavailable` or `Misconfigured`.
    pub async fn block(&self, rule: &Rule, key: &Key, duration: Duration) -> Result<(), RateLimitError> {
        if duration.is_zero() || duration > crate::limit::MAX_WINDOW {
            return Err(RateLimitError::misconfigured("a ban lasts more than 0 and at most 366 days"));
        }
        self.order(rule, key, |store, request| store.block(request, duration)).await
    }

    /// Ends a ban for everyone on the same store, and leaves what was charged as it is; says whether there was one.
    ///
    /// # Errors
    ///
    /// `Unavailable` or `Misconfigured`.
    pub async fn unblock(&self, rule: &Rule, key: &Key) -> Result<bool, RateLimitError> {
        self.order(rule, key, Store::unblock).await
    }

    /// Puts other policies in the place of all that the limiter has; checks made from now on use them. A policy with
    /// other windows or another algorithm starts afresh, one with another `max` goes on.
    ///
    /// # Errors
    ///
    /// `Misconfigured` when one of them cannot be used, or needs what the store cannot do; then nothing changes.
    pub fn set_policies(
        &self,
        policies: impl IntoIterator<Item = (impl Into<String>, Policy)>,
    ) -> Result<(), RateLimitError> {
        let policies = policy::checked(policies)?;
        crate::builder::supported(&*self.inner.store, &policies)?;
        self.inner.policies.store(Arc::new(policies));
        Ok(())
    }

    /// Waits until the store can serve, as long as it takes.
    ///
    /// # Errors
    ///
    /// [`RateLimitError::Misconfigured`] as soon as the store says that it never will.
    pub async fn ready(&self) -> Result<(), RateLimitError> {
        self.inner.store.ready().await.map_err(Into::into)
    }

    pub(crate) fn from_inner(inner: Arc<Inner>) -> Self {
        Self { inner }
    }

    pub(crate) fn into_inner(self) -> Arc<Inner> {
        self.inner
    }

    pub(crate) fn inner(&self) -> &Arc<Inner> {
        &self.inner
    }

    fn check(&self, rule: &Rule, key: &Key) -> Check {
        Check::on(rule, self.clone()).keyed(key)
    }

    /// Has the store do something to a key.
    async fn order<T: Unpin>(
        &self,
        rule: &Rule,
        key: &Key,
        order: impl for<'a> FnOnce(&'a (dyn Store + 'static), Request<'a>) -> Answer<'a, T>,
    ) -> Result<T, RateLimitError> {
        let check = self.check(rule, key);
        let answer = order(&*self.inner.store, check.any_request()?);
        consult::by_deadline(check.deadline, answer).await.map_err(Into::into)
    }
}

impl fmt::Debug for RateLimiter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RateLimiter")
            .field("prefix", &self.inner.prefix)
            .field("timeout", &self.inner.timeout)
            .field("on_unavailable", &self.inner.on_unavailable)
            .finish_non_exhaustive()
    }
}
