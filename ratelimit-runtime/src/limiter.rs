//! [`RateLimiter`]: takes a question to the store, and answers by its deadline.

use std::borrow::Cow;
use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::builder::RateLimiterBuilder;
use crate::context::{self, DefaultGuard, Scoped};
use crate::decision::{Decision, Source};
use crate::error::{RateLimitError, StoreError, StoreErrorKind};
use crate::key::{Key, KeyBuf};
use crate::registry::Registry;
use crate::rule::{Limit, OnUnavailable, Rule};
use crate::secret::KeyHasher;
use crate::store::memory::MemoryStore;
use crate::store::{Answer, Request, Store, Verdict};

/// Decides which calls may go on. Cheap to clone; clones are the same limiter.
///
/// ```
/// use ratelimit_runtime::{Key, Limit, RateLimiter, Rule};
///
/// const LOGIN: Rule = Rule::new("login", Limit::per_minute(5));
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

    /// Charges the rule's cost to the key, if its limit admits it.
    ///
    /// # Errors
    ///
    /// Every [`RateLimitError`]. A refused call is charged nothing.
    pub async fn acquire(&self, rule: &Rule, key: &Key) -> Result<Decision, RateLimitError> {
        let stored = self.stored_key(rule, key.as_bytes());
        self.decide(rule, &[rule.limit()], rule.is_shadow(), &stored).await
    }

    /// Decides as [`acquire`](Self::acquire) would, without charging: the answer is the decision, also when it is a
    /// refusal.
    ///
    /// # Errors
    ///
    /// What [`acquire`](Self::acquire) gives, but for `Exceeded`.
    pub async fn peek(&self, rule: &Rule, key: &Key) -> Result<Decision, RateLimitError> {
        let limits = [rule.limit()];
        let stored = self.stored_key(rule, key.as_bytes());
        let request = self.request(rule, &limits, &stored)?;
        match self.by_deadline(rule, self.inner.store.peek(request)).await {
            Ok(verdict) => Ok(decision(rule, &limits, &verdict)),
            Err(error) => self.without_store(rule, &limits, error),
        }
    }

    /// Forgets what was charged to the key, here and for everyone on the same store; says whether there was anything.
    ///
    /// # Errors
    ///
    /// `Unavailable` or `Misconfigured`: the policy for outages does not apply, because nothing was reset.
    pub async fn reset(&self, rule: &Rule, key: &Key) -> Result<bool, RateLimitError> {
        let limits = [rule.limit()];
        let stored = self.stored_key(rule, key.as_bytes());
        let request = self.vetted_request(rule, &limits, &stored)?;
        self.by_deadline(rule, self.inner.store.reset(request)).await.map_err(refusal_of)
    }

    /// Waits until the store can serve, as long as it takes.
    ///
    /// # Errors
    ///
    /// [`RateLimitError::Misconfigured`] as soon as the store says that it never will.
    pub async fn ready(&self) -> Result<(), RateLimitError> {
        self.inner.store.ready().await.map_err(refusal_of)
    }

    pub(crate) fn from_inner(inner: Arc<Inner>) -> Self {
        Self { inner }
    }

    pub(crate) fn into_inner(self) -> Arc<Inner> {
        self.inner
    }

    /// What the stored keys of the rule begin with.
    pub(crate) fn begin_key(&self, rule: &Rule) -> KeyBuf {
        let mut key = KeyBuf::new();
        key.extend_from_slice(self.inner.prefix.as_bytes());
        key.extend_from_slice(rule.resolved().head.as_bytes());
        key
    }

    /// Hides the rendered part of a stored key, if this limiter does that.
    pub(crate) fn finish_key(&self, rule: &Rule, key: &mut KeyBuf) {
        if let Some(hasher) = &self.inner.key_hasher {
            hasher.hide(key, self.rule_len(rule));
        }
    }

    fn stored_key(&self, rule: &Rule, rendered: &[u8]) -> KeyBuf {
        let mut key = self.begin_key(rule);
        key.extend_from_slice(rendered);
        self.finish_key(rule, &mut key);
        key
    }

    fn rule_len(&self, rule: &Rule) -> usize {
        self.inner.prefix.len() + rule.resolved().head.len()
    }

    /// One check, from the finished key to the answer.
    pub(crate) async fn decide(
        &self,
        rule: &Rule,
        limits: &[Limit],
        shadow: bool,
        stored_key: &[u8],
    ) -> Result<Decision, RateLimitError> {
        let outcome = match self.request(rule, limits, stored_key) {
            Ok(request) => match self.by_deadline(rule, self.inner.store.acquire(request)).await {
                Ok(verdict) => {
                    let decision = decision(rule, limits, &verdict);
                    if decision.is_allowed() { Ok(decision) } else { Err(RateLimitError::Exceeded(decision)) }
                }
                Err(error) => self.without_store(rule, limits, error),
            },
            Err(error) => Err(error),
        };
        match outcome {
            Err(RateLimitError::Exceeded(decision)) if shadow => {
                tracing::info!(rule = rule.name(), "a call that the limit refuses runs: the rule is in shadow mode");
                Ok(decision)
            }
            Err(error) if shadow => {
                tracing::warn!(rule = rule.name(), %error, "a check failed and its call runs: the rule is in shadow mode");
                Ok(Decision::unchecked(rule.name(), smallest(limits)))
            }
            outcome => outcome,
        }
    }

    fn request<'a>(&self, rule: &Rule, limits: &'a [Limit], key: &'a [u8]) -> Result<Request<'a>, RateLimitError> {
        let limit = limits.iter().map(|limit| rule.algorithm().capacity(limit)).min().unwrap_or(0);
        if rule.cost() > limit {
            return Err(RateLimitError::CostExceedsLimit { rule: rule.name(), cost: rule.cost(), limit });
        }
        self.vetted_request(rule, limits, key)
    }

    fn vetted_request<'a>(
        &self,
        rule: &Rule,
        limits: &'a [Limit],
        key: &'a [u8],
    ) -> Result<Request<'a>, RateLimitError> {
        if !rule.is_vetted_by(self.inner.id) {
            self.inner.registry.vet(rule)?;
            rule.vetted(self.inner.id);
        }
        Ok(Request::new(key, rule.algorithm(), limits).with_cost(rule.cost()).with_rule_len(self.rule_len(rule)))
    }

    async fn by_deadline<T: Unpin>(&self, rule: &Rule, answer: Answer<'_, T>) -> Result<T, StoreError> {
        let answer = match answer.now() {
            Ok(result) => return result,
            Err(answer) => answer,
        };
        if tokio::runtime::Handle::try_current().is_err() {
            return Err(StoreError::misconfigured("a check on this store needs a tokio runtime, and none is running here"));
        }
        let deadline = rule.deadline().unwrap_or(self.inner.timeout);
        match tokio::time::timeout(deadline, answer).await {
            Ok(result) => result,
            Err(_) => Err(StoreError::unavailable(format!("no answer from the store within {deadline:?}"))),
        }
    }

    /// The answer of the policy when the store gave none.
    fn without_store(&self, rule: &Rule, limits: &[Limit], error: StoreError) -> Result<Decision, RateLimitError> {
        let policy = rule.policy().unwrap_or(self.inner.on_unavailable);
        match (error.kind(), policy) {
            (StoreErrorKind::Unavailable, OnUnavailable::Allow) => {
                tracing::debug!(rule = rule.name(), %error, "a call goes on unchecked: the store is unavailable");
                Ok(Decision::unchecked(rule.name(), smallest(limits)))
            }
            _ => Err(refusal_of(error)),
        }
    }
}

fn refusal_of(error: StoreError) -> RateLimitError {
    match error.kind() {
        StoreErrorKind::Unavailable | StoreErrorKind::Full => RateLimitError::Unavailable(error),
        StoreErrorKind::Misconfigured | StoreErrorKind::Unsupported => RateLimitError::Misconfigured(error),
    }
}

fn smallest(limits: &[Limit]) -> u64 {
    limits.iter().map(Limit::max).min().unwrap_or(0)
}

fn decision(rule: &Rule, limits: &[Limit], verdict: &Verdict) -> Decision {
    Decision {
        rule: rule.name(),
        limit: limits.get(verdict.limit_index).map_or(0, Limit::max),
        remaining: verdict.remaining,
        retry_after_us: verdict.retry_after_us,
        reset_after_us: verdict.reset_after_us,
        ticket: 0,
        limit_index: u8::try_from(verdict.limit_index).unwrap_or(u8::MAX),
        source: Source::Store,
        allowed: verdict.allowed,
        degraded: false,
    }
}

impl fmt::Debug for RateLimiter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RateLimiter")
            .field("prefix", &Cow::Borrowed(&*self.inner.prefix))
            .field("timeout", &self.inner.timeout)
            .field("on_unavailable", &self.inner.on_unavailable)
            .finish_non_exhaustive()
    }
}
