//! What becomes of units taken ahead: they are spent, as far as another would have admitted as
//! much, and else given back.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::thread::sleep;
use std::time::{Duration, Instant};

use ratelimit_runtime::{Algorithm, Key, Limit, Rule, Source};
use tokio::task::JoinSet;

use crate::abreast::{abreast, alone, is_chosen};
use crate::fleet::{Arrivals, Fleet, Plan, Record};
use crate::oracle::{Admission, check};
use crate::support::clock::ServerClock;
use crate::support::random::Random;
use crate::support::redis::RedisServer;
use crate::support::{settled, strict, unique};

/// The same calls at the same time, once charged one by one and once by units taken ahead.
fn both_ways(plan: Plan) -> [Record; 2] {
    let clocks = [ServerClock::new(), ServerClock::new()];
    let servers = clocks.each_ref().map(|clock| clock.server(&[]));
    let lease = [Duration::ZERO, plan.lease];
    let mut fleets: Vec<_> = servers
        .iter()
        .zip(lease)
        .map(|(server, lease)| Fleet::new(&server.url(), Plan { lease, ..plan }))
        .collect();
    fleets.iter_mut().for_each(Fleet::go);
    let mut records = fleets.iter_mut().map(Fleet::end);
    [records.next().unwrap(), records.next().unwrap()]
}

/// So many units may be charged and not spent: a call that finds at the last moment that a lease is
/// over has taken units of it, which are not given back then.
const LOST: u64 = 12;
/// Of what is admitted one by one, at least so much is admitted.
const LEAST: f64 = 0.97;

fn assert_shares(algorithm: Algorithm, load: f64, length: Duration, seed: u64) {
    // What a machine of two processors can call twice.
    let (max, window) = if load > 2.0 { (1_600, 2) } else { (2_000, 1) };
    let window = Duration::from_secs(window);
    let lease = window / 50;
    let plan = Plan {
        algorithm,
        limit: Limit::new(max, window),
        lease,
        load,
        arrivals: Arrivals::Steady,
        costs: 1,
        length,
        seed,
    };
    let [one_by_one, ahead] = both_ways(plan);
    let share = ahead.units() as f64 / one_by_one.units() as f64;
    println!(
        "{algorithm}, load {load}: {} of {} calls one by one, {} of {} with units taken ahead \
         ({share:.3}), {:.2} of these by grants; {} and {} were not answered",
        one_by_one.units(),
        one_by_one.calls,
        ahead.units(),
        ahead.calls,
        ahead.share_of_grants(),
        one_by_one.failed,
        ahead.failed
    );
    for record in [&one_by_one, &ahead] {
        check(algorithm, &plan.limit, &record.admissions, 0).unwrap();
    }
    // Where a question takes half a lease, the other half is over before its units are spent.
    let half = i64::try_from(lease.as_nanos() / 2).unwrap();
    let is_late = |made: &&Admission| made.after - made.before > half;
    let late = one_by_one.admissions.iter().filter(is_late).count();
    if late * 10 > one_by_one.admissions.len() {
        println!("{algorithm}, load {load}: the machine was too slow to tell, {late} calls late");
        return;
    }
    let by_grants = [one_by_one, ahead].map(|record| record.share_of_grants());
    assert!(
        by_grants[0] == 0.0,
        "nothing is taken ahead that is not asked for"
    );
    assert!(load >= 1.5 || by_grants[1] > 0.0);
    assert!(
        share >= LEAST,
        "{algorithm}, load {load}: {share:.3}, seed {seed}"
    );
}

#[test]
#[ignore = "measures for three minutes"]
fn as_much_is_admitted_as_one_by_one_at_any_load() {
    let (_alone, mut random) = (alone(), Random::another());
    for &algorithm in Algorithm::ALL {
        for load in [0.3, 0.9, 1.0, 1.2, 1.5, 5.0] {
            // Whole windows would tell nothing: as much as fits is admitted by the end of each.
            let length = Duration::from_millis(5_500);
            if is_chosen(&format!("{algorithm}, load {load:.1}")) {
                assert_shares(algorithm, load, length, random.number());
            }
        }
    }
}

/// A lease after the last call nothing is charged that was not spent.
#[test]
fn nothing_is_held_longer_than_a_lease() {
    let mut random = Random::another();
    let mut cases = Vec::new();
    for &algorithm in Algorithm::ALL {
        for (lease, stands_still) in [(40, true), (400, false)] {
            cases.push(Held {
                algorithm,
                lease: Duration::from_millis(lease),
                stands_still,
                seed: random.number(),
            });
        }
    }
    abreast(cases, Held::run);
}

#[derive(Debug, Clone, Copy)]
struct Held {
    algorithm: Algorithm,
    lease: Duration,
    /// Whether the process that calls most stands still again and again, for longer than a lease,
    /// and calls at once then what it should have called meanwhile.
    stands_still: bool,
    seed: u64,
}

impl Held {
    fn run(self) {
        const MONTH: Duration = Duration::from_secs(30 * 86_400);
        let Self {
            algorithm, lease, ..
        } = self;
        let server = RedisServer::start();
        let plan = Plan {
            algorithm,
            // Next to nothing drains, and no window ends. So many calls come in a second:
            limit: Limit::new(100_000, MONTH),
            load: 1_000.0 * 2.0 * MONTH.as_secs_f64() / 100_000.0,
            lease,
            arrivals: Arrivals::Steady,
            costs: 3,
            length: Duration::from_millis(1_200),
            seed: self.seed,
        };
        let mut fleet = Fleet::new(&server.url(), plan);
        fleet.go();
        if self.stands_still {
            let start = Instant::now();
            while start.elapsed() < plan.length {
                sleep(lease);
                fleet.busiest().signal("STOP");
                sleep(lease * 2);
                fleet.busiest().signal("CONT");
            }
        }
        let record = fleet.end();
        let (spent, used) = (record.units(), fleet.used());
        println!(
            "{algorithm}, lease {lease:?}: {spent} units were spent, {used} are used, {:.2} of \
             the admissions by grants",
            record.share_of_grants()
        );
        // A bucket may have drained by one unit.
        let drained = u64::from(algorithm.has_burst());
        assert!(
            (spent - drained..=spent + LOST).contains(&used),
            "{spent} units were spent, and {used} are used; {} calls were not answered",
            record.failed
        );
        assert!(record.share_of_grants() > 0.0);
    }
}

/// Calls of several threads that come as a lease ends, hundreds of times.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lease_that_ends_amid_calls_loses_next_to_nothing() {
    let (server, length) = (RedisServer::start(), Duration::from_millis(700));
    // On a machine so slow that a lease has few calls, none is worth a question.
    let (patience, enough) = (Duration::from_secs(20), 100);
    let limiter = strict().redis(&server.url()).build().unwrap();
    limiter.ready().await.unwrap();
    for &algorithm in Algorithm::ALL {
        let limit = Limit::new(10_000_000, Duration::from_secs(366 * 86_400));
        let rule = Rule::named(unique("end"), limit)
            .with_algorithm(algorithm)
            .with_prefetch(Duration::from_millis(10));
        let (start, mut callers) = (Instant::now(), JoinSet::new());
        let by_grants = Arc::new(AtomicU64::new(0));
        for caller in 0..4 {
            let (limiter, rule) = (limiter.clone(), rule.with_cost(1 + caller));
            let by_grants = Arc::clone(&by_grants);
            callers.spawn(async move {
                let (mut spent, mut calls) = (0, 0);
                let is_enough = || by_grants.load(Relaxed) >= enough || start.elapsed() > patience;
                while start.elapsed() < length || !is_enough() {
                    let decision = limiter.acquire(&rule, &Key::global()).await.unwrap();
                    spent += rule.cost();
                    calls += 1;
                    by_grants.fetch_add(u64::from(decision.source() == Source::Grant), Relaxed);
                }
                (spent, calls)
            });
        }
        let all = callers.join_all().await;
        let all = all.iter();
        let (spent, calls) = all.fold((0, 0), |all, one| (all.0 + one.0, all.1 + one.1));
        let by_grants = by_grants.load(Relaxed);
        settled(&limiter).await;
        let seen = limiter.peek(&rule, &Key::global()).await.unwrap();
        let used = limit.max() - seen.remaining();
        println!(
            "{algorithm}: {spent} units were spent by {calls} calls, {by_grants} of them by \
             grants, {used} are used"
        );
        // A unit of a bucket drains in 3 seconds.
        let drained = if algorithm.has_burst() { 10 } else { 0 };
        assert!(
            (spent - drained..=spent + LOST + calls / 10_000).contains(&used),
            "{algorithm}: {spent} units were spent, and {used} are used"
        );
        assert!(by_grants >= enough, "{algorithm}: {by_grants} by grants");
    }
}
