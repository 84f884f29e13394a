//! [`Backend`]: carries out a request by the route it takes (script, plain commands or redis-cell),
//! and returns the result.

use std::task::{Context, Poll, Waker, ready};

use redis::Value;

use super::batching::charge::{ChargeTerms, KeyCharge};
use super::connection::exchange::pending::PendingCharge;
use super::errors::{self, unexpected_reply, unsupported};
use super::route::{GroupRoute, Route, Settings};
use super::scripts::operation::Operation;
use super::scripts::protocol;
use super::scripts::script::{self, Script};
use super::scripts::script_call::ScriptCall;
use super::topology::{Calls, Connections};
use super::wire::commands::CallError;
use super::wire::slot::Slot;
use super::{redis_cell, transactions};
use crate::clock::Clock;
use crate::error::StoreError;
use crate::rule::Limit;
use crate::store::queued::{QueueAnswer, QueuedRequest, RequestQueue};
use crate::store::{DenyCache, Request, Verdict};

pub(super) struct Backend {
    pub(super) connections: Connections,
    pub(super) settings: Settings,
    pub(super) clock: Option<Box<dyn Clock>>,
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
        let verdict = calls.charge(&self.key_charge(&request)?).await?;
        trust(calls, &request, verdict)
    }

    #[inline]
    fn key_charge<'a>(&self, request: &Request<'a>) -> Result<KeyCharge<'a>, StoreError> {
        let operation = Operation::charging(request);
        Ok(KeyCharge {
            script: script::of(request.algorithm()),
            key: request.key(),
            terms: ChargeTerms {
                packed: protocol::question(operation, request, self.settings.mode.log_layout()),
                now: self.now()?,
                is_unit: request.cost() == 1,
                counts_tickets: request.algorithm().row().is_log,
            },
            timeout_at: request.timeout_at(),
        })
    }

    /// Queues a charge, if the server that it goes to is one that is connected and serves.
    #[inline]
    fn enqueue(&self, request: &Request<'_>, waker: &Waker) -> Option<PendingCharge> {
        if !matches!(self.route(request), Ok(Route::Script)) {
            return None;
        }
        let exchange = self.connections.exchange()?;
        exchange.enter(&self.key_charge(request).ok()?, waker).ok()
    }

    pub(super) async fn decide(&self, operation: Operation, request: Request<'_>) -> Result<Verdict, StoreError> {
        let calls = self.calls(&request);
        match (self.route(&request)?, operation) {
            (Route::Script, _) => {
                let reply = self.ask(operation, &request).await?;
                let verdict = protocol::verdict(&reply).filter(|verdict| protocol::fits(verdict, &request));
                verdict.ok_or_else(|| distrust(calls))
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
                let reply = self.ask(operation, &request).await?;
                protocol::flag(&reply).ok_or_else(|| distrust(calls))
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

    /// Decides several requests in one step.
    pub(super) async fn decide_scripts(&self, requests: &[Request<'_>]) -> Result<Vec<Verdict>, StoreError> {
        let now = self.now()?;
        let calls = self.calls_of_all(requests);
        let question =
            |request| protocol::question(Operation::charging(request), request, self.settings.mode.log_layout());
        let questions: Vec<_> = requests.iter().map(|request| (request.key(), question(request))).collect();
        let reply = run(calls, &script::ALL_OR_NONE, now, &questions, protocol::are_verdicts).await?;
        let verdicts = protocol::verdicts(&reply).unwrap_or_default();
        let fit = verdicts.iter().zip(requests).all(|(verdict, request)| protocol::fits(verdict, request));
        if verdicts.len() == requests.len() && fit { Ok(verdicts) } else { Err(distrust(calls)) }
    }

    /// The same, for logs that are kept without scripts.
    pub(super) async fn decide_logs(&self, requests: &[Request<'_>]) -> Result<Vec<Verdict>, StoreError> {
        transactions::decide(self.calls_of_all(requests), || self.now(), Operation::Acquire, requests).await
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

    /// Runs an operation by the script of its algorithm, and gives its reply.
    async fn ask(&self, operation: Operation, request: &Request<'_>) -> Result<Value, StoreError> {
        let now = self.now()?;
        let question = protocol::question(operation, request, self.settings.mode.log_layout());
        let script = script::of(request.algorithm());
        run(self.calls(request), script, now, &[(request.key(), question)], protocol::is_verdict).await
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
        let Some(clock) = &self.clock else { return Ok(None) };
        let now = clock.now().as_micros();
        match u64::try_from(now) {
            // Beyond this, the script could not add a window exactly.
            Ok(now) if u128::from(now) + Limit::MAX_WINDOW.as_micros() <= u128::from(Limit::MAX_COUNT) => Ok(Some(now)),
            _ => Err(StoreError::misconfigured("the clock of the Redis store is more than 284 years past its start")),
        }
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

/// Runs a script on questions and their keys; a server that does not know it is given its text in
/// the same call.
async fn run(
    calls: Calls<'_>,
    script: &Script,
    now: Option<u64>,
    questions: &[(&[u8], protocol::Question)],
    is_like: fn(&Value) -> bool,
) -> Result<Value, StoreError> {
    let call = |in_full, number| {
        let mut packed = Vec::new();
        let mut call = ScriptCall::begin(&mut packed, script, in_full, questions.len());
        for (key, _) in questions {
            call.argument(key);
        }
        call.head(now, number);
        for (_, question) in questions {
            call.argument(question);
        }
        packed
    };
    let answer = match calls.send_script(|number| call(false, number), is_like).await? {
        Err(error) if script::is_unknown(&error) => calls.send_script(|number| call(true, number), is_like).await?,
        answer => answer,
    };
    answer.map_err(|error| errors::from_server(&error))
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
