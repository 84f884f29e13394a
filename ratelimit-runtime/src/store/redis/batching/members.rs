//! [`Members`]: callers who wait for a decision, in lists that a caller who gives up can leave at any place.

use std::task::Waker;
use std::time::Instant;

use super::item::Question;
use super::slab::Slab;
use crate::store::Verdict;
use crate::store::redis::wire::question::NoAnswer;

pub(crate) type Decided = Result<Verdict, NoAnswer>;

#[derive(Debug)]
struct Member {
    question: Question,
    timeout_at: Option<Instant>,
    /// Where it waits, as long as it does.
    key: usize,
    state: State,
    before: Option<usize>,
    after: Option<usize>,
}

#[derive(Debug)]
enum State {
    Waiting(Waker),
    Asked(Waker),
    /// Asked, and nobody is there for the answer.
    Abandoned,
    Answered(Decided),
}

/// In order of arrival.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct List {
    first: Option<usize>,
    last: Option<usize>,
    pub(crate) len: usize,
}

#[derive(Debug)]
pub(super) struct Members {
    all: Slab<Member>,
}

impl Members {
    pub(crate) const fn new() -> Self {
        Self { all: Slab::new() }
    }

    pub(crate) fn enter(
        &mut self,
        list: &mut List,
        key: usize,
        question: Question,
        timeout_at: Option<Instant>,
        waker: Waker,
    ) -> usize {
        let state = State::Waiting(waker);
        let member = self.all.insert(Member { question, timeout_at, key, state, before: None, after: None });
        self.append(list, member);
        member
    }

    pub(crate) fn question(&self, member: usize) -> &Question {
        &self.all[member].question
    }

    pub(crate) fn timeout_at(&self, member: usize) -> Option<Instant> {
        self.all[member].timeout_at
    }

    /// Where it waits, if it still does.
    pub(super) fn waits_at(&self, member: usize) -> Option<usize> {
        let member = &self.all[member];
        matches!(member.state, State::Waiting(_)).then_some(member.key)
    }

    /// Moves the first one of those who wait to those who are asked for.
    pub(crate) fn ask(&mut self, waiting: &mut List, asked: &mut List) {
        let Some(member) = waiting.first else { return };
        self.unlink(waiting, member);
        self.append(asked, member);
        let state = &mut self.all[member].state;
        if let State::Waiting(waker) = std::mem::replace(state, State::Abandoned) {
            *state = State::Asked(waker);
        }
    }

    /// Moves all who were asked for back to where they waited, ahead of those who came later.
    pub(super) fn wait_again(&mut self, mut asked: List, waiting: &mut List) {
        while let Some(member) = asked.last {
            self.unlink(&mut asked, member);
            match std::mem::replace(&mut self.all[member].state, State::Abandoned) {
                State::Asked(waker) => {
                    self.all[member].state = State::Waiting(waker);
                    self.prepend(waiting, member);
                }
                _ => {
                    self.all.remove(member);
                }
            }
        }
    }

    /// Answers the first of a list; gives whoever is to be woken.
    pub(super) fn answer_first(&mut self, list: &mut List, decided: Decided) -> Option<Waker> {
        let member = list.first?;
        self.unlink(list, member);
        match std::mem::replace(&mut self.all[member].state, State::Answered(decided)) {
            State::Waiting(waker) | State::Asked(waker) => Some(waker),
            State::Abandoned | State::Answered(_) => {
                self.all.remove(member);
                None
            }
        }
    }

    /// The answer, which can be had once; until it is there, `waker` is the one to be woken, and takes the place of the
    /// last one.
    pub(crate) fn poll(&mut self, member: usize, waker: &Waker) -> Result<Decided, Option<Waker>> {
        match &mut self.all[member].state {
            State::Waiting(known) | State::Asked(known) if known.will_wake(waker) => return Err(None),
            State::Waiting(known) | State::Asked(known) => return Err(Some(std::mem::replace(known, waker.clone()))),
            State::Abandoned | State::Answered(_) => {}
        }
        let state = std::mem::replace(&mut self.all[member].state, State::Abandoned);
        self.all.remove(member);
        match state {
            State::Answered(decided) => Ok(decided),
            _ => Ok(Err(NoAnswer::NotAsked)),
        }
    }

    /// Somebody who waits gives up: it was never asked for.
    pub(crate) fn leave(&mut self, list: &mut List, member: usize) -> Option<Waker> {
        self.unlink(list, member);
        let state = std::mem::replace(&mut self.all[member].state, State::Abandoned);
        self.all.remove(member);
        match state {
            State::Waiting(waker) => Some(waker),
            _ => None,
        }
    }

    /// Somebody who does not wait any more gives up.
    pub(super) fn abandon(&mut self, member: usize) -> Option<Waker> {
        if let State::Asked(waker) = std::mem::replace(&mut self.all[member].state, State::Abandoned) {
            return Some(waker);
        }
        self.all.remove(member);
        None
    }

    fn append(&mut self, list: &mut List, member: usize) {
        self.all[member].before = list.last;
        self.all[member].after = None;
        match list.last {
            Some(before) => self.all[before].after = Some(member),
            None => list.first = Some(member),
        }
        list.last = Some(member);
        list.len += 1;
    }

    fn prepend(&mut self, list: &mut List, member: usize) {
        self.all[member].before = None;
        self.all[member].after = list.first;
        match list.first {
            Some(after) => self.all[after].before = Some(member),
            None => list.last = Some(member),
        }
        list.first = Some(member);
        list.len += 1;
    }

    fn unlink(&mut self, list: &mut List, member: usize) {
        let (before, after) = (self.all[member].before, self.all[member].after);
        match before {
            Some(before) => self.all[before].after = after,
            None => list.first = after,
        }
        match after {
            Some(after) => self.all[after].before = before,
            None => list.last = before,
        }
        list.len -= 1;
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }
}

impl List {
    pub(crate) fn first(&self) -> Option<usize> {
        self.first
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }
}
