//! [`Clock`]: the source of a store's time, where no server has one.

pub(crate) mod of_tokio;

use std::time::{Duration, SystemTime};

/// A clock that a store reads once per decision.
pub trait Clock: Send + Sync + 'static {
    /// The time since a fixed moment. If it steps back, time stands still for a key until the clock
    /// has caught up.
    fn now(&self) -> Duration;
}

impl<C: Clock + ?Sized> Clock for std::sync::Arc<C> {
    fn now(&self) -> Duration {
        (**self).now()
    }
}

/// The machine's clock: the time since 1970.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Duration {
        SystemTime::now()
            .duration_since(SystemTime::UNIX_EPOCH)
            .unwrap_or_default()
    }
}

/// The time since the machine was started, which goes on while it is suspended.
#[cfg(all(feature = "redis", any(target_os = "linux", target_os = "android")))]
pub(crate) fn since_boot() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    Duration::try_from(time).unwrap_or_default()
}

/// The time since this was first asked. Whether it goes on while the machine is suspended is up to
/// the platform.
#[cfg(all(
    feature = "redis",
    not(any(target_os = "linux", target_os = "android"))
))]
pub(crate) fn since_boot() -> Duration {
    static START: std::sync::LazyLock<std::time::Instant> =
        std::sync::LazyLock::new(std::time::Instant::now);
    START.elapsed()
}
