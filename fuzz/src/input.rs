//! [`Input`]: bytes, read as whatever is wanted; what is not there reads as zero.

pub(super) struct Input<'a>(pub(super) &'a [u8]);

impl<'a> Input<'a> {
    pub(super) fn byte(&mut self) -> u8 {
        self.take(1).first().copied().unwrap_or_default()
    }

    /// One of so many.
    pub(super) fn below(&mut self, count: u8) -> u8 {
        self.byte() % count
    }

    pub(super) fn number(&mut self) -> u64 {
        let mut bytes = [0; 8];
        let taken = self.take(8);
        bytes
            .iter_mut()
            .zip(taken)
            .for_each(|(byte, taken)| *byte = *taken);
        u64::from_le_bytes(bytes)
    }

    pub(super) fn take(&mut self, count: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(count.min(self.0.len()));
        self.0 = rest;
        taken
    }

    /// A byte says how many.
    pub(super) fn some(&mut self) -> &'a [u8] {
        let count = self.byte();
        self.take(count.into())
    }

    pub(super) fn text(&mut self) -> String {
        String::from_utf8_lossy(self.some()).into_owned()
    }
}
