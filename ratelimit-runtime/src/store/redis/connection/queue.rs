//! The queue in front of a connection: commands and batches of decisions on their way to the server, in order, and those
//! that wait for their turn.
//!
//! Nothing here is sent or received. Whoever gives up while waiting has asked nothing.

use std::collections::VecDeque;
use std::task::Waker;
use std::time::{Duration, Instant};

use redis::Value;
use tokio::sync::oneshot;

use super::batch::{self, Batch, Batches};
use super::item::Item;
use super::members::Decided;
use super::question::{Answer, Expected, NoAnswer, Question, Reply};
use super::room::Room;
use crate::error::StoreError;
use crate::observe::Commands;

#[derive(Debug)]
struct Waiting {
    question: Question,
    answer: oneshot::Sender<Answer>,
}

/// Something on its way to the server, or back.
#[derive(Debug)]
struct Asked {
    what: What,
    /// Its place in the stream of all bytes sent.
    starts_at: u64,
    at: Instant,
}

#[derive(Debug)]
enum What {
    Commands {
        /// Nobody is there for the reply to a marker.
        answer: Option<oneshot::Sender<Answer>>,
        expected: Expected,
        replies: usize,
        got: Vec<Value>,
    },
    Batch(Batch),
}

/// Who is to be told something, once no lock is held.
#[derive(Debug, Default)]
pub(super) struct Deliveries {
    answers: Vec<(oneshot::Sender<Answer>, Answer)>,
    wakers: Vec<Waker>,
    /// How many decisions each command carries that has been written.
    commands: Commands,
}

/// A reply that cannot be the one to its question.
#[derive(Debug)]
pub(super) struct OutOfStep;

#[derive(Debug)]
pub(super) struct Queue {
    waiting: VecDeque<Waiting>,
    batches: Batches,
    asked: VecDeque<Asked>,
    /// How many commands and decisions are on their way.
    on_the_way: usize,
    /// In how many calls the decisions, and in how many questions.
    calls: usize,
    questions: usize,
    /// How many questions make a call that need not wait for more.
    full: usize,
    /// What is to be sent next.
    pub(super) outgoing: Vec<u8>,
    sent: u64,
    room: Room,
    refusing: Option<StoreError>,
    /// When a marker was sent last, and its number.
    marked: Instant,
    mark: u64,
}

/// Which decisions share calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sharing {
    None,
    /// Those on one key.
    Keys,
    All,
}

/// How often, under load, a marker is sent along: its reply shows that replies and questions are still in step.
const MARK_EVERY: Duration = Duration::from_secs(1);

/// The waiting list keeps room for this many callers; more is given back after a flood.
const KEPT: usize = 1024;
/// The buffer keeps room for this many bytes.
const KEPT_BYTES: usize = 64 * 1024;

/// Calls of fewer questions are not worth being told apart.
const SMALLEST: usize = 8;

impl Queue {
    pub(super) fn new(now: Instant, sharing: Sharing) -> Self {
        Self {
            waiting: VecDeque::new(),
            batches: Batches::new(sharing != Sharing::None),
            asked: VecDeque::new(),
            on_the_way: 0,
            calls: 0,
            questions: 0,
            full: if sharing == Sharing::All { batch::QUESTIONS } else { 1 },
            outgoing: Vec::new(),
            sent: 0,
            room: Room::new(),
            refusing: None,
            marked: now,
            mark: 0,
        }
    }

    /// Whether nothing is on its way, nor about to be.
    pub(super) fn is_idle(&self) -> bool {
        self.asked.is_empty() && self.waiting.is_empty() && self.batches.is_empty()
    }

    /// Takes a question in; says whether there is something to be sent.
    pub(super) fn ask(&mut self, question: Question, answer: oneshot::Sender<Answer>, now: Instant) -> bool {
        if let Some(error) = &self.refusing {
            let _ = answer.send(Err(NoAnswer::Refused(error.clone())));
            return false;
        }
        self.room.asked(question.timeout_at, now);
        if self.waiting.is_empty() && self.room.is_left(self.on_the_way) {
            self.put(question, Some(answer), now);
            return true;
        }
        self.room.full();
        self.waiting.push_back(Waiting { question, answer });
        false
    }

    /// Takes a decision in. It waits for [`move_up`](Self::move_up).
    pub(super) fn decide(&mut self, item: &Item<'_>, waker: &Waker, now: Instant) -> Result<usize, NoAnswer> {
        if let Some(error) = &self.refusing {
            return Err(NoAnswer::Refused(error.clone()));
        }
        self.room.asked(item.timeout_at, now);
        Ok(self.batches.enter(item, waker))
    }

    /// What was decided; see [`Batches::poll`].
    pub(super) fn decided(&mut self, member: usize, waker: &Waker) -> Result<Decided, Option<Waker>> {
        self.batches.poll(member, waker)
    }

    /// Whoever waits for a decision, or for its answer, gives up.
    pub(super) fn give_up(&mut self, member: usize) -> Option<Waker> {
        self.batches.give_up(member)
    }

    /// Whether decisions that wait may be sent.
    pub(super) fn has_turn(&self) -> bool {
        let ready = self.batches.ready();
        ready > 0 && self.room.is_left(self.on_the_way) && (self.calls < self.room.calls() || ready >= self.full)
    }

    /// Whether so many wait that they should not wait for others.
    pub(super) fn has_share(&self) -> bool {
        self.has_turn() && self.batches.ready() >= self.share()
    }

    /// How many questions a call should have: about half of all there are. Then one half is decided on while the other is
    /// told and asks again, which takes this process about as long as it takes the server; and there are no more calls
    /// than it takes for that.
    fn share(&self) -> usize {
        self.questions.midpoint(self.batches.ready()).clamp(SMALLEST.min(self.full), self.full)
    }

    /// Asks ahead of all waiting questions, whether the server serves or not.
    pub(super) fn ping(&mut self, answer: Option<oneshot::Sender<Answer>>, now: Instant) {
        self.mark += 1;
        self.marked = now;
        let mut ping = redis::cmd("PING");
        ping.arg(self.mark);
        let expected = Expected::Echo(self.mark);
        let question = Question { packed: ping.get_packed_command(), replies: 1, expected, timeout_at: None };
        self.put(question, answer, now);
    }

    fn put(&mut self, question: Question, answer: Option<oneshot::Sender<Answer>>, now: Instant) {
        if answer.is_some() {
            self.mark(now);
        }
        let Question { packed, replies, expected, .. } = question;
        let starts_at = self.end();
        let what = What::Commands { answer, expected, replies, got: Vec::new() };
        self.asked.push_back(Asked { what, starts_at, at: now });
        self.on_the_way += 1;
        self.outgoing.extend_from_slice(&packed);
    }

    /// Sends a marker along, if it is time to.
    fn mark(&mut self, now: Instant) {
        // With nothing on its way, a stray reply shows by itself.
        if !self.asked.is_empty() && now.saturating_duration_since(self.marked) >= MARK_EVERY {
            self.ping(None, now);
        }
    }

    /// Where the next question starts in the stream of all bytes sent.
    fn end(&self) -> u64 {
        self.sent + len(&self.outgoing)
    }

    /// Moves up those who wait, as far as there is room: commands and batches in turn.
    pub(super) fn move_up(&mut self, now: Instant, deliveries: &mut Deliveries) {
        let waits = !self.waiting.is_empty() || !self.batches.is_empty();
        self.room.taken_in(self.asked.is_empty(), waits);
        loop {
            let command = self.move_command_up(now, deliveries);
            if !self.send_batch(now, deliveries) && !command {
                return;
            }
        }
    }

    fn move_command_up(&mut self, now: Instant, deliveries: &mut Deliveries) -> bool {
        while self.room.is_left(self.on_the_way) {
            let Some(Waiting { question, answer }) = self.waiting.pop_front() else {
                // What a flood took is given back.
                self.waiting.shrink_to(KEPT);
                return false;
            };
            if answer.is_closed() {
                continue;
            }
            if question.timeout_at.is_some_and(|until| until < self.in_time(now)) {
                deliveries.answers.push((answer, Err(NoAnswer::TooLate)));
                continue;
            }
            self.put(question, Some(answer), now);
            return true;
        }
        false
    }

    /// For those who do not wait until this moment, an answer would come too late. If nothing is on its way, that is
    /// nobody who still waits: what took long once may not any more, and only an answer tells.
    fn in_time(&self, now: Instant) -> Instant {
        if self.asked.is_empty() { now + Duration::from_nanos(1) } else { self.room.in_time(now) }
    }

    fn send_batch(&mut self, now: Instant, deliveries: &mut Deliveries) -> bool {
        if !self.has_turn() {
            if !self.batches.is_empty() && !self.room.is_left(self.on_the_way) {
                self.room.full();
            }
            return false;
        }
        let (share, in_time) = (self.share(), self.in_time(now));
        self.mark(now);
        let starts_at = self.end();
        let batch = self.batches.next(&mut self.outgoing, share, in_time, &mut deliveries.wakers);
        let Some(batch) = batch else { return false };
        deliveries.commands.add(batch.callers);
        self.on_the_way += batch.callers;
        self.questions += batch.questions();
        self.calls += 1;
        self.asked.push_back(Asked { what: What::Batch(batch), starts_at, at: now });
        true
    }

    /// Notes how much of [`outgoing`](Self::outgoing) the system has taken.
    pub(super) fn sent(&mut self, bytes: usize) {
        self.sent += u64::try_from(bytes).unwrap_or(u64::MAX);
        if bytes >= self.outgoing.len() {
            self.outgoing.clear();
            self.outgoing.shrink_to(KEPT_BYTES);
        } else {
            self.outgoing.drain(..bytes);
        }
    }

    /// Takes in the next reply; says how many decisions it brings.
    pub(super) fn reply(
        &mut self,
        reply: Reply<'_>,
        now: Instant,
        deliveries: &mut Deliveries,
    ) -> Result<usize, OutOfStep> {
        let asked = self.asked.front_mut().ok_or(OutOfStep)?;
        match &mut asked.what {
            What::Batch(batch) => match &reply {
                Reply::Bulk(bytes) if Batches::fits(batch, bytes) => {}
                Reply::Other(Value::ServerError(_)) => {}
                _ => return Err(OutOfStep),
            },
            What::Commands { expected, replies, got, .. } => {
                let position = got.len() + 1;
                let reply = Value::from(reply);
                if !expected.allows(&reply, position == 1, position == *replies) {
                    return Err(OutOfStep);
                }
                got.push(reply);
                return Ok(self.commands_replied(now, deliveries));
            }
        }
        let Some(Asked { what: What::Batch(batch), at, .. }) = self.asked.pop_front() else { return Ok(0) };
        let callers = batch.callers;
        self.on_the_way -= callers;
        self.questions -= batch.questions();
        self.calls -= 1;
        self.room.answered(now.saturating_duration_since(at), callers);
        match reply {
            Reply::Bulk(bytes) => self.batches.answer(batch, bytes, &mut deliveries.wakers),
            Reply::Other(Value::ServerError(error)) => {
                self.batches.answer_error(batch, &error, &mut deliveries.wakers);
                if let Some(error) = &self.refusing {
                    // Nobody is asked for again.
                    self.batches.fail_waiting(|| NoAnswer::Refused(error.clone()), &mut deliveries.wakers);
                }
            }
            Reply::Other(_) => return Err(OutOfStep),
        }
        Ok(callers)
    }

    fn commands_replied(&mut self, now: Instant, deliveries: &mut Deliveries) -> usize {
        let is_whole = self
            .asked
            .front()
            .is_some_and(|asked| matches!(&asked.what, What::Commands { replies, got, .. } if got.len() >= *replies));
        if !is_whole {
            return 0;
        }
        let Some(Asked { what: What::Commands { answer, replies, mut got, .. }, at, .. }) = self.asked.pop_front()
        else {
            return 0;
        };
        self.on_the_way -= 1;
        self.room.answered(now.saturating_duration_since(at), 1);
        let reply = if replies == 1 { got.pop().unwrap_or(Value::Nil) } else { Value::Array(got) };
        deliveries.answers.extend(answer.map(|answer| (answer, Ok(reply))));
        0
    }

    /// From now on nothing is asked, if there is an error to say instead; whoever waits is told.
    pub(super) fn refuse(&mut self, error: Option<StoreError>, deliveries: &mut Deliveries) {
        if let Some(error) = &error {
            let refused = self.waiting.drain(..);
            deliveries.answers.extend(refused.map(|waiting| (waiting.answer, Err(NoAnswer::Refused(error.clone())))));
            self.batches.fail_waiting(|| NoAnswer::Refused(error.clone()), &mut deliveries.wakers);
        }
        self.refusing = error;
    }

    /// Nothing will be sent or received any more.
    pub(super) fn close(&mut self, error: &StoreError, deliveries: &mut Deliveries) {
        for Asked { what, starts_at, .. } in self.asked.drain(..) {
            let was_sent = starts_at < self.sent;
            let why = || if was_sent { NoAnswer::Lost(error.clone()) } else { NoAnswer::NotAsked };
            match what {
                What::Commands { answer, .. } => deliveries.answers.extend(answer.map(|sender| (sender, Err(why())))),
                What::Batch(batch) => self.batches.fail(batch, why, &mut deliveries.wakers),
            }
        }
        let waiting = self.waiting.drain(..);
        deliveries.answers.extend(waiting.map(|waiting| (waiting.answer, Err(NoAnswer::NotAsked))));
        self.batches.fail_waiting(|| NoAnswer::NotAsked, &mut deliveries.wakers);
        self.outgoing = Vec::new();
        (self.on_the_way, self.calls, self.questions) = (0, 0, 0);
    }
}

#[cfg(test)]
impl Queue {
    pub(super) fn waits(&self, member: usize) -> bool {
        self.batches.waits(member)
    }

    pub(super) fn members(&self) -> usize {
        self.batches.members()
    }
}

impl Deliveries {
    /// Tells everybody. Runs foreign code, so no lock may be held.
    pub(super) fn deliver(&mut self) {
        for (caller, answer) in self.answers.drain(..) {
            let _ = caller.send(answer);
        }
        for waker in self.wakers.drain(..) {
            waker.wake();
        }
        self.commands.tell();
    }
}

fn len(bytes: &[u8]) -> u64 {
    u64::try_from(bytes.len()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test")]

    use super::*;

    fn question(bytes: &[u8]) -> Question {
        Question { packed: bytes.to_vec(), replies: 1, expected: Expected::Anything, timeout_at: None }
    }

    struct Fixture {
        queue: Queue,
        now: Instant,
        deliveries: Deliveries,
    }

    impl Fixture {
        fn new() -> Self {
            let now = Instant::now();
            Self { queue: Queue::new(now, Sharing::All), now, deliveries: Deliveries::default() }
        }

        fn ask(&mut self, question: Question) -> oneshot::Receiver<Answer> {
            let (sender, receiver) = oneshot::channel();
            self.queue.ask(question, sender, self.now);
            receiver
        }

        /// Asks until somebody has to wait.
        fn fill(&mut self) -> Vec<oneshot::Receiver<Answer>> {
            let mut all = Vec::new();
            while self.queue.waiting.is_empty() {
                all.push(self.ask(question(b"x")));
            }
            all
        }

        fn reply(&mut self, reply: Value) -> Result<(), OutOfStep> {
            let result = self.queue.reply(Reply::Other(reply), self.now, &mut self.deliveries);
            self.deliver();
            result.map(drop)
        }

        fn deliver(&mut self) {
            self.deliveries.deliver();
        }

        fn move_up(&mut self) {
            self.queue.move_up(self.now, &mut self.deliveries);
            self.deliver();
        }
    }

    #[test]
    fn replies_go_to_their_questions_in_order() {
        let mut all = Fixture::new();
        let (mut a, mut b) = (all.ask(question(b"a")), all.ask(question(b"b")));
        assert_eq!(all.queue.outgoing, b"ab");
        all.reply(Value::Int(1)).unwrap();
        all.reply(Value::Int(2)).unwrap();
        assert_eq!(a.try_recv().unwrap().unwrap(), Value::Int(1));
        assert_eq!(b.try_recv().unwrap().unwrap(), Value::Int(2));
        assert!(all.reply(Value::Int(3)).is_err(), "nobody asked");
    }

    #[test]
    fn a_reply_that_cannot_be_the_one_ends_it_all() {
        let mut all = Fixture::new();
        let is_int = |value: &Value| matches!(value, Value::Int(_));
        let mut a = all.ask(Question { expected: Expected::Like(is_int), ..question(b"a") });
        let mut b = all.ask(question(b"b"));
        all.queue.sent(2);
        assert!(all.reply(Value::Okay).is_err());
        all.queue.close(&StoreError::unavailable("x"), &mut all.deliveries);
        all.deliver();
        assert!(matches!(a.try_recv().unwrap(), Err(NoAnswer::Lost(_))));
        assert!(matches!(b.try_recv().unwrap(), Err(NoAnswer::Lost(_))));
    }

    #[test]
    fn transactions_have_their_own_form() {
        let transaction = || Question { replies: 3, expected: Expected::Transaction, ..question(b"m") };
        let mut all = Fixture::new();
        let mut answer = all.ask(transaction());
        for reply in [Value::Okay, Value::SimpleString("QUEUED".into()), Value::Array(Vec::new())] {
            all.reply(reply).unwrap();
        }
        assert!(matches!(answer.try_recv().unwrap().unwrap(), Value::Array(replies) if replies.len() == 3));
        let _answer = all.ask(transaction());
        all.reply(Value::Okay).unwrap();
        assert!(all.reply(Value::Array(Vec::new())).is_err());
    }

    #[test]
    fn a_caller_who_gives_up_before_its_turn_has_asked_nothing() {
        let mut all = Fixture::new();
        let mut first = all.fill();
        let last = all.ask(question(b"y"));
        drop(first.pop());
        all.queue.outgoing.clear();
        for _ in 0..2 {
            all.reply(Value::Int(1)).unwrap();
        }
        all.move_up();
        assert_eq!(all.queue.outgoing, b"y");
        drop(last);
        // Its reply is taken in and counts, although nobody is there.
        let asked = all.queue.asked.len();
        for _ in 0..asked {
            all.reply(Value::Int(1)).unwrap();
        }
        assert!(all.queue.is_idle());
    }

    #[test]
    fn whoever_has_no_time_left_is_told_so() {
        let mut all = Fixture::new();
        let _first = all.fill();
        let mut late = all.ask(Question { timeout_at: Some(all.now), ..question(b"y") });
        for _ in 0..3 {
            all.reply(Value::Int(1)).unwrap();
        }
        all.move_up();
        assert!(matches!(late.try_recv().unwrap(), Err(NoAnswer::TooLate)));
    }

    #[test]
    fn what_was_not_sent_may_be_asked_again() {
        let mut all = Fixture::new();
        let (mut a, mut b, mut c) = (all.ask(question(b"aa")), all.ask(question(b"bb")), all.ask(question(b"cc")));
        all.queue.sent(3);
        assert_eq!(all.queue.outgoing, b"bcc");
        all.queue.close(&StoreError::unavailable("x"), &mut all.deliveries);
        all.deliver();
        assert!(matches!(a.try_recv().unwrap(), Err(NoAnswer::Lost(_))));
        assert!(matches!(b.try_recv().unwrap(), Err(NoAnswer::Lost(_))), "a part of it was");
        assert!(matches!(c.try_recv().unwrap(), Err(NoAnswer::NotAsked)));
    }

    #[test]
    fn a_server_that_does_not_serve_is_only_pinged() {
        let mut all = Fixture::new();
        let mut waiting = all.fill().pop().unwrap();
        all.queue.refuse(Some(StoreError::unavailable("slow")), &mut all.deliveries);
        all.deliver();
        assert!(matches!(waiting.try_recv().unwrap(), Err(NoAnswer::Refused(_))));
        assert!(matches!(all.ask(question(b"x")).try_recv().unwrap(), Err(NoAnswer::Refused(_))));
        all.queue.outgoing.clear();
        all.queue.ping(None, all.now);
        assert!(all.queue.outgoing.starts_with(b"*2\r\n$4\r\nPING\r\n"));
        all.queue.refuse(None, &mut all.deliveries);
        assert!(all.ask(question(b"x")).try_recv().is_err());
    }

    #[test]
    fn under_load_a_marker_shows_that_replies_are_in_step() {
        let mut all = Fixture::new();
        let _a = all.ask(question(b"a"));
        all.now += MARK_EVERY;
        let _b = all.ask(question(b"b"));
        let _c = all.ask(question(b"c"));
        assert_eq!(all.queue.asked.len(), 4);
        all.reply(Value::Int(0)).unwrap();
        assert!(all.reply(Value::Int(0)).is_err(), "one reply too many");
    }
}
