//! [`Queue`]: the callers that wait, first come first served for each key; without I/O.

use std::collections::VecDeque;
use std::hash::BuildHasher as _;
use std::sync::Arc;
use std::time::Instant;

use foldhash::quality::RandomState;
use hashbrown::HashTable;
use smallvec::{SmallVec, smallvec};

use super::Caller;
use super::flight::{Command, Flight, Group};
use crate::error::StoreError;
use crate::store::redis::scripts::{KeyQuestion, Question};

/// Room for more keys and stacks than this is given back once nobody waits.
const MAX_KEPT: usize = 1_024;

/// The callers that wait for a key, in the order in which they came: most often one group.
type Groups = SmallVec<[Group; 1]>;

/// A key that callers wait for, or a stack.
#[derive(Debug)]
enum Turn {
    Key(KeyTurn),
    Stack(Box<Command>),
}

#[derive(Debug)]
struct KeyTurn {
    hash: u64,
    key: Arc<[u8]>,
    groups: Groups,
}

/// The callers that wait; those that gave up or are late are removed by the next call. That is soon:
/// if no reply comes within the limiter's timeout, the link turns slow, and all callers fail.
#[derive(Debug, Default)]
pub(super) struct Queue {
    /// Stacks, and each key once.
    order: VecDeque<Turn>,
    /// The number of the first turn in `order`; those behind it have the next ones.
    first: usize,
    /// The number of each key's turn.
    keys: HashTable<usize>,
    hasher: RandomState,
    callers: usize,
}

impl Queue {
    pub(super) fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    /// How many callers wait.
    pub(super) fn callers(&self) -> usize {
        self.callers
    }

    pub(super) fn push(&mut self, stack: &[KeyQuestion<'_>], caller: Caller) {
        self.callers += 1;
        let [(key, question)] = stack else {
            return self.order.push_back(Turn::Stack(Box::new(Command::stack(stack, caller))));
        };
        let group = |caller| Group { question: Arc::clone(question), callers: smallvec![caller] };
        let hash = self.hasher.hash_one(*key);
        let is_its =
            |turn: &usize| matches!(self.order.get(turn - self.first), Some(Turn::Key(its)) if *its.key == **key);
        let found = self.keys.find(hash, is_its).map(|turn| turn - self.first);
        let Some(Turn::Key(KeyTurn { groups, .. })) = found.and_then(|at| self.order.get_mut(at)) else {
            return self.push_key(KeyTurn { hash, key: Arc::from(*key), groups: smallvec![group(caller)] });
        };
        match groups.last_mut() {
            Some(last) if question.is_charge && last.question.is_same(question) => {
                Question::keep_later(&mut last.question, question);
                last.callers.push(caller);
            }
            _ => groups.push(group(caller)),
        }
    }

    fn push_key(&mut self, turn: KeyTurn) {
        let hash_of = |turn: &usize| match self.order.get(turn - self.first) {
            Some(Turn::Key(turn)) => turn.hash,
            _ => 0,
        };
        self.keys.insert_unique(turn.hash, self.first + self.order.len(), hash_of);
        self.order.push_back(Turn::Key(turn));
    }

    fn pop(&mut self) -> Option<Turn> {
        let turn = self.order.pop_front()?;
        if let Turn::Key(KeyTurn { hash, .. }) = &turn
            && let Ok(entry) = self.keys.find_entry(*hash, |number| *number == self.first)
        {
            entry.remove();
        }
        self.first += 1;
        Some(turn)
    }

    /// The next commands, of at most so many callers, without those that were cancelled or are late.
    pub(super) fn take(&mut self, callers: usize, slot_of: fn(&[u8]) -> u16, now: Instant) -> Flight {
        let mut flight = Flight::of(callers);
        for _ in 0..self.order.len() {
            if flight.is_full() {
                break;
            }
            match self.pop() {
                Some(Turn::Key(KeyTurn { hash, key, groups })) => {
                    self.callers -= count(&groups);
                    let groups = take_groups(groups, &key, slot_of(&key), &mut flight, now);
                    if !groups.is_empty() {
                        self.callers += count(&groups);
                        // Other keys are next; the order of its own callers stays.
                        self.push_key(KeyTurn { hash, key, groups });
                    }
                }
                Some(Turn::Stack(stack)) => {
                    self.callers -= 1;
                    if stack.waits(now) {
                        flight.add_stack(*stack);
                    } else {
                        stack.callers().flatten().for_each(Caller::time_out);
                    }
                }
                None => break,
            }
        }
        if self.is_empty() && self.order.capacity() > MAX_KEPT {
            *self = Self::default();
        }
        flight
    }

    /// Tells all callers why their questions are not sent.
    pub(super) fn fail(self, why: &StoreError) {
        let tell = |caller: Caller| caller.tell(Err(why.clone().into()));
        for turn in self.order {
            match turn {
                Turn::Key(turn) => turn.groups.into_iter().flat_map(|group| group.callers).for_each(tell),
                Turn::Stack(stack) => stack.callers().flatten().for_each(tell),
            }
        }
    }
}

fn count(groups: &Groups) -> usize {
    groups.iter().map(|group| group.callers.len()).sum()
}

/// Moves what of the groups of a key fits into a call, in their order, and gives the others.
fn take_groups(groups: Groups, key: &Arc<[u8]>, slot: u16, flight: &mut Flight, now: Instant) -> Groups {
    let (mut waiting, mut from) = (groups.into_iter(), 0);
    for mut group in waiting.by_ref() {
        group.time_out(now);
        let later = group.split_off(flight.room(&group.question));
        if !group.callers.is_empty() {
            from = flight.add(slot, key, group, from);
        }
        if let Some(later) = later {
            return std::iter::once(later).chain(waiting).collect();
        }
    }
    Groups::new()
}

#[cfg(test)]
mod tests {
    use tokio::sync::oneshot;

    use super::*;
    use crate::rule::{Algorithm, Limit};
    use crate::store::Request;
    use crate::store::redis::scripts::Operation;

    #[test]
    fn no_room_is_kept_for_a_flood_of_callers_that_gave_up() {
        let limits = [Limit::per_minute(900)];
        let question = Question::new(Operation::Acquire, &Request::new(b"", Algorithm::FixedWindow, &limits), None);
        for of_stack in [1, 2] {
            let mut queue = Queue::default();
            for key in 0..100_000_u32 {
                let (answer, _) = oneshot::channel();
                let key = key.to_le_bytes();
                queue.push(&vec![(&key[..], Arc::clone(&question)); of_stack], Caller { answer, until: None });
            }
            assert!(queue.take(usize::MAX, |_| 0, Instant::now()).commands.is_empty() && queue.is_empty());
            assert!(queue.keys.capacity() <= MAX_KEPT && queue.order.capacity() <= MAX_KEPT);
        }
    }
}
