//! From checks to an answer: the store by its deadline, the policy where it gives none.

use std::time::Duration;

use crate::check::Check;
use crate::decision::{Decision, Source};
use crate::error::{RateLimitError, StoreError, StoreErrorKind};
use crate::limit::Limit;
use crate::rule::OnUnavailable;
use crate::store::{Answer, Request, Verdict};

/// Asks one check, and waits for a slot if its rule says so.
pub(crate) async fn patiently(check: &Check) -> Result<Decision, RateLimitError> {
    if check.patience.is_zero() || check.shadow {
        return one(check).await;
    }
    // Boxed, so that rules that do not wait have a small future.
    let mut decisions = Box::pin(check.limiter.inner().lines.wait(&[check], check.patience)).await?;
    decisions.pop().ok_or_else(|| RateLimitError::misconfigured("nothing was asked"))
}

/// Asks several checks together, and waits for slots as long as the least patient of them.
pub(crate) async fn all_patiently(checks: &[&Check]) -> Result<Vec<Decision>, RateLimitError> {
    let binding = || checks.iter().filter(|check| !check.shadow);
    let patience = binding().map(|check| check.patience).min().unwrap_or_default();
    match binding().next() {
        Some(first) if !patience.is_zero() => Box::pin(first.limiter.inner().lines.wait(checks, patience)).await,
        _ => all(checks).await,
    }
}

/// Asks one check.
pub(crate) async fn one(check: &Check) -> Result<Decision, RateLimitError> {
    let outcome = match check.request() {
        Ok(request) => match by_deadline(check.deadline, check.limiter.inner().store.acquire(request)).await {
            Ok(verdict) => judged(decision(check, &verdict)),
            Err(error) => without_store(check, error),
        },
        Err(error) => Err(error),
    };
    if check.shadow { Ok(shadowed(check, outcome)) } else { outcome }
}

/// Asks several checks together: all are charged, or none. The decisions are in the order of the checks.
///
/// A check in shadow mode has no say. It is asked once the others have admitted the call.
pub(crate) async fn all(checks: &[&Check]) -> Result<Vec<Decision>, RateLimitError> {
    if let [check] = checks {
        return Ok(vec![one(check).await?]);
    }
    let mut decisions: Vec<Option<Decision>> = vec![None; checks.len()];
    let binding: Vec<usize> =
        (0..checks.len()).filter(|&at| checks.get(at).is_some_and(|check| !check.shadow)).collect();
    let mut charged: Vec<usize> = Vec::new();
    for group in by_limiter(checks, &binding) {
        let members: Vec<&Check> = group.iter().filter_map(|&at| checks.get(at).copied()).collect();
        match group_of_one_limiter(&members).await {
            Ok(decided) => {
                for (&at, decision) in group.iter().zip(decided) {
                    if let Some(slot) = decisions.get_mut(at) {
                        *slot = Some(decision);
                    }
                }
                charged.extend(group);
            }
            Err(error) => {
                // Limiters do not know of each other: what one has charged is given back.
                for at in charged {
                    if let (Some(check), Some(Some(decision))) = (checks.get(at), decisions.get(at)) {
                        crate::settle::give_back(check, decision.ticket);
                    }
                }
                return Err(error);
            }
        }
    }
    let mut all = Vec::with_capacity(checks.len());
    for (check, decision) in checks.iter().zip(decisions) {
        all.push(match decision {
            Some(decision) => decision,
            None => one(check).await?,
        });
    }
    Ok(all)
}

/// The indices of the checks, one list per limiter, in written order.
fn by_limiter(checks: &[&Check], indices: &[usize]) -> Vec<Vec<usize>> {
    let mut groups: Vec<Vec<usize>> = Vec::new();
    for &at in indices {
        let id = |at: usize| checks.get(at).map(|check| check.limiter.inner().id);
        match groups.iter_mut().find(|group| group.first().is_some_and(|&first| id(first) == id(at))) {
            Some(group) => group.push(at),
            None => groups.push(vec![at]),
        }
    }
    groups
}

async fn group_of_one_limiter(checks: &[&Check]) -> Result<Vec<Decision>, RateLimitError> {
    let [first, ..] = checks else { return Ok(Vec::new()) };
    if checks.len() == 1 {
        return Ok(vec![one(first).await?]);
    }
    let requests = checks.iter().map(|check| check.request()).collect::<Result<Vec<Request<'_>>, _>>()?;
    let deadline = checks.iter().map(|check| check.deadline).min().unwrap_or_default();
    match by_deadline(deadline, first.limiter.inner().store.acquire_all(&requests)).await {
        Ok(verdicts) => {
            let decisions = checks.iter().zip(&verdicts).map(|(check, verdict)| decision(check, verdict));
            let decisions: Vec<Decision> = decisions.collect();
            // The refusal that takes longest to end speaks for all.
            let refusals = decisions.iter().filter(|decision| !decision.is_allowed());
            match refusals
                .reduce(|worst, other| if other.retry_after_us > worst.retry_after_us { other } else { worst })
            {
                Some(refusal) => Err(RateLimitError::Exceeded(*refusal)),
                None => Ok(decisions),
            }
        }
        Err(error) => checks.iter().map(|check| without_store(check, error.clone())).collect(),
    }
}

/// Decides without charging.
pub(crate) async fn peek(check: &Check) -> Result<Decision, RateLimitError> {
    let request = check.request()?;
    match by_deadline(check.deadline, check.limiter.inner().store.peek(request)).await {
        Ok(verdict) => Ok(decision(check, &verdict)),
        Err(error) => without_store(check, error),
    }
}

/// Waits for an answer until the deadline, whatever the store does meanwhile.
pub(crate) async fn by_deadline<T: Unpin>(deadline: Duration, answer: Answer<'_, T>) -> Result<T, StoreError> {
    let answer = match answer.now() {
        Ok(result) => return result,
        Err(answer) => answer,
    };
    if tokio::runtime::Handle::try_current().is_err() {
        return Err(StoreError::misconfigured("a check on this store needs a tokio runtime, and none is running here"));
    }
    match tokio::time::timeout(deadline, answer).await {
        Ok(result) => result,
        Err(_) => Err(StoreError::unavailable(format!("no answer from the store within {deadline:?}"))),
    }
}

/// The answer of the policy when the store gave none.
fn without_store(check: &Check, error: StoreError) -> Result<Decision, RateLimitError> {
    match (error.kind(), check.on_unavailable) {
        (StoreErrorKind::Unavailable, OnUnavailable::Allow) => {
            tracing::debug!(rule = check.name, %error, "a call goes on unchecked: the store is unavailable");
            Ok(Decision::unchecked(check.name, check.capacity()))
        }
        _ => Err(error.into()),
    }
}

fn judged(decision: Decision) -> Result<Decision, RateLimitError> {
    if decision.is_allowed() { Ok(decision) } else { Err(RateLimitError::Exceeded(decision)) }
}

fn shadowed(check: &Check, outcome: Result<Decision, RateLimitError>) -> Decision {
    match outcome {
        Ok(decision) => decision,
        Err(RateLimitError::Exceeded(decision)) => {
            tracing::info!(rule = decision.rule(), "a call that the limit refuses runs: the rule is in shadow mode");
            decision
        }
        Err(error) => {
            tracing::warn!(rule = check.name, %error, "a check failed and its call runs: the rule is in shadow mode");
            Decision::unchecked(check.name, check.capacity())
        }
    }
}

fn decision(check: &Check, verdict: &Verdict) -> Decision {
    Decision {
        rule: check.name,
        limit: check.limits.get(verdict.limit_index).map_or(0, Limit::max),
        remaining: verdict.remaining,
        retry_after_us: verdict.retry_after_us,
        reset_after_us: verdict.reset_after_us,
        ticket: verdict.ticket,
        limit_index: u8::try_from(verdict.limit_index).unwrap_or(u8::MAX),
        source: Source::Store,
        allowed: verdict.allowed,
        degraded: false,
        banned: verdict.banned,
    }
}
