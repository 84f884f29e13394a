//! [`DenyCache`]: what a Redis store knows, around any store.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use ratelimit_runtime::__private::{
    BuiltInStore, Health, Known, PermitRequest, PermitVerdict, Sealed,
};
use ratelimit_runtime::Store;
use ratelimit_runtime::clock::Clock;
use ratelimit_runtime::store::{Answer, Request, Settled, StoreError, StoreErrorKind, Verdict};

/// A layer that repeats refusals as `RedisStore` does.
pub(crate) struct DenyCache<S> {
    inner: S,
    known: Known,
}

impl<S: Store> DenyCache<S> {
    pub(crate) fn new(inner: S) -> Self {
        Self::of_connections(inner, Arc::default())
    }

    /// Of a store that connects anew as often as `epoch` says.
    pub(crate) fn of_connections(inner: S, epoch: Arc<AtomicU64>) -> Self {
        let known = Known::new(epoch);
        Self { inner, known }
    }

    pub(crate) fn with_capacity(mut self, refusals: usize) -> Self {
        self.known.set_capacity(refusals);
        self
    }

    pub(crate) fn with_staleness(mut self, staleness: Duration) -> Self {
        self.known.set_staleness(staleness);
        self
    }

    pub(crate) fn with_clock(mut self, clock: impl Clock) -> Self {
        self.known.set_clock(clock);
        self
    }

    fn built_in_inner(&self) -> Result<&dyn BuiltInStore, StoreError> {
        let none = || StoreError::new(StoreErrorKind::Unsupported, "a store of another crate");
        self.inner.built_in(Sealed).ok_or_else(none)
    }

    fn is_away(&self, request: &Request<'_>) -> bool {
        self.built_in_inner()
            .is_ok_and(|inner| inner.health(request) != Health::Up)
    }

    fn changing<'a, T: Unpin + Send + 'a>(
        &'a self,
        request: Request<'a>,
        answer: Answer<'a, T>,
    ) -> Answer<'a, T> {
        Answer::later(async move {
            let _changing = self.known.changing(request.key());
            answer.await
        })
    }
}

impl<S: Store> Store for DenyCache<S> {
    fn inner(&self) -> Option<&dyn Store> {
        Some(&self.inner)
    }

    fn acquire<'a>(&'a self, request: Request<'a>) -> Answer<'a, Verdict> {
        match self.known.look_up(&request, || self.is_away(&request)) {
            Ok(refusal) => Answer::ready(Ok(refusal)),
            Err(lookup) => Answer::later(async move {
                let verdict = self.inner.acquire(request).await?;
                Ok(self.known.note_decision(&request, lookup, verdict))
            }),
        }
    }

    fn peek<'a>(&'a self, request: Request<'a>) -> Answer<'a, Verdict> {
        Answer::later(async move {
            let lookup = self.known.lookup(&request);
            let verdict = self.inner.peek(request).await?;
            Ok(self.known.note_look(&request, lookup, verdict))
        })
    }

    fn reset<'a>(&'a self, request: Request<'a>) -> Answer<'a, bool> {
        self.changing(request, self.inner.reset(request))
    }

    fn refund<'a>(&'a self, request: Request<'a>, ticket: u64) -> Answer<'a, bool> {
        self.changing(request, self.inner.refund(request, ticket))
    }

    fn settle<'a>(&'a self, request: Request<'a>, ticket: u64, cost: u64) -> Answer<'a, Settled> {
        self.changing(request, self.inner.settle(request, ticket, cost))
    }

    fn block<'a>(&'a self, request: Request<'a>, duration: Duration) -> Answer<'a, ()> {
        self.changing(request, self.inner.block(request, duration))
    }

    fn unblock<'a>(&'a self, request: Request<'a>) -> Answer<'a, bool> {
        self.changing(request, self.inner.unblock(request))
    }

    fn built_in(&self, _: Sealed) -> Option<&dyn BuiltInStore> {
        Some(self)
    }
}

impl<S: Store> BuiltInStore for DenyCache<S> {
    fn decides_together(&self, permit: Option<&PermitRequest>, requests: &[Request<'_>]) -> bool {
        self.built_in_inner()
            .is_ok_and(|inner| inner.decides_together(permit, requests))
    }

    fn offend<'a>(&'a self, request: Request<'a>) -> Answer<'a, Verdict> {
        Answer::later(async move {
            let lookup = self.known.lookup(&request);
            let verdict = self.built_in_inner()?.offend(request).await?;
            Ok(self.known.note_refusal(&request, lookup, verdict))
        })
    }

    fn acquire_all<'a>(
        &'a self,
        permit: Option<PermitRequest>,
        requests: &'a [Request<'a>],
    ) -> Answer<'a, PermitVerdict> {
        Answer::later(async move {
            let lookups = self.known.lookups(requests);
            let verdict = self.built_in_inner()?.acquire_all(permit, requests).await?;
            self.known
                .note_stack(requests, lookups, &verdict.verdicts, verdict.is_acquired());
            Ok(verdict)
        })
    }

    fn release_permit(&self, permit: &PermitRequest) {
        if let Ok(inner) = self.built_in_inner() {
            inner.release_permit(permit);
        }
    }

    fn in_flight(&self, permit: PermitRequest) -> Answer<'_, u64> {
        Answer::later(async move { self.built_in_inner()?.in_flight(permit).await })
    }

    fn health(&self, request: &Request<'_>) -> Health {
        self.built_in_inner()
            .map_or(Health::Up, |inner| inner.health(request))
    }

    fn known_refusal(&self, request: &Request<'_>, is_away: bool) -> Option<Verdict> {
        self.known
            .refusal(request, || is_away || self.is_away(request))
    }
}
