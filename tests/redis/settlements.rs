//! Reservations that end while the server does not answer: no settlement is given up while its
//! connection lives, and `settled` waits for all of them.

use std::time::{Duration, Instant};

use ratelimit_runtime::{Algorithm, Key, Limit, RateLimitError, RateLimiter, Rule};

use super::PATIENCE;
use crate::support::redis::RedisServer;
use crate::support::{settled, strict, until};

const EACH: u64 = 100;

#[tokio::test]
async fn what_ends_while_the_server_stands_still_is_settled_to_the_unit() {
    let server = RedisServer::start();
    // A busy machine may stop it for longer than the usual timeout; it stands still for three times
    // this one.
    let limiter = RateLimiter::builder()
        .redis(&server.url())
        .timeout(Duration::from_millis(500))
        .build()
        .unwrap();
    limiter.ready().await.unwrap();
    let rules = Algorithm::ALL.iter().map(|algorithm| {
        Rule::named(format!("settled:{algorithm}"), Limit::per_day(1_000))
            .with_algorithm(*algorithm)
    });
    let rules: Vec<Rule> = rules.collect();
    let (mut reservations, since) = (Vec::new(), Instant::now());
    for rule in &rules {
        for _ in 0..EACH {
            reservations.push(limiter.reserve(rule, &Key::global()).await.unwrap());
        }
        assert_eq!(
            limiter
                .peek(rule, &Key::global())
                .await
                .unwrap()
                .remaining(),
            1_000 - EACH,
            "{rule:?}"
        );
    }
    server.freeze();
    for (nth, reservation) in reservations.into_iter().enumerate() {
        if nth % 2 == 0 {
            reservation.release();
        } else {
            reservation.commit(2);
        }
    }
    let settled = limiter.settled_within(Duration::from_millis(1_500)).await;
    let Err(RateLimitError::Unavailable(error)) = settled else {
        panic!("{settled:?}");
    };
    let how_many = error
        .message()
        .strip_suffix(" settlements were not answered within 1.5s");
    let open: u64 = how_many.unwrap().parse().unwrap();
    // Where the machine was so busy that a process answered a call by itself, one less.
    let all = EACH * rules.len() as u64;
    assert!((all / 2..=all).contains(&open), "{error}");
    server.thaw();
    limiter.settled_within(PATIENCE).await.unwrap();
    // The server counts as slow until it has answered a PING in time.
    limiter.ready().await.unwrap();
    for rule in &rules {
        let decision = limiter.peek(rule, &Key::global()).await.unwrap();
        assert!(!decision.is_degraded(), "{decision:?}");
        // Buckets drain a unit in 86 s, and withhold what has drained since of each release.
        let (least, most) = if rule.algorithm().has_burst() {
            let withheld = EACH / 2 * (since.elapsed().as_secs() + 1);
            (900 - withheld.div_ceil(86), 901)
        } else {
            (900, 900)
        };
        assert!(
            (least..=most).contains(&decision.remaining()),
            "{decision:?}"
        );
    }
}

/// Its name leads to a replica meanwhile, as during a fail-over: none is given up for that.
#[tokio::test]
async fn what_ends_while_the_server_is_a_replica_is_settled_once_it_takes_writes() {
    let server = RedisServer::start();
    let limiter = strict().redis(&server.url()).build().unwrap();
    let rule = Rule::new("failed-over", Limit::per_day(10));
    let reserve = async || limiter.reserve(&rule, &Key::global()).await.unwrap();
    let [before, during] = [reserve().await, reserve().await];
    assert_eq!(server.cli(&["REPLICAOF", "127.0.0.1", "1"]), "OK");
    before.release();
    until("it is noticed", PATIENCE, async || {
        limiter.peek(&rule, &Key::global()).await.is_err()
    })
    .await;
    during.release();
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert_eq!(server.cli(&["REPLICAOF", "NO", "ONE"]), "OK");
    settled(&limiter).await;
    until("it takes writes", PATIENCE, async || {
        limiter.ready().await.is_ok()
    })
    .await;
    let left = limiter.peek(&rule, &Key::global()).await.unwrap();
    assert_eq!(left.remaining(), 10);
}
