//! Policies: what is accepted can be used, and reads back as it was written.

use std::collections::HashMap;
use std::time::Duration;

use ratelimit_runtime::{Algorithm, Limit, OnUnavailable, Policy, RateLimiter};

use super::Input;

/// Policies from TOML, from JSON, and as text; and the words that go with them.
pub fn policy(data: &[u8]) {
    let mut input = Input(data);
    let format = input.below(3);
    let Ok(text) = std::str::from_utf8(input.0) else {
        return;
    };
    let policies = match format {
        0 => toml::from_str::<HashMap<String, Policy>>(text).unwrap_or_default(),
        1 => serde_json::from_str::<HashMap<String, Policy>>(text).unwrap_or_default(),
        _ => text
            .parse()
            .map(|policy| HashMap::from([(String::new(), policy)]))
            .unwrap_or_default(),
    };
    policies.values().for_each(usable);
    let mut builder = RateLimiter::builder();
    for (name, policy) in policies {
        builder = builder.policy(name, policy);
    }
    builder.build().expect("what was read can be used");
    if let Ok(algorithm) = text.parse::<Algorithm>() {
        assert_eq!(algorithm.to_string(), text);
    }
    if let Ok(answer) = text.parse::<OnUnavailable>() {
        assert_eq!(answer.to_string(), text);
    }
}

fn usable(policy: &Policy) {
    assert!((1..=8).contains(&policy.limits().len()), "{policy:?}");
    for limit in policy.limits() {
        assert!((1..=Limit::MAX_COUNT).contains(&limit.max()), "{limit:?}");
        assert!(
            (Duration::from_millis(1)..=Limit::MAX_WINDOW).contains(&limit.window()),
            "{limit:?}"
        );
        let read: Limit = limit
            .to_string()
            .parse()
            .expect("what is written can be read");
        assert_eq!((read.max(), read.window()), (limit.max(), limit.window()));
    }
}
