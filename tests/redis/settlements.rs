//! Reservations that end while the server does not answer: no settlement is given up while its
//! connection lives, and `settled` waits for all of them.

use std::time::Duration;

use ratelimit_runtime::{Algorithm, Key, Limit, RateLimiter, Rule};

use super::PATIENCE;
use crate::support::redis::RedisServer;

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
    let mut reservations = Vec::new();
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
    assert!(
        limiter
            .settled_within(Duration::from_millis(1_500))
            .await
            .is_err(),
        "none is answered yet"
    );
    server.thaw();
    limiter.settled_within(PATIENCE).await.unwrap();
    // The server counts as slow until it has answered a PING in time.
    limiter.ready().await.unwrap();
    for rule in &rules {
        let decision = limiter.peek(rule, &Key::global()).await.unwrap();
        assert!(!decision.is_degraded(), "{decision:?}");
        // Buckets drain meanwhile, and withhold what has drained of what is released: less than a
        // unit, of which one drains in 86 s.
        let (least, most) = if rule.algorithm().has_burst() {
            (899, 901)
        } else {
            (900, 900)
        };
        assert!(
            (least..=most).contains(&decision.remaining()),
            "{decision:?}"
        );
    }
}
