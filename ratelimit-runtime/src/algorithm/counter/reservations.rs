//! [`ReservedCost`]: cost that is reserved, kept apart from what an algorithm charges.
//!
//! It does not drain and belongs to no window: it counts in full until it ends. Reservations are
//! kept as two sums, of those made since some moment and those made before. When the newer sum is a
//! span old it becomes the older one, and what was in that is forgotten: it was not committed or
//! released for at least a span, which is as long as a charge can count. A span after the newest
//! reservation all of them are.

#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ReservedCost {
    current: u64,
    current_since: u64,
    previous: u64,
    previous_since: u64,
    /// When all of it lapses: a span after the newest reservation.
    lapses: u64,
}

impl ReservedCost {
    /// The reservations at `now`.
    pub(crate) fn at(self, now: u64, span: u64) -> Self {
        if self.open() == 0 || now >= self.lapses {
            Self::default()
        } else if now >= self.current_since + span {
            let (previous, previous_since) = (self.current, self.current_since);
            Self { current: 0, current_since: now, previous, previous_since, lapses: self.lapses }
        } else {
            self
        }
    }

    pub(crate) fn open(&self) -> u64 {
        self.current + self.previous
    }

    pub(crate) fn add(&mut self, cost: u64, now: u64, span: u64) {
        if self.open() == 0 {
            *self = Self { current_since: now, previous_since: now, ..Self::default() };
        }
        self.current += cost;
        self.lapses = now.saturating_add(span);
    }

    /// Takes out a reservation made at `ticket`; says whether it was there.
    pub(crate) fn take(&mut self, cost: u64, ticket: u64) -> bool {
        let sum = if ticket >= self.current_since {
            &mut self.current
        } else if ticket >= self.previous_since {
            &mut self.previous
        } else {
            return false;
        };
        let there = cost > 0 && *sum >= cost;
        if there {
            *sum -= cost;
        }
        there
    }

    /// How long until all of them are forgotten.
    pub(crate) fn life(&self, now: u64) -> u64 {
        if self.open() == 0 { 0 } else { self.lapses.saturating_sub(now) }
    }
}
