//! [`Time`]: where the time comes from, and what that means for how long keys live.

use redis::{Cmd, cmd};

/// Where the time comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Time {
    Server,
    Callers,
}

impl Time {
    /// As in `scripts/common.lua`: short lives are drawn out, what still counts is known from the
    /// entries.
    fn lasting(self, micros: u64) -> u64 {
        micros.max(if self == Self::Server { 10_000 } else { 1_000_000 })
    }

    pub(super) fn lasting_millis(self, micros: u64) -> u64 {
        self.lasting(micros).div_ceil(1000)
    }

    pub(super) fn expire(self, key: &[u8], now: u64, micros: u64) -> Cmd {
        let mut command = match self {
            Self::Server => cmd("PEXPIREAT"),
            Self::Callers => cmd("PEXPIRE"),
        };
        command.arg(key).arg(match self {
            Self::Server => (now + self.lasting(micros)) / 1000,
            Self::Callers => self.lasting_millis(micros),
        });
        command
    }
}
