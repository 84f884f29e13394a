//! [`Flight`]: what is sent at once: a call of each script and slot, and who waits for it.

use std::sync::Arc;

use smallvec::{SmallVec, smallvec};

use super::{Caller, Failure, told};
use crate::store::redis::scripts::call::{Answers, Asked, Call};
use crate::store::redis::scripts::{Question, Script};

pub(super) type Callers = SmallVec<[Caller; 1]>;

/// Callers of one question about one key: most often one.
#[derive(Debug)]
pub(super) struct Group {
    pub(super) question: Question,
    pub(super) callers: Callers,
}

/// What is sent at once: a command for each stack, and one for each script and slot.
#[derive(Debug, Default)]
pub(super) struct Flight {
    pub(super) commands: Vec<Command>,
    pub(super) keys: usize,
    pub(super) units: u64,
    /// About single keys.
    pub(super) questions: usize,
}

/// A command of a flight, and who waits for its reply.
#[derive(Debug)]
pub(super) enum Command {
    Stack(Stack),
    Script(ScriptCall),
}

/// Questions that are charged all or none.
#[derive(Debug)]
pub(super) struct Stack {
    pub(super) questions: Vec<(Arc<[u8]>, Question)>,
    pub(super) caller: Caller,
}

impl Stack {
    pub(super) fn new(stack: &[(&[u8], Question)], caller: Caller) -> Self {
        Self { questions: stack.iter().map(|(key, question)| (Arc::from(*key), question.clone())).collect(), caller }
    }
}

/// Questions of one script about keys of one slot.
#[derive(Debug)]
pub(super) struct ScriptCall {
    slot: u16,
    script: &'static Script,
    keys: Vec<Arc<[u8]>>,
    pub(super) asked: Vec<Asked>,
    /// Who is answered: of each question, for each key that it is asked of.
    callers: Vec<Vec<Callers>>,
}

impl Flight {
    /// Adds a group behind those of its key that were added before, which are at `from` or later.
    /// Gives where the key's next group may stand.
    pub(super) fn add(&mut self, slot: u16, key: &Arc<[u8]>, group: Group, from: usize) -> usize {
        let script = group.question.script;
        let its = self.commands.iter_mut().find_map(|command| match command {
            Command::Script(call) if call.slot == slot && call.script == script => Some(call),
            _ => None,
        });
        if let Some(call) = its {
            return call.add(key, group, from);
        }
        let mut call = ScriptCall { slot, script, keys: Vec::new(), asked: Vec::new(), callers: Vec::new() };
        let next = call.add(key, group, from);
        self.commands.push(Command::Script(call));
        next
    }
}

impl ScriptCall {
    fn add(&mut self, key: &Arc<[u8]>, Group { question, callers }: Group, from: usize) -> usize {
        if self.keys.last() != Some(key) {
            self.keys.push(Arc::clone(key));
        }
        let index = u8::try_from(self.keys.len()).unwrap_or(u8::MAX);
        let ask = (index, u16::try_from(callers.len()).unwrap_or(u16::MAX));
        let mut all = self.asked.iter_mut().zip(&mut self.callers).enumerate().skip(from);
        if let Some((at, (asked, answered))) = all.find(|(_, (asked, _))| asked.question.is_same(&question)) {
            asked.question.now = asked.question.now.max(question.now);
            asked.asks.push(ask);
            answered.push(callers);
            return at + 1;
        }
        self.asked.push(Asked { question, asks: vec![ask] });
        self.callers.push(vec![callers]);
        self.asked.len()
    }

    fn tell(self, answers: Answers) {
        let mut all = answers.all.into_iter();
        for (Asked { question, .. }, callers) in self.asked.iter().zip(self.callers) {
            for (callers, answer) in callers.into_iter().zip(&mut all) {
                for (index, caller) in (0..).zip(callers) {
                    let verdict = answer.as_ref().map(|answer| answer.verdict(index, question, answers.now));
                    caller.tell(
                        verdict.map(|verdict| smallvec![verdict]).map_err(|error| Failure::Server(error.clone())),
                    );
                }
            }
        }
    }
}

impl Command {
    pub(super) fn call(&self) -> Call<'_, Arc<[u8]>> {
        match self {
            Self::Stack(stack) => Call::Alone(&stack.questions),
            Self::Script(call) => Call::Together(&call.keys, &call.asked),
        }
    }

    /// Hands the answers to those who wait.
    pub(super) fn tell(self, answers: Result<Answers, Failure>) {
        match self {
            Self::Stack(Stack { questions, caller }) => {
                caller.tell(answers.and_then(|answers| told(answers, &questions)));
            }
            Self::Script(call) => match answers {
                Ok(answers) => call.tell(answers),
                Err(failure) => {
                    for caller in call.callers.into_iter().flatten().flatten() {
                        caller.tell(Err(failure.clone()));
                    }
                }
            },
        }
    }
}
