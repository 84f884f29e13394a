//! [`Batch`]: the calls of scripts sent at once, one for each stack, and one for each script and
//! slot.

use std::sync::Arc;

use smallvec::{SmallVec, smallvec};

use super::caller::{Caller, Departure, Failure, replies_at};
use crate::store::redis::scripts::call::{Answers, ScriptCall};
use crate::store::redis::scripts::{CallQuestion, KeyQuestion, Question, Script};

/// The most entries that one call adds to logs: 10,000 would keep the server busy for 27 ms.
const MAX_UNITS: u64 = 1_000;
/// The most questions in one call, and so the most keys: the end of a reservation is a question for
/// each caller, and callers of other keys wait meanwhile. *Measured* with 500 callers who reserve
/// and commit on one key: 256 kept the server busy for up to 18 ms; the others waited two to four
/// times as long, and no more was decided a second.
pub(super) const MAX_QUESTIONS: usize = 64;
/// The most callers in one call.
const MAX_CALLERS: usize = 30_000;

type Callers = SmallVec<[Caller; 1]>;

/// The callers of one question about one key: most often one.
#[derive(Debug)]
pub(super) struct Group {
    pub(super) question: Arc<Question>,
    pub(super) callers: Callers,
}

impl Group {
    /// Removes callers that were cancelled or are late.
    pub(super) fn time_out(&mut self, at: Departure) {
        if !self.callers.iter().all(|caller| caller.waits(at)) {
            let callers = std::mem::take(&mut self.callers).into_iter();
            let (wait, late): (Callers, Callers) = callers.partition(|caller| caller.waits(at));
            late.into_iter().for_each(Caller::time_out);
            self.callers = wait;
        }
    }

    /// Removes all callers but the first `room`.
    pub(super) fn split_off(&mut self, room: usize) -> Option<Self> {
        let is_more = self.callers.len() > room;
        is_more.then(|| Self {
            question: Arc::clone(&self.question),
            callers: self.callers.drain(room..).collect(),
        })
    }
}

/// The calls sent at once, which keep the server busy for a bounded time: a question above the
/// bound goes alone.
#[derive(Debug, Default)]
pub(super) struct Batch {
    pub(super) calls: Vec<BatchedCall>,
    /// The number of callers, which `most_callers` bounds.
    pub(super) callers: usize,
    most_callers: usize,
    units: u64,
    questions: usize,
}

/// The questions of one call, and the callers that wait for its reply.
#[derive(Debug)]
pub(super) struct BatchedCall {
    script: &'static Script,
    slot: u16,
    keys: Vec<Arc<[u8]>>,
    /// The questions, each with the index of its key, from 1. Equal ones are neighbours, unless a
    /// key has others in between. The only caller of a stack is kept with its first question.
    groups: Vec<(u8, Group)>,
}

impl Batch {
    /// A batch for at most this many callers.
    pub(super) fn of(callers: usize) -> Self {
        Self {
            most_callers: callers.min(MAX_CALLERS),
            ..Self::default()
        }
    }

    pub(super) fn is_full(&self) -> bool {
        self.callers >= self.most_callers
            || self.units >= MAX_UNITS
            || self.questions >= MAX_QUESTIONS
    }

    /// The number of callers of one more question that there is room for.
    pub(super) fn room(&self, question: &Question) -> usize {
        if self.questions >= MAX_QUESTIONS {
            return 0;
        }
        let callers = self.most_callers.saturating_sub(self.callers);
        match MAX_UNITS
            .saturating_sub(self.units)
            .checked_div(question.weight())
        {
            None => callers,
            Some(0) if self.units == 0 => 1,
            Some(room) => usize::try_from(room).unwrap_or(callers).min(callers),
        }
    }

    /// Adds a group after the earlier groups of its key; `from` is the first position it may take.
    /// Returns the first position for the key's next group.
    pub(super) fn add(&mut self, slot: u16, key: &Arc<[u8]>, group: Group, from: usize) -> usize {
        self.callers += group.callers.len();
        self.units +=
            group.question.weight() * u64::try_from(group.callers.len()).unwrap_or(u64::MAX);
        self.questions += 1;
        let script = group.question.script;
        let is_its =
            |call: &&mut BatchedCall| call.slot == slot && call.script.number == script.number;
        if let Some(call) = self.calls.iter_mut().find(is_its) {
            return call.add(key, group, from);
        }
        let mut call = BatchedCall {
            script,
            slot,
            keys: Vec::new(),
            groups: Vec::new(),
        };
        let next = call.add(key, group, from);
        self.calls.push(call);
        next
    }

    /// Adds a stack, which is a call by itself and is never split.
    pub(super) fn add_stack(&mut self, stack: BatchedCall) {
        self.questions += stack.keys.len();
        self.callers += 1;
        let groups = stack.groups.iter();
        self.units += groups
            .map(|(_, group)| group.question.weight())
            .sum::<u64>();
        self.calls.push(stack);
    }
}

impl BatchedCall {
    /// A stack of questions, charged all or none.
    pub(super) fn stack(stack: &[KeyQuestion<'_>], caller: Caller) -> Self {
        let mut callers: Callers = smallvec![caller];
        let groups = stack.iter().zip(1..).map(|((_, question), key)| {
            let question = Arc::clone(question);
            let callers = std::mem::take(&mut callers);
            (key, Group { question, callers })
        });
        Self {
            script: Script::stack(),
            slot: 0,
            groups: groups.collect(),
            keys: stack.iter().map(|(key, _)| Arc::from(*key)).collect(),
        }
    }

    fn add(&mut self, key: &Arc<[u8]>, group: Group, from: usize) -> usize {
        if self.keys.last() != Some(key) {
            self.keys.push(Arc::clone(key));
        }
        debug_assert!(
            self.keys.len() <= MAX_QUESTIONS,
            "a full batch takes no key"
        );
        let index = u8::try_from(self.keys.len()).unwrap_or(u8::MAX);
        let is_same = |(_, other): &(u8, Group)| other.question.is_same(&group.question);
        let last = self.groups.iter().skip(from).rposition(is_same);
        let at = last.map_or(self.groups.len(), |last| from + last + 1);
        self.groups.insert(at, (index, group));
        at + 1
    }

    /// `true` if one of its callers still waits.
    pub(super) fn waits(&self, at: Departure) -> bool {
        let callers = self.groups.iter().flat_map(|(_, group)| &group.callers);
        callers.into_iter().any(|caller| caller.waits(at))
    }

    /// The callers of each question about each key.
    pub(super) fn callers(self) -> impl Iterator<Item = Callers> {
        self.groups.into_iter().map(|(_, group)| group.callers)
    }

    pub(super) fn script_call(&self, number: u32) -> ScriptCall<'_> {
        let questions = self.groups.iter().map(|(key, group)| {
            let callers = u16::try_from(group.callers.len());
            debug_assert!(callers.is_ok(), "a full batch takes no caller");
            CallQuestion {
                question: &group.question,
                key: *key,
                // The caller of a stack stands with its first question.
                callers: callers.unwrap_or(u16::MAX).max(1),
            }
        });
        ScriptCall {
            number,
            script: self.script,
            keys: self.keys.iter().map(AsRef::as_ref).collect(),
            questions: questions.collect(),
        }
    }

    /// Answers the callers.
    pub(super) fn tell(self, answers: Result<Answers, Failure>) {
        // The one caller of a stack is told all answers, any other caller the one to its question.
        let each = if self.script.is_stack() {
            self.groups.len()
        } else {
            1
        };
        match answers {
            Ok(answers) => {
                for (callers, answers) in self.callers().zip(answers.chunks(each)) {
                    for (index, caller) in (0..).zip(callers) {
                        caller.tell(replies_at(answers, index));
                    }
                }
            }
            Err(failure) => self
                .callers()
                .flatten()
                .for_each(|caller| caller.tell(Err(failure.clone()))),
        }
    }
}
