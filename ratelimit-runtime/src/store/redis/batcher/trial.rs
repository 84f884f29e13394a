//! [`SendTrial`]: finds by timing whether several callers send by themselves.
//!
//! If they do, a server on this machine with a core of its own stays awake: it decides the first
//! questions while this process writes the others. If both use the same cores, this takes more time
//! than sharing calls. Nothing tells which is the case, and it changes with the load: so both ways
//! are timed, and the faster is used.
//!
//! *Measured* on two cores with one worker: 5 to 8 callers who send by themselves decide 1.2 to 1.6
//! times as often as those who share calls; with two workers, or beside another busy process, 0.7
//! to 0.85 times.

use std::ops::RangeInclusive;
use std::time::{Duration, Instant};

/// The numbers of callers for which both ways are tried. *Measured* with one worker: 4 callers
/// decided 0.85 times as often if nothing held their calls back; 12 as often by either way; 16 0.7
/// to 0.8 times as often by themselves.
pub(super) const SEVERAL: RangeInclusive<usize> = 5..=11;
/// The calls that are timed together.
const TIMED: u32 = 256;
/// The time from which on a series of calls says nothing: several callers who ask again at once
/// need a fraction of it, so there were pauses.
const PAUSED: Duration = Duration::from_millis(20);
/// The slower way is tried one time of so many.
const TRIED_EVERY: u32 = 16;

#[derive(Debug, Default)]
pub(super) struct SendTrial {
    /// `true` while several callers send by themselves.
    pub(super) by_themselves: bool,
    /// The average time that [`TIMED`] calls took, shared and by themselves; zero before the first
    /// time.
    took: [Duration; 2],
    times: u32,
    since: Option<Instant>,
    calls: u32,
    /// The most callers that waited at once since then.
    most: usize,
}

impl SendTrial {
    /// Counts a call, for which `callers` wait now. `true` after the last call of a timed series,
    /// which may change the way of sending.
    pub(super) fn count(&mut self, callers: usize, now: impl FnOnce() -> Instant) -> bool {
        self.most = self.most.max(callers);
        self.calls += 1;
        if self.calls < TIMED {
            return false;
        }
        let now = now();
        let since = self.since.replace(now).unwrap_or(now);
        let took = now.saturating_duration_since(since);
        let are_several = SEVERAL.contains(&self.most);
        (self.calls, self.most) = (0, 0);
        self.by_themselves = are_several && took < PAUSED && self.next(took);
        true
    }

    /// The next way, after a series of calls took so long by this one.
    fn next(&mut self, took: Duration) -> bool {
        let [shared, by_themselves] = &mut self.took;
        let average = if self.by_themselves {
            &mut *by_themselves
        } else {
            &mut *shared
        };
        *average = match *average {
            Duration::ZERO => took,
            before => (before + took) / 2,
        };
        self.times = self.times.wrapping_add(1);
        (by_themselves < shared) != self.times.is_multiple_of(TRIED_EVERY)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The number of `times` that callers send by themselves, by how long calls take either way.
    fn by_themselves(
        trial: &mut SendTrial,
        callers: usize,
        times: u32,
        [shared, by_themselves]: [u64; 2],
    ) -> u32 {
        let mut now = trial.since.unwrap_or_else(Instant::now);
        let mut count = 0;
        for _ in 0..times {
            count += u32::from(trial.by_themselves);
            now += Duration::from_micros(if trial.by_themselves {
                by_themselves
            } else {
                shared
            });
            let ended = (0..TIMED).filter(|_| trial.count(callers, || now)).count();
            assert_eq!(ended, 1);
        }
        count
    }

    #[test]
    fn the_faster_way_is_used_and_the_other_tried_now_and_then() {
        for callers in SEVERAL {
            let trial = &mut SendTrial::default();
            by_themselves(trial, callers, 3, [1_250, 1_000]);
            assert_eq!(by_themselves(trial, callers, 160, [1_250, 1_000]), 150);
            // Another process takes the server's core.
            by_themselves(trial, callers, 32, [1_250, 1_700]);
            assert_eq!(by_themselves(trial, callers, 160, [1_250, 1_700]), 10);
        }
    }

    #[test]
    fn a_pause_between_calls_does_not_count() {
        for before in 0..10 {
            let trial = &mut SendTrial::default();
            by_themselves(trial, 8, before, [1_250, 1_000]);
            by_themselves(trial, 8, 1, [60_000_000; 2]);
            by_themselves(trial, 8, 3, [1_250, 1_000]);
            assert_eq!(by_themselves(trial, 8, 160, [1_250, 1_000]), 150);
        }
    }

    #[test]
    fn few_and_many_callers_are_not_several() {
        for callers in [1, 4, 12, 512] {
            let trial = &mut SendTrial::default();
            assert_eq!(by_themselves(trial, callers, 100, [1_250, 1_000]), 0);
        }
        let rarely = &mut SendTrial::default();
        assert_eq!(by_themselves(rarely, 8, 100, [25_000, 25_000]), 0);
    }
}
