//! Calls that a limit of their caller's own refuses, and what they leave on the keys of others.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::future::join_all;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::*;
use crate::support::random::{Random, seed};

const EMAILS: u64 = 20;
const ADDRESSES: u64 = 3;

fn by_ip() -> Rule {
    Rule::new("by_ip", Limit::per_hour(ADDRESSES))
}

/// Blocks where the store has blocks.
fn by_email(site: &Site) -> Rule {
    let rule = Rule::new("by_email", Limit::per_hour(EMAILS));
    if site.blocks() {
        rule.with_block(10 * MINUTE)
    } else {
        rule
    }
}

/// Ends a call at a random moment.
async fn given_up<T>(call: impl Future<Output = T>, random: &mut Random) -> Option<T> {
    match random.below(3) {
        0 => timeout(Duration::from_micros(random.below(3_000)), call)
            .await
            .ok(),
        _ => polled(call, random.below(8)).await,
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_that_their_own_limit_refuses_neither_charge_nor_block_another() {
    for kind in KINDS {
        let site = Site::new(kind).await;
        let (by_email, by_ip) = (by_email(&site), by_ip());
        let (alice, attacker) = (site.key(&by_email, 0), site.key(&by_ip, 1));
        site.charge(1, &by_ip, attacker, ADDRESSES).await;
        let stack = site.stack(&[(&by_email, alice), (&by_ip, attacker)]);
        let calls = join_all((0..2 * EMAILS).map(|_| stack.clone().call())).await;
        for call in calls {
            assert_eq!(refused_by(call), "by_ip");
        }
        site.settled().await;
        let alices = site.peek(0, &by_email, alice).await;
        assert!(!alices.is_blocked(), "{alices:?}");
        assert_eq!(alices.remaining(), EMAILS);
        site.charge(0, &by_email, alice, EMAILS).await;
    }
}

/// His limit has room for three: so much he may charge, and block nobody by the others.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_at_once_charge_what_runs_and_block_nobody() {
    for kind in KINDS {
        let site = Site::new(kind).await;
        let (by_email, by_ip) = (by_email(&site), by_ip());
        let (alice, attacker) = (site.key(&by_email, 0), site.key(&by_ip, 1));
        let stack = site.stack(&[(&by_email, alice), (&by_ip, attacker)]);
        let calls = join_all((0..2 * EMAILS).map(|_| stack.clone().call())).await;
        let admitted = calls.iter().filter(|call| call.is_ok()).count() as u64;
        assert!(admitted <= ADDRESSES, "{admitted}");
        site.settled().await;
        let alices = site.peek(0, &by_email, alice).await;
        assert!(!alices.is_blocked(), "{alices:?}");
        assert_eq!(alices.remaining(), EMAILS - admitted);
        let left = site.left(1, &by_ip, attacker).await;
        assert_eq!(left, ADDRESSES - admitted);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_that_are_given_up_in_the_first_step_charge_nobody() {
    let mut random = Random::new(seed());
    for kind in KINDS {
        let site = Site::new(kind).await;
        let (by_email, by_ip) = (by_email(&site), by_ip());
        let (alice, attacker) = (site.key(&by_email, 0), site.key(&by_ip, 1));
        site.charge(1, &by_ip, attacker, ADDRESSES).await;
        let stack = site.stack(&[(&by_email, alice), (&by_ip, attacker)]);
        let mut calls = JoinSet::new();
        for _ in 0..300 {
            let (stack, mut random) = (stack.clone(), random.fork());
            calls.spawn(async move { given_up(stack.call(), &mut random).await });
        }
        for call in calls.join_all().await.into_iter().flatten() {
            assert_eq!(refused_by(call), "by_ip");
        }
        site.settled().await;
        assert_eq!(site.left(0, &by_email, alice).await, EMAILS);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_that_a_limit_refuses_take_no_permit_of_others() {
    const PERMITS: u64 = 4;
    for kind in KINDS.into_iter().filter(|kind| kind.has_scripts()) {
        let site = Site::new(kind).await;
        let (everybody, by_ip) = (Rule::in_flight("everybody", PERMITS), by_ip());
        let attacker = site.key(&by_ip, 1);
        let all = site.permit_key(&everybody, 0);
        site.charge(1, &by_ip, attacker, ADDRESSES).await;
        let refused = site.stack(&[(&everybody, all), (&by_ip, attacker)]);
        let is_over = Arc::new(AtomicBool::new(false));
        let mut attack = JoinSet::new();
        for _ in 0..2 * PERMITS {
            let (refused, is_over) = (refused.clone(), Arc::clone(&is_over));
            attack.spawn(async move {
                while !is_over.load(Ordering::Relaxed) {
                    assert_eq!(refused_by(refused.clone().call().await), "by_ip");
                    tokio::task::yield_now().await;
                }
            });
        }
        // There is a permit for each of those who call at once, and as many more.
        let others: Vec<u64> = (1_000_000..1_000_020).collect();
        for at_once in others.chunks(usize::try_from(PERMITS / 2).unwrap()) {
            let call = |address| site.stack(&[(&everybody, all), (&by_ip, address)]).call();
            let calls = join_all(at_once.iter().map(|address| call(*address))).await;
            assert!(calls.iter().all(Result::is_ok), "{calls:?}");
            drop(calls);
            site.settled().await;
        }
        is_over.store(true, Ordering::Relaxed);
        attack.join_all().await;
    }
}

/// Calls again and again, by twenty tasks, while what is left of a key of another is looked at.
async fn all_that_is_left(
    attack: Stack,
    by: &'static str,
    left: impl AsyncFn() -> u64,
) -> Vec<u64> {
    let is_over = Arc::new(AtomicBool::new(false));
    let mut attackers = JoinSet::new();
    for _ in 0..20 {
        let (attack, is_over) = (attack.clone(), Arc::clone(&is_over));
        attackers.spawn(async move {
            while !is_over.load(Ordering::Relaxed) {
                assert_eq!(refused_by(attack.clone().call().await), by);
            }
        });
    }
    let mut seen = Vec::new();
    for _ in 0..200 {
        seen.push(left().await);
    }
    is_over.store(true, Ordering::Relaxed);
    attackers.join_all().await;
    seen.sort_unstable();
    seen.dedup();
    seen
}

/// The permit of the attacker's own key is taken, by a call of another process.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_without_a_permit_of_their_own_keep_nobody_out() {
    for kind in [Kind::Cluster, Kind::LayerOnRedis] {
        let site = Site::new(kind).await;
        let elsewhere = site.elsewhere().await;
        let few = Rule::new("by_email", Limit::per_hour(3));
        let own = Rule::in_flight("own", 1);
        let (alice, attacker) = (site.key(&few, 0), site.permit_key(&own, 1));
        let permit = elsewhere.limiter(0).enter(&own, &Key::of(&attacker)).await;
        let attack = site.stack(&[(&few, alice), (&own, attacker)]);
        let left = async || elsewhere.left(0, &few, alice).await;
        assert_eq!(all_that_is_left(attack, "own", left).await, [3]);
        drop(permit.unwrap());
    }
}

/// From an account to the same one: there is room for one of the two.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_with_a_key_of_their_own_twice_keep_nobody_out() {
    for kind in [Kind::Cluster, Kind::LayerOnRedis] {
        let site = Site::new(kind).await;
        let elsewhere = site.elsewhere().await;
        let few = Rule::new("by_email", Limit::per_hour(3));
        let account = Rule::new("account", Limit::per_hour(2));
        let (alice, attacker) = (site.key(&few, 0), site.key(&account, 1));
        site.charge(1, &account, attacker, 1).await;
        let own = Rule::in_flight("own", 1);
        for (twice, key) in [(&account, attacker), (&own, site.permit_key(&own, 1))] {
            let attack = site.stack(&[(&few, alice), (twice, key), (twice, key)]);
            let left = async || elsewhere.left(0, &few, alice).await;
            assert_eq!(all_that_is_left(attack, twice.name(), left).await, [3]);
        }
    }
}

/// What somebody sees who looks at a key.
async fn seen(site: &Site, rule: &Rule, keys: &[u64]) -> Vec<(u64, bool, Duration)> {
    let peeks = join_all(keys.iter().map(|key| site.peek(0, rule, *key))).await;
    let seen = peeks.iter();
    seen.map(|seen| (seen.remaining(), seen.is_blocked(), seen.reset_after()))
        .collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_thousand_dropped_calls_leave_the_keys_of_others_as_they_were() {
    const CALLERS: u64 = 50;
    /// Ten thousand under all algorithms together.
    const CALLS: u64 = 40;
    let mut random = Random::new(seed());
    for &algorithm in ratelimit_conformance::ALGORITHMS {
        let clock = FakeClock::new();
        let site = Site::with_clock(Kind::Cluster, Some(&clock)).await;
        let (by_email, by_ip) = (
            by_email(&site).with_algorithm(algorithm),
            by_ip().with_algorithm(algorithm),
        );
        let attacker = site.key(&by_ip, 0);
        let others = (1..NODES).flat_map(|node| site.keys(&by_email, node).take(50));
        let others: Vec<u64> = others.collect();
        // Some have used nothing, some all; some are blocked.
        for (&key, used) in others.iter().zip((0..=EMAILS).cycle()) {
            if used > 0 {
                site.charge(0, &by_email.with_cost(used), key, 1).await;
            }
            if used % 7 == 6 {
                let key = Key::of(&key);
                let blocked = site.limiter(0).block(&by_email, &key, MINUTE).await;
                blocked.unwrap();
            }
        }
        site.charge(1, &by_ip, attacker, ADDRESSES).await;
        let before = seen(&site, &by_email, &others).await;
        let mut callers = JoinSet::new();
        for _ in 0..CALLERS {
            let (site, mut random) = (site.clone(), random.fork());
            let (by_email, by_ip, others) = (by_email.clone(), by_ip.clone(), others.clone());
            callers.spawn(async move {
                for _ in 0..CALLS {
                    let other = random.of(&others);
                    let call = site.stack(&[(&by_email, other), (&by_ip, attacker)]).call();
                    let ended = given_up(call, &mut random).await;
                    assert!(ended.is_none_or(|ended| ended.is_err()));
                }
            });
        }
        callers.join_all().await;
        site.settled().await;
        assert_eq!(seen(&site, &by_email, &others).await, before, "{algorithm}");
    }
}

/// Nobody is kept out for longer than the attacker's own limit lets him charge.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_that_are_dropped_charge_no_more_than_their_own_limit_allows() {
    let mut random = Random::new(seed());
    for &algorithm in ratelimit_conformance::ALGORITHMS {
        for kind in [Kind::Cluster, Kind::LayerOnRedis] {
            let clock = FakeClock::new();
            let site = Site::with_clock(kind, Some(&clock)).await;
            let few = Rule::new("by_email", Limit::per_hour(5)).with_algorithm(algorithm);
            let by_ip = by_ip().with_algorithm(algorithm);
            let (alice, attacker) = (site.key(&few, 0), site.key(&by_ip, 1));
            let stack = site.stack(&[(&few, alice), (&by_ip, attacker)]);
            let mut calls = JoinSet::new();
            for _ in 0..500 {
                let (stack, mut random) = (stack.clone(), random.fork());
                calls.spawn(async move {
                    let call = given_up(stack.call(), &mut random).await;
                    drop(call);
                });
            }
            calls.join_all().await;
            site.settled().await;
            let charged = 5 - site.left(0, &few, alice).await;
            let own = ADDRESSES - site.left(1, &by_ip, attacker).await;
            assert_eq!(charged, own, "{algorithm} on {kind:?}");
            assert!(!site.peek(0, &few, alice).await.is_blocked());
            // What he has left her is hers at once.
            site.charge(0, &few, alice, 5 - charged).await;
        }
    }
}
