//! The operations of a [`RedisStore`]. Each is carried out by the route that its request takes
//! (script, transactions or redis-cell), on the client of the caller's runtime.

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use redis::Value;

use super::RedisStore;
use super::clients::Client;
use super::cluster::slot_of;
use super::errors::unexpected_reply;
use super::rights::Rights;
use super::rules;
use super::scriptless::Route;
use super::scripts::{KeyQuestion, Operation, Question, Reply, own_time};
use crate::clock::Clock;
use crate::error::StoreError;
use crate::pace;
use crate::rule::{BlockDuration, Limit, RuleSummary};
use crate::store::{
    Answer, BuiltInStore, Capabilities, Health, Page, PermitRequest, PermitVerdict, Request,
    Sealed, Settled, Store, Verdict,
};

impl RedisStore {
    fn client(&self) -> Result<Arc<Client>, StoreError> {
        self.clients.current(&self.settings, &self.rules)
    }

    fn clock(&self) -> Option<&dyn Clock> {
        self.settings.clock.as_deref()
    }

    /// The fields and lines of the hash of rules under a prefix, which ends in a colon or is empty.
    #[doc(hidden)]
    pub async fn rule_lines(&self, prefix: &str) -> Result<Vec<(Vec<u8>, Vec<u8>)>, StoreError> {
        rules::read(&self.client()?.servers, prefix).await
    }

    /// The master of a cluster that [`keys`](Store::keys) asks at `from`, and the cursor behind its
    /// keys: so a list goes on while the master is away. `None` at the end, and of one server.
    #[doc(hidden)]
    pub async fn behind_master(
        &self,
        from: Option<&[u8]>,
    ) -> Result<Option<(String, Vec<u8>)>, StoreError> {
        let behind = self.client()?.servers.behind_master(from).await?;
        Ok(behind.map(|(master, next)| (master.to_string(), next)))
    }

    /// The route of a request's key, whatever the operation.
    fn route(&self, request: &Request<'_>) -> Result<Route, StoreError> {
        self.settings.route(Operation::Acquire, request)
    }

    /// The key on the server, by which its slot is found.
    fn stored_key<'r>(&self, request: &Request<'r>) -> Cow<'r, [u8]> {
        match self.route(request) {
            Ok(route) if route != Route::Script => route.key(request).into(),
            _ => request.key().into(),
        }
    }

    /// `true` if the keys are in one slot, and so on one server at any time.
    fn have_one_slot<'a>(&self, mut keys: impl Iterator<Item = &'a [u8]>) -> bool {
        let first = self.settings.is_cluster().then(|| keys.next().map(slot_of));
        first.is_none_or(|first| keys.all(|key| Some(slot_of(key)) == first))
    }

    /// `true` if the server of a key serves no calls.
    fn is_away(&self, request: &Request<'_>) -> bool {
        self.health(request) != Health::Up
    }

    /// The round trip to the server of a key, at best; zero if that is not known.
    fn round_trip(&self, request: &Request<'_>) -> Duration {
        let client = self.clients.own();
        client.map_or(Duration::ZERO, |client| {
            client.servers.round_trip(&self.stored_key(request))
        })
    }

    /// `true` if there is time for so many round trips to the server of a key, and it serves.
    fn may_wait(&self, request: &Request<'_>, round_trips: u32) -> bool {
        let is_in_time = request
            .timeout_at()
            .is_none_or(|until| Instant::now() + round_trips * self.round_trip(request) <= until);
        is_in_time && !self.is_away(request)
    }

    async fn carry_out(
        &self,
        operation: Operation,
        request: Request<'_>,
    ) -> Result<Reply, StoreError> {
        let route = self.settings.route(operation, &request)?;
        let (client, clock) = (self.client()?, self.clock());
        if route != Route::Script {
            // Large, and most stores run scripts.
            let carried_out = route.carry_out(&client.servers, clock, operation, request);
            return Box::pin(carried_out).await;
        }
        let question = Question::new(operation, &request, own_time(clock)?);
        let (servers, until) = (&client.servers, request.timeout_at());
        servers.ask(request.key(), question, until).await
    }

    /// Decides a request with `prefetch`: by units taken ahead or a known refusal; else asks the
    /// server, and takes units ahead if the key is busy. If units that this store holds cause a
    /// refusal, it gives them back and asks again.
    async fn acquire_ahead(&self, request: Request<'_>) -> Result<Verdict, StoreError> {
        let is_away = || self.is_away(&request);
        // If the units are too few, it asks.
        let may_wait = || self.may_wait(&request, 2);
        if self.known.has_grant(&request) {
            // Callers that are admitted again and again wait for nothing else.
            pace::give_way().await;
            if let Some(admission) = self.known.spend_in_turn(&request, may_wait).await {
                return Ok(admission);
            }
        }
        let lookup = match self.known.look_up(&request, is_away) {
            Ok(refusal) => return Ok(refusal),
            Err(lookup) => lookup,
        };
        let until = request.timeout_at();
        let acquire = || self.carry_out(Operation::Acquire, request);
        let (mut held, asked) = (self.known.held(request.key()), Instant::now());
        // The lease of units that take longer to come is over when they do.
        let lease = Duration::from_micros(request.prefetch_us.into());
        if self.route(&request)? == Route::Script
            && self.round_trip(&request) < lease
            && let Some(fetch) = self.known.fetch(&request)
            && !is_away()
        {
            // By a task, which runs once this one waits: behind the request.
            fetch.spawn(&self.client()?.servers);
        }
        let mut verdict = acquire().await?.verdict();
        if !verdict.allowed && !verdict.blocked {
            // Units may have come meanwhile, or be of a grant behind one that was too small.
            let may_wait = || self.may_wait(&request, 1);
            let spent = in_time(until, self.known.spend_in_turn(&request, may_wait)).await;
            if let Some(admission) = spent {
                return Ok(admission);
            }
            let is_refused_for = self.known.is_refused_for(&mut held, &request, &verdict);
            if is_refused_for && has_time(asked, until) {
                let again = in_time(until, async {
                    self.known.gave_back(&held).await;
                    acquire().await.ok()
                });
                verdict = again.await.map_or(verdict, |again| again.verdict());
            }
        }
        Ok(self.known.note_decision(&request, lookup, verdict))
    }

    /// Carries out an operation by hand, which voids units taken ahead. `true` if it has changed
    /// anything.
    async fn intervene(
        &self,
        operation: Operation,
        request: Request<'_>,
    ) -> Result<bool, StoreError> {
        let _voiding = self.known.voiding(request.key());
        Ok(self.carry_out(operation, request).await?.is_done())
    }

    /// Asks the server for a permit, and to charge all requests.
    async fn ask_all(
        &self,
        permit: Option<&PermitRequest>,
        requests: &[Request<'_>],
    ) -> Result<PermitVerdict, StoreError> {
        let (client, now) = (self.client()?, own_time(self.clock())?);
        let question = |request| Question::new(Operation::Acquire, request, now);
        let stack = requests.iter().map(|part| (part.key(), question(part)));
        let stack: Vec<KeyQuestion<'_>> = stack.collect();
        if let Some(permit) = permit {
            let releases = self.clients.releases_of(&permit.key);
            let acquired = client.permits.acquire(permit.clone(), releases, stack);
            return acquired.await;
        }
        let until = requests.iter().filter_map(Request::timeout_at).min();
        let replies = client.servers.ask_all(&stack, until).await?;
        let verdicts = replies.into_iter().map(|reply| reply.verdict());
        Ok(PermitVerdict::of_limits(verdicts.collect()))
    }
}

impl Store for RedisStore {
    fn acquire<'a>(&'a self, request: Request<'a>) -> Answer<'a, Verdict> {
        if request.prefetch_us > 0 {
            return Answer::later(self.acquire_ahead(request));
        }
        match self.known.look_up(&request, || self.is_away(&request)) {
            Ok(refusal) => Answer::ready(Ok(refusal)),
            Err(lookup) => Answer::later(async move {
                let decided = self.carry_out(Operation::Acquire, request).await?;
                Ok(self
                    .known
                    .note_decision(&request, lookup, decided.verdict()))
            }),
        }
    }

    /// Always asks the server, also where a refusal is known.
    fn peek<'a>(&'a self, request: Request<'a>) -> Answer<'a, Verdict> {
        Answer::later(async move {
            let lookup = self.known.lookup(&request);
            let seen = self.carry_out(Operation::Peek, request).await?;
            Ok(self.known.note_look(&request, lookup, seen.verdict()))
        })
    }

    fn reset<'a>(&'a self, request: Request<'a>) -> Answer<'a, bool> {
        Answer::later(async move {
            let held = self.known.held(request.key());
            let _voiding = self.known.voiding(request.key());
            // Units granted behind the reset would stay charged, and never be spent. A server that
            // is away resets nothing either.
            if !self.is_away(&request) {
                self.known.gave_back(&held).await;
            }
            let key = self.route(&request)?.key(&request);
            let unlink = redis::cmd("UNLINK").arg(&key).take();
            match self.client()?.servers.send(&key, &[unlink]).await? {
                Value::Int(removed) => Ok(removed != 0),
                _ => Err(unexpected_reply()),
            }
        })
    }

    fn refund<'a>(&'a self, request: Request<'a>, ticket: u64) -> Answer<'a, bool> {
        let operation = Operation::Refund(ticket);
        Answer::later(self.intervene(operation, request))
    }

    fn settle<'a>(
        &'a self,
        request: Request<'a>,
        ticket: u64,
        actual_cost: u64,
    ) -> Answer<'a, Settled> {
        let operation = Operation::Settle(ticket, actual_cost.min(Limit::MAX_COUNT));
        Answer::later(async move {
            let _changing = self.known.changing(request.key());
            Ok(self.carry_out(operation, request).await?.settled())
        })
    }

    fn block<'a>(&'a self, request: Request<'a>, duration: Duration) -> Answer<'a, ()> {
        let operation = Operation::Block(BlockDuration::fixed(duration).first_us());
        Answer::later(self.intervene(operation, request)).map(drop)
    }

    fn unblock<'a>(&'a self, request: Request<'a>) -> Answer<'a, bool> {
        Answer::later(self.intervene(Operation::Unblock, request))
    }

    fn keys<'a>(&'a self, request: Request<'a>, from: Option<Vec<u8>>) -> Answer<'a, Page> {
        Answer::later(async move {
            let route = self.route(&request)?;
            let mut page = self
                .client()?
                .servers
                .keys(request.key(), from.as_deref())
                .await?;
            page.keys = page
                .keys
                .into_iter()
                .filter_map(|stored| route.key_of(stored))
                .collect();
            Ok(page)
        })
    }

    fn capabilities(&self) -> Capabilities {
        self.settings.capabilities()
    }

    fn built_in(&self, _: Sealed) -> Option<&dyn BuiltInStore> {
        Some(self)
    }
}

/// `true` if there is time to give units back and ask again, if each takes as long as the question
/// sent at `asked`.
fn has_time(asked: Instant, until: Option<Instant>) -> bool {
    until.is_none_or(|until| Instant::now() + 3 * asked.elapsed() <= until)
}

/// What a second try comes to. A caller whose time ends before it does was refused, and is told so:
/// earlier than the timer of its timeout, which goes off up to a millisecond late.
async fn in_time<T>(until: Option<Instant>, second: impl Future<Output = Option<T>>) -> Option<T> {
    let Some(until) = until else {
        return second.await;
    };
    let before = until.checked_sub(Duration::from_millis(1));
    let ended = pace::timeout_at(before.unwrap_or(until).into(), second);
    ended.await.ok().flatten()
}

/// The most keys that one script decides together, which names each by a byte, from 1.
const MAX_KEYS_OF_STACK: usize = 254;

impl BuiltInStore for RedisStore {
    fn decides_together(&self, permit: Option<&PermitRequest>, requests: &[Request<'_>]) -> bool {
        let permit = permit.map(|permit| &*permit.key).into_iter();
        let keys = permit.chain(requests.iter().map(Request::key));
        keys.clone().count() <= MAX_KEYS_OF_STACK
            && requests
                .iter()
                .all(|request| matches!(self.route(request), Ok(Route::Script)))
            && self.have_one_slot(keys)
    }

    /// Asks the server about all requests, even if one is known to be refused.
    fn acquire_all<'a>(
        &'a self,
        permit: Option<PermitRequest>,
        requests: &'a [Request<'a>],
    ) -> Answer<'a, PermitVerdict> {
        Answer::later(async move {
            let lookups = self.known.lookups(requests);
            let ahead = requests.iter().any(|part| part.prefetch_us > 0);
            let held = requests.iter().filter(|_| ahead);
            let mut held: Vec<_> = held.map(|part| self.known.held(part.key())).collect();
            let asked = Instant::now();
            let mut verdict = self.ask_all(permit.as_ref(), requests).await?;
            let mut is_refused_for = ahead && !verdict.is_acquired() && !verdict.is_full;
            let parts = requests.iter().zip(&verdict.verdicts);
            for ((part, refusal), held) in parts.zip(&mut held) {
                if refusal.allowed {
                    held.clear();
                } else {
                    is_refused_for &= self.known.is_refused_for(held, part, refusal);
                }
            }
            let until = requests.iter().filter_map(Request::timeout_at).min();
            if is_refused_for && has_time(asked, until) {
                let again = in_time(until, async {
                    self.known.gave_back(&held.concat()).await;
                    self.ask_all(permit.as_ref(), requests).await.ok()
                });
                verdict = again.await.unwrap_or(verdict);
            }
            self.known
                .note_stack(requests, lookups, &verdict.verdicts, verdict.is_acquired());
            Ok(verdict)
        })
    }

    fn offend<'a>(&'a self, request: Request<'a>) -> Answer<'a, Verdict> {
        Answer::later(async move {
            let lookup = self.known.lookup(&request);
            let seen = self.carry_out(Operation::Offend, request).await?;
            Ok(self.known.note_refusal(&request, lookup, seen.verdict()))
        })
    }

    fn release_permit(&self, permit: &PermitRequest) {
        // It may be released on another runtime than it was acquired on, or on none.
        let _ = self
            .clients
            .all()
            .iter()
            .any(|client| client.permits.release(permit));
    }

    fn in_flight(&self, permit: PermitRequest) -> Answer<'_, u64> {
        Answer::later(async move {
            let releases = self.clients.releases_of(&permit.key);
            self.client()?.permits.in_flight(permit, releases).await
        })
    }

    fn supports(&self, request: &Request<'_>) -> Result<(), StoreError> {
        self.route(request).map(drop)
    }

    fn server(&self) -> &str {
        &self.name
    }

    fn known_refusal(&self, request: &Request<'_>, is_away: bool) -> Option<Verdict> {
        self.known
            .refusal(request, || is_away || self.is_away(request))
    }

    fn decide_at_once(&self, request: &Request<'_>) -> Option<Verdict> {
        if request.prefetch_us > 0 && !(pace::is_due() && pace::has_kept_thread()) {
            let admission = self.known.spend(request);
            return admission.or_else(|| self.refuses_at_once(request));
        }
        self.refuses_at_once(request)
    }

    fn give_back(&self) {
        self.known.give_back(&self.known.all_held());
    }

    fn health(&self, request: &Request<'_>) -> Health {
        // Also where there is no runtime.
        let client = self
            .clients
            .own()
            .or_else(|| self.clients.all().into_iter().next());
        client.map_or(Health::Down, |client| {
            client.servers.health(&self.stored_key(request))
        })
    }

    fn answers_within(&self, timeout: Duration) {
        let timeout = u64::try_from(timeout.as_micros()).unwrap_or(u64::MAX);
        self.settings.timeout_us.store(timeout, Ordering::Relaxed);
    }

    fn note_rule(&self, prefix: &str, rule: &RuleSummary) {
        if self.writes_rules {
            self.rules.note(prefix, rule);
        }
    }

    fn settled(&self) -> Answer<'_, ()> {
        Answer::later(async move {
            if let Some(client) = self.clients.own() {
                client.permits.settled().await;
            }
            self.known.gave_back(&self.known.all_held()).await;
            Ok(())
        })
    }

    fn ready_for<'a>(&'a self, part: Option<Request<'a>>) -> Answer<'a, ()> {
        Answer::later(async move {
            let key = part.map(|request| self.stored_key(&request));
            self.client()?.servers.ready(key.as_deref()).await
        })
    }

    fn ready_under<'a>(&'a self, prefix: &'a str) -> Answer<'a, ()> {
        Answer::later(async move {
            let rights = Rights::of(&self.settings, prefix);
            self.client()?.servers.ready_for(&rights).await
        })
    }
}
