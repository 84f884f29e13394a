//! Faults while calls are in flight: what callers see that want a permit, and whether those that
//! hold one keep it.

use std::time::{Duration, Instant};

use ratelimit_runtime::__private::PermitRequest;
use ratelimit_runtime::{Key, OnUnavailable, Permit, RateLimitError, RateLimiter, Rule};
use tokio::time::sleep;

use crate::harness::{Case, Fault, Row, TIMEOUT, World, stalled_since};
use crate::one::{One, Setup};
use crate::support::pair::Pair;
use crate::support::redis::{RedisServer, free_port};
use crate::support::sentinel::Sentinels;
use crate::support::{eventually, until};

const MAX: u64 = 2;
const LEASE: Duration = PermitRequest::MIN_LEASE;
static RULE: Rule = Rule::in_flight("held", MAX).with_lease(LEASE);
/// For machines that are busy.
const SLACK: Duration = Duration::from_millis(400);

/// A process that holds all permits of a key, and another that asks for one. When the store does
/// not answer, it is refused, so that all that it acquires are the store's.
struct Held {
    permits: Vec<Permit>,
    other: RateLimiter,
    calls: usize,
    slowest: Duration,
    full: usize,
    unavailable: usize,
    admitted: usize,
    kept: Option<Duration>,
}

impl Held {
    async fn on(world: &impl World) -> Self {
        let build = || {
            world
                .store(RateLimiter::builder().timeout(TIMEOUT))
                .on_unavailable(OnUnavailable::Deny)
        };
        let (holder, other) = (build().build().unwrap(), build().build().unwrap());
        holder.ready().await.unwrap();
        other.ready().await.unwrap();
        let mut permits = Vec::new();
        for _ in 0..MAX {
            permits.push(holder.enter(&RULE, &Key::global()).await.unwrap());
        }
        let (calls, slowest, kept) = (0, Duration::ZERO, None);
        let mut held = Self {
            permits,
            other,
            calls,
            slowest,
            full: 0,
            unavailable: 0,
            admitted: 0,
            kept,
        };
        // A machine that is busy with other things is given time.
        for _ in 0..10 {
            (held.full, held.unavailable) = (0, 0);
            held.go_on(Duration::from_millis(200)).await;
            if held.unavailable == 0 {
                break;
            }
        }
        assert_eq!(
            (held.unavailable, held.admitted),
            (0, 0),
            "before the fault"
        );
        held
    }

    async fn call(&mut self) {
        let start = Instant::now();
        let permit = self.other.enter(&RULE, &Key::global()).await;
        let took = start.elapsed();
        assert!(
            took <= TIMEOUT + SLACK + stalled_since(start),
            "a call took {took:?}"
        );
        (self.calls, self.slowest) = (self.calls + 1, self.slowest.max(took));
        match permit {
            Ok(permit) => {
                assert!(!permit.decision().is_degraded(), "{permit:?}");
                self.admitted += 1;
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

    /// Waits until the store knows the permits (again). Calls that go on may take a permit that it
    /// has forgotten: a permit is lost if its renewal finds none free.
    async fn keeps_its_permits(&mut self, within: Duration, calls_go_on: bool) {
        let healed = Instant::now();
        while !matches!(self.other.in_flight(&RULE, &Key::global()).await, Ok(MAX)) {
            assert!(
                healed.elapsed() < within,
                "the permits are not held after {within:?}"
            );
            if calls_go_on {
                self.call().await;
            }
            sleep(Duration::from_millis(10)).await;
        }
        self.kept = Some(healed.elapsed());
    }

    /// No call was admitted that should not have been; leases are renewed from here on, and a
    /// permit that is released is free at once.
    async fn row(mut self, fault: &str, may_admit: bool) -> Row {
        let before = self.admitted;
        assert!(
            may_admit || before == 0,
            "{fault}: {before} calls were admitted, with all permits held"
        );
        self.go_on(LEASE + LEASE / 5).await;
        assert_eq!(self.admitted, before, "{fault}: leases are renewed");
        let held = self.permits.len();
        self.permits.clear();
        let released = async || matches!(self.other.in_flight(&RULE, &Key::global()).await, Ok(0));
        until(fault, LEASE / 2, released).await;
        let most = if before > 0 { held + 1 } else { held };
        Row::new(format!("calls in flight: {fault}"))
            .calls(self.calls)
            .slowest(self.slowest, TIMEOUT)
            .admitted(format!("at most {most} in flight, of {MAX}"))
            .seen(format!(
                "no permit {}, unavailable {}, admitted {before}",
                self.full, self.unavailable
            ))
            .recovery(self.kept.map_or_else(
                || "–".to_owned(),
                |kept| format!("permits known after {} ms", kept.as_millis()),
            ))
    }
}

impl<W: World> Fault<W> {
    /// Keeps calls in flight while the fault comes and goes. What the store forgets is taken anew.
    async fn hold(self, mut world: W) -> Row {
        let mut held = Held::on(&world).await;
        (self.begins)(&mut world);
        held.go_on(self.lasts).await;
        (self.ends)(&mut world);
        held.keeps_its_permits(self.within, !self.forgets).await;
        held.row(self.says, self.forgets).await
    }
}

const SHORT: Duration = Duration::from_secs(1);
const PLAIN: Setup = Setup::NEW;

pub(crate) fn cases() -> impl Iterator<Item = Case> {
    let fault = Fault::<One>::new;
    let rows = [
        // The server is told of the permits at the next renewal.
        fault(
            "leases::killed_and_back_empty",
            "killed, and started again empty after 1 s",
            PLAIN,
        )
        .forgets()
        .begins(|one| one.server_mut().stop())
        .ends(1_000, |one| one.server_mut().restart())
        .within(5_000),
        fault(
            "leases::frozen_for_seconds",
            "frozen (SIGSTOP) for 2 s",
            PLAIN,
        )
        .begins(|one| one.server().freeze())
        .ends(2_000, |one| one.server().thaw())
        .within(1_000),
        fault(
            "leases::connections_killed",
            "all connections killed",
            PLAIN,
        )
        .begins(|one| one.kill_connections())
        .ends(500, |one| one.kill_connections())
        .within(1_000),
        fault("leases::scripts_flushed", "scripts flushed", PLAIN)
            .begins(|one| one.cli(&["SCRIPT", "FLUSH"]))
            .ends(500, |one| one.cli(&["SCRIPT", "FLUSH"]))
            .within(1_000),
        // Replies come after the timeout, and renewals have longer.
        fault(
            "leases::slow",
            "replies 200 ms late, for longer than a lease",
            Setup {
                proxy: true,
                ..PLAIN
            },
        )
        .begins(|one| one.proxy().delay(TIMEOUT))
        .ends(6_000, |one| one.proxy().delay(Duration::ZERO)),
        // Renewing fails for want of memory, and is not taken for a lost permit.
        fault("leases::out_of_memory", "out of memory for 2 s", PLAIN)
            .begins(|one| one.config("maxmemory", "1"))
            .ends(2_000, |one| one.config("maxmemory", "0")),
        // A master that was replaced while its clients were not told.
        fault("leases::read_only", "a replica (READONLY) for 2 s", PLAIN)
            .begins(|one| one.cli(&["REPLICAOF", "127.0.0.1", &free_port().to_string()]))
            .ends(2_000, |one| one.cli(&["REPLICAOF", "NO", "ONE"])),
        // Leases end early, and permits are acquired anew where any are free.
        fault(
            "leases::clock_set_forward",
            "clock set forward by 20 s",
            Setup {
                clock: Some(0),
                ..PLAIN
            },
        )
        .forgets()
        .begins(|one| one.clock.as_ref().unwrap().set_ms(20_000))
        .within(5_000),
        fault(
            "leases::clock_set_back",
            "clock set back by 20 s",
            Setup {
                clock: Some(60_000),
                ..PLAIN
            },
        )
        .begins(|one| one.clock.as_ref().unwrap().set_ms(40_000))
        .within(1_000),
    ];
    rows.into_iter().map(|row| row.case(Fault::hold))
}

/// The new master knows the permits.
pub(crate) async fn failed_over_by_sentinel() -> Row {
    let mut all = Sentinels::start(3);
    let mut held = Held::on(&all).await;
    // A replica asks for all there is first, and a busy machine takes its time with that.
    let has_permits =
        |server: &RedisServer| server.cli(&["KEYS", "*:cc:held*"]).lines().count() == 1;
    assert!(
        has_permits(&all.servers[0]) && eventually(|| has_permits(&all.servers[1])),
        "the replica has the permits"
    );
    // What was written while it did so.
    sleep(SHORT / 2).await;
    all.servers[0].stop();
    all.until_master_is(1);
    held.keeps_its_permits(LEASE, true).await;
    held.row(
        "Sentinel of 3: the master killed, and the replica has the permits",
        false,
    )
    .await
}

/// The new master does not, until the next renewal.
pub(crate) async fn failed_over_without_the_last_writes() -> Row {
    let pair = Pair::start().await;
    let mut held = Held::on(&pair).await;
    pair.cut();
    assert_eq!(pair.replica.cli(&["FLUSHALL"]), "OK");
    pair.promote();
    pair.name.reset_all();
    held.keeps_its_permits(LEASE, false).await;
    held.row("fail-over to a master that has lost the permits", true)
        .await
}
