//! [`Backend`]: carries out a request by the route it takes (script, transactions or redis-cell),
//! on the client of the caller's runtime.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use redis::Value;

use super::clients::{Client, Clients};
use super::cluster::slot_of;
use super::errors::unexpected_reply;
use super::scriptless::Route;
use super::scripts::{KeyQuestion, Operation, Question, own_time};
use super::settings::StoreSettings;
use crate::clock::Clock;
use crate::error::StoreError;
use crate::rule::Limit;
use crate::store::{
    Answer, BuiltInStore, Capabilities, Entry, Health, Page, PlaceRequest, Request, Sealed,
    Settled, Store, Verdict,
};

/// What a store decides with: its settings, and the client of each runtime.
pub(super) struct Backend {
    pub(super) settings: StoreSettings,
    /// Its name in metrics.
    server: String,
    clients: Clients,
}

impl Backend {
    pub(super) fn new(settings: StoreSettings) -> Self {
        Self {
            server: settings.name(),
            settings,
            clients: Clients::default(),
        }
    }

    /// The settings, to be changed. Clients that were made by the old ones end.
    pub(super) fn settings_mut(&mut self) -> &mut StoreSettings {
        self.clients = Clients::default();
        &mut self.settings
    }

    fn client(&self) -> Result<Arc<Client>, StoreError> {
        self.clients.current(&self.settings)
    }

    fn clock(&self) -> Option<&dyn Clock> {
        self.settings.clock.as_deref()
    }

    /// The route of the key of a request, whatever the key is asked for.
    fn route(&self, request: &Request<'_>) -> Result<Route, StoreError> {
        self.settings.route(Operation::Acquire, request)
    }

    /// The key on the server, which its slot goes by.
    fn stored_key(&self, request: &Request<'_>) -> Vec<u8> {
        self.route(request)
            .map_or_else(|_| request.key().to_vec(), |route| route.key(request))
    }

    /// Whether keys are of one slot, and so of one server at any time.
    fn have_one_slot<'a>(&self, mut keys: impl Iterator<Item = &'a [u8]>) -> bool {
        let first = self.settings.is_cluster().then(|| keys.next().map(slot_of));
        first.is_none_or(|first| keys.all(|key| Some(slot_of(key)) == first))
    }

    /// Carries an operation out. `allowed` of one that decides nothing says whether it changed
    /// anything.
    pub(super) async fn carry_out(
        &self,
        operation: Operation,
        request: Request<'_>,
    ) -> Result<Verdict, StoreError> {
        let route = self.settings.route(operation, &request)?;
        let (client, clock) = (self.client()?, self.clock());
        if route != Route::Script {
            // Large, and most stores run scripts.
            let carried_out = route.carry_out(&client.servers, clock, operation, request);
            return Box::pin(carried_out).await;
        }
        let question = Question::new(operation, &request, own_time(clock)?);
        let question = [(request.key(), question)];
        let verdicts = client.servers.ask(&question, request.timeout_at()).await?;
        verdicts.into_iter().next().ok_or_else(unexpected_reply)
    }

    /// The questions that charge these requests.
    fn stack<'a>(&self, requests: &[Request<'a>]) -> Result<Vec<KeyQuestion<'a>>, StoreError> {
        let now = own_time(self.clock())?;
        let question = |request: &Request<'a>| {
            (
                request.key(),
                Question::new(Operation::Acquire, request, now),
            )
        };
        Ok(requests.iter().map(question).collect())
    }

    fn must_run_scripts(&self) -> Result<(), StoreError> {
        let why = "without scripts, calls in flight cannot be limited: choose RedisMode::Scripts";
        self.settings
            .mode
            .runs_scripts()
            .then_some(())
            .ok_or_else(|| StoreError::unsupported(why))
    }
}

impl Store for Backend {
    fn acquire<'a>(&'a self, request: Request<'a>) -> Answer<'a, Verdict> {
        Answer::later(self.carry_out(Operation::Acquire, request))
    }

    fn peek<'a>(&'a self, request: Request<'a>) -> Answer<'a, Verdict> {
        Answer::later(self.carry_out(Operation::Peek, request))
    }

    fn reset<'a>(&'a self, request: Request<'a>) -> Answer<'a, bool> {
        Answer::later(async move {
            let key = self.route(&request)?.key(&request);
            let mut unlink = redis::cmd("UNLINK");
            unlink.arg(&key);
            match self
                .client()?
                .servers
                .send(&key, &unlink, request.timeout_at())
                .await?
            {
                Value::Int(removed) => Ok(removed != 0),
                _ => Err(unexpected_reply()),
            }
        })
    }

    fn refund<'a>(&'a self, request: Request<'a>, ticket: u64) -> Answer<'a, bool> {
        Answer::later(async move {
            Ok(self
                .carry_out(Operation::Refund(ticket), request)
                .await?
                .allowed)
        })
    }

    fn settle<'a>(
        &'a self,
        request: Request<'a>,
        ticket: u64,
        actual_cost: u64,
    ) -> Answer<'a, Settled> {
        let operation = Operation::Settle(ticket, actual_cost.min(Limit::MAX_COUNT));
        Answer::later(async move {
            let settled = self.carry_out(operation, request).await?;
            Ok(Settled::new(settled.allowed, settled.retry_after_us))
        })
    }

    fn block<'a>(&'a self, request: Request<'a>, duration: Duration) -> Answer<'a, ()> {
        let operation = Operation::Block(request.with_block(duration).block.first_us());
        Answer::later(async move { self.carry_out(operation, request).await.map(drop) })
    }

    fn unblock<'a>(&'a self, request: Request<'a>) -> Answer<'a, bool> {
        Answer::later(async move { Ok(self.carry_out(Operation::Unblock, request).await?.allowed) })
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

impl BuiltInStore for Backend {
    fn decides_together(&self, place: Option<&PlaceRequest>, requests: &[Request<'_>]) -> bool {
        let place = place.map(|place| &*place.key).into_iter();
        let keys = place.chain(requests.iter().map(Request::key));
        requests
            .iter()
            .all(|request| matches!(self.route(request), Ok(Route::Script)))
            && self.have_one_slot(keys)
    }

    fn acquire_all<'a>(&'a self, requests: &'a [Request<'a>]) -> Answer<'a, Vec<Verdict>> {
        Answer::later(async move {
            let until = requests.iter().filter_map(Request::timeout_at).min();
            Ok(self
                .client()?
                .servers
                .ask(&self.stack(requests)?, until)
                .await?
                .into_vec())
        })
    }

    fn offend<'a>(&'a self, request: Request<'a>) -> Answer<'a, Verdict> {
        Answer::later(self.carry_out(Operation::Offend, request))
    }

    fn enter<'a>(&'a self, place: PlaceRequest, requests: &'a [Request<'a>]) -> Answer<'a, Entry> {
        Answer::later(async move {
            self.must_run_scripts()?;
            self.client()?
                .permits
                .enter(place, self.stack(requests)?)
                .await
        })
    }

    fn leave(&self, place: &PlaceRequest) {
        // It may be left on another runtime than the one it entered on, or on none.
        let _ = self
            .clients
            .all()
            .iter()
            .any(|client| client.permits.leave(place));
    }

    fn in_flight(&self, place: PlaceRequest) -> Answer<'_, u64> {
        Answer::later(async move {
            self.must_run_scripts()?;
            self.client()?.permits.in_flight(place).await
        })
    }

    fn supports(&self, request: &Request<'_>) -> Result<(), StoreError> {
        self.route(request).map(drop)
    }

    fn server(&self) -> &str {
        &self.server
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

    fn epoch(&self, _: &Request<'_>) -> u64 {
        self.settings.epoch.load(Ordering::Acquire)
    }

    fn answers_within(&self, timeout: Duration) {
        let timeout = u64::try_from(timeout.as_micros()).unwrap_or(u64::MAX);
        self.settings.timeout_us.store(timeout, Ordering::Relaxed);
    }

    fn settled(&self) -> Answer<'_, ()> {
        Answer::later(async move {
            if let Some(client) = self.clients.own() {
                client.permits.settled().await;
            }
            Ok(())
        })
    }

    fn ready_for<'a>(&'a self, part: Option<Request<'a>>) -> Answer<'a, ()> {
        Answer::later(async move {
            let key = part.map(|request| self.stored_key(&request));
            self.client()?.servers.ready(key.as_deref()).await
        })
    }
}
