//! Lists of the keys that a rule has in the store.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use ratelimit_runtime::testkit::{FakeClock, FaultyStore};
use ratelimit_runtime::{
    Key, Keys, Limit, MemoryStore, Policy, RateLimitError, RateLimiter, Rule, key,
};

use super::{everywhere, in_memory};
use crate::support::{settled, unique};

const LIMIT: Limit = Limit::per_hour(5);

async fn all(mut keys: Keys) -> BTreeSet<Key> {
    let mut all = BTreeSet::new();
    while let Some(page) = keys.next_page().await.unwrap() {
        all.extend(page);
    }
    all
}

#[tokio::test]
async fn a_listed_key_reaches_its_bucket() {
    let hashes = [false, true, false, true];
    for (limiter, hashes) in everywhere(&FakeClock::new()).zip(hashes) {
        let rule = Rule::named(unique("a rule: {100%} [of*] \\ them?"), LIMIT);
        let longer = Rule::named(format!("{}2", rule.name()), LIMIT);
        let keys: BTreeSet<Key> = (0..50)
            .map(|user| key!("acme*/<user>"))
            .chain([Key::of("\u{0}<{*}>é"), Key::global()])
            .collect();
        for key in &keys {
            let _ = limiter.acquire(&rule, key).await.unwrap();
        }
        let _ = limiter
            .acquire(&longer, &Key::of("another rule's"))
            .await
            .unwrap();

        let listed = all(limiter.keys(&rule)).await;
        assert_eq!(listed.len(), keys.len());
        if !hashes {
            assert_eq!(listed, keys);
        }
        for key in &listed {
            assert_eq!(limiter.peek(&rule, key).await.unwrap().remaining(), 4);
            assert!(limiter.reset(&rule, key).await.unwrap());
        }
        for key in &keys {
            assert_eq!(limiter.peek(&rule, key).await.unwrap().remaining(), 5);
        }
        assert!(all(limiter.keys(&rule)).await.is_empty());
        assert_eq!(all(limiter.keys(&longer)).await.len(), 1);
    }
}

/// An operator needs no secret to reset a key that he sees.
#[tokio::test]
async fn a_listed_digest_is_a_key_with_and_without_the_secret() {
    let store: &'static MemoryStore = Box::leak(Box::new(MemoryStore::new()));
    let (hashed, plain) = (
        RateLimiter::builder().store(store).hash_keys("s"),
        RateLimiter::builder().store(store),
    );
    let (hashed, plain) = (hashed.build().unwrap(), plain.build().unwrap());
    let rule = Rule::new("login", LIMIT);
    let _ = hashed.acquire(&rule, &Key::of("alice")).await.unwrap();
    let listed = all(plain.keys(&rule)).await;
    assert_eq!(listed, all(hashed.keys(&rule)).await);
    let digest = listed.first().unwrap();
    assert_eq!(digest.as_bytes().len(), 33);
    for limiter in [&hashed, &plain] {
        assert_eq!(limiter.peek(&rule, digest).await.unwrap().remaining(), 4);
    }
    // As a value it is a value like any other.
    let as_value = String::from_utf8(digest.as_bytes().to_vec()).unwrap();
    assert_eq!(
        hashed
            .peek(&rule, &Key::of(&as_value))
            .await
            .unwrap()
            .remaining(),
        5
    );
    assert!(plain.reset(&rule, digest).await.unwrap());
    assert_eq!(
        hashed
            .peek(&rule, &Key::of("alice"))
            .await
            .unwrap()
            .remaining(),
        5
    );
}

#[tokio::test]
async fn expired_keys_are_not_listed_and_blocked_ones_are() {
    let clock = FakeClock::new();
    let limiter = in_memory(&clock).build().unwrap();
    let rule = Rule::new("login", LIMIT);
    let _ = limiter.acquire(&rule, &Key::of("alice")).await.unwrap();
    limiter
        .block(&rule, &Key::of("bob"), Duration::from_secs(7_200))
        .await
        .unwrap();
    assert_eq!(
        all(limiter.keys(&rule)).await,
        BTreeSet::from([Key::of("alice"), Key::of("bob")])
    );
    clock.advance(Duration::from_secs(3_600));
    assert_eq!(
        all(limiter.keys(&rule)).await,
        BTreeSet::from([Key::of("bob")])
    );
}

/// Of a rule that has no limits: the keys that have calls in flight.
#[tokio::test]
async fn a_key_is_listed_while_calls_are_in_flight() {
    for limiter in everywhere(&FakeClock::new()) {
        let rule = Rule::in_flight(Box::leak(unique("export").into_boxed_str()), 2);
        let alice = Key::of("alice");
        let first = limiter.enter(&rule, &alice).await.unwrap();
        let second = limiter.enter(&rule, &alice).await.unwrap();
        drop(first);
        assert_eq!(all(limiter.keys(&rule)).await.len(), 1);
        drop(second);
        settled(&limiter).await;
        assert!(all(limiter.keys(&rule)).await.is_empty());
    }
}

#[tokio::test]
async fn a_policy_gives_the_windows_of_listed_keys() {
    let limiter = RateLimiter::builder()
        .policy("login", Policy::new(LIMIT))
        .build()
        .unwrap();
    let rule = Rule::new("login", Limit::per_second(1)).with_policy("login");
    let _ = limiter.acquire(&rule, &Key::of("alice")).await.unwrap();
    assert_eq!(all(limiter.keys(&rule)).await.len(), 1);
    limiter
        .set_policies([("login", Policy::new(Limit::per_day(5)))])
        .unwrap();
    assert!(all(limiter.keys(&rule)).await.is_empty());
    let error = RateLimiter::memory()
        .keys(&rule)
        .next_page()
        .await
        .unwrap_err();
    assert!(matches!(error, RateLimitError::Misconfigured(_)), "{error}");
}

/// It ends by the timeout of a check, and goes on where it was.
#[tokio::test]
async fn a_list_outlives_an_outage() {
    let store = FaultyStore::new(MemoryStore::new());
    let limiter = RateLimiter::builder()
        .store(store.clone())
        .timeout(Duration::from_millis(50))
        .build()
        .unwrap();
    let rule = Rule::new("login", LIMIT);
    for user in 0..100 {
        let _ = limiter.acquire(&rule, &Key::of(&user)).await.unwrap();
    }
    let mut keys = limiter.keys(&rule);
    let mut listed = keys.next_page().await.unwrap().unwrap();
    for fault in [FaultyStore::hang, FaultyStore::fail] {
        fault(&store);
        let asked = Instant::now();
        assert!(matches!(
            keys.next_page().await,
            Err(RateLimitError::Unavailable(_))
        ));
        assert!(asked.elapsed() < Duration::from_secs(5));
    }
    store.heal();
    while let Some(page) = keys.next_page().await.unwrap() {
        listed.extend(page);
    }
    assert_eq!(listed.len(), 100);
    assert!(
        keys.next_page().await.unwrap().is_none(),
        "the end stays the end"
    );
}
