//! [`Flight`]: one call on its way: a pipeline of script calls, and who waits for each.

use std::sync::Arc;

use redis::{Cmd, ServerError, Value};
use smallvec::{SmallVec, smallvec};

use super::caller::{Answered, Callers, Failure, Group, Stack};
use crate::store::Verdict;
use crate::store::redis::scripts::call::{self, Asked, Stacked};
use crate::store::redis::scripts::{Foreign, Joins, Question, Script};

/// One call: a command for each script and slot, and one for each stack.
#[derive(Debug, Default)]
pub(super) struct Flight {
    pub(super) calls: Vec<ScriptCall>,
    pub(super) stacks: Vec<StackCall>,
    pub(super) keys: usize,
    pub(super) units: u64,
    /// The caller's time that all of it is decided by, once there is something in it.
    time: Option<u64>,
}

/// Questions of one script about keys of one slot.
#[derive(Debug)]
pub(super) struct ScriptCall {
    slot: u16,
    script: &'static Script,
    pub(super) keys: Vec<Arc<[u8]>>,
    pub(super) asked: Vec<AskedGroup>,
}

/// A question, who asks it (the key's index, from 1, and how many calls), and who is answered.
#[derive(Debug)]
pub(super) struct AskedGroup {
    question: Question,
    pub(super) asks: SmallVec<[(u8, u16); 1]>,
    callers: SmallVec<[Callers; 1]>,
}

#[derive(Debug)]
pub(super) struct StackCall(Stack);

/// A command of a flight, which knows what its reply means and who waits for it.
pub(super) trait Call: Send {
    fn script(&self) -> &'static Script;

    /// How many decisions it asks for.
    fn decisions(&self) -> usize;

    fn command(&self, number: u32) -> Cmd;

    /// Hands the reply to those who wait. Gives the errors of single keys to `note`.
    ///
    /// # Errors
    ///
    /// `Foreign`, with the call, where it does not answer what was asked.
    fn answer(
        self: Box<Self>,
        reply: &Value,
        number: u32,
        note: &mut dyn FnMut(&ServerError),
    ) -> Result<(), Box<dyn Call>>;

    fn fail(self: Box<Self>, failure: &Failure);
}

impl Flight {
    pub(super) fn is_empty(&self) -> bool {
        self.calls.is_empty() && self.stacks.is_empty()
    }

    /// Whether a question by this clock can be part of it: a call is decided at one time.
    pub(super) fn takes_time(&mut self, time: Option<u64>) -> bool {
        if self.is_empty() {
            self.time = time;
        }
        self.time == time
    }

    pub(super) fn has_time(&mut self, questions: &[(Box<[u8]>, Question)]) -> bool {
        questions.first().is_none_or(|(_, first)| self.takes_time(first.now))
    }

    /// Adds a group behind those of its key that were added before, which are at `from` or later.
    /// Gives where the key's next group may stand.
    pub(super) fn add(&mut self, slot: u16, key: &Arc<[u8]>, group: Group, from: usize) -> usize {
        let Group { question, callers } = group;
        let is_its = |call: &ScriptCall| call.slot == slot && call.script == question.script;
        let at = self.calls.iter().position(is_its).unwrap_or_else(|| {
            let script = question.script;
            self.calls.push(ScriptCall { slot, script, keys: Vec::new(), asked: Vec::new() });
            self.calls.len() - 1
        });
        self.calls.get_mut(at).map_or(from, |call| call.add(key, question, callers, from))
    }

    pub(super) fn into_calls(self) -> Vec<Box<dyn Call>> {
        let calls = self.calls.into_iter().map(|call| Box::new(call) as Box<dyn Call>);
        self.stacks.into_iter().map(|stack| Box::new(stack) as Box<dyn Call>).chain(calls).collect()
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
        let same = self.asked.iter().skip(from).position(|asked| asked.question == question);
        if let Some((at, asked)) = same.and_then(|same| Some((from + same, self.asked.get_mut(from + same)?))) {
            asked.asks.push(asks);
            asked.callers.push(callers);
            return at + 1;
        }
        self.asked.push(AskedGroup { question, asks: smallvec![asks], callers: smallvec![callers] });
        self.asked.len()
    }

    fn asked(&self) -> Vec<Asked<'_>> {
        self.asked.iter().map(|AskedGroup { question, asks, .. }| Asked { question, asks }).collect()
    }

    fn into_callers(self) -> impl Iterator<Item = (Callers, Joins)> {
        self.asked.into_iter().flat_map(|AskedGroup { question, callers, .. }| {
            callers.into_iter().map(move |callers| (callers, question.joins))
        })
    }
}

impl Call for ScriptCall {
    fn script(&self) -> &'static Script {
        self.script
    }

    fn decisions(&self) -> usize {
        self.asked.iter().flat_map(|asked| &asked.callers).map(SmallVec::len).sum()
    }

    fn command(&self, number: u32) -> Cmd {
        call::command(number, self.script, self.keys.iter().map(|key| &**key), &self.asked())
    }

    fn answer(
        self: Box<Self>,
        reply: &Value,
        number: u32,
        note: &mut dyn FnMut(&ServerError),
    ) -> Result<(), Box<dyn Call>> {
        let (now, answers) = match call::read(reply, number, &self.asked()) {
            Ok(answers) => answers,
            Err(Foreign) => return Err(self),
        };
        for (answer, (callers, joins)) in answers.into_iter().zip(self.into_callers()) {
            if let Err(error) = &answer {
                note(error);
            }
            for (index, caller) in callers.into_iter().enumerate() {
                let index = if joins == Joins::Calls { u16::try_from(index).unwrap_or(u16::MAX) } else { 0 };
                let told = answer.clone().map(|answer| Answered { index, now, answer }).map_err(Failure::Server);
                // One that gave up is not there any more.
                let _ = caller.answer.send(told);
            }
        }
        Ok(())
    }

    fn fail(self: Box<Self>, failure: &Failure) {
        for caller in self.into_callers().flat_map(|(callers, _)| callers) {
            let _ = caller.answer.send(Err(failure.clone()));
        }
    }
}

impl StackCall {
    pub(super) fn new(stack: Stack) -> Self {
        Self(stack)
    }
}

pub(super) fn members(questions: &[(Box<[u8]>, Question)]) -> Vec<(&[u8], &Question)> {
    questions.iter().map(|(key, question)| (&**key, question)).collect()
}

/// What each member of a stack is told, or the first error.
pub(super) fn verdicts(stacked: Stacked, questions: &[(Box<[u8]>, Question)]) -> Result<Vec<Verdict>, ServerError> {
    let Stacked { now, is_charged, answers } = stacked;
    let told = answers.into_iter().zip(questions).map(|(answer, (_, question))| {
        let verdict = answer?.verdict(0, question, now);
        // One that admits where another refuses is not charged.
        Ok(if is_charged { verdict } else { Verdict { ticket: 0, ..verdict } })
    });
    told.collect()
}

impl Call for StackCall {
    fn script(&self) -> &'static Script {
        Script::stack()
    }

    fn decisions(&self) -> usize {
        self.0.questions.len()
    }

    fn command(&self, number: u32) -> Cmd {
        call::stack_command(number, &members(&self.0.questions))
    }

    fn answer(
        self: Box<Self>,
        reply: &Value,
        number: u32,
        note: &mut dyn FnMut(&ServerError),
    ) -> Result<(), Box<dyn Call>> {
        let Ok(stacked) = call::read_stack(reply, number, &members(&self.0.questions)) else { return Err(self) };
        let told = verdicts(stacked, &self.0.questions).inspect_err(note);
        let _ = self.0.caller.answer.send(told.map_err(Failure::Server));
        Ok(())
    }

    fn fail(self: Box<Self>, failure: &Failure) {
        let _ = self.0.caller.answer.send(Err(failure.clone()));
    }
}
