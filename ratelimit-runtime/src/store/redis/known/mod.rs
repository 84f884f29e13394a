//! [`Known`]: answers that a store gives without asking its server.
//!
//! A flood of refused calls would cost the server a call each. A refusal tells when its request
//! will be admitted at the earliest. Until then this process itself refuses all requests that have
//! the same key, algorithm, limits (with every `max`) and block, and cost no less; by a block,
//! whatever their cost and block. For a higher cost the wait is a lower bound, and for a lower one
//! the time until the block ends. Behind a block, a wait that only open reservations cause is not
//! repeated: the server begins it anew with each answer.
//!
//! - **Known** from decisions, and from looks and refused stacks if the request has no block or is
//!   refused by one. A decision would set a block that is not set yet.
//! - **Held from the time of sending**: a unit that the server frees is free here. The wait counts
//!   from the reply, so it is never too short.
//! - **Never older than a second**: changes made elsewhere are seen as late. A refusal by a block
//!   is held longer while the server is away.
//! - **Void at once** by changes of the key through this store, also by units given back, along
//!   with refusals that are on their way, and by a new connection to the key's server.
//! - **Bounded** in number: of a few refusals, the one that was longest not used makes room.
//!
//! Units taken ahead by rules with `prefetch` are the other half: [`Grants`] admits by them.
//!
//! Errors, refusals for lack of a permit, of [rounded](Verdict::rounded) length, and for units that
//! this runtime has taken ahead never become known.

use std::fmt;
use std::sync::Arc;
#[cfg(feature = "_tests")]
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use once_cell::sync::OnceCell;

pub(crate) use self::fetch::Fetch;
pub(crate) use self::grant::Grant;
use self::grants::{Grants, GrantsHeld, MOST_GRANTS};
use self::moment::{Moment, micros};
use self::refusals::{Miss, Refusals};
use crate::clock::Clock;
use crate::clock::of_tokio::TokioClock;
use crate::pace::READY_TASKS_RUN;
use crate::store::redis::settings::epochs::Epochs;
use crate::store::{Request, Verdict};

mod fetch;
mod grant;
mod grants;
mod known_key;
mod moment;
mod recent;
mod refusals;
mod sets;

/// The refusals that a store knows, and the units that it has taken ahead.
pub struct Known {
    refusals: Refusals,
    /// The grants, made for the first rule with `prefetch`.
    grants: OnceCell<Arc<Grants>>,
    /// Tokio's clock, unless the store takes its time from this process.
    clock: Arc<dyn Clock>,
    is_own_clock: bool,
    /// The counts of reconnections: a new connection may lead to a server that has lost its data.
    epochs: Epochs,
}

/// The look-up of a request before the server is asked: the refusals known of it, and the time.
#[derive(Debug, Clone, Copy)]
pub struct Lookup(Miss, Moment);

impl Known {
    /// The number of refusals for which there is room by default.
    pub const CAPACITY: usize = 8_192;

    /// The knowledge of a store whose connections `epoch` counts.
    #[cfg(feature = "_tests")]
    #[must_use]
    pub fn new(epoch: Arc<AtomicU64>) -> Self {
        Self::of(Epochs::of_one(epoch))
    }

    /// Room for 8,192 refusals that hold for a second, of the connections that `epochs` counts.
    pub(crate) fn of(epochs: Epochs) -> Self {
        Self {
            refusals: Refusals::new(Self::CAPACITY, micros(Duration::from_secs(1))),
            grants: OnceCell::new(),
            clock: Arc::new(TokioClock::new()),
            is_own_clock: false,
            epochs,
        }
    }

    /// Makes room for about this many refusals; with 0 none becomes known. A refusal takes some 180
    /// bytes and its key; empty room takes 8 bytes for each.
    pub fn set_capacity(&mut self, refusals: usize) {
        self.refusals = Refusals::new(refusals, self.refusals.staleness);
    }

    /// Sets how old a refusal may be: a second by default.
    #[cfg(feature = "_tests")]
    pub fn set_staleness(&mut self, staleness: Duration) {
        self.refusals.staleness = micros(staleness);
    }

    /// Sets the clock that the store goes by, if it takes its time from this process. Otherwise
    /// time is tokio's monotonic clock.
    pub fn set_clock(&mut self, clock: impl Clock) {
        self.clock = Arc::new(clock);
        self.is_own_clock = true;
    }

    /// `true` if refusals become known.
    pub(crate) fn is_on(&self) -> bool {
        self.refusals.has_room()
    }

    fn now(&self, request: &Request<'_>) -> Moment {
        Moment::new(self.clock.now(), &self.epochs, request.key())
    }

    fn find(&self, request: &Request<'_>, is_away: impl FnOnce() -> bool) -> Result<Verdict, Miss> {
        self.refusals.find(request, || self.now(request), is_away)
    }

    /// The known refusal of a request that still holds; also an old one by a block, if the server
    /// of the key is away.
    pub fn refusal(
        &self,
        request: &Request<'_>,
        is_away: impl FnOnce() -> bool,
    ) -> Option<Verdict> {
        self.find(request, is_away).ok()
    }

    /// The known [`refusal`](Self::refusal) of a request.
    ///
    /// # Errors
    ///
    /// If none is known: ask the server, and give its verdict to
    /// [`note_decision`](Self::note_decision).
    pub fn look_up(
        &self,
        request: &Request<'_>,
        is_away: impl FnOnce() -> bool,
    ) -> Result<Verdict, Lookup> {
        // The request is sent later: a refusal that holds from here on also holds from then on.
        self.find(request, is_away)
            .map_err(|miss| Lookup(miss, self.now(request)))
    }

    /// The look-up of a request that the server is asked whatever is known.
    #[must_use]
    pub fn lookup(&self, request: &Request<'_>) -> Lookup {
        Lookup(self.refusals.miss(request), self.now(request))
    }

    /// The [`lookup`](Self::lookup) of each request, if refusals become known.
    #[must_use]
    pub fn lookups(&self, requests: &[Request<'_>]) -> Vec<Lookup> {
        let requests = requests.iter().filter(|_| self.is_on());
        requests.map(|request| self.lookup(request)).collect()
    }

    /// Notes the verdict of a decision: adds a refusal; drops the key's refusals after an
    /// admission.
    pub fn note_decision(
        &self,
        request: &Request<'_>,
        lookup: Lookup,
        verdict: Verdict,
    ) -> Verdict {
        if verdict.allowed {
            self.refusals.forget_of(lookup.0.hash, request.key());
        }
        self.note_refusal(request, lookup, verdict)
    }

    /// Notes the verdict of a question that charges nothing, and sets the block of its request:
    /// adds a refusal, unless units that are held here may be its reason: the call that has them
    /// given back must not find it. The refusal of a server whose clock is behind also waits for
    /// the clock, and is added as any other.
    pub fn note_refusal(
        &self,
        request: &Request<'_>,
        Lookup(miss, sent_at): Lookup,
        verdict: Verdict,
    ) -> Verdict {
        if !verdict.allowed
            && !verdict.rounded
            && verdict.retry_after_us != Verdict::NEVER
            && !self.is_refused_for(&mut GrantsHeld::new(), request, &verdict)
        {
            self.refusals
                .add(request, miss, sent_at, self.now(request), verdict);
        }
        verdict
    }

    /// Notes the verdict of a look: adds a refusal, unless the request has a block that is not set
    /// yet, which a decision would set. A look that admits drops none, as it may be for a higher
    /// cost.
    pub fn note_look(&self, request: &Request<'_>, lookup: Lookup, verdict: Verdict) -> Verdict {
        if verdict.blocked || request.block.first_us() == 0 {
            self.note_refusal(request, lookup, verdict)
        } else {
            verdict
        }
    }

    /// Notes the verdicts of a stack: drops the refusals of its keys if it was charged; else adds
    /// its refusals, each as of a look.
    pub fn note_stack(
        &self,
        requests: &[Request<'_>],
        lookups: Vec<Lookup>,
        verdicts: &[Verdict],
        is_charged: bool,
    ) {
        for ((request, lookup), verdict) in requests.iter().zip(lookups).zip(verdicts) {
            let is_of = |other: &&Request<'_>| other.key() == request.key();
            if is_charged {
                let _ = self.note_decision(request, lookup, *verdict);
            } else if requests.iter().filter(is_of).count() == 1 {
                // A key that stands twice is refused for the cost of both.
                let _ = self.note_look(request, lookup, *verdict);
            }
        }
    }

    /// `true` if a grant has, or may get, units for the request.
    pub(crate) fn has_grant(&self, request: &Request<'_>) -> bool {
        let grants = self.grants.get();
        grants.is_some_and(|grants| grants.of(request).is_some())
    }

    /// The admission of a request by units taken ahead. Units on their way are awaited, which takes
    /// no longer than asking, as often as the caller `may_wait`.
    pub(crate) async fn spend_in_turn(
        &self,
        request: &Request<'_>,
        may_wait: impl Fn() -> bool,
    ) -> Option<Verdict> {
        let grants = self.grants.get()?;
        // Where one is used up meanwhile, another caller may be fetching the next one.
        for _ in 0..=MOST_GRANTS {
            let (grant, is_waited_for) = grants.of(request)?;
            if is_waited_for {
                // Those who were woken are ready: behind them.
                READY_TASKS_RUN.pass().await;
            }
            let mut waiting = grant.waiting();
            let is_on_its_way = !*waiting.borrow();
            if is_on_its_way && may_wait() {
                grant.fetched(&mut waiting).await;
            }
            let spent = grant.spend(request.cost(), grants.now(request.key()));
            if spent.is_some() {
                return spent;
            }
        }
        None
    }

    /// The admission of a request by units of its key that were taken ahead, if enough are left.
    pub(crate) fn spend(&self, request: &Request<'_>) -> Option<Verdict> {
        self.grants.get()?.spend(request)
    }

    /// The task that takes units ahead, if the key is busy.
    pub(crate) fn fetch(&self, request: &Request<'_>) -> Option<Fetch> {
        let grants = self.grants.get_or_init(|| {
            let own_clock = self.is_own_clock.then(|| Arc::clone(&self.clock));
            let refusals = self.refusals.clone();
            Arc::new(Grants::new(own_clock, self.epochs.clone(), refusals))
        });
        let wanted = grants.wanted(request)?;
        Some(Fetch::new(grants, wanted))
    }

    /// The grants of a key that hold units of this runtime, before the server is asked.
    pub(crate) fn held(&self, key: &[u8]) -> GrantsHeld {
        let grants = self.grants.get();
        let mut held = grants.map_or_else(GrantsHeld::new, |grants| grants.held(key));
        held.retain(|grant| grant.owes() > 0);
        held
    }

    /// `true` if the units in `held`, now or when the server was asked, may be the reason for a
    /// refusal.
    pub(crate) fn is_refused_for(
        &self,
        held: &mut GrantsHeld,
        request: &Request<'_>,
        refusal: &Verdict,
    ) -> bool {
        for grant in self.held(request.key()) {
            if !held.iter().any(|other| Arc::ptr_eq(other, &grant)) {
                held.push(grant);
            }
        }
        held.retain(|grant| grant.owes() > 0);
        let units: u64 = held.iter().map(|grant| grant.owes()).sum();
        units > 0 && !refusal.blocked && refusal.remaining + units >= request.cost()
    }

    /// Gives back the units of these grants, and waits until the server has answered to those of
    /// this runtime.
    pub(crate) async fn gave_back(&self, held: &[Arc<Grant>]) {
        self.give_back(held);
        for grant in held {
            grant.given_back().await;
        }
    }

    /// Gives back the units of these grants in the background.
    pub(crate) fn give_back(&self, held: &[Arc<Grant>]) {
        if let Some(grants) = self.grants.get() {
            for grant in held {
                grants.end(grant);
            }
        }
    }

    /// All units taken ahead, on all runtimes.
    pub(crate) fn all_held(&self) -> Vec<Arc<Grant>> {
        let grants = self.grants.get();
        grants.map_or_else(Vec::new, |grants| grants.all())
    }

    /// Must be held by an operation that changes a key. Dropping it drops the key's refusals, also
    /// when the operation is given up, as it may have been carried out.
    pub fn changing<'a>(&'a self, key: &'a [u8]) -> Changing<'a> {
        Changing {
            known: self,
            key,
            voids: false,
        }
    }

    /// [`changing`](Self::changing) for an operation that also voids the key's units taken ahead,
    /// now and, if they are still being fetched, when it is over. They are given back.
    pub fn voiding<'a>(&'a self, key: &'a [u8]) -> Changing<'a> {
        let changing = Changing {
            known: self,
            key,
            voids: true,
        };
        changing.void_grants();
        changing
    }
}

/// Forgets a key's refusals when dropped.
#[must_use = "dropping it forgets the key"]
pub struct Changing<'a> {
    known: &'a Known,
    key: &'a [u8],
    /// `true` if units taken ahead are void.
    voids: bool,
}

impl Changing<'_> {
    fn void_grants(&self) {
        if let Some(grants) = self.known.grants.get().filter(|_| self.voids) {
            self.known.give_back(&grants.held(self.key));
        }
    }
}

impl Drop for Changing<'_> {
    fn drop(&mut self) {
        self.known.refusals.forget(self.key);
        self.void_grants();
    }
}

impl fmt::Debug for Known {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Known").finish_non_exhaustive()
    }
}

impl fmt::Debug for Changing<'_> {
    /// Without the key, which may hold personal data.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Changing").finish_non_exhaustive()
    }
}
