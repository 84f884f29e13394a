//! [`slot_of`]: the one of a cluster's 16,384 slots that a key belongs to.

/// The number of slots of a cluster.
pub(crate) const SLOTS: u16 = 16_384;

/// The slot of a key: of the text between the first `{` and the next `}`, unless that is empty;
/// else of the whole key.
pub(crate) fn slot_of(key: &[u8]) -> u16 {
    let tag = || {
        let start = key.iter().position(|byte| *byte == b'{')? + 1;
        let rest = key.get(start..)?;
        let end = rest.iter().position(|byte| *byte == b'}')?;
        rest.get(..end).filter(|tag| !tag.is_empty())
    };
    crc16(tag().unwrap_or(key)) % SLOTS
}

/// CRC-16/XMODEM.
fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |crc, byte| {
        let crc = crc ^ u16::from(*byte) << 8;
        (0..8).fold(crc, |crc, _| {
            if crc & 0x8000 == 0 {
                crc << 1
            } else {
                crc << 1 ^ 0x1021
            }
        })
    })
}
