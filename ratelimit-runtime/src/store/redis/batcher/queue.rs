//! [`Queue`]: who waits, first come first served for each key; without I/O.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Instant;

use foldhash::quality::RandomState;
use smallvec::{SmallVec, smallvec};

use super::caller::{Answered, Caller, Callers, Group, Stack};
use super::flight::{Flight, StackCall};
use crate::store::Verdict;
use crate::store::redis::scripts::{Joins, Question};

/// Keys in one call.
pub(super) const MAX_KEYS: usize = 64;
/// Entries that one call adds to logs: 10,000 would keep the server busy for 27 ms.
pub(super) const MAX_UNITS: u64 = 1_000;
/// Callers of one question in one call.
const MAX_CALLERS: usize = 30_000;
/// The places that a queue keeps when it is empty.
const MAX_KEPT: usize = 1_024;
/// So many cancelled callers stay in the queue, or as many as wait.
const MAX_CANCELLED: usize = 64;

/// Those that wait for one key.
#[derive(Debug)]
struct Waiting {
    slot: u16,
    /// In the order in which they came: most often one.
    groups: SmallVec<[Group; 1]>,
}

/// Who waits. Each key of `keys` is in `order` once.
#[derive(Debug, Default)]
pub(super) struct Queue {
    keys: HashMap<Arc<[u8]>, Waiting, RandomState>,
    order: VecDeque<Arc<[u8]>>,
    stacks: VecDeque<Stack>,
    /// Of those who wait, how many were cancelled, at most.
    cancelled: usize,
    waiting: usize,
}

impl Queue {
    pub(super) fn is_empty(&self) -> bool {
        self.order.is_empty() && self.stacks.is_empty()
    }

    /// How many callers wait, cancelled ones that are not removed yet included.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.waiting
    }

    pub(super) fn push(&mut self, slot: u16, key: &[u8], question: &Question, caller: Caller<Answered>) {
        self.waiting += 1;
        if let Some(waiting) = self.keys.get_mut(key) {
            match waiting.groups.last_mut() {
                Some(last) if question.joins != Joins::No && last.question == *question => last.callers.push(caller),
                _ => waiting.groups.push(Group { question: question.clone(), callers: smallvec![caller] }),
            }
            return;
        }
        let key: Arc<[u8]> = key.into();
        self.order.push_back(Arc::clone(&key));
        let group = Group { question: question.clone(), callers: smallvec![caller] };
        self.keys.insert(key, Waiting { slot, groups: smallvec![group] });
    }

    pub(super) fn push_stack(&mut self, stack: Stack) {
        self.waiting += 1;
        self.stacks.push_back(stack);
    }

    /// The next call, without callers that were cancelled or are late. A question that weighs more
    /// than a call may add goes alone.
    pub(super) fn take(&mut self, now: Instant) -> Flight {
        let mut flight = Flight::default();
        self.take_stacks(&mut flight, now);
        for _ in 0..self.order.len() {
            if flight.keys >= MAX_KEYS || flight.units >= MAX_UNITS {
                break;
            }
            let Some(key) = self.order.pop_front() else { break };
            let Some(waiting) = self.keys.get_mut(&key) else { continue };
            let (mut from, mut added) = (0, false);
            while let Some(group) = next_group(&mut waiting.groups, &mut flight, &mut self.waiting, now) {
                if !group.callers.is_empty() {
                    from = flight.add(waiting.slot, &key, group, from);
                    added = true;
                }
            }
            flight.keys += usize::from(added);
            if waiting.groups.is_empty() {
                self.keys.remove(&key);
            } else {
                // Other keys are next; the order of its own callers stays.
                self.order.push_back(key);
            }
        }
        if self.is_empty() {
            self.cancelled = 0;
            if self.keys.capacity() > MAX_KEPT {
                *self = Self::default();
            }
        }
        flight
    }

    fn take_stacks(&mut self, flight: &mut Flight, now: Instant) {
        while let Some(stack) = self.stacks.front() {
            let keys = stack.questions.len();
            let units: u64 = stack.questions.iter().map(|(_, question)| question.weight()).sum();
            let fits = flight.is_empty() || (flight.keys + keys <= MAX_KEYS && flight.units + units <= MAX_UNITS);
            if stack.caller.waits(now) && !(fits && flight.has_time(&stack.questions)) {
                return;
            }
            let Some(stack) = self.stacks.pop_front() else { return };
            self.waiting -= 1;
            if stack.caller.waits(now) {
                flight.keys += keys;
                flight.units += units;
                flight.stacks.push(StackCall::new(stack));
            } else {
                stack.caller.time_out();
            }
        }
    }

    /// Notes that a caller gave up. Once more than half of those who wait did, they are removed.
    pub(super) fn cancel(&mut self) {
        self.cancelled += 1;
        if self.cancelled > MAX_CANCELLED && 2 * self.cancelled > self.waiting {
            self.sweep();
        }
    }

    fn sweep(&mut self) {
        self.stacks.retain(|stack| !stack.caller.answer.is_closed());
        let mut waiting = self.stacks.len();
        self.keys.retain(|_, of_key| {
            of_key.groups.retain_mut(|group| {
                group.callers.retain(|caller| !caller.answer.is_closed());
                waiting += group.callers.len();
                !group.callers.is_empty()
            });
            !of_key.groups.is_empty()
        });
        let keys = &self.keys;
        self.order.retain(|key| keys.contains_key(key));
        (self.waiting, self.cancelled) = (waiting, 0);
        self.keys.shrink_to(2 * self.order.len());
        self.order.shrink_to(2 * self.order.len());
        self.stacks.shrink_to(2 * self.stacks.len());
    }

    /// Takes all who wait out, to be told why they are not asked for.
    pub(super) fn drain(&mut self) -> (Vec<Caller<Answered>>, Vec<Caller<Vec<Verdict>>>) {
        let Self { keys, stacks, .. } = std::mem::take(self);
        let groups = keys.into_values().flat_map(|waiting| waiting.groups);
        (groups.flat_map(|group| group.callers).collect(), stacks.into_iter().map(|stack| stack.caller).collect())
    }
}

/// What of the first group of a key fits into a call, if anything, without those who do not wait.
fn next_group(
    groups: &mut SmallVec<[Group; 1]>,
    flight: &mut Flight,
    waiting: &mut usize,
    now: Instant,
) -> Option<Group> {
    let group = groups.first_mut()?;
    if !group.callers.iter().all(|caller| caller.waits(now)) {
        let (wait, late): (Callers, Callers) = group.callers.drain(..).partition(|caller| caller.waits(now));
        *waiting -= late.len();
        late.into_iter().for_each(Caller::time_out);
        group.callers = wait;
    }
    if !group.callers.is_empty() && !flight.takes_time(group.question.now) {
        return None;
    }
    let weight = group.question.weight();
    let left = MAX_UNITS.saturating_sub(flight.units);
    let fits = match left.checked_div(weight) {
        None => MAX_CALLERS,
        // The first of a call goes whatever it weighs.
        Some(0) if flight.units == 0 => 1,
        Some(fits) => usize::try_from(fits).unwrap_or(MAX_CALLERS).min(MAX_CALLERS),
    };
    let taken = if group.callers.len() <= fits {
        groups.remove(0)
    } else if fits > 0 {
        Group { question: group.question.clone(), callers: group.callers.drain(..fits).collect() }
    } else {
        return None;
    };
    *waiting -= taken.callers.len();
    flight.units += weight * u64::try_from(taken.callers.len()).unwrap_or(u64::MAX);
    Some(taken)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test")]

    use std::time::Duration;

    use tokio::sync::oneshot;

    use super::super::caller::Failure;
    use super::*;
    use crate::rule::{Algorithm, Limit};
    use crate::store::Request;
    use crate::store::redis::scripts::Operation;

    type Waits = oneshot::Receiver<Result<Answered, Failure>>;

    fn question(algorithm: Algorithm, cost: u64, max: u64) -> Question {
        let limits = [Limit::per_minute(max)];
        Question::new(Operation::Acquire, &Request::new(b"", algorithm, &limits).with_cost(cost), None)
    }

    fn caller() -> (Caller<Answered>, Waits) {
        let (answer, waits) = oneshot::channel();
        (Caller { answer, until: None }, waits)
    }

    fn push(queue: &mut Queue, key: &str, question: &Question) -> Waits {
        let (caller, waits) = caller();
        queue.push(0, key.as_bytes(), question, caller);
        waits
    }

    /// Of each call of a script: its keys, and for each question who asks it.
    type Shape = Vec<(Vec<String>, Vec<Vec<(u8, u16)>>)>;

    fn shape(flight: &Flight) -> Shape {
        let text = |key: &Arc<[u8]>| String::from_utf8(key.to_vec()).unwrap();
        let call = |call: &super::super::flight::ScriptCall| {
            (call.keys.iter().map(text).collect(), call.asked.iter().map(|asked| asked.asks.to_vec()).collect())
        };
        flight.calls.iter().map(call).collect()
    }

    #[test]
    fn callers_who_ask_the_same_of_a_key_are_one_question_and_others_keep_their_order() {
        let (one, two) = (question(Algorithm::FixedWindow, 1, 9), question(Algorithm::FixedWindow, 2, 9));
        let mut queue = Queue::default();
        let _all: Vec<Waits> = [("a", &one), ("a", &one), ("b", &one), ("a", &two), ("a", &one), ("b", &one)]
            .map(|(key, question)| push(&mut queue, key, question))
            .into();
        let flight = queue.take(Instant::now());
        // What `a` asks last is another question than its first, though it reads the same.
        let asked = vec![vec![(1, 2), (2, 2)], vec![(1, 1)], vec![(1, 1)]];
        assert_eq!(shape(&flight), [(vec!["a".to_owned(), "b".to_owned()], asked)]);
        assert_eq!((queue.is_empty(), queue.len()), (true, 0));
    }

    #[test]
    fn keys_of_other_scripts_and_slots_are_calls_of_their_own() {
        let (fixed, log) = (question(Algorithm::FixedWindow, 1, 9), question(Algorithm::SlidingWindow, 1, 9));
        let mut queue = Queue::default();
        let mut all = Vec::new();
        for (slot, key, question) in [(1, "a", &fixed), (2, "b", &fixed), (1, "c", &log), (1, "d", &fixed)] {
            let (caller, waits) = caller();
            queue.push(slot, key.as_bytes(), question, caller);
            all.push(waits);
        }
        let flight = queue.take(Instant::now());
        let keys: Vec<Vec<String>> = shape(&flight).into_iter().map(|(keys, _)| keys).collect();
        assert_eq!(keys, [vec!["a".to_owned(), "d".to_owned()], vec!["b".to_owned()], vec!["c".to_owned()]]);
    }

    #[test]
    fn a_call_has_at_most_64_keys_and_1_000_units_of_logs() {
        let (counter, log) = (question(Algorithm::FixedWindow, 1, 9), question(Algorithm::SlidingWindow, 300, 900));
        let mut queue = Queue::default();
        let counters: Vec<Waits> = (0..100).map(|key| push(&mut queue, &key.to_string(), &counter)).collect();
        assert_eq!(queue.take(Instant::now()).keys, MAX_KEYS);
        assert_eq!(queue.take(Instant::now()).keys, 100 - MAX_KEYS);
        drop(counters);
        let _logs: Vec<Waits> = (0..7).map(|_| push(&mut queue, "log", &log)).collect();
        let mut callers = || queue.take(Instant::now()).calls[0].asked[0].asks[0].1;
        assert_eq!([callers(), callers(), callers()], [3, 3, 1]);
        let heavy = question(Algorithm::SlidingWindow, 2_000, 9_000);
        let _heavy = push(&mut queue, "log", &heavy);
        assert_eq!(queue.take(Instant::now()).calls.len(), 1, "one that weighs more goes alone");
    }

    #[test]
    fn callers_who_gave_up_or_are_late_are_not_sent() {
        let question = question(Algorithm::FixedWindow, 1, 9);
        let mut queue = Queue::default();
        let now = Instant::now();
        let _waits = push(&mut queue, "a", &question);
        drop(push(&mut queue, "a", &question));
        let (late, _late) = caller();
        queue.push(0, b"a", &question, Caller { until: Some(now), ..late });
        let (in_time, _in_time) = caller();
        queue.push(0, b"a", &question, Caller { until: Some(now + Duration::from_secs(1)), ..in_time });
        assert_eq!(shape(&queue.take(now))[0].1, [vec![(1, 2)]]);
        assert_eq!(queue.len(), 0);
    }

    #[test]
    fn nothing_is_left_of_a_flood_that_was_cancelled() {
        let question = question(Algorithm::FixedWindow, 1, 9);
        let mut queue = Queue::default();
        let flood: Vec<Waits> = (0..100_000).map(|key| push(&mut queue, &key.to_string(), &question)).collect();
        for waits in flood {
            drop(waits);
            queue.cancel();
        }
        assert!(queue.len() <= 2 * MAX_CANCELLED, "{}", queue.len());
        assert!(queue.keys.capacity() <= 8 * MAX_CANCELLED && queue.order.capacity() <= 8 * MAX_CANCELLED);
    }
}
