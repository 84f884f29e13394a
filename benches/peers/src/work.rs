//! [`Work`]: what all peers are asked to do.

use std::time::Duration;

/// Long, so that nothing expires while it is measured.
pub const WINDOW: Duration = Duration::from_secs(3600);

const DAY: Duration = Duration::from_secs(24 * 3600);

/// At most `max` calls in any `window`.
#[derive(Debug, Clone, Copy)]
pub struct Rate {
    pub max: u32,
    pub window: Duration,
}

/// So many calls per [`WINDOW`].
impl From<u32> for Rate {
    fn from(max: u32) -> Self {
        Self {
            max,
            window: WINDOW,
        }
    }
}

/// Fewer than the memory store holds, and asked so seldom that none is used up.
pub const DISTINCT: Keys = Keys::Among(50_000);

/// All calls on one.
pub const HOT: Keys = Keys::Among(1);

/// As [`DISTINCT`], each with a limit of a million calls a day.
pub const LARGE: Keys = Keys::Large(50_000);

/// The keys that are used up, where most calls are refused.
const REFUSED: u64 = 64;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keys {
    /// So many in turn, all admitted.
    Among(u64),
    /// The same under a large limit.
    Large(u64),
    /// Of a hundred calls one is admitted, on a fresh key; 99 are refused.
    MostlyRefused,
    /// One key that is used up.
    Exhausted,
}

#[derive(Debug, Clone, Copy)]
pub struct Work {
    pub name: &'static str,
    pub keys: Keys,
    pub callers: u64,
}

pub const ALL: [Work; 6] = [
    Work {
        name: "distinct keys, 64 callers",
        keys: DISTINCT,
        callers: 64,
    },
    Work {
        name: "distinct keys, 512 callers",
        keys: DISTINCT,
        callers: 512,
    },
    Work {
        name: "one hot key, 512 callers",
        keys: HOT,
        callers: 512,
    },
    Work {
        name: "99 % refused, 64 callers",
        keys: Keys::MostlyRefused,
        callers: 64,
    },
    Work {
        name: "refused again, 64 callers",
        keys: Keys::Exhausted,
        callers: 64,
    },
    Work {
        name: "one caller",
        keys: DISTINCT,
        callers: 1,
    },
];

impl Work {
    /// The limit.
    pub fn rate(&self) -> Rate {
        match self.keys {
            Keys::Large(_) => Rate {
                max: 1_000_000,
                window: DAY,
            },
            _ => self.max().into(),
        }
    }

    /// The limit, per [`WINDOW`].
    pub fn max(&self) -> u32 {
        match self.keys {
            HOT => 100_000_000,
            Keys::Among(_) | Keys::Large(_) => 100,
            Keys::MostlyRefused | Keys::Exhausted => 10,
        }
    }

    /// The keys to use up beforehand.
    pub fn exhausted(&self) -> u64 {
        match self.keys {
            Keys::Among(_) | Keys::Large(_) => 0,
            Keys::MostlyRefused => REFUSED,
            Keys::Exhausted => 1,
        }
    }

    /// The keys to ask for once beforehand: so many that a short run would not come to all of them.
    pub fn known(&self) -> u64 {
        match self.keys {
            Keys::Among(keys) if keys > 50_000 => keys,
            _ => 0,
        }
    }

    /// The key of a caller's call, both counted from 0.
    pub fn key(&self, caller: u64, call: u64) -> u64 {
        let n = caller + call * self.callers;
        match self.keys {
            Keys::Among(keys) | Keys::Large(keys) => n % keys,
            Keys::Exhausted => 0,
            Keys::MostlyRefused if (caller + call).is_multiple_of(100) => REFUSED + n,
            Keys::MostlyRefused => n % REFUSED,
        }
    }

    /// The share of calls that is to be admitted.
    pub fn admitted(&self) -> f64 {
        match self.keys {
            Keys::Among(_) | Keys::Large(_) => 1.0,
            Keys::MostlyRefused => 0.01,
            Keys::Exhausted => 0.0,
        }
    }
}
