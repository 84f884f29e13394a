//! [`PerLimit`]: something of each limit of a key. Most keys have one limit, and need no allocation.

/// A value for each limit, in their order.
#[derive(Debug, Clone, Default)]
pub(crate) struct PerLimit<T> {
    pub(super) first: T,
    others: Box<[T]>,
}

impl<T: Copy + Default> PerLimit<T> {
    /// The value of a limit; the default where none has been kept yet.
    #[inline]
    pub(super) fn get(&self, limit: usize) -> T {
        match limit.checked_sub(1) {
            None => self.first,
            Some(other) => self.others.get(other).copied().unwrap_or_default(),
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &T> {
        std::iter::once(&self.first).chain(&self.others)
    }

    /// The values of so many limits.
    pub(super) fn iter_mut(&mut self, limits: usize) -> impl Iterator<Item = &mut T> {
        let others = limits.saturating_sub(1);
        if self.others.len() != others {
            self.others = (1..=others).map(|limit| self.get(limit)).collect();
        }
        std::iter::once(&mut self.first).chain(&mut self.others)
    }
}
