//! What may be admitted in any interval of time, by algorithm: pure functions of what was admitted.
//!
//! Nobody outside knows when exactly a call was admitted, only between which two readings of a
//! clock. So an admission counts within an interval of time only if both of its readings do.

use std::time::Duration;

use ratelimit_runtime::{Algorithm, Limit};

/// A call that was admitted at some moment between two readings of one clock, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Admission {
    pub(crate) before: i64,
    pub(crate) after: i64,
    /// The cost of the call.
    pub(crate) units: i64,
    /// Whether it was paid for by units taken ahead.
    pub(crate) by_grant: bool,
}

/// An error if more was admitted than an algorithm may, and so many units more.
pub(crate) fn check(
    algorithm: Algorithm,
    limit: &Limit,
    admissions: &[Admission],
    more: i64,
) -> Result<(), String> {
    let max = i64::try_from(limit.max()).unwrap();
    // A server counts whole microseconds.
    let in_window = most_in_window(
        admissions,
        limit.window().saturating_sub(Duration::from_micros(1)),
    );
    let (most, bound) = match algorithm {
        Algorithm::SlidingWindow => (in_window, max),
        Algorithm::FixedWindow => (in_window, 2 * max),
        Algorithm::SlidingCounter => (in_window, 2 * max - 1),
        // A bucket counts in whole units.
        _ => {
            let capacity = i64::try_from(limit.capacity()).unwrap();
            (most_above_rate(admissions, limit), capacity + 1)
        }
    };
    if most > bound + more {
        return Err(format!(
            "{algorithm}: {most} units were admitted where {} may be",
            bound + more
        ));
    }
    Ok(())
}

/// The most units that were admitted within a window, which is open at its end.
pub(crate) fn most_in_window(admissions: &[Admission], window: Duration) -> i64 {
    let window = nanos(window);
    let inside: Vec<_> = admissions
        .iter()
        .filter(|admission| admission.after - admission.before < window)
        .collect();
    let sorted = |reading: fn(&Admission) -> i64| {
        let mut sorted: Vec<_> = inside.iter().map(|one| (reading(one), one.units)).collect();
        sorted.sort_unstable();
        sorted
    };
    let (began, ended) = (sorted(|one| one.before), sorted(|one| one.after));
    // No admission is as long as the window: one that began before it and ended before its end is
    // the only kind that is not inside.
    let (mut most, mut earlier, mut through, mut next) = (0, 0, 0, 0);
    for (start, units) in began {
        while let Some((_, units)) = ended.get(next).filter(|(end, _)| *end < start + window) {
            through += units;
            next += 1;
        }
        most = most.max(through - earlier);
        earlier += units;
    }
    most
}

/// By how many units, rounded up, the admissions of some interval of time exceed what the limit's
/// rate allows in that interval.
pub(crate) fn most_above_rate(admissions: &[Admission], limit: &Limit) -> i64 {
    let (max, window) = (i128::from(limit.max()), i128::from(nanos(limit.window())));
    let mut began = admissions.to_vec();
    began.sort_unstable_by_key(|one| one.before);
    let mut ended: Vec<_> = began.iter().enumerate().collect();
    ended.sort_unstable_by_key(|(_, one)| one.after);

    // An interval begins where an admission does: from there on, each admission adds its units once
    // it has ended, and the time until the next one takes away what the rate allows in it.
    let gap = |at: usize| {
        let next = began
            .get(at + 1)
            .map_or(began[at].before, |next| next.before);
        max * i128::from(next - began[at].before)
    };
    let mut suffixes = Suffixes::new(&(0..began.len()).map(|at| -gap(at)).collect::<Vec<_>>());
    let last = began.last().map_or(0, |last| last.before);
    let mut most = 0;
    for (at, one) in ended {
        suffixes.set(at, i128::from(one.units) * window - gap(at));
        most = most.max(suffixes.most() - max * i128::from(one.after - last));
    }
    let most = most.div_euclid(window) + i128::from(most.rem_euclid(window) > 0);
    i64::try_from(most).unwrap()
}

fn nanos(duration: Duration) -> i64 {
    i64::try_from(duration.as_nanos()).unwrap()
}

/// The largest sum of the values from one that has been set to the last one.
struct Suffixes {
    /// A tree: the children of node n are 2n and 2n + 1.
    nodes: Vec<Suffix>,
}

#[derive(Debug, Clone, Copy)]
struct Suffix {
    sum: i128,
    most: i128,
}

impl Suffixes {
    /// None that begins at a value that was not set.
    const NONE: i128 = i128::MIN / 4;

    fn new(values: &[i128]) -> Self {
        let leaves = values.len().next_power_of_two();
        let none = Suffix {
            sum: 0,
            most: Self::NONE,
        };
        let mut suffixes = Self {
            nodes: vec![none; 2 * leaves],
        };
        for (at, &sum) in values.iter().enumerate() {
            suffixes.nodes[leaves + at].sum = sum;
        }
        (1..leaves).rev().for_each(|node| suffixes.join(node));
        suffixes
    }

    fn join(&mut self, node: usize) {
        let (left, right) = (self.nodes[2 * node], self.nodes[2 * node + 1]);
        self.nodes[node] = Suffix {
            sum: left.sum + right.sum,
            most: right.most.max(left.most + right.sum),
        };
    }

    fn set(&mut self, at: usize, value: i128) {
        let mut node = self.nodes.len() / 2 + at;
        self.nodes[node] = Suffix {
            sum: value,
            most: value,
        };
        while node > 1 {
            node /= 2;
            self.join(node);
        }
    }

    fn most(&self) -> i128 {
        self.nodes[1].most
    }
}

mod tests {
    use super::*;
    use crate::support::random::Random;

    const SECOND: i64 = 1_000_000_000;

    fn limit(max: u64) -> Limit {
        Limit::new(max, Duration::from_secs(1))
    }

    /// One unit, at a moment and for so long, in milliseconds.
    fn at(millis: i64, lasts: i64) -> Admission {
        let (before, lasts) = (millis * 1_000_000, lasts * 1_000_000);
        Admission {
            before,
            after: before + lasts,
            units: 1,
            by_grant: false,
        }
    }

    /// As many at each of these moments.
    fn bursts(count: usize, moments: &[i64]) -> Vec<Admission> {
        let burst = |&moment| std::iter::repeat_n(at(moment, 0), count);
        moments.iter().flat_map(burst).collect()
    }

    fn is_within(algorithm: Algorithm, max: u64, admissions: &[Admission]) -> bool {
        check(algorithm, &limit(max), admissions, 0).is_ok()
    }

    #[test]
    fn a_log_admits_max_in_any_window_and_no_unit_more() {
        let log = Algorithm::SlidingWindow;
        assert!(is_within(log, 10, &bursts(10, &[0, 1_000, 2_000])));
        assert!(!is_within(log, 10, &bursts(10, &[0, 999])));
        let mut planted = bursts(10, &[0, 1_000, 2_000]);
        planted.push(at(1_500, 0));
        assert!(!is_within(log, 10, &planted));
        // It may have been admitted before the second ten, or after them.
        planted.pop();
        planted.push(at(0, 1_000));
        assert!(is_within(log, 10, &planted));
        let mut costly = bursts(9, &[0]);
        costly.push(Admission {
            units: 2,
            ..at(500, 1)
        });
        assert!(!is_within(log, 10, &costly));
    }

    #[test]
    fn windows_admit_twice_max_and_a_sliding_counter_one_less() {
        let twice = bursts(10, &[990, 1_010]);
        assert!(is_within(Algorithm::FixedWindow, 10, &twice));
        assert!(!is_within(Algorithm::SlidingCounter, 10, &twice));
        assert!(is_within(Algorithm::SlidingCounter, 10, &twice[1..]));
        let mut planted = twice.clone();
        planted.push(at(1_900, 0));
        assert!(!is_within(Algorithm::FixedWindow, 10, &planted));
    }

    #[test]
    fn buckets_admit_their_burst_and_what_drains_meanwhile() {
        for bucket in [Algorithm::TokenBucket, Algorithm::LeakyBucket] {
            // A burst of 100, and one unit each 10 ms.
            let mut admissions = bursts(100, &[0]);
            admissions.extend((1..300).map(|number| at(10 * number, 0)));
            assert!(is_within(bucket, 100, &admissions));
            // As long as one more is a matter of rounding.
            admissions.push(at(1_500, 1));
            assert!(is_within(bucket, 100, &admissions));
            admissions.push(at(1_500, 1));
            assert!(!is_within(bucket, 100, &admissions));
            // In a pause of a lease twice as much has drained, in a microsecond nothing.
            let pause = bursts(100, &[0, 1_000, 1_900]);
            assert!(!is_within(bucket, 100, &pause));
            assert!(is_within(bucket, 100, &bursts(100, &[0, 1_000, 2_000])));
            assert!(!is_within(bucket, 100, &bursts(95, &[0, 900, 901])));
        }
    }

    #[test]
    fn every_interval_is_looked_at() {
        let mut random = Random::another();
        for _ in 0..200 {
            let mut one = || {
                let before = i64::try_from(random.below(4_000)).unwrap() * SECOND / 1_000;
                Admission {
                    before,
                    after: before + i64::try_from(random.below(300)).unwrap() * SECOND / 1_000,
                    units: i64::try_from(random.below(4)).unwrap(),
                    by_grant: false,
                }
            };
            let admissions: Vec<_> = (0..40).map(|_| one()).collect();
            let inside = |start: i64, end: i64| {
                let is_inside = |one: &&Admission| one.before >= start && one.after <= end;
                let units = admissions.iter().filter(is_inside).map(|one| one.units);
                units.sum::<i64>()
            };
            let (mut in_window, mut above_rate) = (0, 0);
            for start in admissions.iter().map(|one| one.before) {
                in_window = in_window.max(inside(start, start + SECOND - 1));
                for end in admissions.iter().map(|one| one.after) {
                    let allowed = 7 * (end - start).max(0);
                    above_rate = above_rate.max(inside(start, end) * SECOND - allowed);
                }
            }
            let above_rate = (above_rate + SECOND - 1) / SECOND;
            let window = Duration::from_secs(1);
            assert_eq!(most_in_window(&admissions, window), in_window);
            assert_eq!(most_above_rate(&admissions, &limit(7)), above_rate);
        }
    }
}
