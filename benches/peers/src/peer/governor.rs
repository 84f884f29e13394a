//! governor: GCRA in the memory of the process, keyed by strings.

use std::num::NonZeroU32;

use governor::{DefaultKeyedRateLimiter, Quota};

use crate::work::WINDOW;

pub struct Governor(DefaultKeyedRateLimiter<String>);

impl Governor {
    pub fn new(max: u32) -> Self {
        let max = NonZeroU32::new(max).unwrap_or(NonZeroU32::MIN);
        let quota = Quota::with_period(WINDOW / max.get())
            .unwrap_or(Quota::per_hour(max))
            .allow_burst(max);
        Self(DefaultKeyedRateLimiter::keyed(quota))
    }

    pub fn admits(&self, user: &str) -> bool {
        self.0.check_key(&user.to_owned()).is_ok()
    }
}
