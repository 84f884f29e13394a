//! [`collect`]: collects the decisions made while a future runs, for tests and for code that does
//! not see the errors. [`collect_by_rule`] keeps of them what header fields need.

use std::cell::RefCell;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};

use pin_project_lite::pin_project;
use tokio::task::futures::TaskLocalFuture;

use super::observation::Observation;

tokio::task_local! {
    /// The decisions of the innermost collector around the running future.
    static COLLECTING: RefCell<Collector>;
}

struct Collector {
    decisions: Vec<Observation>,
    add: Add,
    /// `true` after a check that was not decided, such as one whose cost is above its limit.
    #[cfg(feature = "_layer")]
    is_undecided: bool,
}

/// Adds a decision to those that are kept.
type Add = fn(&mut Collector, Observation);

/// The number of collectors. It is most often 0, so that most decisions look no further.
static COLLECTORS: AtomicUsize = AtomicUsize::new(0);

/// The most decisions that one collector keeps.
const MOST: usize = 10_000;

/// The most decisions that a collector keeps by rule.
#[cfg(feature = "_layer")]
const MOST_BY_RULE: usize = 64;

/// Runs a future, and returns its output with the decisions made meanwhile, in order. The last one
/// of a refused call is its refusal. Of more than 10,000, those between the first 9,999 and the
/// last are left out. Tasks that the future spawns are not included; a collector nested in it keeps
/// its own decisions.
///
/// ```
/// # #[cfg(feature = "macros")]
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// use ratelimit_runtime::{RateLimitError, RateLimiter, observe, rate_limit};
///
/// #[rate_limit(key = "<user>", window = "60s", max = 2)]
/// async fn search(user: &str) -> Result<(), RateLimitError> {
///     Ok(())
/// }
///
/// let (out, decisions) = RateLimiter::memory().scope(observe::collect(search("alice"))).await;
/// assert!(out.is_ok());
/// assert_eq!(decisions[0].decision().remaining(), 1);
/// assert_eq!(decisions[0].limits()[0].to_string(), "2/1m");
/// # }
/// # #[cfg(not(feature = "macros"))]
/// # fn main() {}
/// ```
pub fn collect<F: Future>(future: F) -> impl Future<Output = (F::Output, Vec<Observation>)> {
    run(future, add_each, |collector| collector.decisions)
}

/// What the checks of a request came to.
#[cfg(feature = "_layer")]
#[derive(Default)]
pub(crate) struct DecisionsByRule {
    /// The strictest decision of each rule, in the place of the rule's first, and after these the
    /// last decision.
    pub(crate) decisions: Vec<Observation>,
    /// `true` if the last check was refused.
    pub(crate) ends_refused: bool,
}

/// [`collect`], but only the strictest decision of each rule is kept, and the last one. Decisions
/// in shadow mode are left out: they refuse no call, so clients do not see them.
#[cfg(feature = "_layer")]
pub(crate) fn collect_by_rule<F: Future>(
    future: F,
) -> impl Future<Output = (F::Output, DecisionsByRule)> {
    run(future, add_by_rule, |collector| {
        let last = collector.decisions.last();
        let is_refused = last.is_some_and(|last| !last.decision().is_allowed());
        DecisionsByRule {
            ends_refused: is_refused && !collector.is_undecided,
            decisions: collector.decisions,
        }
    })
}

fn run<F: Future, T>(future: F, add: Add, finish: fn(Collector) -> T) -> Collected<F, T> {
    COLLECTORS.fetch_add(1, Ordering::Relaxed);
    let collector = Collector {
        decisions: Vec::new(),
        add,
        #[cfg(feature = "_layer")]
        is_undecided: false,
    };
    Collected {
        future: COLLECTING.scope(RefCell::new(collector), future),
        finish,
        counted: Counted,
    }
}

fn add_each(collector: &mut Collector, observation: Observation) {
    push(&mut collector.decisions, observation, MOST);
}

/// Adds a decision, after merging the one before into an earlier decision of its rule.
#[cfg(feature = "_layer")]
fn add_by_rule(collector: &mut Collector, observation: Observation) {
    if observation.is_shadow() {
        return;
    }
    collector.is_undecided = false;
    fold_last(&mut collector.decisions);
    push(&mut collector.decisions, observation, MOST_BY_RULE);
}

fn push(decisions: &mut Vec<Observation>, observation: Observation, most: usize) {
    if decisions.len() == most {
        let _ = decisions.pop(); // the last one may be a refusal, which matters most
    }
    decisions.push(observation);
}

/// Merges the last decision with an earlier one of its rule: the strictest stays.
#[cfg(feature = "_layer")]
fn fold_last(decisions: &mut Vec<Observation>) {
    let Some(last) = decisions.pop() else {
        return;
    };
    let of_rule = |known: &&mut Observation| known.decision().rule == last.decision().rule;
    match decisions.iter_mut().find(of_rule) {
        Some(known) if last.decision().is_stricter_than(known.decision()) => *known = last,
        Some(_) => {}
        None => decisions.push(last),
    }
}

pin_project! {
    /// An `async` block would hold the future twice: as its argument, and where it is awaited.
    struct Collected<F, T> {
        #[pin]
        future: TaskLocalFuture<RefCell<Collector>, F>,
        finish: fn(Collector) -> T,
        counted: Counted,
    }
}

/// Counts in [`COLLECTORS`] until it is dropped.
struct Counted;

impl Drop for Counted {
    fn drop(&mut self) {
        COLLECTORS.fetch_sub(1, Ordering::Relaxed);
    }
}

impl<F: Future, T: Default> Future for Collected<F, T> {
    type Output = (F::Output, T);

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        let output = ready!(this.future.as_mut().poll(cx));
        let collected = this.future.take_value().map(RefCell::into_inner);
        debug_assert!(
            collected.is_some(),
            "it is taken once, when the future ends"
        );
        let collected = collected.map(*this.finish);
        Poll::Ready((output, collected.unwrap_or_default()))
    }
}

/// `true` if decisions of this task are collected now.
#[inline]
pub(super) fn listens() -> bool {
    COLLECTORS.load(Ordering::Relaxed) > 0 && COLLECTING.try_with(|_| ()).is_ok()
}

pub(super) fn decision(observation: impl FnOnce() -> Observation) {
    let _ = COLLECTING.try_with(|collecting| {
        let kept = &mut *collecting.borrow_mut();
        (kept.add)(kept, observation());
    });
}

/// A check was not decided.
#[cfg(feature = "_layer")]
pub(super) fn failed() {
    let _ = COLLECTING.try_with(|collecting| collecting.borrow_mut().is_undecided = true);
}

#[cfg(all(test, feature = "_layer"))]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

    use super::*;
    use crate::decision::{Decision, Measure, Source, Status};
    use crate::rule::{Limit, Name, Rule};

    /// A decision of the rule of this number, in shadow mode or not; a refusal where nothing is
    /// left.
    fn decide(rule: u64, remaining: u64, shadow: bool) {
        let name = Name::intern(&format!("collected {rule}"));
        let decided = Decision {
            remaining,
            source: Source::Store,
            status: if remaining == 0 {
                Status::Exceeded
            } else {
                Status::Allowed
            },
            ..Decision::unchecked(name, 9, 1, Measure::Max)
        };
        let rule = Rule::named("collected", Limit::per_second(9));
        decision(|| Observation::new(&decided, rule.terms(), shadow, true));
    }

    fn told(decisions: &[Observation]) -> Vec<(&str, u64)> {
        let told = decisions.iter().map(Observation::decision);
        told.map(|decision| (decision.rule(), decision.remaining()))
            .collect()
    }

    #[tokio::test]
    async fn of_each_rule_the_strictest_decision_is_kept_and_the_last_one() {
        let collected = collect_by_rule(async {
            for (rule, remaining) in [(1, 5), (2, 7), (1, 3), (2, 8), (1, 4)] {
                decide(rule, remaining, false);
                decide(rule, 0, true);
            }
        });
        assert_eq!(
            told(&collected.await.1.decisions),
            [("collected 1", 3), ("collected 2", 7), ("collected 1", 4)]
        );
    }

    #[tokio::test]
    async fn a_request_that_asks_ten_thousand_times_keeps_few_decisions() {
        for rules in [1, 70, 10_000] {
            let collected = collect_by_rule(async {
                for number in 0..10_000 {
                    decide(number % rules, 5, false);
                }
                decide(0, 0, false);
            });
            let decisions = collected.await.1.decisions;
            assert!(decisions.len() <= 64, "{}", decisions.len());
            assert_eq!(*told(&decisions).last().unwrap(), ("collected 0", 0));
        }
    }
}
