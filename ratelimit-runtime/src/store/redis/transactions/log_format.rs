//! The members of a log that is a sorted set, as `sliding_window/zset/full.lua` describes them.

/// What the score of a [`Meta`] is above the end of its block.
const META_SCORE: u64 = 5_000_000_000_000_000;

/// An admission.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SetEntry {
    pub(super) time: u64,
    pub(super) ticket: u64,
}

impl SetEntry {
    /// `None` if the member is not one of ours.
    pub(super) fn of((member, score): (&[u8], u64)) -> Option<Self> {
        let ticket = (member.len() == 16).then(|| digits(member))??;
        (score <= ticket).then_some(Self { time: score, ticket })
    }
}

/// The member of an entry.
pub(super) fn member(ticket: u64) -> String {
    format!("{ticket:016}")
}

/// More blocks in a row are not counted.
pub(super) const MOST_STRIKES: u64 = 9999;

/// What a log remembers beside its entries: a block, and the newest ticket where its entry has been
/// refunded. While it is there, or the clock is behind the newest entry, the key has its exact
/// expiry; else the one that its cells give it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Meta {
    pub(super) blocked_until: u64,
    /// How long the block was given.
    pub(super) block: u64,
    pub(super) ticket: u64,
    /// How many blocks in a row.
    pub(super) strikes: u64,
}

impl Meta {
    pub(super) fn is_meta(member: &[u8]) -> bool {
        member.starts_with(b"meta:")
    }

    /// `None` if the member is not one of ours.
    pub(super) fn of((member, score): (&[u8], u64)) -> Option<Self> {
        let (block, rest) = member.strip_prefix(b"meta:")?.split_at_checked(16)?;
        let (ticket, rest) = rest.strip_prefix(b":")?.split_at_checked(16)?;
        let strikes = rest.strip_prefix(b":").filter(|strikes| strikes.len() == 4)?;
        let blocked_until = score.checked_sub(META_SCORE)?;
        Some(Self { blocked_until, block: digits(block)?, ticket: digits(ticket)?, strikes: digits(strikes)? })
    }

    pub(super) fn member(&self) -> String {
        format!("meta:{:016}:{:016}:{:04}", self.block, self.ticket, self.strikes)
    }

    pub(super) fn score(&self) -> u64 {
        META_SCORE + self.blocked_until
    }

    /// What is left of the block. Where the clock has stepped back to before it began, that is all
    /// of it.
    pub(super) fn blocked_for(&self, now: u64) -> u64 {
        self.blocked_until.saturating_sub(now).min(self.block)
    }
}

fn digits(text: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(text).ok().filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()))?;
    text.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_again_and_nothing_else_is() {
        let ticket = 1_700_000_000_000_123;
        assert_eq!(SetEntry::of((b"1700000000000123", 5)), Some(SetEntry { time: 5, ticket }));
        assert_eq!(member(9_999_998), "0000000009999998");
        for (foreign, score) in
            [("9999998", 1), ("1e18", 1), ("nan", 1), ("170000000000012x", 1), ("1700000000000123", ticket + 1)]
        {
            assert_eq!(SetEntry::of((foreign.as_bytes(), score)), None, "{foreign}");
        }
        let meta = Meta { blocked_until: 7, block: 600, ticket, strikes: 12 };
        assert_eq!(meta.member(), "meta:0000000000000600:1700000000000123:0012");
        assert_eq!(Meta::of((meta.member().as_bytes(), meta.score())), Some(meta));
        for foreign in [
            "meta:",
            "meta:1:2:3",
            "meta:0000000000000600:170000000000012:0001",
            "meta:0000000000000600:1700000000000123",
            "meta:0000000000000600:1700000000000123:00001",
            "ban",
        ] {
            assert_eq!(Meta::of((foreign.as_bytes(), META_SCORE)), None, "{foreign}");
        }
    }
}
