//! [`Queue`]: the callers that wait, first come, first served for each key; without I/O.

use std::collections::VecDeque;
use std::sync::Arc;

use foldhash::quality::RandomState;
use hashbrown::HashMap;
use hashbrown::hash_map::EntryRef;
use smallvec::{SmallVec, smallvec};

use super::batch::{Batch, BatchedCall, Group};
use super::caller::{Caller, Departure};
use crate::error::StoreError;
use crate::store::redis::scripts::{KeyQuestion, Question};

/// Room for more keys and stacks than this is freed once no caller waits.
const MAX_KEPT: usize = 1_024;

/// The callers that wait for a key, in order of arrival: most often one group.
type Groups = SmallVec<[Group; 1]>;

/// A key that callers wait for, or a stack.
#[derive(Debug)]
enum Queued {
    Key(Arc<[u8]>),
    Stack(Box<BatchedCall>),
}

/// The callers that wait. Callers that gave up or are late are removed by the next call. That is
/// soon: without a reply within the limiter's timeout, the link turns slow, and all callers fail.
#[derive(Debug, Default)]
pub(super) struct Queue {
    /// Stacks, and each key of `keys` once.
    order: VecDeque<Queued>,
    keys: HashMap<Arc<[u8]>, Groups, RandomState>,
    callers: usize,
}

impl Queue {
    pub(super) fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    /// The number of keys and stacks that callers wait for.
    pub(super) fn keys(&self) -> usize {
        self.order.len()
    }

    /// The number of callers that wait.
    pub(super) fn callers(&self) -> usize {
        self.callers
    }

    pub(super) fn push(&mut self, stack: &[KeyQuestion<'_>], caller: Caller) {
        self.callers += 1;
        let [(key, question)] = stack else {
            return self
                .order
                .push_back(Queued::Stack(Box::new(BatchedCall::stack(stack, caller))));
        };
        let group = |caller| Group {
            question: Arc::clone(question),
            callers: smallvec![caller],
        };
        let groups = match self.keys.entry_ref(*key) {
            EntryRef::Occupied(entry) => entry.into_mut(),
            EntryRef::Vacant(entry) => {
                let key: Arc<[u8]> = Arc::from(*key);
                entry.insert_with_key(Arc::clone(&key), smallvec![group(caller)]);
                return self.order.push_back(Queued::Key(key));
            }
        };
        match groups.last_mut() {
            Some(last) if question.is_charge() && last.question.is_same(question) => {
                Question::keep_later(&mut last.question, question);
                last.callers.push(caller);
            }
            _ => groups.push(group(caller)),
        }
    }

    /// The next calls, for at most this many callers, without cancelled or late callers.
    pub(super) fn take(
        &mut self,
        callers: usize,
        slot_of: fn(&[u8]) -> u16,
        at: Departure,
    ) -> Batch {
        let (mut batch, mut first) = (Batch::of(callers), None);
        for _ in 0..self.order.len() {
            if batch.is_full() {
                break;
            }
            match self.order.pop_front() {
                Some(Queued::Key(key)) => {
                    let Some(groups) = self.keys.remove(&key) else {
                        debug_assert!(false, "callers wait for each key that has a turn");
                        continue;
                    };
                    self.callers -= count(&groups);
                    let before = batch.callers;
                    let later = take_groups(groups, &key, slot_of(&key), &mut batch, at);
                    if later.is_empty() {
                        continue;
                    }
                    self.callers += count(&later);
                    // Other keys are next; the order of its own callers stays.
                    self.keys.insert(Arc::clone(&key), later);
                    if batch.callers == before && first.is_none() {
                        // There was no room for the first of them: the next call begins with it, or
                        // smaller questions of other keys would overtake it again and again.
                        first = Some(Queued::Key(key));
                    } else {
                        self.order.push_back(Queued::Key(key));
                    }
                }
                Some(Queued::Stack(stack)) => {
                    self.callers -= 1;
                    if stack.waits(at) {
                        batch.add_stack(*stack);
                    } else {
                        stack.callers().flatten().for_each(Caller::time_out);
                    }
                }
                None => break,
            }
        }
        if let Some(first) = first {
            self.order.push_front(first);
        }
        if self.is_empty() && self.order.capacity().max(self.keys.capacity()) > MAX_KEPT {
            *self = Self::default();
        }
        batch
    }

    /// Answers all callers with the reason why their questions are not sent.
    pub(super) fn fail(self, why: &StoreError) {
        let stacks = self.order.into_iter().filter_map(|turn| match turn {
            Queued::Stack(stack) => Some(stack.callers()),
            Queued::Key(_) => None,
        });
        let groups = self.keys.into_values().flatten().map(|group| group.callers);
        for caller in groups.chain(stacks.flatten()).flatten() {
            caller.tell(Err(why.clone().into()));
        }
    }
}

fn count(groups: &Groups) -> usize {
    groups.iter().map(|group| group.callers.len()).sum()
}

/// Moves the groups of a key that fit into `batch`, in order, and returns the others.
fn take_groups(
    groups: Groups,
    key: &Arc<[u8]>,
    slot: u16,
    batch: &mut Batch,
    at: Departure,
) -> Groups {
    let (mut waiting, mut from) = (groups.into_iter(), 0);
    for mut group in waiting.by_ref() {
        group.time_out(at);
        let later = group.split_off(batch.room(&group.question));
        if !group.callers.is_empty() {
            from = batch.add(slot, key, group, from);
        }
        if let Some(later) = later {
            return std::iter::once(later).chain(waiting).collect();
        }
    }
    Groups::new()
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use tokio::sync::oneshot;

    use super::super::caller::Replies;
    use super::*;
    use crate::rule::{Algorithm, Limit};
    use crate::store::Request;
    use crate::store::redis::scripts::Operation;

    fn push(
        queue: &mut Queue,
        stack: &[KeyQuestion<'_>],
        waiting: &mut Vec<oneshot::Receiver<Replies>>,
    ) {
        let (answer, waits) = oneshot::channel();
        let caller = Caller {
            answer,
            until: None,
            on: None,
        };
        queue.push(stack, caller);
        waiting.push(waits);
    }

    #[test]
    fn no_room_is_kept_for_a_flood_of_callers_that_gave_up() {
        let question = Question::of_permit("peek", [1, 1], &[], None);
        let now = Instant::now();
        let at = Departure { now, began: now };
        for of_stack in [1, 2] {
            let (mut queue, mut waiting) = (Queue::default(), Vec::new());
            for key in (0..100_000_u32).map(u32::to_le_bytes) {
                let stack = vec![(&key[..], Arc::clone(&question)); of_stack];
                push(&mut queue, &stack, &mut waiting);
            }
            assert_eq!(queue.take(1, |_| 0, at).callers + queue.callers(), 100_000);
            drop(waiting);
            assert!(queue.take(usize::MAX, |_| 0, at).calls.is_empty() && queue.is_empty());
            assert!(queue.keys.capacity() <= MAX_KEPT && queue.order.capacity() <= MAX_KEPT);
        }
    }

    /// Callers of other keys come all the time.
    #[test]
    fn a_question_that_takes_a_call_of_its_own_is_not_overtaken_again_and_again() {
        let limits = [Limit::per_day(1_000_000)];
        let charge = |cost| {
            let request = Request::new(b"", Algorithm::SlidingWindow, &limits);
            Question::new(Operation::Acquire, &request.with_cost(cost), None)
        };
        let now = Instant::now();
        let at = Departure { now, began: now };
        let (mut queue, mut waiting) = (Queue::default(), Vec::new());
        let mut push = |queue: &mut Queue, cost| {
            let key = waiting.len().to_le_bytes();
            push(queue, &[(&key[..], charge(cost))], &mut waiting);
            key
        };
        for _ in 0..100 {
            push(&mut queue, 1);
        }
        let heavy = [(); 3].map(|()| push(&mut queue, 1_000));
        for _ in 0..10 {
            let _ = queue.take(usize::MAX, |_| 0, at);
            for _ in 0..64 {
                push(&mut queue, 1);
            }
        }
        assert!(heavy.iter().all(|key| !queue.keys.contains_key(&key[..])));
    }
}
