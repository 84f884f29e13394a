//! The same check by `governor`, as its documentation shows it: a keyed limiter of strings, on its
//! own clock.

use std::fmt;
use std::num::NonZero;

use governor::{DefaultKeyedRateLimiter, Quota, RateLimiter};

pub(crate) struct Governor(DefaultKeyedRateLimiter<String>);

impl Governor {
    /// One that admits all of the checks, or all but the first.
    pub(crate) fn new(denies: bool) -> Self {
        let quota = if denies {
            Quota::per_hour(NonZero::<u32>::MIN)
        } else {
            Quota::per_second(NonZero::new(1_000_000).unwrap())
        };
        Self(RateLimiter::keyed(quota))
    }

    /// The key is built as one writes it by hand.
    pub(crate) fn check(&self, user: &str) -> Result<(), ()> {
        self.0.check_key(&format!("send_code:{user}")).map_err(drop)
    }
}

impl fmt::Debug for Governor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Governor")
    }
}
