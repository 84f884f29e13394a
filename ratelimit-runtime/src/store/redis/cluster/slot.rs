//! [`Slot`]: which of the 16,384 parts of a cluster a key belongs to.

/// The part of a cluster that a key belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub(crate) struct Slot(u16);

/// How many slots a cluster has.
pub(crate) const SLOTS: u16 = 16_384;

impl Slot {
    pub(crate) fn number(self) -> u16 {
        self.0
    }

    /// The slot of a key: of what stands between the first `{` and the `}` after it, unless that is
    /// nothing; else of the whole.
    pub(crate) fn of(key: &[u8]) -> Self {
        let tag = || {
            let start = key.iter().position(|byte| *byte == b'{')? + 1;
            let rest = key.get(start..)?;
            let end = rest.iter().position(|byte| *byte == b'}')?;
            rest.get(..end).filter(|tag| !tag.is_empty())
        };
        Self(crc16(tag().unwrap_or(key)) % SLOTS)
    }

    pub(crate) fn index(self) -> usize {
        usize::from(self.0)
    }

    /// A slot by its number, if there is one.
    pub(crate) fn numbered(number: u16) -> Option<Self> {
        (number < SLOTS).then_some(Self(number))
    }
}

/// CRC-16/XMODEM.
fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |crc, byte| {
        let [high, low] = crc.to_be_bytes();
        u16::from(low) << 8 ^ TABLE.get(usize::from(high ^ byte)).copied().unwrap_or_default()
    })
}

#[allow(clippy::indexing_slicing, clippy::cast_possible_truncation, reason = "a constant, of 256")]
static TABLE: [u16; 256] = {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut crc = (byte as u16) << 8;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 0x8000 == 0 { crc << 1 } else { crc << 1 ^ 0x1021 };
            bit += 1;
        }
        table[byte] = crc;
        byte += 1;
    }
    table
};

#[cfg(test)]
mod tests {
    use super::*;

    /// What `CLUSTER KEYSLOT` of redis-server 7.0 says.
    #[test]
    fn slots_are_those_of_redis() {
        assert_eq!(crc16(b"123456789"), 0x31c3);
        for (key, slot) in [
            ("", 0),
            ("foo", 12_182),
            ("123456789", 12_739),
            ("{user1000}.following", 3_443),
            ("{user1000}.followers", 3_443),
            ("foo{}{bar}", 8_363),
            ("foo{{bar}}zap", 4_015),
            ("foo{bar}{zap}", 5_061),
            ("}foo{", 8_453),
        ] {
            assert_eq!(Slot::of(key.as_bytes()), Slot(slot), "{key}");
        }
    }
}
