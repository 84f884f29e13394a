//! Lists of keys: what is in them, and what is not.

use crate::bench::{Bench, HOUR, answered};
use ratelimit_runtime::store::{Feature, Request};
use ratelimit_runtime::{Algorithm, Limit};

fn request(key: &[u8], algorithm: Algorithm) -> Request<'_> {
    const LIMITS: &[Limit] = &[Limit::per_hour(5)];
    Request::new(key, algorithm, LIMITS)
}

/// All pages of the keys that begin like this, without what comes twice.
async fn keys(bench: &Bench, algorithm: Algorithm, beginning: &[u8]) -> Vec<Vec<u8>> {
    let (mut all, mut from) = (Vec::new(), None);
    loop {
        let page = answered(bench.store.keys(request(beginning, algorithm), from).await);
        all.extend(page.keys);
        from = page.next;
        if from.is_none() {
            break;
        }
    }
    all.sort_unstable();
    all.dedup();
    all
}

/// What was charged or blocked is in the list of its rule and in no other, until it is reset.
pub(crate) async fn a_list_has_the_keys_of_its_rule(bench: Bench, algorithm: Algorithm) {
    // What stands for something else in the patterns of Redis and SQL.
    let rule = bench.key(b"rule*[a-z]?\\_%:");
    let other = bench.key(b"rulex[a-z]?\\_%:");
    let with = |user: &str| [rule.as_slice(), user.as_bytes()].concat();
    assert!(keys(&bench, algorithm, &rule).await.is_empty());

    // More than a page, where a page has a size.
    let mut expected: Vec<_> = (0..40)
        .map(|user| with(&format!("<{user}>")))
        .chain([rule.clone()])
        .collect();
    for key in expected.iter().chain([&other]) {
        let _ = answered(bench.store.acquire(request(key, algorithm)).await);
    }
    if bench.has(algorithm, Feature::Block) {
        let blocked = with("<blocked>");
        answered(bench.store.block(request(&blocked, algorithm), HOUR).await);
        expected.push(blocked);
    }
    expected.sort_unstable();
    assert_eq!(keys(&bench, algorithm, &rule).await, expected);
    assert_eq!(
        keys(&bench, algorithm, &other).await,
        std::slice::from_ref(&other)
    );

    for key in &expected {
        assert!(answered(bench.store.reset(request(key, algorithm)).await));
    }
    assert!(keys(&bench, algorithm, &rule).await.is_empty());
    assert_eq!(keys(&bench, algorithm, &other).await, [other]);
}
