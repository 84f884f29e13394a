//! [`RateLimiter`]: the public handle of a limiter. The engine inside does the work.

mod builder;
pub(crate) mod find;
mod keys;
mod permit;
mod policies;
mod reservation;

use std::fmt;
use std::future::Future;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::sync::Arc;
use std::time::Duration;

pub use self::builder::RateLimiterBuilder;
pub use self::find::{DefaultGuard, Scoped};
pub use self::keys::Keys;
pub use self::permit::Permit;
pub use self::reservation::Reservation;
use crate::decision::Decision;
use crate::engine::{self, CheckBuilder, Engine, Part};
use crate::error::RateLimitError;
use crate::key::Key;
use crate::observe;
use crate::rule::{Limit, Policy, Rule, RuleSummary};
use crate::store::memory::MemoryStore;
use crate::store::{BuiltInStore as _, Feature, Store};

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
    engine: Arc<Engine>,
}

impl RateLimiter {
    /// A limiter that keeps limits in the memory of this process.
    #[must_use]
    pub fn memory() -> Self {
        Self::with_store(MemoryStore::new())
    }

    /// A limiter on this store, with the default settings of [`builder`](Self::builder).
    pub fn with_store(store: impl Store) -> Self {
        Self::on(Engine::on(store))
    }

    fn on(engine: Engine) -> Self {
        observe::log::built(
            engine.store_name(),
            engine.prefix.trim_end_matches(':'),
            engine.registry.count(),
        );
        Self {
            engine: Arc::new(engine),
        }
    }

    /// Makes this the limiter of the whole process: attributes without a `limiter` use it. A later
    /// call replaces it. It does not connect to a store yet; [`ready`](Self::ready) does.
    pub fn install(self) {
        find::install(self.engine);
    }

    /// The limiter in force here: that of the enclosing [`scope`](Self::scope), else the
    /// [default](Self::set_default) of the thread, else the [installed](Self::install) one, else
    /// one in memory for the whole process, with one warning in the log, or on standard error where
    /// no subscriber of `tracing` is set. Attributes without a `limiter` use it.
    #[must_use]
    pub fn current() -> Self {
        Self {
            engine: find::current(),
        }
    }

    /// The rules that calls of this limiter have used so far, as it applies them, by name; at most
    /// 1,000. A [`RedisStore`](crate::RedisStore) writes them down for `ratelimit-admin`.
    #[must_use]
    pub fn rules(&self) -> Vec<RuleSummary> {
        self.engine.summaries.list()
    }

    /// Runs a future whose checks use this limiter. Tasks that it spawns are not part of it.
    pub fn scope<F: Future>(&self, future: F) -> Scoped<F> {
        find::scope(Arc::clone(&self.engine), future)
    }

    /// Makes this the limiter of the current thread until the guard is dropped: for tests on one
    /// thread.
    pub fn set_default(&self) -> DefaultGuard {
        find::set_default(Arc::clone(&self.engine))
    }

    /// Charges the rule's cost to the key, if all its limits admit it.
    ///
    /// A rule with [`wait`](Rule::with_wait) waits for its turn. Other processes on the same store
    /// see the charge at once. A call whose future is dropped may have been charged.
    ///
    /// # Errors
    ///
    /// Every [`RateLimitError`]; `Misconfigured` also where the rule limits calls in flight, which
    /// [`enter`](Self::enter) counts. A refused call is charged nothing.
    #[allow(
        clippy::result_large_err,
        reason = "a part that waits for its store is kept in this future"
    )]
    pub async fn acquire(&self, rule: &Rule, key: &Key) -> Result<Decision, RateLimitError> {
        if let Err(error) = must_not_limit_calls_in_flight(rule) {
            return engine::cooperate(Err(error)).await;
        }
        let engine = &self.engine;
        let decided = {
            // Made in place, and not moved there.
            let mut check = CheckBuilder::of(rule, None);
            check.key(key);
            check.with_check(engine, |check| {
                let later = || Err(Part::new(engine, check));
                engine::decide_now::<Result<_, _>>(engine, check, later)
            })
        };
        match decided {
            // Only refusals give way, and an admission is not moved through their future.
            Ok(Ok(decision)) => Ok(decision),
            Ok(refused) => engine::cooperate(refused).await,
            Err(part) => engine::decide_later(&part).await,
        }
    }

    /// [`acquire`](Self::acquire) for several rules, each with a key of its own: all of them are
    /// charged, or none. The decisions are in the order of the rules. Redis charges up to 254 of
    /// them in one step; up to 10,000, or those in several slots of a cluster, take several steps.
    ///
    /// ```
    /// # use ratelimit_runtime::{Key, Limit, RateLimiter, Rule};
    /// static PER_USER: Rule = Rule::new("mail-user", Limit::per_minute(3));
    /// static OF_ALL: Rule = Rule::new("mail", Limit::per_minute(1_000));
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), ratelimit_runtime::RateLimitError> {
    /// # let limiter = RateLimiter::memory();
    /// let user = Key::of("alice@example.com");
    /// let decisions = limiter.acquire_all([(&PER_USER, &user), (&OF_ALL, &Key::global())]).await?;
    /// assert_eq!(decisions[0].remaining(), 2);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// As of `acquire`; of several rules that refuse, the refusal that lasts longest.
    /// `Misconfigured` also where no rule is given.
    pub async fn acquire_all<'a>(
        &self,
        calls: impl IntoIterator<Item = (&'a Rule, &'a Key)>,
    ) -> Result<Vec<Decision>, RateLimitError> {
        let parts = self.stack(calls, |limiter, rule, key| {
            must_not_limit_calls_in_flight(rule)?;
            Ok(limiter.call(rule, key))
        });
        let parts = engine::cooperate(parts).await?;
        Ok(engine::acquire(parts).await?.decisions.into_vec())
    }

    /// Charges the rule's cost to the key as an estimate, of at least 1, if all its limits admit
    /// it: for work whose cost is known when it is done. [`Reservation::commit`] takes that cost.
    ///
    /// The estimates of admitted calls stay within the limits. Actual costs may exceed them; later
    /// calls wait until the excess has left.
    ///
    /// # Errors
    ///
    /// Every [`RateLimitError`]; `Misconfigured` also where the store cannot charge a cost that is
    /// known afterwards. A refused call is charged nothing.
    pub async fn reserve(&self, rule: &Rule, key: &Key) -> Result<Reservation, RateLimitError> {
        let part = engine::cooperate(self.estimate(rule, key)).await?;
        Reservation::acquire([part]).await
    }

    /// [`reserve`](Self::reserve) for several rules, each with a key of its own: all of them are
    /// charged their estimates, or none. The reservation settles all with one actual cost.
    ///
    /// # Errors
    ///
    /// As of `reserve`; of several rules that refuse, the refusal that lasts longest.
    /// `Misconfigured` also where no rule is given.
    pub async fn reserve_all<'a>(
        &self,
        calls: impl IntoIterator<Item = (&'a Rule, &'a Key)>,
    ) -> Result<Reservation, RateLimitError> {
        let parts = self.stack(calls, Self::estimate);
        Reservation::acquire(engine::cooperate(parts).await?).await
    }

    /// Decides as [`acquire`](Self::acquire) or [`enter`](Self::enter) would, without charging,
    /// acquiring a permit, waiting or blocking: the answer is the decision, also when it is a
    /// refusal. The store is asked for limits and permits at once, also where a refusal is known; a
    /// refusal by the limits goes before one for want of a permit.
    ///
    /// # Errors
    ///
    /// `Unavailable`, `Misconfigured` or `CostExceedsLimit`.
    pub async fn peek(&self, rule: &Rule, key: &Key) -> Result<Decision, RateLimitError> {
        let peeked = async { self.permit_call(rule, key)?.peek().await }.await;
        let is_refused = !peeked.as_ref().is_ok_and(Decision::is_allowed);
        engine::give_way_if(is_refused).await;
        peeked
    }

    /// Acquires a permit for a call in flight, if fewer than [`concurrent`](Rule::concurrent) calls
    /// of the key are in flight, over all processes that share the store, and charges the rule's
    /// cost to its other limits: all of it, or nothing. The call ends when the [`Permit`] is
    /// dropped, which can be moved to a task, or into a response that is streamed.
    ///
    /// A rule with [`wait`](Rule::with_wait) waits for a permit. `enter` is not re-entrant: a call
    /// that enters the same key once more may wait for itself, until its wait is over.
    ///
    /// # Errors
    ///
    /// Every [`RateLimitError`]; `Misconfigured` also where the rule does not limit calls in
    /// flight, or the store cannot. A refused call is charged nothing and takes no permit. Where
    /// only permits are missing, [`retry_after`](RateLimitError::retry_after) is `None`.
    pub async fn enter(&self, rule: &Rule, key: &Key) -> Result<Permit, RateLimitError> {
        engine::cooperating(async { Permit::acquire([self.permit_call(rule, key)?]).await }).await
    }

    /// [`enter`](Self::enter) for several rules, each with a key of its own, of which at least one
    /// limits calls in flight: the call gets all permits and is charged for all rules, or nothing.
    ///
    /// # Errors
    ///
    /// As of `enter`; of several rules that refuse, the refusal that lasts longest. `Misconfigured`
    /// also where no rule is given.
    pub async fn enter_all<'a>(
        &self,
        calls: impl IntoIterator<Item = (&'a Rule, &'a Key)>,
    ) -> Result<Permit, RateLimitError> {
        let parts = self.stack(calls, Self::permit_call);
        engine::cooperating(async { Permit::acquire(parts?).await }).await
    }

    /// The number of calls of the key in flight, over all processes that share the store.
    ///
    /// # Errors
    ///
    /// `Unavailable` or `Misconfigured`, also where the rule does not limit calls in flight.
    pub async fn in_flight(&self, rule: &Rule, key: &Key) -> Result<u64, RateLimitError> {
        engine::cooperating(async { self.permit_call(rule, key)?.in_flight().await }).await
    }

    /// Forgets the charges and the block of the key, for all processes on the same store; `true` if
    /// there were any. Calls in flight keep their permits. Callers that wait are not woken: they
    /// ask again at the time that their last refusal named. A block that another process set during
    /// an outage stays in its memory.
    ///
    /// In a sliding window, refunds and settlements of charges made before the reset change
    /// nothing, unless a later call got the same ticket, which a burst ahead of the clock makes
    /// possible. The other algorithms keep sums, where such refunds count as those of later calls.
    ///
    /// # Errors
    ///
    /// `Misconfigured`, also where the rule limits only calls in flight. `Unavailable`: only this
    /// process forgets the key, for the calls that it answers during the outage; try again once the
    /// store is back.
    pub async fn reset(&self, rule: &Rule, key: &Key) -> Result<bool, RateLimitError> {
        let reset = async { self.limited_call(rule, key)?.forget(Store::reset).await };
        engine::cooperating(reset).await
    }

    /// Gives back the charge of an admission, also after new policies have changed the windows or
    /// the algorithm; `rule` and `key` are those of the call. `true` if any of the charge was left:
    /// it may have expired, been reset, or been given back. A sliding window gives a charge back
    /// once; the other algorithms keep sums, and give back at most the sum.
    ///
    /// # Errors
    ///
    /// `Unavailable` or `Misconfigured`: the charge may or may not have been given back.
    pub async fn refund(
        &self,
        rule: &Rule,
        key: &Key,
        admission: &Decision,
    ) -> Result<bool, RateLimitError> {
        let part = by_hand(rule, key).kept_as_charged(&self.engine, admission);
        let refund = async { engine::refund(&limited(part)?, admission).await };
        engine::cooperating(refund).await
    }

    /// Refuses the key for all processes on the same store until `duration` has passed, in place of
    /// an earlier block. A process that caches the store's answers sees the block when it asks
    /// again.
    ///
    /// # Errors
    ///
    /// `Misconfigured`, also where `duration` is zero or above [`Limit::MAX_WINDOW`].
    /// `Unavailable`: only this process blocks the key; try again once the store is back.
    pub async fn block(
        &self,
        rule: &Rule,
        key: &Key,
        duration: Duration,
    ) -> Result<(), RateLimitError> {
        engine::cooperating(async {
            if duration.is_zero() || duration > Limit::MAX_WINDOW {
                return Err(RateLimitError::misconfigured(
                    "a block lasts more than 0 and at most 366 days",
                ));
            }
            let call = self.limited_call(rule, key)?;
            call.bound.require(Feature::Block)?;
            let outcome = call
                .change(|store, request| store.block(request, duration))
                .await;
            match &outcome {
                // A key that was blocked here during an outage is blocked by the store now.
                Ok(()) => {
                    let request = call.key_request()?;
                    let _ = self.engine.fallback.forget(Store::unblock, request);
                }
                Err(RateLimitError::Unavailable(_)) => {
                    self.engine.fallback.block(call.key_request()?, duration);
                }
                Err(_) => {}
            }
            outcome
        })
        .await
    }

    /// Ends a block for all processes on the same store, and leaves the charges as they are; `true`
    /// if there was one. Forgets the key's offences, even without a block: under a rule whose block
    /// grows, the next offence counts as the first. A block that another process set during an
    /// outage stays in its memory.
    ///
    /// # Errors
    ///
    /// `Misconfigured`. `Unavailable`: only this process ends the block, for the calls that it
    /// answers during the outage; try again once the store is back.
    pub async fn unblock(&self, rule: &Rule, key: &Key) -> Result<bool, RateLimitError> {
        engine::cooperating(async {
            let call = self.limited_call(rule, key)?;
            call.bound.require(Feature::Block)?;
            call.forget(Store::unblock).await
        })
        .await
    }

    /// Lists the keys of the rule that the store holds, in pages:
    /// `while let Some(page) = keys.next_page().await?`. The list is for operators, not for
    /// requests: on Redis it goes through all keys of the server.
    #[must_use]
    pub fn keys(&self, rule: &Rule) -> Keys {
        Keys::new(self.call(rule, &Key::global()))
    }

    /// Replaces all policies of the limiter with these, in one step: each check is decided by one
    /// set, and checks made from now on by this one. Counts and blocks are kept under another
    /// `max`; other windows, or another algorithm, have their own. Calls that wait for room go on
    /// waiting under the policy that they began with.
    ///
    /// # Errors
    ///
    /// `Misconfigured` when one of the policies cannot be used, or needs a feature that the store
    /// lacks; when a policy that a check of this limiter has used is missing; or when one does not
    /// go together with a rule that has used it, such as a block with a rule that waits, unless the
    /// rule did not work before either. Then all old policies stay in force.
    pub fn set_policies(
        &self,
        policies: impl IntoIterator<Item = (impl Into<String>, Policy)>,
    ) -> Result<(), RateLimitError> {
        policies::replace(&self.engine, policies)
    }

    /// Puts the policies of a file in force, as [`set_policies`](Self::set_policies) does, and each
    /// later version of it. The file's name ends in `.toml` or `.json`; it holds policies by name.
    ///
    /// This waits for the first reading. From then on a task on the current tokio runtime reads the
    /// file twice a second, by its path, until the limiter or that runtime ends. A change is in
    /// force once two readings in a row are the same. Where a limiter watches two files, the one
    /// that changed last is in force. A file that is empty, wrong or gone changes nothing: see the
    /// event `policies_refused` and the metric `ratelimit_policy_changes_total`.
    ///
    /// # Errors
    ///
    /// `Misconfigured` when the first reading cannot be put in force, or where there is no tokio
    /// runtime.
    #[cfg(feature = "watch")]
    pub async fn watch_policies(
        &self,
        path: impl Into<std::path::PathBuf>,
    ) -> Result<(), RateLimitError> {
        policies::watch::start(&self.engine, path.into()).await
    }

    /// The policies in a file, as [`watch_policies`](Self::watch_policies) reads it: for operators'
    /// tools, whose rules keep no permits.
    #[cfg(feature = "watch")]
    #[doc(hidden)]
    pub fn policies_in(
        path: impl Into<std::path::PathBuf>,
    ) -> Result<Vec<(String, Policy)>, RateLimitError> {
        let file = policies::file::PolicyFile::new(path.into())?;
        let policies = file.policies(&file.read());
        let mut policies = policies.map_err(RateLimitError::misconfigured)?;
        for (_, policy) in &mut policies {
            (policy.terms.concurrent, policy.terms.lease) = (None, None);
        }
        Ok(policies)
    }

    /// Checks that the limiter has policies of these names: those that attributes and rules use. A
    /// service that calls this when it starts does not meet a misspelt name at its first request.
    /// From then on a set that lacks one of them is refused, as is one that lacks a policy that a
    /// rule has used.
    ///
    /// # Errors
    ///
    /// [`RateLimitError::Misconfigured`] with the names that it lacks.
    pub fn require_policies(&self, names: &[&str]) -> Result<(), RateLimitError> {
        let missing = self.engine.registry.require(names);
        if missing.is_empty() {
            return Ok(());
        }
        let policies = if missing.len() == 1 {
            "policy"
        } else {
            "policies"
        };
        Err(RateLimitError::misconfigured(format!(
            "the limiter lacks the {policies} `{}`",
            missing.join("`, `")
        )))
    }

    /// Connects to the store, if that has not begun, and waits until it can serve, as long as that
    /// takes.
    ///
    /// # Errors
    ///
    /// [`RateLimitError::Misconfigured`] as soon as the store says that waiting is in vain: a wrong
    /// password, an ACL that forbids a command or the keys, or a replica or something else in the
    /// place of a master. The store goes on trying: so may the caller.
    pub async fn ready(&self) -> Result<(), RateLimitError> {
        let engine = &self.engine;
        let ready = engine.store.ready_under(&engine.prefix).await;
        ready.map_err(Into::into)
    }

    /// Gives back units taken ahead, and waits until the store has answered all settlements and
    /// refunds that calls left behind, and, of the current tokio runtime, the releases of permits
    /// and the units given back, for at most `timeout`. It also waits for attempts at stacks that
    /// go on without their callers. A `main` calls it last: otherwise a success under
    /// `count = "err"` stays counted as a failure, and a permit stays taken until its lease ends.
    /// What calls leave behind meanwhile is waited for too: while calls go on, it may never end.
    ///
    /// An error is to be logged, not returned by `main`: what is open expires by itself.
    ///
    /// # Errors
    ///
    /// [`RateLimitError::Unavailable`] after that time, with how many settlements were open;
    /// `Misconfigured` if some are, and no tokio runtime with timers is running here.
    pub async fn settled_within(&self, timeout: Duration) -> Result<(), RateLimitError> {
        self.engine.settled_within(timeout).await
    }

    pub(crate) fn into_engine(self) -> Arc<Engine> {
        self.engine
    }

    fn estimate(&self, rule: &Rule, key: &Key) -> Result<Part, RateLimitError> {
        must_not_limit_calls_in_flight(rule)?;
        let mut check = by_hand(rule, key);
        check.reserve_estimate();
        Ok(check.kept(&self.engine))
    }

    fn call(&self, rule: &Rule, key: &Key) -> Part {
        by_hand(rule, key).kept(&self.engine)
    }

    /// A call about the limits of the rule.
    fn limited_call(&self, rule: &Rule, key: &Key) -> Result<Part, RateLimitError> {
        limited(self.call(rule, key))
    }

    /// A call that acquires a permit where the rule limits calls in flight.
    fn permit_call(&self, rule: &Rule, key: &Key) -> Result<Part, RateLimitError> {
        // A policy has limits.
        match rule.terms().set_in_vain().filter(|_| !rule.has_policy()) {
            None => Ok(by_hand(rule, key).kept_with_permit(&self.engine, None)),
            Some(setting) => Err(RateLimitError::misconfigured(format!(
                "the rule `{}` limits nothing but calls in flight: leave `{setting}` out, or set \
                 a limit as well",
                rule.name()
            ))),
        }
    }

    /// The parts of a stack.
    ///
    /// # Errors
    ///
    /// `Misconfigured` where there are none.
    fn stack<'a>(
        &self,
        calls: impl IntoIterator<Item = (&'a Rule, &'a Key)>,
        part: impl Fn(&Self, &Rule, &Key) -> Result<Part, RateLimitError>,
    ) -> Result<Vec<Part>, RateLimitError> {
        let parts = calls.into_iter().map(|(rule, key)| part(self, rule, key));
        let parts = parts.collect::<Result<Vec<_>, _>>()?;
        if parts.is_empty() {
            let why = "no rule is given: a call that nothing limits asks for nothing";
            return Err(RateLimitError::misconfigured(why));
        }
        Ok(parts)
    }
}

fn by_hand<'r>(rule: &'r Rule, key: &Key) -> CheckBuilder<'r> {
    let mut check = CheckBuilder::of(rule, None);
    check.key(key);
    check
}

/// `call`, whose rule has limits.
///
/// # Errors
///
/// `Misconfigured` for a rule without limits.
fn limited(call: Part) -> Result<Part, RateLimitError> {
    if call.is_limited() {
        return Ok(call);
    }
    let rule = call.bound.name.as_str();
    Err(RateLimitError::misconfigured(format!(
        "the rule `{rule}` limits nothing but calls in flight, which release their permits when they end"
    )))
}

/// `Ok` if the rule does not limit calls in flight.
///
/// # Errors
///
/// `Misconfigured` for a rule that limits calls in flight: only a permit tells when a call ends.
fn must_not_limit_calls_in_flight(rule: &Rule) -> Result<(), RateLimitError> {
    match rule.concurrent() {
        None => Ok(()),
        Some(_) => Err(RateLimitError::misconfigured(format!(
            "the rule `{}` limits calls in flight: call `enter`, and keep the permit until the call ends",
            rule.name()
        ))),
    }
}

/// State that a panic interrupts is behind locks, or dropped with the call.
impl UnwindSafe for RateLimiter {}
impl RefUnwindSafe for RateLimiter {}

impl fmt::Debug for RateLimiter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RateLimiter")
            .field("prefix", &self.engine.prefix)
            .field("timeout", &self.engine.timeout)
            .field("on_unavailable", &self.engine.on_unavailable)
            .finish_non_exhaustive()
    }
}
