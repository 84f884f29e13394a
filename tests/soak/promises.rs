//! [`Promises`]: what must hold of every call, looked at as calls come in; nothing is kept but the last windows.

use std::collections::VecDeque;
use std::fmt::Write as _;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use ratelimit_runtime::{Decision, OnUnavailable, RateLimitError, Source};

use crate::callers::{HOT, LIMIT, POLICIES, RESERVED, TIMEOUT};

/// By how much a call may exceed its timeout, besides what its runtime was late.
const SLACK: Duration = Duration::from_millis(100);
/// After this long, every stall is known that a call may have met.
pub(crate) const SETTLED: Duration = Duration::from_secs(3);
/// Hot keys of a policy.
const KEYS: usize = HOT + RESERVED;
/// How many broken promises are told.
const TOLD: usize = 20;

#[derive(Clone, Default)]
pub(crate) struct Promises(Arc<Mutex<Seen>>);

#[derive(Default)]
struct Seen {
    calls: [[u64; 5]; 3],
    admitted: u64,
    slowest: Duration,
    /// When the runtime was late, lately.
    stalls: Vec<(Instant, Instant)>,
    longest_stall: Duration,
    /// Calls that have taken too long, unless their runtime was late.
    slow: Vec<(Instant, Instant, String)>,
    /// Of each policy and hot key the admissions of the last window, by the store and by this
    /// process.
    by_store: Vec<VecDeque<Admission>>,
    by_process: Vec<VecDeque<Admission>>,
    most_by_store: [u64; 2],
    most_by_process: u64,
    faults: Vec<Period>,
    by_another: Option<Instant>,
    broken: Vec<String>,
    broken_count: u64,
}

/// An admission of a hot key, and what it costs at least.
struct Admission {
    sent: Instant,
    answered: Instant,
    cost: u64,
}

/// From the beginning of a fault until the store alone answers again.
struct Period {
    begin: Instant,
    end: Option<Instant>,
    can_forget: bool,
}

fn who(outcome: &Result<Decision, RateLimitError>) -> (usize, bool) {
    let source = |decision: &Decision| match decision.source() {
        Source::Store | Source::DenyCache => 0,
        Source::Fallback => 1,
        _ => 2,
    };
    match outcome {
        Ok(decision) => (source(decision), true),
        Err(RateLimitError::Exceeded(decision)) => (source(decision), false),
        Err(RateLimitError::Unavailable(_)) => (3, false),
        Err(_) => (4, false),
    }
}

impl Promises {
    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A call was answered; `hot` is its hot key, and what it costs at least if it is admitted.
    pub(crate) fn call(
        &self,
        lane: usize,
        hot: Option<(usize, u64)>,
        sent: Instant,
        outcome: &Result<Decision, RateLimitError>,
    ) {
        let answered = Instant::now();
        let (by, admitted) = who(outcome);
        let mut seen = self.seen();
        seen.calls[lane][by] += 1;
        seen.admitted += u64::from(admitted);
        seen.slowest = seen.slowest.max(answered - sent);
        let policy = POLICIES[lane];
        let promised = match by {
            0 => true,
            1 => policy != OnUnavailable::Deny,
            2 => policy == OnUnavailable::Allow,
            3 => policy == OnUnavailable::Deny,
            _ => false,
        };
        if !promised {
            seen.breaks(format!("`{policy}` never promised {outcome:?}"));
        }
        let took = answered - sent;
        if took > TIMEOUT + SLACK {
            // After a stall, callers may have their turn before the timer that tells of it.
            seen.slow.push((sent, answered, format!("{outcome:?}")));
        }
        if by != 0 {
            seen.by_another = seen.by_another.max(Some(answered));
        }
        if let (Some((hot, cost)), true, 0 | 1) = (hot, admitted, by) {
            // Looked at in order, so not when it was answered, but when that was seen.
            seen.admits(lane * KEYS + hot, by == 0, Admission { sent, answered: Instant::now(), cost });
        }
    }

    pub(crate) fn beat(&self, due: Instant, now: Instant) {
        if now > due + Duration::from_millis(1) {
            let mut seen = self.seen();
            seen.longest_stall = seen.longest_stall.max(now - due);
            seen.stalls.push((due, now));
        }
    }

    /// A fault, by whose number its end is told.
    pub(crate) fn fault_begins(&self, can_forget: bool) -> usize {
        let mut seen = self.seen();
        seen.faults.push(Period { begin: Instant::now(), end: None, can_forget });
        seen.faults.len() - 1
    }

    /// The store alone answers again, which is the end of a fault.
    pub(crate) fn recovered(&self, fault: usize) {
        self.seen().faults[fault].end = Some(Instant::now());
    }

    /// When somebody else than the store answered last.
    pub(crate) fn last_by_another(&self) -> Instant {
        let seen = self.seen();
        seen.by_another.unwrap_or_else(|| seen.faults.last().map_or_else(Instant::now, |fault| fault.begin))
    }

    pub(crate) fn assert_kept(&self) {
        let mut seen = self.seen();
        let is_old = |(_, answered, _): &mut (Instant, Instant, String)| answered.elapsed() > SETTLED;
        for (sent, answered, outcome) in seen.slow.extract_if(.., is_old).collect::<Vec<_>>() {
            let (took, late) = (answered - sent, seen.late_between(sent, answered));
            if took > TIMEOUT + SLACK + late {
                seen.breaks(format!("a call took {took:?}, {late:?} of which its runtime was late: {outcome}"));
            }
        }
        seen.stalls.retain(|(_, end)| end.elapsed() < 4 * SETTLED);
        assert!(seen.broken.is_empty(), "{} broken promises:\n{}", seen.broken_count, seen.broken.join("\n"));
    }

    pub(crate) fn summary(&self, time: Duration) -> String {
        let seen = self.seen();
        let all: u64 = seen.calls.iter().flatten().sum();
        let mut text = format!(
            "calls: {all} in {} s, {} admitted; the slowest took {:?} of {TIMEOUT:?}; its runtime was late by up to {:?}\n",
            time.as_secs(),
            seen.admitted,
            seen.slowest,
            seen.longest_stall,
        );
        for (policy, [store, fallback, nobody, unavailable, other]) in POLICIES.iter().zip(seen.calls) {
            let _ = writeln!(
                text,
                "  {policy}: store {store}, fallback {fallback}, let through {nobody}, unavailable {unavailable}, other {other}"
            );
        }
        let _ = writeln!(
            text,
            "the most that the store admitted in any window of {:?}: {} of {} without a fail-over, {} with one; this process {}",
            LIMIT.window(),
            seen.most_by_store[0],
            LIMIT.max(),
            seen.most_by_store[1],
            seen.most_by_process,
        );
        text
    }
}

impl Seen {
    fn breaks(&mut self, what: String) {
        self.broken_count += 1;
        if self.broken.len() < TOLD {
            self.broken.push(what);
        }
    }

    fn late_between(&self, from: Instant, to: Instant) -> Duration {
        let overlap = |&(begin, end): &(Instant, Instant)| end.min(to).saturating_duration_since(begin.max(from));
        self.stalls.iter().map(overlap).sum()
    }

    /// An admission of a hot key. Wherever between its sending and its answer each was decided, no
    /// window holds more of them than the limit; but that a master who takes over may lack the last
    /// writes of the one that was lost, each time.
    fn admits(&mut self, key: usize, by_store: bool, admission: Admission) {
        let answered = admission.answered;
        let logs = if by_store { &mut self.by_store } else { &mut self.by_process };
        logs.resize_with(KEYS * POLICIES.len(), VecDeque::new);
        let log = &mut logs[key];
        log.push_back(admission);
        while log.front().is_some_and(|first| first.sent + LIMIT.window() * 2 < answered) {
            log.pop_front();
        }
        // All that were certainly decided in the window that ends now.
        let begin = answered.checked_sub(LIMIT.window()).unwrap_or(answered);
        let within: u64 = log.iter().filter(|admission| admission.sent > begin).map(|admission| admission.cost).sum();
        let max = LIMIT.max();
        let touched = |fault: &&Period| fault.can_forget && fault.end.is_none_or(|end| end > begin);
        let forgets = u64::try_from(self.faults.iter().rev().take(4).filter(touched).count()).unwrap();
        if by_store {
            let most = &mut self.most_by_store[usize::from(forgets > 0)];
            *most = within.max(*most);
        } else {
            self.most_by_process = within.max(self.most_by_process);
        }
        // Who comes back as a master before it has heard of the other one may be believed for a
        // moment, too.
        let allowed = if by_store { max * (1 + 2 * forgets) } else { max };
        if within > allowed {
            let whom = if by_store { "the store" } else { "this process" };
            let faults = self.faults.iter().rev().take(3);
            let faults: Vec<_> =
                faults.map(|fault| (fault.begin.elapsed(), fault.end.map(|end| end.elapsed()))).collect();
            self.breaks(format!(
                "{whom} admitted {within} of {allowed} in one window; since the last faults {faults:?}"
            ));
        }
    }
}
