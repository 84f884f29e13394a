//! Whatever form an attribute has, a rule by hand with its name, limits and algorithm is about the
//! same bucket, also where Redis keeps a sorted set as a list (up to 128 entries) or as a table.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test fails by panicking")]

use std::time::Duration;

use ratelimit_runtime::{Key, Limit, MemoryStore, RateLimiter, RedisStore, Rule, key, rate_limit};

use super::{Outcome, is_exceeded};
use crate::support::redis::shared;
use crate::support::{strict, unique};

const BLOCK: Duration = Duration::from_secs(600);

/// Forms of one attribute under one limit, and what each call is worth.
macro_rules! forms {
    ($module:ident, $name:literal, $max:tt) => {
        mod $module {
            use super::*;

            #[rate_limit(name = $name, key = "<user>", window = "60s", max = $max)]
            pub(super) async fn plain(user: &str) -> Outcome {
                Ok(())
            }

            #[rate_limit(name = $name, key = "<user>", window = "60s", max = $max, cost = cost)]
            pub(super) async fn heavy(user: &str, cost: u64) -> Outcome {
                Ok(())
            }

            #[rate_limit(name = $name, key = "<user>", window = "60s", max = max)]
            pub(super) async fn raised(user: &str, max: u64) -> Outcome {
                Ok(())
            }

            #[rate_limit(name = $name, key = "<user>", window = "60s", max = $max, count = "ok")]
            pub(super) async fn counted(user: &str) -> Outcome {
                Ok(())
            }

            #[rate_limit(name = $name, key = "<user>", window = "60s", max = $max, count = "err")]
            pub(super) async fn forgiven(user: &str) -> Outcome {
                Ok(())
            }

            pub(super) async fn call(form: &str, user: &str) -> (Outcome, u64) {
                match form {
                    "plain" => (plain(user).await, 1),
                    "heavy" => (heavy(user, 3).await, 3),
                    "raised" => (raised(user, $max).await, 1),
                    "counted" => (counted(user).await, 1),
                    _ => (forgiven(user).await, 0),
                }
            }

            #[tokio::test]
            async fn is_one_bucket_with_the_rule_by_hand() {
                let rule = Rule::new($name, Limit::per_minute($max));
                for limiter in everywhere() {
                    for first in FORMS {
                        limiter
                            .scope(one_bucket(&limiter, &rule, first, async |form, user| call(form, user).await))
                            .await;
                    }
                }
            }

            #[tokio::test]
            async fn a_raised_limit_admits_exactly_the_difference() {
                let rule = Rule::new($name, Limit::per_minute($max));
                for limiter in everywhere() {
                    let scenario = async {
                        let user = "raised";
                        for _ in 0..$max.min(130) {
                            plain(user).await.unwrap();
                        }
                        fill(&limiter, &rule, &of(user), $max - $max.min(130)).await;
                        assert!(is_exceeded(&plain(user).await));
                        for more in [1, 27, 130] {
                            let max = $max + more;
                            let by_hand = rule.with_max(max);
                            let room = limiter.peek(&by_hand, &of(user)).await.unwrap().remaining();
                            for _ in 0..room {
                                raised(user, max).await.unwrap();
                            }
                            assert!(is_exceeded(&raised(user, max).await));
                            let all = limiter.peek(&rule.with_max(2 * max), &of(user)).await.unwrap().remaining();
                            assert_eq!(all, max, "as many as `max` are in the bucket");
                        }
                    };
                    limiter.scope(scenario).await;
                }
            }
        }
    };
}

const FORMS: [&str; 5] = ["plain", "heavy", "raised", "counted", "forgiven"];

fn everywhere() -> [RateLimiter; 2] {
    let redis = RedisStore::new(&shared().url()).unwrap();
    [strict().store(MemoryStore::new()), strict().store(redis).prefix(unique("buckets"))]
        .map(|builder| builder.build().unwrap())
}

fn of(user: &str) -> Key {
    key!("<user>")
}

/// Uses so many units, at most 1,000 a call, as a log takes them.
async fn fill(limiter: &RateLimiter, rule: &Rule, bucket: &Key, units: u64) {
    for from in (0..units).step_by(1_000) {
        let _ = limiter.acquire(&rule.with_cost(1_000.min(units - from)), bucket).await.unwrap();
    }
}

/// The attribute's form comes `first`, then the rule by hand, then all other forms.
async fn one_bucket(limiter: &RateLimiter, rule: &Rule, first: &str, call: impl AsyncFn(&str, &str) -> (Outcome, u64)) {
    let max = rule.limits()[0].max();
    let bucket = of(first);
    let mut used = 0;
    let left = async || limiter.peek(rule, &bucket).await.unwrap().remaining();
    for form in [first].iter().chain(&FORMS) {
        let (outcome, cost) = call(form, first).await;
        outcome.unwrap();
        used += cost;
        if cost == 0 {
            // What does not count is given back behind the caller's back.
            for _ in 0..2_000 {
                if left().await == max - used {
                    break;
                }
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        }
        assert_eq!(left().await, max - used, "{form} after {first} under {max}");
    }
    for cost in [1, 5] {
        let by_hand = rule.with_cost(cost);
        let admitted = limiter.acquire(&by_hand, &bucket).await.unwrap();
        assert_eq!(admitted.remaining(), max - used - cost);
        assert!(limiter.refund(&by_hand, &bucket, &admitted).await.unwrap());
        assert_eq!(left().await, max - used);
    }
    limiter.block(rule, &bucket, BLOCK).await.unwrap();
    for form in FORMS {
        assert!(is_exceeded(&call(form, first).await.0), "{form} is blocked");
    }
    assert!(limiter.unblock(rule, &bucket).await.unwrap());
    fill(limiter, rule, &bucket, max - used).await;
    for form in FORMS {
        assert!(is_exceeded(&call(form, first).await.0), "{form} is refused by what the rule has used");
    }
    assert!(limiter.reset(rule, &bucket).await.unwrap());
    assert_eq!(left().await, max);
    assert!(call(first, first).await.0.is_ok());
}

forms!(of_100, "buckets of 100", 100_u64);
forms!(of_127, "buckets of 127", 127_u64);
forms!(of_128, "buckets of 128", 128_u64);
forms!(of_129, "buckets of 129", 129_u64);
forms!(of_10_000, "buckets of 10,000", 10_000_u64);
