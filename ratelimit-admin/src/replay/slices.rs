//! [`Slices`]: the time of a log, divided for the chart.

use std::time::Duration;

use crate::replay::candidate::Outcome;
use crate::replay::log::Log;
use crate::replay::time::moment;

/// The number of slices of a log.
const SLICES: usize = 100;

/// One percent. Shares are whole numbers of millionths of a percent, so that sums are exact.
pub(crate) const PERCENT: u64 = 1_000_000;

/// The log, divided into slices of equal length.
pub(crate) struct Slices {
    pub(crate) first: u64,
    pub(crate) last: u64,
    length: u64,
    requests: [u32; SLICES],
}

impl Slices {
    pub(crate) fn of(log: &Log) -> Self {
        let (first, last) = log.span();
        let length = (last - first) / SLICES as u64 + 1;
        let mut slices = Self {
            first,
            last,
            length,
            requests: [0; SLICES],
        };
        slices.requests = slices.counts(log.requests().iter().map(|request| request.at));
        slices
    }

    /// The number of these times in each slice.
    fn counts(&self, times: impl Iterator<Item = u64>) -> [u32; SLICES] {
        let mut counts = [0; SLICES];
        for at in times {
            let index = usize::try_from((at - self.first) / self.length).unwrap_or(usize::MAX);
            counts[index] += 1;
        }
        counts
    }

    /// The shares, in [`PERCENT`]s, at the middle of each slice that has requests.
    pub(crate) fn shares(&self, outcome: &Outcome) -> Vec<(u64, u64)> {
        let middles = (0..).map(|index| self.first + self.length * index + self.length / 2);
        let refused = self.counts(outcome.refused_at.iter().copied());
        let slices = middles
            .zip(refused)
            .zip(self.requests)
            .filter(|(_, requests)| *requests > 0);
        slices
            .map(|((at, refused), requests)| {
                (at, 100 * PERCENT * u64::from(refused) / u64::from(requests))
            })
            .collect()
    }

    fn span(&self) -> u64 {
        self.last - self.first
    }

    /// The length of a slice.
    pub(crate) fn length(&self) -> Duration {
        Duration::from_micros(self.length)
    }

    /// Round times to write on the axis, at most nine.
    pub(crate) fn labels(&self) -> Vec<u64> {
        let (minute, hour, day) = (60, 3600, 86_400);
        let seconds = [
            1,
            2,
            5,
            10,
            15,
            30,
            minute,
            2 * minute,
            5 * minute,
            10 * minute,
            15 * minute,
            30 * minute,
        ];
        let hours = [1, 2, 3, 6, 12].map(|hours| hours * hour);
        let days = (1..).map(|days| days * day);
        let parts = (0..6).flat_map(|zeros| [1, 2, 5].map(|part| part * 10_u64.pow(zeros)));
        let mut steps = parts.chain(
            seconds
                .into_iter()
                .chain(hours)
                .chain(days)
                .map(|seconds| seconds * 1_000_000),
        );
        let step = steps
            .find(|step| self.span() / step <= 8)
            .unwrap_or(u64::MAX);
        (self.first.div_ceil(step)..=self.last / step)
            .map(|n| n * step)
            .collect()
    }

    pub(crate) fn time_format(&self) -> &'static str {
        match Duration::from_micros(self.span()).as_millis() {
            ..8 => "%H:%M:%S%.6f",
            8..8_000 => "%H:%M:%S%.3f",
            8_000..600_000 => "%H:%M:%S",
            600_000..172_800_000 => "%H:%M",
            _ => "%m-%d %H:%M",
        }
    }

    /// The part of the times that the labels omit: the day, or the first and the last day, and the
    /// zone.
    pub(crate) fn days(&self) -> String {
        let [first, last] = [self.first, self.last].map(|at| moment(at).strftime("%F").to_string());
        if first == last {
            format!("{first}, UTC")
        } else {
            format!("{first} to {last}, UTC")
        }
    }
}
