//! Random pauses, from a seed that can be given again.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

/// The seed of this run: `RATELIMIT_FAULTS_SEED`, or the time.
pub(super) fn seed() -> u64 {
    static SEED: OnceLock<u64> = OnceLock::new();
    *SEED.get_or_init(|| {
        let given = std::env::var("RATELIMIT_FAULTS_SEED").ok().and_then(|seed| seed.parse().ok());
        given.unwrap_or_else(|| {
            let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
            u64::from(now.subsec_nanos()) ^ now.as_secs()
        })
    })
}

/// A generator (splitmix64), another one each time.
#[derive(Debug)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self(seed().wrapping_add(NEXT.fetch_add(0x1000_0001, Ordering::Relaxed)))
    }

    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % bound
    }

    /// A pause of between half as long and one and a half times as long.
    pub(crate) fn about(&mut self, pause: Duration) -> Duration {
        let micros = u64::try_from(pause.as_micros()).unwrap_or(u64::MAX);
        Duration::from_micros(micros / 2 + self.below(micros.max(1)))
    }
}
