//! [`Flight`]: what is sent at once: a call of each script and slot, and who waits for it.

use std::sync::Arc;

use redis::{Cmd, ServerError, Value};
use smallvec::{SmallVec, smallvec};

use super::{Caller, Failure};
use crate::store::Verdict;
use crate::store::redis::scripts::call::{self, Asked};
use crate::store::redis::scripts::{Joins, Question, Script, ScriptAnswer};

pub(super) type Callers = SmallVec<[Caller; 1]>;

/// Callers of one question about one key: most often one.
#[derive(Debug)]
pub(super) struct Group {
    pub(super) question: Question,
    pub(super) callers: Callers,
}

/// Questions that are charged all or none.
#[derive(Debug)]
pub(super) struct Stack {
    pub(super) questions: Vec<(Box<[u8]>, Question)>,
    pub(super) caller: Caller,
}

impl Stack {
    pub(super) fn new(stack: &[(&[u8], Question)], caller: Caller) -> Self {
        Self { questions: stack.iter().map(|(key, question)| (Box::from(*key), question.clone())).collect(), caller }
    }
}

/// What is sent at once: a command for each script and slot, and one for each stack.
#[derive(Debug, Default)]
pub(super) struct Flight {
    pub(super) scripts: Vec<ScriptCall>,
    pub(super) stacks: Vec<Stack>,
    pub(super) keys: usize,
    pub(super) units: u64,
    /// About single keys.
    pub(super) questions: usize,
    /// The caller's time that all of it is decided by, once there is something in it.
    time: Option<u64>,
}

/// Questions of one script about keys of one slot.
#[derive(Debug)]
pub(super) struct ScriptCall {
    slot: u16,
    script: &'static Script,
    pub(super) keys: SmallVec<[Arc<[u8]>; 1]>,
    pub(super) asked: SmallVec<[Asked; 1]>,
    /// Who is answered: of each question, for each key that it is asked of.
    callers: SmallVec<[SmallVec<[Callers; 1]>; 1]>,
}

pub(super) type Calls = SmallVec<[Call; 1]>;

/// A command of a flight, which knows what its reply means and who waits for it.
#[derive(Debug)]
pub(super) enum Call {
    Script(Box<ScriptCall>),
    Stack(Box<Stack>),
}

impl Flight {
    pub(super) fn is_empty(&self) -> bool {
        self.scripts.is_empty() && self.stacks.is_empty()
    }

    /// Whether a question by this clock can be part of it: a call is decided at one time.
    pub(super) fn takes_time(&mut self, time: Option<u64>) -> bool {
        if self.is_empty() {
            self.time = time;
        }
        self.time == time
    }

    /// Adds a group behind those of its key that were added before, which are at `from` or later.
    /// Gives where the key's next group may stand.
    pub(super) fn add(&mut self, slot: u16, key: &Arc<[u8]>, group: Group, from: usize) -> usize {
        let Group { question, callers } = group;
        let is_its = |call: &ScriptCall| call.slot == slot && call.script == question.script;
        let at = self.scripts.iter().position(is_its).unwrap_or_else(|| {
            let script = question.script;
            let (keys, asked, callers) = (SmallVec::new(), SmallVec::new(), SmallVec::new());
            self.scripts.push(ScriptCall { slot, script, keys, asked, callers });
            self.scripts.len() - 1
        });
        self.scripts.get_mut(at).map_or(from, |call| call.add(key, question, callers, from))
    }

    pub(super) fn into_calls(self) -> Calls {
        let stacks = self.stacks.into_iter().map(|stack| Call::Stack(Box::new(stack)));
        stacks.chain(self.scripts.into_iter().map(|call| Call::Script(Box::new(call)))).collect()
    }
}

impl ScriptCall {
    fn add(&mut self, key: &Arc<[u8]>, question: Question, callers: Callers, from: usize) -> usize {
        if self.keys.last() != Some(key) {
            self.keys.push(Arc::clone(key));
        }
        let index = u8::try_from(self.keys.len()).unwrap_or(u8::MAX);
        let calls = if question.joins == Joins::Calls { callers.len() } else { 1 };
        let asks = (index, u16::try_from(calls).unwrap_or(u16::MAX));
        let mut all = self.asked.iter_mut().zip(&mut self.callers).enumerate().skip(from);
        if let Some((at, (asked, answered))) = all.find(|(_, (asked, _))| asked.question == question) {
            asked.asks.push(asks);
            answered.push(callers);
            return at + 1;
        }
        self.asked.push(Asked { question, asks: smallvec![asks] });
        self.callers.push(smallvec![callers]);
        self.asked.len()
    }
}

impl Call {
    /// What one caller asks.
    pub(super) fn of_one(stack: &[(&[u8], Question)], caller: Caller) -> Self {
        let [(key, question)] = stack else { return Self::Stack(Box::new(Stack::new(stack, caller))) };
        let asked = smallvec![Asked { question: question.clone(), asks: smallvec![(1, 1)] }];
        let (keys, callers) = (smallvec![Arc::from(*key)], smallvec![smallvec![smallvec![caller]]]);
        Self::Script(Box::new(ScriptCall { slot: 0, script: question.script, keys, asked, callers }))
    }

    pub(super) fn script(&self) -> &'static Script {
        match self {
            Self::Script(call) => call.script,
            Self::Stack(_) => Script::stack(),
        }
    }

    /// How many decisions it asks for.
    pub(super) fn decisions(&self) -> usize {
        match self {
            Self::Script(call) => call.callers.iter().flatten().map(SmallVec::len).sum(),
            Self::Stack(stack) => stack.questions.len(),
        }
    }

    pub(super) fn command(&self, number: u32) -> Cmd {
        match self {
            Self::Script(call) => call::command(number, call.script, call.keys.iter().map(|key| &**key), &call.asked),
            Self::Stack(stack) => call::stack_command(number, &stack.questions),
        }
    }

    /// Hands the reply to those who wait; says whether it answers what was asked. Gives the errors
    /// of single keys to `note`.
    pub(super) fn answer(self, reply: &Value, number: u32, note: impl Fn(&ServerError)) -> bool {
        let is_sound = match &self {
            Self::Script(call) => call::read(reply, number, &call.asked).map(|answers| (answers, true)),
            Self::Stack(stack) => call::read_stack(reply, number, &stack.questions),
        };
        let Ok(((now, answers), is_charged)) = is_sound else {
            self.fail(&super::sending::foreign());
            return false;
        };
        answers.iter().filter_map(|answer| answer.as_ref().err()).for_each(note);
        match self {
            Self::Script(call) => {
                let mut answers = answers.into_iter();
                for (Asked { question, .. }, callers) in call.asked.iter().zip(call.callers) {
                    for (callers, answer) in callers.into_iter().zip(&mut answers) {
                        for (index, caller) in callers.into_iter().enumerate() {
                            let index = if question.joins == Joins::Calls { index } else { 0 };
                            let index = u16::try_from(index).unwrap_or(u16::MAX);
                            let verdict = |answer: ScriptAnswer| smallvec![answer.verdict(index, question, now)];
                            caller.tell(answer.clone().map(verdict).map_err(Failure::Server));
                        }
                    }
                }
            }
            Self::Stack(stack) => {
                let Stack { questions, caller } = *stack;
                let told = answers.into_iter().zip(&questions).map(|(answer, (_, question))| {
                    let verdict = answer?.verdict(0, question, now);
                    // One that admits where another refuses is not charged.
                    Ok(if is_charged { verdict } else { Verdict { ticket: 0, ..verdict } })
                });
                caller.tell(told.collect::<Result<_, _>>().map_err(Failure::Server));
            }
        }
        true
    }

    pub(super) fn fail(self, failure: &Failure) {
        match self {
            Self::Script(call) => {
                for caller in call.callers.into_iter().flatten().flatten() {
                    caller.tell(Err(failure.clone()));
                }
            }
            Self::Stack(stack) => stack.caller.tell(Err(failure.clone())),
        }
    }
}
