//! Lists of keys that are read to their end.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use ratelimit_runtime::{Key, Keys, RateLimitError, RateLimiter, Rule};

/// Charges so many keys to the rule.
pub(crate) async fn charge(limiter: &RateLimiter, rule: &Rule, keys: u32) -> BTreeSet<Key> {
    let keys: BTreeSet<Key> = (0..keys).map(|user| Key::of(&user)).collect();
    for key in &keys {
        let _ = limiter.acquire(rule, key).await.unwrap();
    }
    keys
}

/// The rest of a list, whatever happens meanwhile.
pub(crate) async fn rest(keys: &mut Keys) -> BTreeSet<Key> {
    let (start, mut all) = (Instant::now(), BTreeSet::new());
    loop {
        match keys.next_page().await {
            Ok(Some(page)) => all.extend(page),
            Ok(None) => return all,
            Err(RateLimitError::Unavailable(_)) if start.elapsed() < Duration::from_secs(15) => {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            Err(error) => panic!("{error}: {:?}", start.elapsed()),
        }
    }
}
