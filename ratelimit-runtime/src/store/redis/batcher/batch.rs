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
    questions: Vec<QuestionOnKeys>,
}

/// A question, and its callers for each key, by the index of the key, from 1. The only caller of a
/// stack is kept with its first question.
#[derive(Debug)]
struct QuestionOnKeys {
    question: Arc<Question>,
    by: Vec<(u8, Callers)>,
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

    /// Adds a group after the groups of its key that were added before; `from` is the first
    /// position it may take. Returns that of the key's next group.
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
            questions: Vec::new(),
        };
        let next = call.add(key, group, from);
        self.calls.push(call);
        next
    }

    /// Adds a stack, which is a call by itself and is never split.
    pub(super) fn add_stack(&mut self, stack: BatchedCall) {
        self.questions += stack.keys.len();
        self.callers += 1;
        self.units += stack
            .questions
            .iter()
            .map(|asked| asked.question.weight())
            .sum::<u64>();
        self.calls.push(stack);
    }
}

impl BatchedCall {
    /// A stack of questions, charged all or none.
    pub(super) fn stack(stack: &[KeyQuestion<'_>], caller: Caller) -> Self {
        let mut callers: Callers = smallvec![caller];
        let questions = stack
            .iter()
            .zip(1..)
            .map(|((_, question), key)| QuestionOnKeys {
                question: Arc::clone(question),
                by: vec![(key, std::mem::take(&mut callers))],
            });
        let (questions, keys) = (
            questions.collect(),
            stack.iter().map(|(key, _)| Arc::from(*key)).collect(),
        );
        Self {
            script: Script::stack(),
            slot: 0,
            keys,
            questions,
        }
    }

    fn add(&mut self, key: &Arc<[u8]>, Group { question, callers }: Group, from: usize) -> usize {
        if self.keys.last() != Some(key) {
            self.keys.push(Arc::clone(key));
        }
        debug_assert!(
            self.keys.len() <= MAX_QUESTIONS,
            "a full batch takes no key"
        );
        let index = u8::try_from(self.keys.len()).unwrap_or(u8::MAX);
        let mut others = self.questions.iter_mut().enumerate().skip(from);
        if let Some((at, asked)) = others.find(|(_, asked)| asked.question.is_same(&question)) {
            Question::keep_later(&mut asked.question, &question);
            asked.by.push((index, callers));
            return at + 1;
        }
        self.questions.push(QuestionOnKeys {
            question,
            by: vec![(index, callers)],
        });
        self.questions.len()
    }

    /// `true` if one of its callers still waits.
    pub(super) fn waits(&self, at: Departure) -> bool {
        self.questions
            .iter()
            .flat_map(|asked| &asked.by)
            .flat_map(|(_, callers)| callers)
            .any(|caller| caller.waits(at))
    }

    /// The callers of each question about each key.
    pub(super) fn callers(self) -> impl Iterator<Item = Callers> {
        self.questions
            .into_iter()
            .flat_map(|asked| asked.by)
            .map(|(_, callers)| callers)
    }

    pub(super) fn script_call(&self, number: u32) -> ScriptCall<'_> {
        let questions = self
            .questions
            .iter()
            .flat_map(|QuestionOnKeys { question, by }| {
                by.iter().map(move |(key, callers)| {
                    debug_assert!(callers.len() <= MAX_CALLERS, "a full batch takes no caller");
                    let callers = u16::try_from(callers.len()).unwrap_or(u16::MAX);
                    CallQuestion {
                        question,
                        key: *key,
                        // The caller of a stack stands with its first question.
                        callers: callers.max(1),
                    }
                })
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
            self.questions.len()
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
