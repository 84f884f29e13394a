//! The queue in front of a connection: questions on their way to the server, in order, and those that wait for their
//! turn.
//!
//! Nothing here is sent or received. Whoever gives up while waiting has asked nothing.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use redis::Value;
use tokio::sync::oneshot;

use super::question::{Answer, Expected, NoAnswer, Question};
use super::room::Room;
use crate::error::StoreError;

#[derive(Debug)]
struct Waiting {
    question: Question,
    answer: oneshot::Sender<Answer>,
}

/// A question on its way to the server, or back.
#[derive(Debug)]
struct Asked {
    /// Nobody is there for the reply to a marker.
    answer: Option<oneshot::Sender<Answer>>,
    expected: Expected,
    replies: usize,
    got: Vec<Value>,
    /// Its place in the stream of all bytes sent.
    starts_at: u64,
    at: Instant,
}

/// An answer, and whom it is for.
pub(super) type Delivery = (oneshot::Sender<Answer>, Answer);

/// A reply that cannot be the one to its question.
#[derive(Debug)]
pub(super) struct OutOfStep;

#[derive(Debug)]
pub(super) struct Queue {
    waiting: VecDeque<Waiting>,
    asked: VecDeque<Asked>,
    /// What is to be sent next.
    pub(super) outgoing: Vec<u8>,
    sent: u64,
    room: Room,
    refusing: Option<StoreError>,
    /// When a marker was sent last, and its number.
    marked: Instant,
    mark: u64,
}

/// How often, under load, a marker is sent along: its reply shows that replies and questions are still in step.
const MARK_EVERY: Duration = Duration::from_secs(1);

/// The waiting list keeps room for this many callers; more is given back after a flood.
const KEPT: usize = 1024;

impl Queue {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            waiting: VecDeque::new(),
            asked: VecDeque::new(),
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
        self.asked.is_empty() && self.waiting.is_empty()
    }

    /// Takes a question in; says whether there is something to be sent.
    pub(super) fn ask(&mut self, question: Question, answer: oneshot::Sender<Answer>, now: Instant) -> bool {
        if let Some(error) = &self.refusing {
            let _ = answer.send(Err(NoAnswer::Refused(error.clone())));
            return false;
        }
        if let Some(until) = question.timeout_at {
            self.room.asked(until.saturating_duration_since(now));
        }
        if self.waiting.is_empty() && self.room.is_left(self.asked.len()) {
            self.put(question, Some(answer), now);
            return true;
        }
        self.room.full();
        self.waiting.push_back(Waiting { question, answer });
        false
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
        // With nothing on its way, a stray reply shows by itself.
        if answer.is_some() && !self.asked.is_empty() && now.saturating_duration_since(self.marked) >= MARK_EVERY {
            self.ping(None, now);
        }
        let Question { packed, replies, expected, .. } = question;
        let starts_at = self.sent + len(&self.outgoing);
        self.asked.push_back(Asked { answer, expected, replies, got: Vec::new(), starts_at, at: now });
        if self.outgoing.is_empty() {
            self.outgoing = packed;
        } else {
            self.outgoing.extend_from_slice(&packed);
        }
    }

    /// Moves up those who wait, as far as there is room.
    pub(super) fn move_up(&mut self, now: Instant, deliveries: &mut Vec<Delivery>) {
        self.room.taken_in(self.asked.is_empty(), !self.waiting.is_empty());
        while self.room.is_left(self.asked.len()) {
            let Some(Waiting { question, answer }) = self.waiting.pop_front() else {
                // What a flood took is given back.
                self.waiting.shrink_to(KEPT);
                return;
            };
            let left = question.timeout_at.map(|until| until.saturating_duration_since(now));
            if answer.is_closed() {
                continue;
            }
            if left.is_some_and(|left| self.room.is_late(left)) {
                deliveries.push((answer, Err(NoAnswer::TooLate)));
                continue;
            }
            self.put(question, Some(answer), now);
        }
    }

    /// Notes how much of [`outgoing`](Self::outgoing) the system has taken.
    pub(super) fn sent(&mut self, bytes: usize) {
        self.sent += u64::try_from(bytes).unwrap_or(u64::MAX);
        if bytes >= self.outgoing.len() {
            self.outgoing.clear();
        } else {
            self.outgoing.drain(..bytes);
        }
    }

    /// Takes in the next reply.
    pub(super) fn reply(
        &mut self,
        reply: Value,
        now: Instant,
        deliveries: &mut Vec<Delivery>,
    ) -> Result<(), OutOfStep> {
        let asked = self.asked.front_mut().ok_or(OutOfStep)?;
        let position = asked.got.len() + 1;
        if !asked.expected.allows(&reply, position == 1, position == asked.replies) {
            return Err(OutOfStep);
        }
        let is_one = asked.replies == 1;
        if !is_one {
            asked.got.push(reply);
            if asked.got.len() < asked.replies {
                return Ok(());
            }
        } else if let Some(answer) = asked.answer.take() {
            deliveries.push((answer, Ok(reply)));
        }
        let Some(asked) = self.asked.pop_front() else { return Ok(()) };
        self.room.answered(now.saturating_duration_since(asked.at));
        if let (false, Some(answer)) = (is_one, asked.answer) {
            deliveries.push((answer, Ok(Value::Array(asked.got))));
        }
        Ok(())
    }

    /// From now on nothing is asked, if there is an error to say instead; whoever waits is told.
    pub(super) fn refuse(&mut self, error: Option<StoreError>, deliveries: &mut Vec<Delivery>) {
        if let Some(error) = &error {
            let refused = self.waiting.drain(..);
            deliveries.extend(refused.map(|waiting| (waiting.answer, Err(NoAnswer::Refused(error.clone())))));
        }
        self.refusing = error;
    }

    /// Nothing will be sent or received any more.
    pub(super) fn close(&mut self, error: &StoreError, deliveries: &mut Vec<Delivery>) {
        for asked in self.asked.drain(..) {
            let answer = if asked.starts_at >= self.sent { NoAnswer::NotAsked } else { NoAnswer::Lost(error.clone()) };
            deliveries.extend(asked.answer.map(|sender| (sender, Err(answer))));
        }
        deliveries.extend(self.waiting.drain(..).map(|waiting| (waiting.answer, Err(NoAnswer::NotAsked))));
        self.outgoing = Vec::new();
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
        deliveries: Vec<Delivery>,
    }

    impl Fixture {
        fn new() -> Self {
            let now = Instant::now();
            Self { queue: Queue::new(now), now, deliveries: Vec::new() }
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
            let result = self.queue.reply(reply, self.now, &mut self.deliveries);
            self.deliver();
            result
        }

        fn deliver(&mut self) {
            for (sender, answer) in self.deliveries.drain(..) {
                let _ = sender.send(answer);
            }
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
        let soon = all.now + Duration::from_micros(1);
        let mut late = all.ask(Question { timeout_at: Some(soon), ..question(b"y") });
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
