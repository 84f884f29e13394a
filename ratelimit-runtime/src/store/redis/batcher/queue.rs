//! [`Queue`]: who waits, first come first served for each key; without I/O.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Instant;

use foldhash::quality::RandomState;
use smallvec::{SmallVec, smallvec};

use super::Caller;
use super::flight::{Callers, Command, Flight, Group, Stack};
use crate::store::redis::scripts::Question;

/// Keys in one call.
const MAX_KEYS: usize = 64;
/// Entries that one call adds to logs: 10,000 would keep the server busy for 27 ms.
const MAX_UNITS: u64 = 1_000;
/// Questions in one call: what ends reservations is a question for each caller.
const MAX_QUESTIONS: usize = 256;
/// Callers of one question in one call.
const MAX_CALLERS: usize = 30_000;
/// Room for more keys than this is given back once nobody waits.
const MAX_KEPT: usize = 1_024;

/// Those that wait for one key.
#[derive(Debug)]
struct Waiting {
    slot: u16,
    /// In the order in which they came: most often one.
    groups: SmallVec<[Group; 1]>,
}

/// Who waits, and who gave up or is late, until the next call comes by. That is soon: if no reply
/// comes within the limiter's timeout, the link turns slow, and all who wait fail. Each key of `keys`
/// is in `order` once.
#[derive(Debug, Default)]
pub(super) struct Queue {
    keys: HashMap<Arc<[u8]>, Waiting, RandomState>,
    order: VecDeque<Arc<[u8]>>,
    stacks: VecDeque<Stack>,
}

impl Queue {
    pub(super) fn is_empty(&self) -> bool {
        self.order.is_empty() && self.stacks.is_empty()
    }

    pub(super) fn push(&mut self, slot_of: fn(&[u8]) -> u16, stack: &[(&[u8], Question)], caller: Caller) {
        let [(key, question)] = stack else { return self.stacks.push_back(Stack::new(stack, caller)) };
        if let Some(waiting) = self.keys.get_mut(*key) {
            match waiting.groups.last_mut() {
                Some(last) if question.is_charge && last.question.is_same(question) => {
                    last.question.now = last.question.now.max(question.now);
                    last.callers.push(caller);
                }
                _ => waiting.groups.push(Group { question: question.clone(), callers: smallvec![caller] }),
            }
            return;
        }
        let shared: Arc<[u8]> = Arc::from(*key);
        self.order.push_back(Arc::clone(&shared));
        let group = Group { question: question.clone(), callers: smallvec![caller] };
        self.keys.insert(shared, Waiting { slot: slot_of(key), groups: smallvec![group] });
    }

    /// What is sent next, without callers that were cancelled or are late. A question that weighs
    /// more than a call may add goes alone.
    pub(super) fn take(&mut self, now: Instant) -> Flight {
        let mut flight = Flight::default();
        self.take_stacks(&mut flight, now);
        for _ in 0..self.order.len() {
            if flight.keys >= MAX_KEYS || flight.units >= MAX_UNITS || flight.questions >= MAX_QUESTIONS {
                break;
            }
            let Some(key) = self.order.pop_front() else { break };
            let Some(waiting) = self.keys.get_mut(&key) else { continue };
            let (mut from, mut added) = (0, false);
            while let Some(group) = next_group(&mut waiting.groups, &mut flight, now) {
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
        if self.is_empty() && self.keys.capacity() > MAX_KEPT {
            *self = Self::default();
        }
        flight
    }

    fn take_stacks(&mut self, flight: &mut Flight, now: Instant) {
        // Half of a call is for single keys, where some wait.
        let room = if self.order.is_empty() { MAX_KEYS } else { MAX_KEYS / 2 };
        while let Some(stack) = self.stacks.front() {
            let keys = stack.questions.len();
            let units: u64 = stack.questions.iter().map(|(_, question)| question.weight()).sum();
            let fits = flight.commands.is_empty() || (flight.keys + keys <= room && flight.units + units <= MAX_UNITS);
            if stack.caller.waits(now) && !fits {
                return;
            }
            let Some(stack) = self.stacks.pop_front() else { return };
            if stack.caller.waits(now) {
                flight.keys += keys;
                flight.units += units;
                flight.commands.push(Command::Stack(stack));
            } else {
                stack.caller.time_out();
            }
        }
    }

    /// Takes all who wait out, to be told why they are not asked for.
    pub(super) fn drain(&mut self) -> Vec<Caller> {
        let Self { keys, stacks, .. } = std::mem::take(self);
        let groups = keys.into_values().flat_map(|waiting| waiting.groups);
        groups.flat_map(|group| group.callers).chain(stacks.into_iter().map(|stack| stack.caller)).collect()
    }
}

/// What of the first group of a key fits into a call, if anything, without those who do not wait.
fn next_group(groups: &mut SmallVec<[Group; 1]>, flight: &mut Flight, now: Instant) -> Option<Group> {
    let group = groups.first_mut().filter(|_| flight.questions < MAX_QUESTIONS)?;
    if !group.callers.iter().all(|caller| caller.waits(now)) {
        let (wait, late): (Callers, Callers) = group.callers.drain(..).partition(|caller| caller.waits(now));
        late.into_iter().for_each(Caller::time_out);
        group.callers = wait;
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
    flight.questions += usize::from(!taken.callers.is_empty());
    flight.units += weight * u64::try_from(taken.callers.len()).unwrap_or(u64::MAX);
    Some(taken)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test")]

    use std::time::Duration;

    use tokio::sync::oneshot;

    use super::super::Told;
    use super::*;
    use crate::rule::{Algorithm, Limit};
    use crate::store::Request;
    use crate::store::redis::scripts::Operation;

    fn question(algorithm: Algorithm, cost: u64) -> Question {
        let limits = [Limit::per_minute(900)];
        Question::new(Operation::Acquire, &Request::new(b"", algorithm, &limits).with_cost(cost), None)
    }

    fn push(queue: &mut Queue, key: &str, question: &Question, until: Option<Instant>) -> oneshot::Receiver<Told> {
        let (answer, waits) = oneshot::channel();
        queue.push(|_| 0, &[(key.as_bytes(), question.clone())], Caller { answer, until });
        waits
    }

    /// Of each call of a script: for each question who asks it, by the key's index.
    fn take(queue: &mut Queue) -> Vec<Vec<Vec<(u8, u16)>>> {
        let calls = queue.take(Instant::now()).commands.into_iter().filter_map(|command| match command {
            Command::Script(call) => Some(call.asked.into_iter().map(|asked| asked.asks).collect()),
            Command::Stack(_) => None,
        });
        calls.collect()
    }

    #[test]
    fn callers_who_ask_the_same_of_a_key_are_one_question_and_others_keep_their_order() {
        let (one, two) = (question(Algorithm::FixedWindow, 1), question(Algorithm::FixedWindow, 2));
        let log = question(Algorithm::SlidingWindow, 1);
        let mut queue = Queue::default();
        let all = [("a", &one), ("a", &one), ("b", &one), ("a", &two), ("c", &log), ("a", &one), ("b", &one)];
        let _all = all.map(|(key, question)| push(&mut queue, key, question, None));
        // What `a` asks last is another question than its first, though it reads the same.
        let counters = vec![vec![(1, 2), (2, 2)], vec![(1, 1)], vec![(1, 1)]];
        assert_eq!(take(&mut queue), [counters, vec![vec![(1, 1)]]]);
        assert!(queue.is_empty());
    }

    #[test]
    fn a_call_has_at_most_64_keys_and_1_000_units_of_logs() {
        let (counter, log) = (question(Algorithm::FixedWindow, 1), question(Algorithm::SlidingWindow, 300));
        let mut queue = Queue::default();
        let _counters: Vec<_> = (0..100).map(|key| push(&mut queue, &key.to_string(), &counter, None)).collect();
        assert_eq!([(); 3].map(|()| queue.take(Instant::now()).keys), [64, 36, 0]);
        let _logs: Vec<_> = (0..7).map(|_| push(&mut queue, "log", &log, None)).collect();
        assert_eq!([(); 3].map(|()| take(&mut queue)[0][0][0].1), [3, 3, 1]);
        let _heavy = push(&mut queue, "log", &question(Algorithm::SlidingWindow, 2_000), None);
        assert_eq!(take(&mut queue).len(), 1, "one that weighs more goes alone");
    }

    #[test]
    fn a_call_has_at_most_256_questions_about_single_keys_and_room_for_them_beside_stacks() {
        let mut queue = Queue::default();
        let costs: Vec<_> = (1..=300).map(|cost| question(Algorithm::FixedWindow, cost)).collect();
        let _waits: Vec<_> = costs.iter().map(|question| push(&mut queue, "hot", question, None)).collect();
        assert_eq!([(); 3].map(|()| queue.take(Instant::now()).questions), [256, 44, 0]);
        let _single = push(&mut queue, "single", &costs[0], None);
        let stack = [(&b"a"[..], costs[0].clone()), (&b"b"[..], costs[0].clone())];
        let (answers, _waits): (Vec<_>, Vec<_>) = (0..40).map(|_| oneshot::channel()).unzip();
        for answer in answers {
            queue.push(|_| 0, &stack, Caller { answer, until: None });
        }
        let first = queue.take(Instant::now());
        assert_eq!((first.commands.len(), first.keys, first.questions), (17, 33, 1));
    }

    #[test]
    fn callers_who_gave_up_or_are_late_are_not_sent_and_nothing_is_left_of_them() {
        let question = question(Algorithm::FixedWindow, 1);
        let (mut queue, now) = (Queue::default(), Instant::now());
        let _waits = push(&mut queue, "a", &question, Some(now + Duration::from_secs(60)));
        drop(push(&mut queue, "a", &question, None));
        let mut late = push(&mut queue, "a", &question, Some(now));
        assert_eq!(take(&mut queue), [[[(1, 1)]]]);
        assert!(late.try_recv().unwrap().is_err());
        let flood = (0..100_000).map(|key| push(&mut queue, &key.to_string(), &question, None));
        drop(flood.collect::<Vec<_>>());
        assert!(take(&mut queue).is_empty() && queue.is_empty());
        assert!(queue.keys.capacity() <= MAX_KEPT && queue.order.capacity() <= MAX_KEPT);
    }
}
