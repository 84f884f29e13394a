//! [`Backend`]: carries out a request by the route it takes (script, plain commands or redis-cell),
//! and returns the result.

use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, Waker, ready};

use redis::Value;

use super::batching::charge::{ChargeTerms, KeyCharge};
use super::connection::exchange::pending::PendingCharge;
use super::errors::{self, unexpected_reply, unsupported};
use super::permits::Permits;
use super::route::{GroupRoute, Route, Settings};
use super::scripts::group::{Group, GroupScript};
use super::scripts::operation::Operation;
use super::scripts::protocol::{self, Question};
use super::scripts::script;
use super::topology::{Calls, Connections};
use super::wire::commands::CallError;
use super::wire::slot::Slot;
use super::{redis_cell, transactions};
use crate::clock::Clock;
use crate::error::StoreError;
use crate::rule::Limit;
use crate::store::queued::{QueueAnswer, QueuedRequest, RequestQueue};
use crate::store::{DenyCache, Entry, PlaceRequest, Request, Verdict};

pub(super) struct Backend {
    pub(super) connections: Connections,
    pub(super) settings: Settings,
    pub(super) clock: Option<Arc<dyn Clock>>,
    pub(super) permits: OnceLock<Permits>,
}

impl Backend {
    pub(super) fn route(&self, request: &Request<'_>) -> Result<Route, StoreError> {
        self.settings.route(request)
    }

    /// How several requests are decided together.
    pub(super) fn group(&self, requests: &[Request<'_>]) -> Result<GroupRoute, StoreError> {
        let group = self.settings.group(requests)?;
        let mut slots = requests.iter().map(|request| self.slot(request));
        let first = slots.next();
        Ok(if slots.all(|slot| Some(slot) == first) { group } else { GroupRoute::Each })
    }

    /// Decides, and charges the request if it is admitted.
    pub(super) async fn charge(&self, request: Request<'_>) -> Result<Verdict, StoreError> {
        if self.route(&request)? != Route::Script {
            return self.decide(Operation::charging(&request), request).await;
        }
        let calls = self.calls(&request);
        let verdict = calls.charge(&self.question(Operation::charging(&request), &request)?).await?;
        trust(calls, &request, verdict)
    }

    /// Queues a charge, if the server that it goes to is one that is connected and serves.
    #[inline]
    fn enqueue(&self, request: &Request<'_>, waker: &Waker) -> Option<PendingCharge> {
        if !matches!(self.route(request), Ok(Route::Script)) {
            return None;
        }
        let exchange = self.connections.exchange()?;
        exchange.enter(&self.question(Operation::charging(request), request).ok()?, waker).ok()
    }

    pub(super) async fn decide(&self, operation: Operation, request: Request<'_>) -> Result<Verdict, StoreError> {
        let calls = self.calls(&request);
        match (self.route(&request)?, operation) {
            (Route::Script, _) => {
                let verdict = calls.charge(&self.question(operation, &request)?).await?;
                if protocol::fits(&verdict, &request) { Ok(verdict) } else { Err(distrust(calls)) }
            }
            (Route::LogCommands, _) => {
                let mut verdicts = transactions::decide(calls, || self.now(), operation, &[request]).await?;
                verdicts.pop().ok_or_else(unexpected_reply)
            }
            (Route::CounterCommands, _) => transactions::fixed_window(calls, operation, &request).await,
            (Route::RedisCell, Operation::Peek) => redis_cell::peek(calls, &request).await,
            (Route::RedisCell, _) => redis_cell::acquire(calls, &request).await,
        }
    }

    /// Changes what is kept, without deciding on a call; says whether there was anything to change.
    pub(super) async fn change(&self, operation: Operation, request: Request<'_>) -> Result<bool, StoreError> {
        let calls = self.calls(&request);
        match (self.route(&request)?, operation) {
            (Route::Script, _) => {
                let verdict = calls.charge(&self.question(operation, &request)?).await?;
                Ok(verdict.allowed)
            }
            (Route::LogCommands, Operation::Refund(_) | Operation::Block(_) | Operation::Unblock) => {
                transactions::change(calls, || self.now(), operation, request).await
            }
            (Route::CounterCommands, Operation::Refund(ticket)) => {
                transactions::refund_fixed_window(calls, &request, ticket).await
            }
            (Route::RedisCell, _) => {
                unsupported("CL.THROTTLE can neither give back nor block: choose RedisMode::Scripts")
            }
            _ => unsupported("without scripts this cannot be done: choose RedisMode::Scripts"),
        }
    }

    /// Commits a reservation at what the call did cost; gives what is too much to be charged.
    pub(super) async fn commit_at(
        &self,
        request: Request<'_>,
        ticket: u64,
        actual_cost: u64,
    ) -> Result<u64, StoreError> {
        let calls = self.calls(&request);
        if self.route(&request)? != Route::Script {
            return unsupported("without scripts no cost can be known afterwards: choose RedisMode::Scripts");
        }
        let operation = Operation::CommitActual(ticket, actual_cost.min(Limit::MAX_COUNT));
        let verdict = calls.charge(&self.question(operation, &request)?).await?;
        Ok(verdict.ticket)
    }

    /// Decides several requests in one step.
    pub(super) async fn decide_scripts(&self, requests: &[Request<'_>]) -> Result<Vec<Verdict>, StoreError> {
        let (calls, now) = (self.calls_of_all(requests), self.now()?);
        let questions = requests.iter().map(|request| self.charging(request, now));
        let group = Group::new(GroupScript::of(requests), now, questions);
        let reply = calls.ask_group(&group).await?.map_err(|error| errors::from_server(&error))?;
        let verdicts = protocol::verdicts(&reply).unwrap_or_default();
        let fit = verdicts.iter().zip(requests).all(|(verdict, request)| protocol::fits(verdict, request));
        if verdicts.len() == requests.len() && fit { Ok(verdicts) } else { Err(distrust(calls)) }
    }

    /// The same, for logs that are kept without scripts.
    pub(super) async fn decide_logs(&self, requests: &[Request<'_>]) -> Result<Vec<Verdict>, StoreError> {
        transactions::decide(self.calls_of_all(requests), || self.now(), Operation::Acquire, requests).await
    }

    /// Whether a place is taken and requests are charged in one step.
    pub(super) fn enters_together(&self, place: &PlaceRequest<'_>, requests: &[Request<'_>]) -> bool {
        let slot = self.slot(&place.as_request());
        requests.iter().all(|request| matches!(self.route(request), Ok(Route::Script)) && self.slot(request) == slot)
    }

    /// Takes a place, and charges the requests, all or none.
    pub(super) async fn take_place(
        &self,
        place: PlaceRequest<'_>,
        requests: &[Request<'_>],
    ) -> Result<Entry, StoreError> {
        let permits = self.permits()?;
        if !self.enters_together(&place, requests) {
            return unsupported("these keys cannot be decided in one step");
        }
        let now = self.now()?;
        let limits = requests.iter().map(|request| self.charging(request, now)).collect();
        let entry = permits.enter(place, GroupScript::with_place(requests), limits, now).await?;
        let fit = entry.verdicts.iter().zip(requests).all(|(verdict, request)| protocol::fits(verdict, request));
        if entry.verdicts.len() == requests.len() && fit {
            return Ok(entry);
        }
        permits.leave(place.permit());
        Err(distrust(self.connections.calls(self.slot(&place.as_request()), None)))
    }

    /// The permits of this store, which has them if it runs scripts.
    pub(super) fn permits(&self) -> Result<&Permits, StoreError> {
        if !self.settings.mode.runs_scripts() {
            return unsupported("without scripts, calls in flight cannot be limited: choose RedisMode::Scripts");
        }
        Ok(self.permits.get_or_init(|| Permits::new(self.connections.shared(), self.clock.clone())))
    }

    /// Forgets a key; says whether there was anything.
    pub(super) async fn forget(&self, request: &Request<'_>) -> Result<bool, StoreError> {
        let mut command = redis::cmd("UNLINK");
        command.arg(&*self.route(request)?.key(request));
        let is_number = |reply: &Value| matches!(reply, Value::Int(_));
        match self.calls(request).send(&command, is_number).await? {
            Ok(reply) => Ok(reply != Value::Int(0)),
            Err(error) => Err(errors::from_server(&error)),
        }
    }

    /// What the script of an algorithm is asked.
    fn question<'a>(&self, operation: Operation, request: &Request<'a>) -> Result<KeyCharge<'a>, StoreError> {
        Ok(KeyCharge {
            script: if request.has_calendar() { &script::CALENDAR } else { script::of(request.algorithm()) },
            key: request.key(),
            terms: ChargeTerms::new(operation, request, self.settings.mode.log_layout(), self.now()?),
            timeout_at: request.timeout_at(),
        })
    }

    /// What the script of a group is asked, to charge the request.
    fn charging<'a>(&self, request: &Request<'a>, now: Option<u64>) -> (&'a [u8], Question) {
        let operation = Operation::charging(request);
        (request.key(), protocol::question(operation, request, self.settings.mode.log_layout(), now))
    }

    fn calls(&self, request: &Request<'_>) -> Calls<'_> {
        self.connections.calls(self.slot(request), request.timeout_at())
    }

    fn calls_of_all(&self, requests: &[Request<'_>]) -> Calls<'_> {
        let slot = requests.first().map(|request| self.slot(request)).unwrap_or_default();
        self.connections.calls(slot, requests.iter().filter_map(Request::timeout_at).min())
    }

    /// Where in a cluster the key of a request is.
    pub(super) fn slot(&self, request: &Request<'_>) -> Slot {
        self.connections.slot(|| match self.route(request) {
            Ok(route) => Slot::of(&route.key(request)),
            Err(_) => Slot::of(request.key()),
        })
    }

    /// The caller's time in microseconds; `None` for the server's.
    fn now(&self) -> Result<Option<u64>, StoreError> {
        protocol::own_time(self.clock.as_deref())
    }
}

impl RequestQueue<Verdict> for DenyCache<Backend> {
    fn poll<'a>(
        &'a self,
        queued: &mut QueuedRequest<'a, Verdict>,
        cx: &mut Context<'_>,
    ) -> Poll<QueueAnswer<'a, Verdict>> {
        let (backend, request) = (self.inner(), queued.request);
        if queued.charge.is_none()
            && let Some(charge) = backend.enqueue(&request, cx.waker())
        {
            queued.charge = Some(charge);
            return Poll::Pending;
        }
        let answer = match &mut queued.charge {
            None => None,
            Some(charge) => match ready!(charge.poll(cx.waker())) {
                Ok(verdict) => Some(trust(backend.calls(&request), &request, verdict)),
                Err(CallError::NotSent) => None,
                Err(why) => Some(Err(backend.connections.no_verdict(charge, why))),
            },
        };
        queued.charge = None;
        let lookup = std::mem::take(&mut queued.lookup);
        Poll::Ready(match answer {
            Some(answer) => Ok(self.learn(&request, &lookup, answer)),
            None => Err(Box::pin(async move {
                let answer = backend.charge(request).await;
                // The miss is dropped with this future, and with it the turn to ask again.
                self.learn(&request, &lookup, answer)
            })),
        })
    }
}

/// The verdict, if it can be the one on this request.
fn trust(calls: Calls<'_>, request: &Request<'_>, verdict: Verdict) -> Result<Verdict, StoreError> {
    if protocol::fits(&verdict, request) { Ok(verdict) } else { Err(distrust(calls)) }
}

/// A reply that cannot answer its question: nothing else on that connection can be trusted either.
fn distrust(calls: Calls<'_>) -> StoreError {
    let error = unexpected_reply();
    calls.end(&error);
    error
}
