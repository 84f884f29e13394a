//! `CL.THROTTLE` of a loadable module, and token buckets in a Redis string that a timer refills.

use axum::http::header::RETRY_AFTER;
use axum::response::IntoResponse as _;

use super::*;

#[rate_limit(name = "cell: reply", key = "<user>", window = "60s", max = 30, burst = 15, algorithm = "leaky_bucket")]
async fn reply(user: &str) -> Outcome {
    Ok(())
}

#[rate_limit(name = "cell: upload", key = "<user>", window = "60s", max = 30, burst = 15, algorithm = "token_bucket")]
async fn upload(user: &str) -> Outcome {
    Ok(())
}

/// `CL.THROTTLE user 14 30 60`: fifteen at once, then one every two seconds.
#[tokio::test]
async fn buckets_by_attribute_have_a_burst_and_a_rate() {
    for (limiter, clock) in both() {
        limiter
            .scope(async {
                for _ in 0..15 {
                    assert!(!is_refused(&reply("a").await) && !is_refused(&upload("a").await));
                }
                for _ in 0..10 {
                    for refused in [reply("a").await.unwrap_err(), upload("a").await.unwrap_err()] {
                        assert_eq!(refused.retry_after(), Some(SECOND * 2));
                    }
                    clock.advance(SECOND * 2);
                    assert!(!is_refused(&reply("a").await) && !is_refused(&upload("a").await));
                }
                assert!(!is_refused(&reply("b").await) && !is_refused(&upload("b").await));
            })
            .await;
    }
}

#[tokio::test]
async fn no_module_is_needed() {
    let server = RedisServer::start();
    assert_eq!(server.cli(&["MODULE", "LIST"]).trim(), "", "a server without modules");
    let (limiter, _) = on_redis(&server);
    limiter
        .scope(async {
            for _ in 0..15 {
                assert!(!is_refused(&reply("a").await) && !is_refused(&upload("a").await));
            }
            assert!(is_refused(&reply("a").await) && is_refused(&upload("a").await));
        })
        .await;
}

/// A retry-after that is rounded down sends clients back too early, to be refused again.
#[tokio::test]
async fn whoever_waits_as_long_as_told_is_admitted() {
    for (limiter, clock) in both() {
        for &algorithm in ALGORITHMS {
            // Neither rate divides.
            for (max, window) in [(7, SECOND), (3, Duration::from_micros(1_000_001))] {
                let rule = Rule::named(format!("told {max} {algorithm:?}"), Limit::new(max, window));
                let rule = rule.with_algorithm(algorithm);
                let mut waits = 0;
                for _ in 0..100 {
                    let Err(refused) = limiter.acquire(&rule, &Key::global()).await else { continue };
                    waits += 1;
                    let wait = refused.retry_after().unwrap();
                    // What HTTP clients are told is in whole seconds, and never less.
                    let told = refused.clone().into_response().headers()[RETRY_AFTER].to_str().unwrap().to_owned();
                    assert!(Duration::from_secs(told.parse().unwrap()) >= wait, "{told} s for {wait:?}");
                    clock.advance(wait);
                    assert!(admits(&limiter, &rule, &Key::global()).await, "{algorithm:?} after {wait:?}");
                }
                assert!(waits > 5, "{algorithm:?}: {waits} refusals");
            }
        }
    }
}

/// A bucket refills because time passes: no job has to run, and a full one leaves nothing behind.
#[tokio::test]
async fn no_refill_job_is_needed_and_a_full_bucket_is_no_key() {
    let server = shared();
    let (limiter, prefix) = on_redis(server);
    for algorithm in [Algorithm::TokenBucket, Algorithm::LeakyBucket] {
        let rule = Rule::named(format!("refill {algorithm:?}"), Limit::new(20, SECOND).with_burst(4));
        let rule = rule.with_algorithm(algorithm);
        while admits(&limiter, &rule, &Key::global()).await {}
        let (key, life) = lives(server, &prefix).into_iter().find(|(key, _)| key.contains("refill")).unwrap();
        // The key of one in use lives for up to twice the time that it takes from empty to full.
        assert!((1..=450).contains(&life), "{key} lives {life} ms, and is full in 200 ms");
        // Nothing but time: the key goes by itself, and what is left is whole.
        let start = std::time::Instant::now();
        while !lives(server, &prefix).is_empty() {
            assert!(start.elapsed() < SECOND * 10, "the bucket is full long ago");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        assert_eq!(limiter.peek(&rule, &Key::global()).await.unwrap().remaining(), 4);
    }
}
