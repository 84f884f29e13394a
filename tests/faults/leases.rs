//! Faults while calls are in flight: what those see that would enter, and whether those that have
//! entered keep their places.

use std::time::{Duration, Instant};

use ratelimit_runtime::__private::PlaceRequest;
use ratelimit_runtime::{Key, OnUnavailable, Permit, RateLimitError, RateLimiter, Rule};
use tokio::time::sleep;

use crate::harness::{Row, TIMEOUT};
use crate::support::eventually;
use crate::support::proxy::Proxy;
use crate::support::redis::RedisServer;
use crate::support::sentinel::Sentinels;

const MAX: u64 = 2;
const LEASE: Duration = PlaceRequest::MIN_LEASE;
static RULE: Rule = Rule::in_flight("held", MAX).with_lease(LEASE);
/// For machines that are busy.
const SLACK: Duration = Duration::from_millis(400);

/// A process that holds all places of a key, and another whose calls would enter. When the store
/// does not answer, they are refused, so that all that enter have entered at the store.
struct Held {
    permits: Vec<Permit>,
    other: RateLimiter,
    calls: usize,
    slowest: Duration,
    full: usize,
    unavailable: usize,
    entered: usize,
    kept: Option<Duration>,
}

impl Held {
    async fn on(url: &str) -> Self {
        let build = || {
            let builder = RateLimiter::builder().redis(url).timeout(TIMEOUT);
            builder.on_unavailable(OnUnavailable::Deny).build().unwrap()
        };
        let (holder, other) = (build(), build());
        holder.ready().await.unwrap();
        other.ready().await.unwrap();
        let mut permits = Vec::new();
        for _ in 0..MAX {
            permits.push(holder.enter(&RULE, &Key::global()).await.unwrap());
        }
        let (calls, slowest, kept) = (0, Duration::ZERO, None);
        let mut held = Self { permits, other, calls, slowest, full: 0, unavailable: 0, entered: 0, kept };
        held.go_on(Duration::from_millis(200)).await;
        assert_eq!((held.unavailable, held.entered), (0, 0), "before the fault");
        held
    }

    async fn call(&mut self) {
        let start = Instant::now();
        let entered = self.other.enter(&RULE, &Key::global()).await;
        let took = start.elapsed();
        assert!(took <= TIMEOUT + SLACK, "a call took {took:?}");
        (self.calls, self.slowest) = (self.calls + 1, self.slowest.max(took));
        match entered {
            Ok(permit) => {
                assert!(!permit.decision().is_degraded(), "{permit:?}");
                self.entered += 1;
            }
            Err(RateLimitError::Exceeded(_)) => self.full += 1,
            Err(RateLimitError::Unavailable(_)) => self.unavailable += 1,
            Err(error) => panic!("{error:?}"),
        }
    }

    async fn go_on(&mut self, time: Duration) {
        let start = Instant::now();
        while start.elapsed() < time {
            self.call().await;
            sleep(Duration::from_millis(10)).await;
        }
    }

    /// Waits until the store knows the permits (again).
    async fn keeps_its_places(&mut self, within: Duration) {
        let healed = Instant::now();
        while !matches!(self.other.in_flight(&RULE, &Key::global()).await, Ok(MAX)) {
            assert!(healed.elapsed() < within, "the places are not taken after {within:?}");
            self.call().await;
            sleep(Duration::from_millis(10)).await;
        }
        self.kept = Some(healed.elapsed());
    }

    /// The same without calls that would take a place: a permit whose place lapsed is lost if its
    /// renewal finds none free.
    async fn finds_its_places(&mut self, within: Duration) {
        let healed = Instant::now();
        while !matches!(self.other.in_flight(&RULE, &Key::global()).await, Ok(MAX)) {
            assert!(healed.elapsed() < within, "the places are not taken after {within:?}");
            sleep(Duration::from_millis(10)).await;
        }
        self.kept = Some(healed.elapsed());
    }

    /// Nobody has entered who should not have; leases are renewed from here on, and what is left is
    /// free at once.
    async fn row(mut self, fault: &str, may_enter: bool) -> Row {
        let before = self.entered;
        assert!(may_enter || before == 0, "{fault}: {before} calls have entered, with all places taken");
        self.go_on(LEASE + LEASE / 5).await;
        assert_eq!(self.entered, before, "{fault}: leases are renewed");
        let held = self.permits.len();
        self.permits.clear();
        let left = Instant::now();
        while self.other.in_flight(&RULE, &Key::global()).await.unwrap() > 0 {
            assert!(left.elapsed() < LEASE / 2, "{fault}: a place is not left");
            sleep(Duration::from_millis(5)).await;
        }
        let most = if before > 0 { held + 1 } else { held };
        Row::new(format!("calls in flight: {fault}"))
            .calls(self.calls)
            .slowest(self.slowest, TIMEOUT)
            .admitted(format!("at most {most} in flight, of {MAX}"))
            .seen(format!("no place {}, unavailable {}, entered {before}", self.full, self.unavailable))
            .recovery(
                self.kept.map_or_else(|| "–".to_owned(), |kept| format!("places known after {} ms", kept.as_millis())),
            )
    }
}

const SHORT: Duration = Duration::from_secs(1);

/// The server forgets the places, and is told of them at the next renewal.
pub(crate) async fn killed_and_back_empty() -> Row {
    let mut server = RedisServer::start();
    let mut held = Held::on(&server.url()).await;
    server.stop();
    held.go_on(SHORT).await;
    server.restart();
    held.finds_its_places(LEASE).await;
    held.row("killed, and started again empty after 1 s", true).await
}

pub(crate) async fn frozen_for_seconds() -> Row {
    let server = RedisServer::start();
    let mut held = Held::on(&server.url()).await;
    server.freeze();
    held.go_on(2 * SHORT).await;
    server.thaw();
    held.keeps_its_places(SHORT).await;
    assert!(held.unavailable > 0);
    held.row("frozen (SIGSTOP) for 2 s", false).await
}

pub(crate) async fn connections_killed() -> Row {
    let server = RedisServer::start();
    let mut held = Held::on(&server.url()).await;
    for _ in 0..5 {
        server.cli(&["CLIENT", "KILL", "TYPE", "normal"]);
        held.go_on(SHORT / 4).await;
    }
    held.keeps_its_places(SHORT).await;
    held.row("all connections killed five times", false).await
}

/// The new master knows the places.
pub(crate) async fn failed_over_by_sentinel() -> Row {
    let mut all = Sentinels::start(3);
    let mut held = Held::on(&all.url()).await;
    // A replica asks for all there is first, and a busy machine takes its time with that.
    let has_places = |server: &RedisServer| server.cli(&["KEYS", "*:cc:held*"]).lines().count() == 1;
    assert!(has_places(&all.servers[0]) && eventually(|| has_places(&all.servers[1])), "the replica has the places");
    // What was written while it did so.
    sleep(SHORT / 2).await;
    all.servers[0].stop();
    all.until_master_is(1);
    held.keeps_its_places(LEASE).await;
    held.row("Sentinel of 3: the master killed, and the replica has the places", false).await
}

/// The new master does not, until the next renewal.
pub(crate) async fn failed_over_without_the_last_writes() -> Row {
    let (old, new) = (RedisServer::start(), RedisServer::start());
    let proxy = Proxy::start(old.port()).await;
    let mut held = Held::on(&proxy.url()).await;
    proxy.lead_to(new.port());
    proxy.reset_all();
    held.finds_its_places(LEASE).await;
    held.row("fail-over to a master that has lost the places", true).await
}
