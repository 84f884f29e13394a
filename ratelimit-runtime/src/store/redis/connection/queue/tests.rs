//! The queue with a server that answers what it is told to.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test")]

use redis::Value;

use super::replies::OutOfStep;
use super::*;
use crate::store::redis::scripts::number::Number;
use crate::store::redis::wire::commands::{Expected, Reply};

mod groups;

/// A question of so many bytes, whose reply is a number.
fn commands(bytes: &[u8]) -> Commands {
    let is_int = |value: &Value| matches!(value, Value::Int(_));
    let Commands { expected, .. } = Commands::one(&redis::cmd("x"), is_int);
    Commands { packed: bytes.to_vec(), expected, group: None, timeout_at: None }
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
    queue: InFlightQueue,
    now: Instant,
    deliveries: Deliveries,
}

impl Fixture {
    fn new() -> Self {
        Self { queue: InFlightQueue::new(Sharing::All), now: Instant::now(), deliveries: Deliveries::default() }
    }

    fn send(&mut self, commands: Commands) -> oneshot::Receiver<CallResult> {
        let (sender, receiver) = oneshot::channel();
        self.queue.send(commands, sender, self.now);
        receiver
    }

    /// Asks until a call has to wait.
    fn fill(&mut self) -> Vec<oneshot::Receiver<CallResult>> {
        let mut all = Vec::new();
        while self.queue.waiting.is_empty() {
            all.push(self.send(commands(b"x")));
        }
        all
    }

    /// The replies to all that is in flight.
    fn said(&self, to_command: &Value) -> Vec<Value> {
        let replies = self.queue.in_flight.iter().filter_map(|in_flight| match &in_flight.call {
            InFlightCall::Commands(PendingCommands { replies, .. }) | InFlightCall::Marker(_, replies) => Some(replies),
            InFlightCall::Batch(_) | InFlightCall::Groups(_) => None,
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
    let (mut a, mut b) = (all.send(commands(b"a")), all.send(commands(b"b")));
    assert_eq!(all.queue.outgoing, b"ab");
    let mut replies = all.said(&Value::Int(1));
    replies[2] = Value::Int(2);
    for reply in replies {
        all.reply(reply).unwrap();
    }
    assert_eq!(a.try_recv().unwrap().unwrap(), Value::Int(1));
    assert_eq!(b.try_recv().unwrap().unwrap(), Value::Int(2));
    assert!(all.reply(Value::Int(3)).is_err(), "no call asked");
}

/// Whatever is doubled, lost or swapped with the next, and whether it is an error: who is answered
/// is answered what was said to it, and the rest is not.
#[test]
fn a_reply_is_believed_by_its_own_question_alone() {
    let transaction = || Commands::transaction(redis::Pipeline::new().cmd("x"));
    let script = || Commands::script(|_| b"s".to_vec(), |_| true);
    let questions: [&dyn Fn() -> Commands; 4] =
        [&|| commands(b"q"), &script, &transaction, &|| commands(b"q").asking()];
    let (mut believed, mut ended) = (0, 0);
    for (mix, fault) in (0..64).flat_map(|mix| (0..40).map(move |fault| (mix, fault))) {
        let mut all = Fixture::new();
        let mut callers: Vec<_> =
            [mix % 4, mix / 4 % 4, mix / 16].map(|kind| all.send(questions[kind]())).into_iter().collect();
        // What is said to the second is an error.
        let mut replies = Vec::new();
        for (index, in_flight) in all.queue.in_flight.iter().enumerate() {
            let InFlightCall::Commands(PendingCommands { replies: expected, .. }) = &in_flight.call else {
                unreachable!()
            };
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
        all.queue.note_sent(all.queue.outgoing.len());
        let mut fits = true;
        for reply in replies {
            fits = fits && all.reply(reply).is_ok();
        }
        // A server goes on answering, one reply late or early.
        while fits && !all.queue.in_flight.is_empty() {
            let Some(next) = all.said(&Value::Int(9)).into_iter().nth(usize::from(fault % 3 == 0)) else { break };
            fits = all.reply(next).is_ok();
        }
        if !fits {
            ended += 1;
            all.queue.close(&StoreError::unavailable("x"), &mut all.deliveries);
            all.deliver();
        }
        for (index, caller) in callers.iter_mut().enumerate() {
            let what = format!("mix {mix:o}, fault {fault}, caller {index}");
            let number = Value::Int(i64::try_from(index).unwrap());
            match caller.try_recv() {
                Ok(Ok(Value::ServerError(_))) => assert_eq!(index, 1, "{what}"),
                Ok(Ok(Value::Array(replies))) => assert_eq!(replies, [number], "{what}"),
                Ok(Ok(Value::BulkString(_))) => assert_ne!(index, 1, "{what}"),
                Ok(Ok(reply)) => assert_eq!(reply, number, "{what}"),
                Ok(Err(CallError::Lost(_))) => continue,
                other => assert!(other.is_err(), "{what}: {other:?}"),
            }
            believed += 1;
        }
    }
    assert!(believed > 500 && ended > 500, "{believed} believed, {ended} ended");
}

#[test]
fn an_error_is_believed_once_a_number_has_come_behind_it() {
    let transaction = || Commands::transaction(redis::Pipeline::new().cmd("x"));
    let mut all = Fixture::new();
    let mut alone = all.send(transaction());
    for reply in [Value::Okay, error("OOM"), error("OOM"), error("EXECABORT")] {
        all.reply(reply).unwrap();
    }
    assert!(alone.try_recv().is_err() && !all.queue.is_idle(), "a marker is on its way");
    all.answer(1);
    assert!(matches!(alone.try_recv().unwrap().unwrap(), Value::ServerError(error) if error.code() == "OOM"));
    assert!(all.queue.is_idle());

    // A server that does not serve says so to a marker as well.
    let mut busy = all.send(Commands::script(|_| b"s".to_vec(), |_| true));
    all.reply(error("BUSY")).unwrap();
    assert!(busy.try_recv().is_err());
    all.reply(error("BUSY")).unwrap();
    assert!(matches!(busy.try_recv().unwrap().unwrap(), Value::ServerError(error) if error.code() == "BUSY"));

    // What is about a key is never said to a marker.
    let mut shifted = all.send(Commands::script(|_| b"s".to_vec(), |_| true));
    all.queue.note_sent(all.queue.outgoing.len());
    all.reply(error("WRONGTYPE")).unwrap();
    assert!(all.reply(error("WRONGTYPE")).is_err());
    all.queue.close(&StoreError::unavailable("x"), &mut all.deliveries);
    all.deliver();
    assert!(matches!(shifted.try_recv().unwrap(), Err(CallError::Lost(_))));
}

/// After `SCRIPT FLUSH`, say, under a load that leaves the connection never without a question.
#[test]
fn errors_are_believed_while_more_is_asked_all_the_time() {
    let script = || Commands::script(|_| b"s".to_vec(), |_| true);
    let mut all = Fixture::new();
    let mut callers = vec![all.send(script())];
    for _ in 0..20 {
        callers.push(all.send(script()));
        while matches!(all.queue.in_flight[0].call, InFlightCall::Marker(..)) {
            let echo = all.said(&Value::Nil).remove(0);
            all.reply(echo).unwrap();
        }
        all.reply(error("NOSCRIPT")).unwrap();
        assert!(!all.queue.in_flight.is_empty());
    }
    let told = callers.iter_mut().filter_map(|caller| caller.try_recv().ok()).count();
    assert!(told >= 16, "{told} of 20");
}

#[test]
fn a_reply_that_cannot_be_the_one_ends_it_all() {
    let mut all = Fixture::new();
    let mut a = all.send(commands(b"a"));
    let mut b = all.send(commands(b"b"));
    all.queue.note_sent(2);
    assert!(all.reply(Value::Okay).is_err());
    all.queue.close(&StoreError::unavailable("x"), &mut all.deliveries);
    all.deliver();
    assert!(matches!(a.try_recv().unwrap(), Err(CallError::Lost(_))));
    assert!(matches!(b.try_recv().unwrap(), Err(CallError::Lost(_))));
}

#[test]
fn a_caller_who_gives_up_before_its_turn_has_asked_nothing() {
    let mut all = Fixture::new();
    let mut first = all.fill();
    let last = all.send(commands(b"y"));
    drop(first.pop());
    all.queue.outgoing.clear();
    all.answer(2);
    all.move_up();
    assert_eq!(all.queue.outgoing, b"y");
    drop(last);
    // Its reply is taken in and counts, although its caller has left.
    let in_flight = all.queue.in_flight.len();
    all.answer(in_flight);
    assert!(all.queue.is_idle());
}

#[test]
fn a_caller_without_time_left_is_told_so() {
    let mut all = Fixture::new();
    let _first = all.fill();
    let mut late = all.send(Commands { timeout_at: Some(all.now), ..commands(b"y") });
    all.answer(3);
    all.move_up();
    assert!(matches!(late.try_recv().unwrap(), Err(CallError::TooLate)));
}

#[test]
fn what_was_not_sent_may_be_asked_again() {
    let mut all = Fixture::new();
    let (mut a, mut b, mut c) = (all.send(commands(b"aa")), all.send(commands(b"bb")), all.send(commands(b"cc")));
    all.queue.note_sent(3);
    assert_eq!(all.queue.outgoing, b"bcc");
    all.queue.close(&StoreError::unavailable("x"), &mut all.deliveries);
    all.deliver();
    assert!(matches!(a.try_recv().unwrap(), Err(CallError::Lost(_))));
    assert!(matches!(b.try_recv().unwrap(), Err(CallError::Lost(_))), "a part of it was");
    assert!(matches!(c.try_recv().unwrap(), Err(CallError::NotSent)));
}

#[test]
fn a_server_that_does_not_serve_is_only_pinged() {
    let mut all = Fixture::new();
    let mut waiting = all.fill().pop().unwrap();
    all.queue.set_unready(Some(StoreError::unavailable("slow")), &mut all.deliveries);
    all.deliver();
    assert!(matches!(waiting.try_recv().unwrap(), Err(CallError::Unready(_))));
    assert!(matches!(all.send(commands(b"x")).try_recv().unwrap(), Err(CallError::Unready(_))));
    all.queue.outgoing.clear();
    all.queue.ping(None, all.now);
    assert!(all.queue.outgoing.starts_with(b"*2\r\n$4\r\nPING\r\n"));
    all.queue.set_unready(None, &mut all.deliveries);
    assert!(all.send(commands(b"x")).try_recv().is_err());
}
