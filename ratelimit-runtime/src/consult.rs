//! From checks to an answer: the store by its deadline, the policy where it gives none.

use std::time::Duration;

use crate::check::Check;
use crate::decision::{Decision, Source};
use crate::error::{RateLimitError, StoreError, StoreErrorKind};
use crate::limit::Limit;
use crate::rule::OnUnavailable;
use crate::settle;
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

/// Asks several checks together, and waits for slots as long as those that refuse say.
pub(crate) async fn all_patiently(checks: &[&Check]) -> Result<Vec<Decision>, RateLimitError> {
    let binding = || checks.iter().filter(|check| !check.shadow);
    let patience = binding().map(|check| check.patience).max().unwrap_or_default();
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
/// Checks of one limiter whose store can do it are decided in one step. Between steps, what was charged is given back
/// when a later step refuses or fails, and when the caller drops this future.
///
/// A check in shadow mode has no say. It is asked once the others have admitted the call.
pub(crate) async fn all(checks: &[&Check]) -> Result<Vec<Decision>, RateLimitError> {
    if let [check] = checks {
        return Ok(vec![one(check).await?]);
    }
    let mut decisions: Vec<Option<Decision>> = vec![None; checks.len()];
    let mut charged = Charged::default();
    let mut steps = steps(checks).into_iter();
    while let Some(step) = steps.next() {
        let members: Vec<&Check> = step.iter().filter_map(|&at| checks.get(at).copied()).collect();
        match together(&members).await {
            Ok(decided) => {
                for ((at, check), decision) in step.into_iter().zip(members).zip(decided) {
                    charged.0.push((check, decision.ticket()));
                    if let Some(slot) = decisions.get_mut(at) {
                        *slot = Some(decision);
                    }
                }
            }
            Err(RateLimitError::Exceeded(mut refusal)) => {
                drop(charged);
                // The refusal that takes longest to end speaks for all.
                for check in steps.flatten().filter_map(|at| checks.get(at)) {
                    if let Ok(other) = peek(check).await {
                        refusal = longer(refusal, other);
                    }
                }
                return Err(RateLimitError::Exceeded(refusal));
            }
            Err(error) => return Err(error),
        }
    }
    charged.0.clear();
    let mut all = Vec::with_capacity(checks.len());
    for (check, decision) in checks.iter().zip(decisions) {
        all.push(match decision {
            Some(decision) => decision,
            None => one(check).await?,
        });
    }
    Ok(all)
}

/// What earlier steps have charged; given back unless all steps admit.
#[derive(Default)]
struct Charged<'a>(Vec<(&'a Check, u64)>);

impl Drop for Charged<'_> {
    fn drop(&mut self) {
        for (check, ticket) in self.0.drain(..) {
            settle::give_back(check, ticket);
        }
    }
}

fn longer(a: Decision, b: Decision) -> Decision {
    if b.retry_after_us > a.retry_after_us { b } else { a }
}

/// The checks that have a say, by their indices, in the order in which they are asked: those that one store decides
/// in one step are one.
fn steps(checks: &[&Check]) -> Vec<Vec<usize>> {
    let mut steps: Vec<(u64, Vec<usize>)> = Vec::new();
    for (at, check) in checks.iter().enumerate().filter(|(_, check)| !check.shadow) {
        let id = check.limiter.inner().id;
        match steps.iter_mut().find(|(limiter, _)| *limiter == id) {
            Some((_, step)) => step.push(at),
            None => steps.push((id, vec![at])),
        }
    }
    let divided = steps.into_iter().flat_map(|(_, step)| {
        let members = step.iter().filter_map(|&at| checks.get(at));
        let requests: Vec<Request<'_>> = members.clone().filter_map(|check| check.any_request().ok()).collect();
        let store = members.clone().next().map(|check| &check.limiter.inner().store);
        if step.len() == 1 || store.is_some_and(|store| store.decides_together(&requests)) {
            vec![step]
        } else {
            step.into_iter().map(|at| vec![at]).collect()
        }
    });
    divided.collect()
}

/// Asks checks that one store decides in one step.
async fn together(checks: &[&Check]) -> Result<Vec<Decision>, RateLimitError> {
    let [first, ..] = checks else { return Ok(Vec::new()) };
    if checks.len() == 1 {
        return Ok(vec![one(first).await?]);
    }
    let requests = checks.iter().map(|check| check.request()).collect::<Result<Vec<Request<'_>>, _>>()?;
    let deadline = checks.iter().map(|check| check.deadline).min().unwrap_or_default();
    match by_deadline(deadline, first.limiter.inner().store.acquire_all(&requests)).await {
        Ok(verdicts) => {
            let decisions: Vec<Decision> =
                checks.iter().zip(&verdicts).map(|(check, verdict)| decision(check, verdict)).collect();
            match decisions.iter().filter(|decision| !decision.is_allowed()).copied().reduce(longer) {
                Some(refusal) => Err(RateLimitError::Exceeded(refusal)),
                None => Ok(decisions),
            }
        }
        Err(error) => together_without_store(checks, &requests, error),
    }
}

/// The answer of the policies to checks of one store that gave none: those that say `local` are charged all or none.
fn together_without_store(
    checks: &[&Check],
    requests: &[Request<'_>],
    error: StoreError,
) -> Result<Vec<Decision>, RateLimitError> {
    let policies: Vec<Fallback> = checks.iter().map(|check| Fallback::of(check, &error)).collect();
    let [first, ..] = checks else { return Ok(Vec::new()) };
    if policies.contains(&Fallback::Refuse) {
        return Err(error.into());
    }
    let pairs = requests.iter().zip(&policies).filter(|(_, policy)| **policy == Fallback::Local);
    let local: Vec<Request<'_>> = pairs.map(|(request, _)| *request).collect();
    let mut verdicts = first.limiter.inner().local.acquire_all(&local)?.into_iter();
    let decisions = checks.iter().zip(policies).map(|(check, policy)| match policy {
        Fallback::Local => verdicts.next().map_or_else(|| unchecked(check), |verdict| degraded(check, &verdict)),
        Fallback::Allow | Fallback::Refuse => unchecked(check),
    });
    let decisions: Vec<Decision> = decisions.collect();
    match decisions.iter().filter(|decision| !decision.is_allowed()).copied().reduce(longer) {
        Some(refusal) => Err(RateLimitError::Exceeded(refusal)),
        None => Ok(decisions),
    }
}

/// Decides without charging.
pub(crate) async fn peek(check: &Check) -> Result<Decision, RateLimitError> {
    let request = check.request()?;
    match by_deadline(check.deadline, check.limiter.inner().store.peek(request)).await {
        Ok(verdict) => Ok(decision(check, &verdict)),
        Err(error) => match Fallback::of(check, &error) {
            Fallback::Allow => Ok(unchecked(check)),
            Fallback::Local => Ok(degraded(check, &check.limiter.inner().local.peek(check)?)),
            Fallback::Refuse => Err(error.into()),
        },
    }
}

/// The refusal of a caller whom those in front left no time to ask. Nothing is charged.
pub(crate) async fn refusal_in_line(checks: &[&Check]) -> RateLimitError {
    let mut refusal: Option<Decision> = None;
    for check in checks.iter().filter(|check| !check.shadow) {
        match peek(check).await {
            Ok(decision) => refusal = Some(refusal.map_or(decision, |earlier| longer(earlier, decision))),
            Err(error) => return error,
        }
    }
    match refusal {
        // A slot may be free already, but not for this caller.
        Some(decision) => RateLimitError::Exceeded(Decision {
            allowed: false,
            retry_after_us: decision.retry_after_us.max(1_000),
            ..decision
        }),
        None => RateLimitError::misconfigured("nothing was asked"),
    }
}

/// Waits for an answer until the deadline, whatever the store does meanwhile.
pub(crate) async fn by_deadline<T: Unpin>(deadline: Duration, answer: Answer<'_, T>) -> Result<T, StoreError> {
    let answer = match answer.known() {
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

/// What becomes of a check that the store did not answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fallback {
    Allow,
    Local,
    Refuse,
}

impl Fallback {
    fn of(check: &Check, error: &StoreError) -> Self {
        match (error.kind(), check.on_unavailable) {
            (StoreErrorKind::Unavailable, OnUnavailable::Allow) => Self::Allow,
            // Whoever can fill a store must not be able to switch limits off: a full one is never a plain "allow".
            (StoreErrorKind::Unavailable | StoreErrorKind::TimedOut | StoreErrorKind::Full, OnUnavailable::Local) => {
                Self::Local
            }
            _ => Self::Refuse,
        }
    }
}

/// The answer of the policy when the store gave none.
fn without_store(check: &Check, error: StoreError) -> Result<Decision, RateLimitError> {
    match Fallback::of(check, &error) {
        Fallback::Allow => {
            tracing::debug!(rule = check.name, %error, "a call goes on unchecked: the store is unavailable");
            Ok(unchecked(check))
        }
        Fallback::Local => {
            tracing::debug!(rule = check.name, %error, "a call is limited by this process alone");
            judged(degraded(check, &check.limiter.inner().local.acquire(check)?))
        }
        Fallback::Refuse => Err(error.into()),
    }
}

fn unchecked(check: &Check) -> Decision {
    Decision::unchecked(check.name, check.capacity())
}

/// A decision of this process alone.
fn degraded(check: &Check, verdict: &Verdict) -> Decision {
    Decision { source: Source::Fallback, degraded: true, ..decision(check, verdict) }
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
            unchecked(check)
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
        blocked: verdict.blocked,
    }
}
