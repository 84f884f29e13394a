//! [`Account`]: all calls of a load, and what must hold for them.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use ratelimit_runtime::{Decision, OnUnavailable, RateLimitError, Source};

use super::load::{AFTER_STALL, CALLERS, LIMIT, POLICIES, TIMEOUT};
use super::log::Logged;
use super::row::{Row, millis};

/// By how much a call may exceed its timeout, besides what its runtime was late: timers count in
/// milliseconds, and there is work to be done after them.
const SLACK: Duration = Duration::from_millis(40);

/// Who answered a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Answered {
    Store,
    DenyCache,
    /// The memory of this process.
    Fallback,
    /// Let through by `allow`.
    Nobody,
    Unavailable,
    Misconfigured,
}

impl Answered {
    /// Whether it is what callers see while nothing is wrong.
    pub(crate) fn is_store(self) -> bool {
        matches!(self, Self::Store | Self::DenyCache)
    }

    fn name(self) -> &'static str {
        match self {
            Self::Store => "store",
            Self::DenyCache => "deny cache",
            Self::Fallback => "fallback",
            Self::Nobody => "allow",
            Self::Unavailable => "unavailable",
            Self::Misconfigured => "misconfigured",
        }
    }
}

/// One call. Times count from the start of the load.
#[derive(Debug, Clone)]
pub(crate) struct Call {
    pub(crate) sent: Duration,
    pub(crate) answered: Duration,
    /// Both by the clock that servers go by, which machines set while tests run.
    pub(crate) on_clock: [Duration; 2],
    pub(crate) by: Answered,
    pub(crate) admitted: bool,
    /// On the key that all callers of its policy share.
    pub(crate) hot: bool,
    /// The error, if there was no decision.
    pub(crate) error: Option<String>,
}

impl Call {
    pub(crate) fn new(
        [sent, answered]: [Duration; 2],
        on_clock: [Duration; 2],
        hot: bool,
        outcome: &Result<Decision, RateLimitError>,
    ) -> Self {
        let source = |decision: &Decision| match decision.source() {
            Source::Store => Answered::Store,
            Source::DenyCache => Answered::DenyCache,
            Source::Fallback => Answered::Fallback,
            Source::Nobody => Answered::Nobody,
            other => panic!("{other:?} is not known here"),
        };
        let (by, admitted, error) = match outcome {
            Ok(decision) => (source(decision), true, None),
            Err(RateLimitError::Exceeded(decision)) => (source(decision), false, None),
            Err(RateLimitError::Unavailable(error)) => {
                (Answered::Unavailable, false, Some(error.to_string()))
            }
            Err(error) => (Answered::Misconfigured, false, Some(error.to_string())),
        };
        Self {
            sent,
            answered,
            on_clock,
            by,
            admitted,
            hot,
            error,
        }
    }

    fn took(&self) -> Duration {
        self.answered.saturating_sub(self.sent)
    }
}

/// The calls of one policy.
#[derive(Debug)]
pub(crate) struct Lane {
    pub(crate) policy: OnUnavailable,
    pub(crate) calls: Vec<Call>,
}

/// When what happened.
#[derive(Debug, Clone, Default)]
pub(super) struct Marks {
    pub(super) fault: Option<Duration>,
    pub(super) healed: Option<Duration>,
    /// When the store lost its logs.
    pub(super) forgets: Vec<Duration>,
}

/// What came of a load. [`Load::end`](super::Load::end) has checked what holds for every fault.
#[derive(Debug)]
pub(crate) struct Account {
    pub(crate) lanes: Vec<Lane>,
    marks: Marks,
    /// When the runtime of the callers was late, or the machine.
    stalls: Vec<(Duration, Duration)>,
    misconfigured: bool,
    /// How many servers may admit at the same time.
    masters: usize,
}

impl Account {
    pub(super) fn new(lanes: Vec<Lane>, marks: Marks, stalls: Vec<(Duration, Duration)>) -> Self {
        Self {
            lanes,
            marks,
            stalls,
            misconfigured: false,
            masters: 1,
        }
    }

    /// During the fault, calls may be answered with `Misconfigured`, whatever the policy.
    pub(crate) fn expect_misconfigured(&mut self) {
        self.misconfigured = true;
    }

    /// For a moment there are two masters, and each admits by itself.
    pub(crate) fn expect_two_masters(&mut self) {
        self.masters = 2;
    }

    /// How many calls of a policy were answered by this, from the beginning of the fault to its
    /// end.
    pub(crate) fn during(&self, policy: OnUnavailable, by: Answered) -> usize {
        let (fault, healed) = (self.fault(), self.marks.healed.unwrap_or(Duration::MAX));
        let during = |call: &&Call| call.by == by && call.answered > fault && call.sent < healed;
        self.of(policy).filter(during).count()
    }

    /// How many were answered by this after the end of the fault.
    pub(crate) fn after(&self, policy: OnUnavailable, by: Answered) -> usize {
        let healed = self.marks.healed.unwrap_or(Duration::MAX);
        self.of(policy)
            .filter(|call| call.by == by && call.sent > healed)
            .count()
    }

    pub(crate) fn of(&self, policy: OnUnavailable) -> impl Iterator<Item = &Call> {
        self.lanes
            .iter()
            .filter(move |lane| lane.policy == policy)
            .flat_map(|lane| &lane.calls)
    }

    /// The fault was one: under each policy, calls were answered by it.
    pub(crate) fn assert_felt(&self) {
        use Answered::{Fallback, Nobody, Unavailable};
        for (policy, answers) in [
            (OnUnavailable::Local, &[Fallback][..]),
            (OnUnavailable::Allow, &[Nobody, Fallback]),
            (OnUnavailable::Deny, &[Unavailable]),
        ] {
            let felt: usize = answers
                .iter()
                .map(|by| self.during(policy, *by) + self.after(policy, *by))
                .sum();
            assert!(felt > 0, "under `{policy}` no caller felt the fault");
        }
    }

    /// The fault was none: the store answered all calls, but for those whom a busy machine may have
    /// kept waiting once.
    pub(crate) fn assert_unnoticed(&self) {
        assert!(
            self.degraded() <= CALLERS,
            "{} calls were not answered by the store\n{}",
            self.degraded(),
            self.timeline()
        );
    }

    /// Two timeouts after the fault the outage is known, and no caller waits any more.
    pub(crate) fn assert_answered_at_once(&self) {
        let known = self.fault() + 3 * TIMEOUT;
        let healed = self.marks.healed.unwrap_or(Duration::MAX);
        let waited =
            |call: &&Call| call.sent > known && call.answered < healed && call.took() > TIMEOUT / 2;
        let calls = self
            .lanes
            .iter()
            .flat_map(|lane| &lane.calls)
            .filter(waited);
        let waited: Vec<_> = calls.filter(|call| !self.is_disturbed(call)).collect();
        assert!(
            waited.len() <= CALLERS,
            "{} calls waited, such as {:?}",
            waited.len(),
            waited.first()
        );
    }

    /// The log got one line when the server at this address was lost, and one when it was back,
    /// from each limiter.
    pub(crate) fn assert_logged_once(&self, address: &str) {
        let logged = Logged::about(address);
        let counts = (
            logged.with("Redis does not serve"),
            logged.with("Redis serves again"),
        );
        let expected = (POLICIES.len(), POLICIES.len());
        // A stalled machine makes outages of its own.
        let is_calm = self.stalls.is_empty();
        assert!(
            counts == expected || !is_calm && counts >= expected,
            "{counts:?} {logged:?}"
        );
    }

    /// The row of this fault.
    pub(crate) fn row(&self, fault: &str) -> Row {
        let calls = self.lanes.iter().map(|lane| lane.calls.len()).sum();
        let slowest = self
            .lanes
            .iter()
            .flat_map(|lane| &lane.calls)
            .map(Call::took)
            .max()
            .unwrap_or_default();
        let admitted = self
            .lanes
            .iter()
            .map(|lane| self.admitted(lane))
            .collect::<Vec<_>>()
            .join(", ");
        let seen = self
            .lanes
            .iter()
            .map(|lane| self.seen(lane))
            .collect::<Vec<_>>()
            .join("; ");
        let row = Row::new(fault)
            .calls(calls)
            .slowest(slowest, TIMEOUT)
            .admitted(admitted)
            .seen(seen);
        match self.recovery() {
            Some((first, last)) => row.recovery(format!("{}, {}", millis(first), millis(last))),
            None => row,
        }
    }

    /// After the end of the fault: when the first answer of the store came, and the last that was
    /// another's, whichever policy was the last.
    pub(crate) fn recovery(&self) -> Option<(Duration, Duration)> {
        let healed = self.marks.healed?;
        let after = |call: &&Call| call.answered > healed;
        let mut worst = (Duration::ZERO, Duration::ZERO);
        for lane in &self.lanes {
            let mut firsts = lane
                .calls
                .iter()
                .filter(after)
                .filter(|call| call.by == Answered::Store && call.sent > healed);
            let first = firsts.next().map(|call| call.answered);
            let lasts = lane
                .calls
                .iter()
                .filter(after)
                .filter(|call| !call.by.is_store());
            let last = lasts.map(|call| call.answered).max().unwrap_or(healed);
            worst = (
                worst.0.max(first?.saturating_sub(healed)),
                worst.1.max(last.saturating_sub(healed)),
            );
        }
        Some(worst)
    }

    /// What holds whatever happens.
    pub(super) fn check(&self) {
        for lane in &self.lanes {
            self.check_times(lane);
            self.check_sources(lane);
            self.check_windows(lane);
        }
    }

    /// Every call ends by its timeout.
    fn check_times(&self, lane: &Lane) {
        for call in &lane.calls {
            let bound = TIMEOUT + SLACK + self.late_during(call);
            assert!(
                call.took() <= bound,
                "{}: {call:?} took {:?} of {bound:?}",
                lane.policy,
                call.took()
            );
        }
    }

    /// For how long the runtime was late while this call waited.
    fn late_during(&self, call: &Call) -> Duration {
        let overlap = |&(from, to): &(Duration, Duration)| {
            to.min(call.answered).saturating_sub(from.max(call.sent))
        };
        self.stalls.iter().map(overlap).sum()
    }

    /// Each policy gives the answers it promises, and without a fault the store answers.
    fn check_sources(&self, lane: &Lane) {
        for call in &lane.calls {
            let promised = match call.by {
                Answered::Store | Answered::DenyCache => true,
                Answered::Fallback => lane.policy != OnUnavailable::Deny,
                Answered::Nobody => lane.policy == OnUnavailable::Allow,
                Answered::Unavailable => lane.policy == OnUnavailable::Deny,
                Answered::Misconfigured => self.misconfigured && call.answered > self.fault(),
            };
            assert!(promised, "`{}` never promised {call:?}", lane.policy);
        }
        // A machine that is busy with other things may stop any process, for all callers at once.
        let early = |call: &&Call| {
            call.answered < self.fault() && !call.by.is_store() && !self.is_disturbed(call)
        };
        let degraded = lane.calls.iter().filter(early).count();
        assert!(
            degraded <= 2 * CALLERS / POLICIES.len(),
            "`{}`: {degraded} not by the store, before any fault\n{}",
            lane.policy,
            self.timeline()
        );
    }

    /// How many calls were not decided by the store from the beginning of the fault on, without the
    /// machine being to blame.
    pub(crate) fn degraded(&self) -> usize {
        let calls = self.lanes.iter().flat_map(|lane| &lane.calls);
        calls
            .filter(|call| {
                call.answered > self.fault() && !call.by.is_store() && !self.is_disturbed(call)
            })
            .count()
    }

    /// Whether the machine had stopped for a while, shortly before.
    fn is_disturbed(&self, call: &Call) -> bool {
        self.stalls
            .iter()
            .any(|(from, to)| *from < call.answered && *to + AFTER_STALL > call.sent)
    }

    /// The store admits `max` in a window, the memory of the process as much again, and a store
    /// that forgets begins anew.
    fn check_windows(&self, lane: &Lane) {
        let policy = lane.policy;
        for epoch in 0..=self.marks.forgets.len() {
            let (most, allowed) = (self.most_by_store(lane, epoch), max() * self.masters);
            assert!(
                most <= allowed,
                "`{policy}`: the store admitted {most} of {allowed} in epoch {epoch}"
            );
        }
        let fallback = most_in_a_window(
            lane.hot(|call| call.by == Answered::Fallback),
            LIMIT.window(),
        );
        assert!(
            fallback <= max(),
            "`{policy}`: this process admitted {fallback} of {} in one window",
            max()
        );
        let (most, allowed) = (Self::most(lane), self.allowed(lane));
        assert!(
            most <= allowed,
            "`{policy}`: {most} of {allowed} were admitted in one window"
        );
    }

    /// How many of the hot key's calls the store admitted in one window, at most, in one life of
    /// its logs.
    fn most_by_store(&self, lane: &Lane, epoch: usize) -> usize {
        let mark = |at: usize| self.marks.forgets.get(at).copied();
        let begin = epoch.checked_sub(1).and_then(mark).unwrap_or_default();
        let end = mark(epoch).unwrap_or(Duration::MAX);
        let within =
            |call: &Call| call.by == Answered::Store && call.sent >= begin && call.answered <= end;
        most_in_a_window(lane.hot(within), LIMIT.window())
    }

    /// How many were checked and admitted in one window, at most, by whomever.
    fn most(lane: &Lane) -> usize {
        most_in_a_window(lane.hot(|call| call.by != Answered::Nobody), LIMIT.window())
    }

    /// What may be admitted in a window that touches the outage.
    fn allowed(&self, lane: &Lane) -> usize {
        let own = usize::from(lane.policy != OnUnavailable::Deny);
        max() * (self.masters + own + self.marks.forgets.len())
    }

    fn admitted(&self, lane: &Lane) -> String {
        format!(
            "{} {} of {}",
            lane.policy,
            Self::most(lane),
            self.allowed(lane)
        )
    }

    /// Who answered from the fault to the recovery.
    fn seen(&self, lane: &Lane) -> String {
        let recovered = self
            .recovery()
            .zip(self.marks.healed)
            .map(|((first, last), healed)| healed + first.max(last));
        let mut counts = BTreeMap::new();
        let during = |call: &&Call| {
            call.answered > self.fault() && call.sent <= recovered.unwrap_or(Duration::MAX)
        };
        for call in lane.calls.iter().filter(during) {
            *counts.entry(call.by).or_insert(0_usize) += 1;
        }
        let counts: Vec<_> = counts
            .iter()
            .map(|(by, count)| format!("{} {count}", by.name()))
            .collect();
        format!("{}: {}", lane.policy, counts.join(", "))
    }

    /// Who answered when: a line for every quarter of a second and policy, to find out what went
    /// wrong.
    pub(crate) fn timeline(&self) -> String {
        let mut counts = BTreeMap::new();
        for lane in &self.lanes {
            for call in &lane.calls {
                *counts
                    .entry((
                        call.answered.as_millis() / 250,
                        lane.policy.to_string(),
                        call.by,
                    ))
                    .or_insert(0_usize) += 1;
            }
        }
        let mut text = format!("{:?}\n", self.marks);
        for ((quarter, policy, by), count) in counts {
            let _ = writeln!(
                text,
                "{:>6} ms {policy}: {} {count}",
                quarter * 250,
                by.name()
            );
        }
        for (from, to) in &self.stalls {
            let _ = writeln!(text, "late from {from:?} to {to:?}");
        }
        text
    }

    fn fault(&self) -> Duration {
        self.marks.fault.unwrap_or(Duration::MAX)
    }
}

impl Lane {
    fn hot(&self, which: impl Fn(&Call) -> bool) -> Vec<&Call> {
        self.calls
            .iter()
            .filter(|call| call.hot && call.admitted && which(call))
            .collect()
    }
}

fn max() -> usize {
    usize::try_from(LIMIT.max()).expect("a small limit")
}

/// The largest number of calls that must have been decided within one window, wherever between its
/// sending and its answer each was, and whichever clock one goes by.
pub(crate) fn most_in_a_window(mut calls: Vec<&Call>, window: Duration) -> usize {
    calls.sort_by_key(|call| call.sent);
    let from = |(place, first): (usize, &&Call)| {
        let end = first.sent + window;
        calls
            .iter()
            .skip(place)
            .take_while(|call| call.sent < end)
            .filter(|call| call.answered < end)
            .filter(|call| call.on_clock[1] < first.on_clock[0] + window)
            .count()
    };
    calls.iter().enumerate().map(from).max().unwrap_or_default()
}
