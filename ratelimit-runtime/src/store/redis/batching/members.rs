//! [`Members`]: callers that wait for a verdict, in lists that a cancelled caller can leave at any
//! place.
//!
//! An index stays valid until its holder has removed the member, so indexing does not panic.
#![allow(clippy::indexing_slicing, reason = "an index into a slab is held by what removes its value")]

use std::task::Waker;
use std::time::{Duration, Instant};

use slab::Slab;

use super::charge::ChargeTerms;
use crate::store::Verdict;
use crate::store::redis::wire::commands::CallError;

pub(crate) type VerdictResult = Result<Verdict, CallError>;

#[derive(Debug)]
struct Member {
    terms: ChargeTerms,
    timeout_at: Option<Instant>,
    /// Whether it was woken because its timeout has come.
    is_overdue: bool,
    /// Index of the key that it waits for, as long as it does.
    key: usize,
    state: State,
    before: Option<usize>,
    after: Option<usize>,
}

/// Where it stands. While a state is moved out, [`Abandoned`](Self::Abandoned) is in its place.
#[derive(Debug)]
enum State {
    Waiting(Waker),
    Sent(Waker),
    /// Sent, and then cancelled: the answer is dropped.
    Abandoned,
    Answered(VerdictResult),
}

/// In order of arrival.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct MemberList {
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
        list: &mut MemberList,
        key: usize,
        terms: ChargeTerms,
        timeout_at: Option<Instant>,
        waker: Waker,
    ) -> usize {
        let state = State::Waiting(waker);
        let member =
            self.all.insert(Member { terms, timeout_at, is_overdue: false, key, state, before: None, after: None });
        self.append(list, member);
        member
    }

    pub(crate) fn terms(&self, member: usize) -> &ChargeTerms {
        &self.all[member].terms
    }

    pub(crate) fn timeout_at(&self, member: usize) -> Option<Instant> {
        self.all[member].timeout_at
    }

    /// Index of the key that it waits for, if it still does.
    pub(super) fn waits_at(&self, member: usize) -> Option<usize> {
        let member = &self.all[member];
        matches!(member.state, State::Waiting(_)).then_some(member.key)
    }

    /// Moves the first that waits to those that are sent.
    pub(crate) fn send(&mut self, waiting: &mut MemberList, sent: &mut MemberList) {
        let Some(member) = waiting.first else { return };
        self.unlink(waiting, member);
        self.append(sent, member);
        let state = &mut self.all[member].state;
        if let State::Waiting(waker) = std::mem::replace(state, State::Abandoned) {
            *state = State::Sent(waker);
        }
    }

    /// Moves all that were sent back to where they waited, ahead of those that came later.
    pub(super) fn wait_again(&mut self, mut sent: MemberList, waiting: &mut MemberList) {
        while let Some(member) = sent.last {
            self.unlink(&mut sent, member);
            match std::mem::replace(&mut self.all[member].state, State::Abandoned) {
                State::Sent(waker) => {
                    self.all[member].state = State::Waiting(waker);
                    self.prepend(waiting, member);
                }
                _ => {
                    super::remove(&mut self.all, member);
                }
            }
        }
    }

    /// Answers the first of a list; gives the waker to be called.
    pub(super) fn answer_first(&mut self, list: &mut MemberList, result: VerdictResult) -> Option<Waker> {
        let member = list.first?;
        self.unlink(list, member);
        match std::mem::replace(&mut self.all[member].state, State::Answered(result)) {
            State::Waiting(waker) | State::Sent(waker) => Some(waker),
            State::Abandoned | State::Answered(_) => {
                super::remove(&mut self.all, member);
                None
            }
        }
    }

    /// The answer, which can be taken once. `Err` means not yet: `waker` is called once it is
    /// there, in the place of the waker in the error, which is to be dropped outside of a lock.
    pub(crate) fn poll(&mut self, member: usize, waker: &Waker) -> Result<VerdictResult, Option<Waker>> {
        match &mut self.all[member].state {
            State::Waiting(known) | State::Sent(known) if known.will_wake(waker) => return Err(None),
            State::Waiting(known) | State::Sent(known) => return Err(Some(std::mem::replace(known, waker.clone()))),
            State::Abandoned | State::Answered(_) => {}
        }
        match super::remove(&mut self.all, member) {
            Some(Member { state: State::Answered(result), .. }) => Ok(result),
            _ => Ok(Err(CallError::NotSent)),
        }
    }

    /// Hands out the wakers of those who wait for an answer and whose timeout has come, each once:
    /// they cancel themselves. Gives the time to look again, by which the next timeout has come;
    /// `None` if there is none. All are looked at, so that is put off in proportion to how many
    /// there are.
    pub(super) fn take_overdue(&mut self, now: Instant, wakers: &mut Vec<Waker>) -> Option<Instant> {
        const PAUSE: Duration = Duration::from_nanos(100);
        let mut earliest: Option<Instant> = None;
        for (_, member) in &mut self.all {
            let (State::Waiting(waker) | State::Sent(waker)) = &member.state else { continue };
            match member.timeout_at {
                Some(timeout_at) if timeout_at <= now => {
                    let was_woken = std::mem::replace(&mut member.is_overdue, true);
                    wakers.extend((!was_woken).then(|| waker.clone()));
                }
                Some(timeout_at) => earliest = Some(earliest.map_or(timeout_at, |earliest| earliest.min(timeout_at))),
                None => {}
            }
        }
        let all = u32::try_from(self.all.len()).unwrap_or(u32::MAX);
        earliest.map(|earliest| earliest.max(now + PAUSE * all))
    }

    /// Removes a member that waits: it was never sent.
    pub(crate) fn leave(&mut self, list: &mut MemberList, member: usize) -> Option<Waker> {
        self.unlink(list, member);
        match super::remove(&mut self.all, member) {
            Some(Member { state: State::Waiting(waker), .. }) => Some(waker),
            _ => None,
        }
    }

    /// Cancels a member that does not wait any more.
    pub(super) fn abandon(&mut self, member: usize) -> Option<Waker> {
        if let State::Sent(waker) = std::mem::replace(&mut self.all[member].state, State::Abandoned) {
            return Some(waker);
        }
        super::remove(&mut self.all, member);
        None
    }

    /// Answers all of a list with an error.
    pub(super) fn fail(&mut self, list: &mut MemberList, why: impl Fn() -> CallError, wakers: &mut Vec<Waker>) {
        while !list.is_empty() {
            wakers.extend(self.answer_first(list, Err(why())));
        }
    }

    fn append(&mut self, list: &mut MemberList, member: usize) {
        self.all[member].before = list.last;
        self.all[member].after = None;
        match list.last {
            Some(before) => self.all[before].after = Some(member),
            None => list.first = Some(member),
        }
        list.last = Some(member);
        list.len += 1;
    }

    fn prepend(&mut self, list: &mut MemberList, member: usize) {
        self.all[member].before = None;
        self.all[member].after = list.first;
        match list.first {
            Some(after) => self.all[after].before = Some(member),
            None => list.last = Some(member),
        }
        list.first = Some(member);
        list.len += 1;
    }

    fn unlink(&mut self, list: &mut MemberList, member: usize) {
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

impl MemberList {
    pub(crate) fn first(&self) -> Option<usize> {
        self.first
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }
}
