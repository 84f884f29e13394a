//! [`Inquiry`]: one of the two things that a part asks for, room in its limits or a permit, each
//! with a key of its own. A look at it charges nothing.

use tokio::time::Instant;

use super::part::{At, Part};
use super::permit::PermitCheck;
use super::state::QueueKey;
use super::timeout::{Boxed, Time, all};
use crate::decision::{Decision, Source};
use crate::error::{RateLimitError, StoreError};
use crate::store::{Request, Store as _};

/// One of the two inquiries of a part. Each has a key of its own, which may refuse.
#[derive(Clone, Copy)]
pub(super) struct Inquiry<'a> {
    /// The index of the part in its stack.
    pub(super) at: usize,
    pub(super) part: &'a Part,
    /// The permit asked for; `None` for room in the limits.
    pub(super) permit: Option<&'a PermitCheck>,
}

impl<'a> Inquiry<'a> {
    /// The inquiries of a part: first the limits, if it has any, then the permit, if it has one.
    pub(super) fn of((at, part): At<'a>) -> impl Iterator<Item = Self> {
        let limits = part.is_limited().then_some(None);
        let both = limits.into_iter().chain(part.permit.as_deref().map(Some));
        both.map(move |permit| Self { at, part, permit })
    }

    pub(super) fn key(&self) -> &'a [u8] {
        let limits = || self.part.check().request.key();
        self.permit.map_or_else(limits, |permit| &permit.key)
    }

    /// The queue in which its callers wait.
    pub(super) fn queue(&self) -> QueueKey<'a> {
        QueueKey {
            key: self.key(),
            policies: self.part.bound.origin.policies,
        }
    }

    pub(super) fn cost(&self) -> u64 {
        let limits = || self.part.check().request.cost();
        self.permit.map_or_else(limits, |_| 1)
    }

    /// The decision for this `cost`, which is more than the inquiry's own if other parts of the
    /// stack ask for the same key.
    pub(super) async fn look(self, cost: u64, time: Time) -> Result<Decision, StoreError> {
        if let Some(permit) = self.permit {
            let others = self.part.ask_in_flight(permit, time).await?;
            let others = others.saturating_add(cost - 1);
            return Ok(permit.decision(others, Source::Store));
        }
        let (engine, check) = (&self.part.engine, self.part.check());
        let request = Request {
            cost,
            ..time.of(check.request)
        };
        let mut answer = engine.store.peek(request);
        let verdict = engine.answered(time, &mut answer).await;
        verdict.map(|verdict| check.decision(&verdict))
    }

    /// The decision for the inquiry's own cost; by `on_unavailable`, if the store gives no answer.
    async fn peek(self, time: Time) -> Result<Decision, RateLimitError> {
        let (engine, check) = (&self.part.engine, self.part.check());
        let is_limits = self.permit.is_none();
        if let Some(blocked) = engine.blocked(&check).filter(|_| is_limits) {
            return Ok(blocked);
        }
        let error = match self.look(self.cost(), time).await {
            Ok(decision) => return Ok(decision),
            Err(error) => error,
        };
        let known = engine.known_refusal(&check, &error);
        if let Some(refusal) = known.filter(|_| is_limits) {
            return Ok(refusal);
        }
        let source = engine.outage_source(&check, &error).ok_or(error)?;
        Ok(match (self.permit, source) {
            (Some(permit), Source::Fallback) => {
                permit.decision(engine.permits.count(&permit.key), source)
            }
            (Some(permit), _) => permit.decision(0, source),
            (None, Source::Fallback) => {
                check.fallback_decision(&engine.fallback.peek(&check.request))
            }
            (None, _) => check.unchecked(),
        })
    }
}

impl Part {
    /// Decides without charging or acquiring a permit.
    pub(crate) async fn peek(&self) -> Result<Decision, RateLimitError> {
        match self.ensure_supported() {
            Err(RateLimitError::Exceeded(refusal)) => return Ok(refusal),
            supported => supported?,
        }
        let time = self.time(Instant::now());
        // At once: one timeout is for both.
        let asked = Inquiry::of((0, self)).map(|inquiry| inquiry.peek(time));
        let decided = all(asked.map(|asked| Box::pin(asked) as Boxed<'_, _>)).await;
        let decided: Vec<Decision> = decided.into_iter().collect::<Result<_, _>>()?;
        // A refusal by the limits, which knows its end, before one for want of a permit.
        let refusal = decided.iter().find(|decision| !decision.is_allowed());
        let strictest = refusal.or(decided.first()).copied();
        strictest.ok_or_else(|| self.no_concurrent())
    }
}
