//! The members of a log, as `sliding_window/script.lua` writes them.

use super::reply::{ScoredMember, digits};

/// The score of a [`Meta`] is this and the end of its block.
const META_SCORE: u64 = 5_000_000_000_000_000;

/// A unit of cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Unit {
    /// Its own microsecond.
    pub(super) ticket: u64,
    /// Reserved by `count`, and neither committed nor released.
    pub(super) is_open: bool,
}

impl Unit {
    /// `None` if the member is not one of ours.
    pub(super) fn of((member, score): &ScoredMember) -> Option<Self> {
        // The last unit of an open estimate is marked by an `e`.
        let ticket = digits(member.strip_suffix(b"e").unwrap_or(member))?;
        (score.unsigned_abs() == ticket).then_some(Self { ticket, is_open: *score < 0 })
    }
}

/// What a log remembers beside its units, while there is a block, a strike or an open reservation,
/// or where the newest unit was taken out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Meta {
    pub(super) newest: u64,
    /// How many blocks in a row.
    pub(super) strikes: u64,
    /// How long strikes are remembered after the block, in microseconds.
    pub(super) remembered: u64,
    /// The end of the last block.
    pub(super) ends: u64,
}

impl Meta {
    pub(super) fn is_meta((member, _): &ScoredMember) -> bool {
        member.starts_with(b"meta:")
    }

    /// `None` if the member is not one of ours.
    pub(super) fn of((member, score): &ScoredMember) -> Option<Self> {
        let mut numbers = member.strip_prefix(b"meta:")?.split(|byte| *byte == b':').map(digits);
        let mut number = || numbers.next().flatten();
        let (newest, strikes, remembered) = (number()?, number()?, number()?);
        let ends = u64::try_from(*score).ok()?.checked_sub(META_SCORE)?;
        numbers.next().is_none().then_some(Self { newest, strikes, remembered, ends })
    }

    pub(super) fn member(&self) -> String {
        format!("meta:{}:{}:{}", self.newest, self.strikes, self.remembered)
    }

    pub(super) fn score(&self) -> u64 {
        META_SCORE + self.ends
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_again_and_nothing_else_is() {
        let unit = |member: &str, score| Unit::of(&(member.into(), score)).map(|unit| (unit.ticket, unit.is_open));
        assert_eq!(unit("17", 17), Some((17, false)));
        assert_eq!(unit("17e", 17), Some((17, false)));
        assert_eq!(unit("17", -17), Some((17, true)));
        for (foreign, score) in [("17", 18), ("1e18", 1), ("nan", 1), ("17x", 17), ("", 0), ("+17", 17)] {
            assert_eq!(unit(foreign, score), None, "{foreign}");
        }
        let meta = Meta { newest: 1_700_000_000_000_123, strikes: 12, remembered: 60, ends: 7 };
        assert_eq!((meta.member().as_str(), meta.score()), ("meta:1700000000000123:12:60", 5_000_000_000_000_007));
        assert_eq!(Meta::of(&(b"meta:1700000000000123:12:60".to_vec(), 5_000_000_000_000_007)), Some(meta));
        for foreign in ["meta:", "meta:1:2", "meta:1:2:", "meta:1:2:3:4", "meta::2:3", "meta:1:x:3", "ban"] {
            assert_eq!(Meta::of(&(foreign.into(), 5_000_000_000_000_000)), None, "{foreign}");
        }
        assert_eq!(Meta::of(&(b"meta:1:2:3".to_vec(), 4_000_000_000_000_000)), None);
    }
}
