//! The queue in front of a connection: commands and batches of decisions on their way to the server, in order, and those
//! that wait for their turn.
//!
//! Nothing here is sent or received. Whoever gives up while waiting has asked nothing.
//!
//! A reply is believed for the number of its question in it. An error has none: it is believed once a later reply with
//! the right number has shown that nothing was doubled, lost or swapped before it. Where no such reply is on its way, or the
//! next one is an error too, a marker is sent for that.

use std::collections::VecDeque;
use std::task::Waker;
use std::time::{Duration, Instant};

use redis::{ServerError, Value};
use tokio::sync::oneshot;

use self::replies::{OutOfStep, Replies};
use crate::error::StoreError;
use crate::observe;
use crate::store::redis::batching::batch::{self, Batch, Batches};
use crate::store::redis::batching::item::Item;
use crate::store::redis::batching::members::Decided;
use crate::store::redis::batching::room::Room;
use crate::store::redis::wire::question::{Answer, NoAnswer, Question, Reply};

pub(crate) mod replies;
#[cfg(test)]
mod simulation;

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
    Commands(Commands),
    Batch(Batch),
    /// A `PING`, whose reply a caller may wait for.
    Marker(Option<oneshot::Sender<Answer>>, Replies),
}

#[derive(Debug)]
struct Commands {
    answer: oneshot::Sender<Answer>,
    replies: Replies,
}

/// What has been answered without a number.
#[derive(Debug)]
enum Doubted {
    Commands(Commands),
    Batch(Batch, ServerError),
}

/// Who is to be told something, once no lock is held.
#[derive(Debug, Default)]
pub(super) struct Deliveries {
    answers: Vec<(oneshot::Sender<Answer>, Answer)>,
    wakers: Vec<Waker>,
    /// How many decisions each command carries that has been written.
    commands: observe::Commands,
}

#[derive(Debug)]
pub(super) struct Queue {
    waiting: VecDeque<Waiting>,
    batches: Batches,
    asked: VecDeque<Asked>,
    /// Replies that wait for one that has a number.
    doubted: Vec<Doubted>,
    /// How many commands and decisions are on their way.
    on_the_way: usize,
    /// In how many calls the decisions, and in how many questions.
    calls: usize,
    questions: usize,
    /// How many questions make a call that need not wait for more.
    full: usize,
    /// What is to be sent next.
    pub(crate) outgoing: Vec<u8>,
    sent: u64,
    room: Room,
    refusing: Option<StoreError>,
}

/// Which decisions share calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sharing {
    None,
    /// Those on one key.
    Keys,
    All,
}

/// The waiting list keeps room for this many callers; more is given back after a flood.
const KEPT: usize = 1024;
/// The buffer keeps room for this many bytes.
const KEPT_BYTES: usize = 64 * 1024;

/// Calls of fewer questions are not worth being told apart.
const SMALLEST: usize = 8;

impl Queue {
    pub(crate) fn new(sharing: Sharing) -> Self {
        Self {
            waiting: VecDeque::new(),
            batches: Batches::new(sharing != Sharing::None),
            asked: VecDeque::new(),
            doubted: Vec::new(),
            on_the_way: 0,
            calls: 0,
            questions: 0,
            full: if sharing == Sharing::All { batch::QUESTIONS } else { 1 },
            outgoing: Vec::new(),
            sent: 0,
            room: Room::new(),
            refusing: None,
        }
    }

    /// Whether nothing is on its way, nor about to be.
    pub(super) fn is_idle(&self) -> bool {
        self.asked.is_empty() && self.waiting.is_empty() && self.batches.is_empty()
    }

    /// Takes a question in; says whether there is something to be sent.
    pub(crate) fn ask(&mut self, question: Question, answer: oneshot::Sender<Answer>, now: Instant) -> bool {
        if let Some(error) = &self.refusing {
            let _ = answer.send(Err(NoAnswer::Refused(error.clone())));
            return false;
        }
        self.room.asked(question.timeout_at, now);
        if self.waiting.is_empty() && self.room.is_left(self.on_the_way) {
            self.put(question, answer, now);
            return true;
        }
        self.room.full();
        self.waiting.push_back(Waiting { question, answer });
        false
    }

    /// Takes a decision in. It waits for [`move_up`](Self::move_up).
    pub(crate) fn decide(&mut self, item: &Item<'_>, waker: &Waker, now: Instant) -> Result<usize, NoAnswer> {
        if let Some(error) = &self.refusing {
            return Err(NoAnswer::Refused(error.clone()));
        }
        self.room.asked(item.timeout_at, now);
        Ok(self.batches.enter(item, waker))
    }

    /// What was decided; see [`Batches::poll`].
    pub(crate) fn decided(&mut self, member: usize, waker: &Waker) -> Result<Decided, Option<Waker>> {
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
    pub(crate) fn ping(&mut self, answer: Option<oneshot::Sender<Answer>>, now: Instant) {
        let Question { packed, expected, .. } = Question::marker();
        self.write(&packed, What::Marker(answer, Replies::new(expected)), now);
    }

    fn put(&mut self, question: Question, answer: oneshot::Sender<Answer>, now: Instant) {
        let Question { packed, expected, .. } = question;
        self.write(&packed, What::Commands(Commands { answer, replies: Replies::new(expected) }), now);
    }

    fn write(&mut self, packed: &[u8], what: What, now: Instant) {
        self.asked.push_back(Asked { what, starts_at: self.end(), at: now });
        self.on_the_way += 1;
        self.outgoing.extend_from_slice(packed);
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
            self.put(question, answer, now);
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
    pub(crate) fn reply(
        &mut self,
        reply: Reply<'_>,
        now: Instant,
        deliveries: &mut Deliveries,
    ) -> Result<usize, OutOfStep> {
        let Asked { what, .. } = self.asked.front_mut().ok_or(OutOfStep)?;
        let records = match what {
            What::Batch(batch) => match &reply {
                Reply::Bulk(bytes) => Some(Batches::records(batch, bytes).ok_or(OutOfStep)?),
                Reply::Other(Value::ServerError(_)) => None,
                Reply::Other(_) => return Err(OutOfStep),
            },
            What::Commands(Commands { replies, .. }) | What::Marker(_, replies) => {
                replies.take(reply.into())?;
                if !replies.are_whole() {
                    return Ok(0);
                }
                return Ok(self.whole(now, None, deliveries));
            }
        };
        Ok(match (records, reply) {
            (None, Reply::Other(Value::ServerError(error))) => self.whole(now, Some(Err(error)), deliveries),
            (records, _) => self.whole(now, records.map(Ok), deliveries),
        })
    }

    /// All replies to the first question have come, which may be the records of a batch or an error. Says how many
    /// decisions that makes known.
    fn whole(&mut self, now: Instant, said: Option<Result<&[u8], ServerError>>, deliveries: &mut Deliveries) -> usize {
        let Some(Asked { what, at, .. }) = self.asked.pop_front() else { return 0 };
        let callers = if let What::Batch(batch) = &what { batch.callers } else { 1 };
        self.on_the_way -= callers;
        self.room.answered(now.saturating_duration_since(at), callers);
        if let What::Batch(batch) = &what {
            self.questions -= batch.questions();
            self.calls -= 1;
        }
        let mut decided = 0;
        match (what, said) {
            (What::Batch(batch), Some(Ok(records))) => {
                decided += self.believe(deliveries) + callers;
                self.batches.answer(batch, records, &mut deliveries.wakers);
            }
            (What::Batch(batch), Some(Err(error))) => self.doubted.push(Doubted::Batch(batch, error)),
            (What::Batch(batch), None) => self.batches.fail(batch, batch::lost, &mut deliveries.wakers),
            (What::Commands(commands), _) if commands.replies.are_proven() => {
                decided += self.believe(deliveries);
                commands.deliver(deliveries);
            }
            (What::Commands(commands), _) => self.doubted.push(Doubted::Commands(commands)),
            (What::Marker(answer, replies), _) => {
                // Also where it was answered with an error, as it is by a server that does not serve: nothing more can be known.
                decided += self.believe(deliveries);
                deliveries.answers.extend(answer.map(|answer| (answer, Ok(replies.into_answer()))));
            }
        }
        if self.needs_marker() {
            self.ping(None, now);
        }
        decided
    }

    /// Whether nothing that is on its way is sure to show whether an error is to be believed. Under load there is always
    /// something on its way, and after a second error in a row its reply may be the next one.
    fn needs_marker(&self) -> bool {
        let is_marker = |asked: &Asked| matches!(asked.what, What::Marker(..));
        match self.doubted.len() {
            0 => false,
            1 => self.asked.is_empty(),
            _ => !self.asked.iter().any(is_marker),
        }
    }

    /// Everything up to now was in step. Says how many decisions that makes known.
    fn believe(&mut self, deliveries: &mut Deliveries) -> usize {
        let mut decided = 0;
        for doubted in std::mem::take(&mut self.doubted) {
            match doubted {
                Doubted::Commands(commands) => commands.deliver(deliveries),
                Doubted::Batch(batch, error) => {
                    decided += batch.callers;
                    self.batches.answer_error(batch, &error, &mut deliveries.wakers);
                    if let Some(error) = &self.refusing {
                        // No decision is asked for again.
                        self.batches.fail_waiting(|| NoAnswer::Refused(error.clone()), &mut deliveries.wakers);
                    }
                }
            }
        }
        decided
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

    /// Callers that wait are to ask elsewhere.
    pub(super) fn hand_back(&mut self, deliveries: &mut Deliveries) {
        let waiting = self.waiting.drain(..);
        deliveries.answers.extend(waiting.map(|waiting| (waiting.answer, Err(NoAnswer::NotAsked))));
        self.batches.fail_waiting(|| NoAnswer::NotAsked, &mut deliveries.wakers);
    }

    /// Nothing will be sent or received any more.
    pub(super) fn close(&mut self, error: &StoreError, deliveries: &mut Deliveries) {
        for doubted in self.doubted.drain(..) {
            let why = || NoAnswer::Lost(error.clone());
            match doubted {
                Doubted::Commands(commands) => deliveries.answers.push((commands.answer, Err(why()))),
                Doubted::Batch(batch, _) => self.batches.fail(batch, why, &mut deliveries.wakers),
            }
        }
        for Asked { what, starts_at, .. } in self.asked.drain(..) {
            let was_sent = starts_at < self.sent;
            let why = || if was_sent { NoAnswer::Lost(error.clone()) } else { NoAnswer::NotAsked };
            match what {
                What::Commands(Commands { answer, .. }) | What::Marker(Some(answer), _) => {
                    deliveries.answers.push((answer, Err(why())));
                }
                What::Marker(None, _) => {}
                What::Batch(batch) => self.batches.fail(batch, why, &mut deliveries.wakers),
            }
        }
        self.hand_back(deliveries);
        self.outgoing = Vec::new();
        (self.on_the_way, self.calls, self.questions) = (0, 0, 0);
    }
}

impl Commands {
    fn deliver(self, deliveries: &mut Deliveries) {
        deliveries.answers.push((self.answer, Ok(self.replies.into_answer())));
    }
}

#[cfg(test)]
impl Queue {
    pub(super) fn waits(&self, member: usize) -> bool {
        self.batches.waits(member)
    }

    pub(crate) fn members(&self) -> usize {
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
    #![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test")]

    use super::*;
    use crate::store::redis::scripts::number::Number;
    use crate::store::redis::wire::question::Expected;

    /// A question of so many bytes, whose reply is a number.
    fn question(bytes: &[u8]) -> Question {
        let is_int = |value: &Value| matches!(value, Value::Int(_));
        let Question { expected, .. } = Question::command(&redis::cmd("x"), is_int);
        Question { packed: bytes.to_vec(), expected, timeout_at: None }
    }

    fn error(code: &str) -> Value {
        redis::parse_redis_value(format!("-{code} x\r\n").as_bytes()).unwrap()
    }

    /// What a server says that does as it is told, but to commands that give an error or a number.
    fn said(expected: &Expected, to_command: &Value) -> Value {
        let echo = |number: &Number| {
            let packed = number.ping().get_packed_command();
            Value::BulkString(packed.split(|byte| *byte == b'\n').nth(4).unwrap().trim_ascii().to_vec())
        };
        match expected {
            Expected::Okay => Value::Okay,
            Expected::Queued => Value::SimpleString("QUEUED".into()),
            Expected::Like(_) => to_command.clone(),
            Expected::Script(number, _) => Value::BulkString(number.bytes().to_vec()),
            Expected::Echo(number) => echo(number),
            Expected::Executed(number) => Value::Array(vec![to_command.clone(), echo(number)]),
        }
    }

    struct Fixture {
        queue: Queue,
        now: Instant,
        deliveries: Deliveries,
    }

    impl Fixture {
        fn new() -> Self {
            Self { queue: Queue::new(Sharing::All), now: Instant::now(), deliveries: Deliveries::default() }
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

        /// The replies to all that is on its way.
        fn said(&self, to_command: &Value) -> Vec<Value> {
            let replies = self.queue.asked.iter().filter_map(|asked| match &asked.what {
                What::Commands(Commands { replies, .. }) | What::Marker(_, replies) => Some(replies),
                What::Batch(_) => None,
            });
            replies.flat_map(Replies::expected).map(|expected| said(&expected, to_command)).collect()
        }

        fn reply(&mut self, reply: Value) -> Result<(), OutOfStep> {
            let result = self.queue.reply(Reply::Other(reply), self.now, &mut self.deliveries);
            self.deliver();
            result.map(drop)
        }

        /// Answers so many questions.
        fn answer(&mut self, questions: usize) {
            let all = self.said(&Value::Int(1));
            for reply in all.into_iter().take(2 * questions) {
                self.reply(reply).unwrap();
            }
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
        let mut replies = all.said(&Value::Int(1));
        replies[2] = Value::Int(2);
        for reply in replies {
            all.reply(reply).unwrap();
        }
        assert_eq!(a.try_recv().unwrap().unwrap(), Value::Int(1));
        assert_eq!(b.try_recv().unwrap().unwrap(), Value::Int(2));
        assert!(all.reply(Value::Int(3)).is_err(), "nobody asked");
    }

    /// Whatever is doubled, lost or swapped with the next, and whether it is an error: who is answered is answered what was
    /// said to it, and the rest is not.
    #[test]
    fn a_reply_is_believed_by_its_own_question_alone() {
        let transaction = || Question::transaction(redis::Pipeline::new().cmd("x"));
        let script = || Question::script(|_| b"s".to_vec(), |_| true);
        let questions: [&dyn Fn() -> Question; 4] =
            [&|| question(b"q"), &script, &transaction, &|| question(b"q").asking()];
        let (mut believed, mut ended) = (0, 0);
        for (kinds, fault) in (0..64).flat_map(|kinds| (0..40).map(move |fault| (kinds, fault))) {
            let mut all = Fixture::new();
            let mut callers: Vec<_> =
                [kinds % 4, kinds / 4 % 4, kinds / 16].map(|kind| all.ask(questions[kind]())).into_iter().collect();
            // What is said to the second is an error.
            let mut replies = Vec::new();
            for (index, asked) in all.queue.asked.iter().enumerate() {
                let What::Commands(Commands { replies: expected, .. }) = &asked.what else { unreachable!() };
                for expected in expected.expected() {
                    let number = i64::try_from(index).unwrap();
                    replies.push(match (&expected, index) {
                        (Expected::Like(_) | Expected::Script(..), 1) => error("WRONGTYPE"),
                        (Expected::Executed(_), 1) => error("EXECABORT"),
                        _ => said(&expected, &Value::Int(number)),
                    });
                }
            }
            let place = fault / 3;
            if place + 1 >= replies.len() {
                continue;
            }
            match fault % 3 {
                0 => replies.insert(place, replies[place].clone()),
                1 => drop(replies.remove(place)),
                _ => replies.swap(place, place + 1),
            }
            all.queue.sent(all.queue.outgoing.len());
            let mut fits = true;
            for reply in replies {
                fits = fits && all.reply(reply).is_ok();
            }
            // A server goes on answering, one reply late or early.
            while fits && !all.queue.asked.is_empty() {
                let Some(next) = all.said(&Value::Int(9)).into_iter().nth(usize::from(fault % 3 == 0)) else { break };
                fits = all.reply(next).is_ok();
            }
            if !fits {
                ended += 1;
                all.queue.close(&StoreError::unavailable("x"), &mut all.deliveries);
                all.deliver();
            }
            for (index, caller) in callers.iter_mut().enumerate() {
                let what = format!("kinds {kinds:o}, fault {fault}, caller {index}");
                let number = Value::Int(i64::try_from(index).unwrap());
                match caller.try_recv() {
                    Ok(Ok(Value::ServerError(_))) => assert_eq!(index, 1, "{what}"),
                    Ok(Ok(Value::Array(replies))) => assert_eq!(replies, [number], "{what}"),
                    Ok(Ok(Value::BulkString(_))) => assert_ne!(index, 1, "{what}"),
                    Ok(Ok(reply)) => assert_eq!(reply, number, "{what}"),
                    Ok(Err(NoAnswer::Lost(_))) => continue,
                    other => assert!(other.is_err(), "{what}: {other:?}"),
                }
                believed += 1;
            }
        }
        assert!(believed > 500 && ended > 500, "{believed} believed, {ended} ended");
    }

    #[test]
    fn an_error_is_believed_once_a_number_has_come_behind_it() {
        let transaction = || Question::transaction(redis::Pipeline::new().cmd("x"));
        let mut all = Fixture::new();
        let mut alone = all.ask(transaction());
        for reply in [Value::Okay, error("OOM"), error("OOM"), error("EXECABORT")] {
            all.reply(reply).unwrap();
        }
        assert!(alone.try_recv().is_err() && !all.queue.is_idle(), "a marker is on its way");
        all.answer(1);
        assert!(matches!(alone.try_recv().unwrap().unwrap(), Value::ServerError(error) if error.code() == "OOM"));
        assert!(all.queue.is_idle());

        // A server that does not serve says so to a marker as well.
        let mut busy = all.ask(Question::script(|_| b"s".to_vec(), |_| true));
        all.reply(error("BUSY")).unwrap();
        assert!(busy.try_recv().is_err());
        all.reply(error("BUSY")).unwrap();
        assert!(matches!(busy.try_recv().unwrap().unwrap(), Value::ServerError(error) if error.code() == "BUSY"));

        // What is about a key is never said to a marker.
        let mut shifted = all.ask(Question::script(|_| b"s".to_vec(), |_| true));
        all.queue.sent(all.queue.outgoing.len());
        all.reply(error("WRONGTYPE")).unwrap();
        assert!(all.reply(error("WRONGTYPE")).is_err());
        all.queue.close(&StoreError::unavailable("x"), &mut all.deliveries);
        all.deliver();
        assert!(matches!(shifted.try_recv().unwrap(), Err(NoAnswer::Lost(_))));
    }

    /// After `SCRIPT FLUSH`, say, under a load that leaves the connection never without a question.
    #[test]
    fn errors_are_believed_while_more_is_asked_all_the_time() {
        let script = || Question::script(|_| b"s".to_vec(), |_| true);
        let mut all = Fixture::new();
        let mut callers = vec![all.ask(script())];
        for _ in 0..20 {
            callers.push(all.ask(script()));
            while matches!(all.queue.asked[0].what, What::Marker(..)) {
                let echo = all.said(&Value::Nil).remove(0);
                all.reply(echo).unwrap();
            }
            all.reply(error("NOSCRIPT")).unwrap();
            assert!(!all.queue.asked.is_empty());
        }
        let told = callers.iter_mut().filter_map(|caller| caller.try_recv().ok()).count();
        assert!(told >= 16, "{told} of 20");
    }

    #[test]
    fn a_reply_that_cannot_be_the_one_ends_it_all() {
        let mut all = Fixture::new();
        let mut a = all.ask(question(b"a"));
        let mut b = all.ask(question(b"b"));
        all.queue.sent(2);
        assert!(all.reply(Value::Okay).is_err());
        all.queue.close(&StoreError::unavailable("x"), &mut all.deliveries);
        all.deliver();
        assert!(matches!(a.try_recv().unwrap(), Err(NoAnswer::Lost(_))));
        assert!(matches!(b.try_recv().unwrap(), Err(NoAnswer::Lost(_))));
    }

    #[test]
    fn a_caller_who_gives_up_before_its_turn_has_asked_nothing() {
        let mut all = Fixture::new();
        let mut first = all.fill();
        let last = all.ask(question(b"y"));
        drop(first.pop());
        all.queue.outgoing.clear();
        all.answer(2);
        all.move_up();
        assert_eq!(all.queue.outgoing, b"y");
        drop(last);
        // Its reply is taken in and counts, although nobody is there.
        let asked = all.queue.asked.len();
        all.answer(asked);
        assert!(all.queue.is_idle());
    }

    #[test]
    fn whoever_has_no_time_left_is_told_so() {
        let mut all = Fixture::new();
        let _first = all.fill();
        let mut late = all.ask(Question { timeout_at: Some(all.now), ..question(b"y") });
        all.answer(3);
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
}
