//! Groups that share calls, with a server that answers what it is told to.

use super::*;
use crate::store::redis::scripts::group::{Group, GroupScript};
use crate::store::redis::scripts::protocol::{self, Question};

fn group(keys: [&str; 2]) -> Group {
    Group::new(GroupScript::Limits, None, keys.iter().map(|key| (key.as_bytes(), Question::from_slice(b"question"))))
}

impl Fixture {
    fn sharing(sharing: Sharing) -> Self {
        Self { queue: InFlightQueue::new(sharing), ..Self::new() }
    }

    fn send_group(&mut self, keys: [&str; 2]) -> oneshot::Receiver<CallResult> {
        self.send(Commands::group(group(keys)))
    }

    /// The keys of the groups that have been written since the last time, a list for each call.
    fn written(&mut self) -> Vec<Vec<String>> {
        let outgoing = String::from_utf8_lossy(&self.queue.outgoing).into_owned();
        self.queue.note_sent(self.queue.outgoing.len());
        let calls = outgoing.split("EVAL").skip(1);
        let keys = |call: &str| call.lines().filter(|text| text.starts_with("key")).map(str::to_owned).collect();
        calls.map(keys).collect()
    }

    /// Answers the first call with these records.
    fn answer_groups(&mut self, records: &[Vec<u8>]) -> Result<(), OutOfStep> {
        let Some(InFlight { call: InFlightCall::Groups(batch), .. }) = self.queue.in_flight.front() else {
            unreachable!("groups are in flight")
        };
        let reply = [batch.number.bytes().as_slice(), &records.concat()].concat();
        let taken = self.queue.reply(Reply::Bulk(&reply), self.now, &mut self.deliveries);
        self.deliver();
        taken.map(drop)
    }
}

fn record(flags: u8, calls: u8) -> Vec<u8> {
    [&[flags, 0, calls, 0], [0; 32].as_slice()].concat()
}

fn admitted() -> Vec<u8> {
    [record(1, 1), record(1, 1)].concat()
}

fn failed() -> Vec<u8> {
    let message = b"WRONGTYPE x";
    [&[128, 0, u8::try_from(message.len()).unwrap(), 0], message.as_slice()].concat()
}

/// How many verdicts a caller is given.
fn verdicts(caller: &mut oneshot::Receiver<CallResult>) -> usize {
    protocol::verdicts(&caller.try_recv().unwrap().unwrap()).unwrap().len()
}

#[test]
fn groups_that_come_during_a_call_share_the_next_and_each_is_told_its_own() {
    let mut all = Fixture::sharing(Sharing::All);
    let mut first = all.send_group(["key0", "key0"]);
    all.move_up();
    let mut callers: Vec<_> = ["key1", "key2", "key3", "key4"].map(|key| all.send_group([key, "keys"])).into();
    drop(callers.remove(3));
    all.move_up();
    assert_eq!(all.written(), [vec!["key0", "key0"], vec!["key1", "keys", "key2", "keys", "key3", "keys"]]);
    all.answer_groups(&[admitted()]).unwrap();
    assert_eq!(verdicts(&mut first), 2);
    // One fails alone, and one is put off.
    all.answer_groups(&[failed(), record(64, 2), admitted()]).unwrap();
    assert!(
        matches!(callers[0].try_recv().unwrap().unwrap(), Value::ServerError(error) if error.code() == "WRONGTYPE")
    );
    assert!(callers[1].try_recv().is_err());
    assert_eq!(verdicts(&mut callers[2]), 2);
    let _later = all.send_group(["key5", "keys"]);
    all.move_up();
    assert_eq!(all.written(), [["key2", "keys", "key5", "keys"]], "it is asked again, ahead of those that came later");
    all.answer_groups(&[admitted(), admitted()]).unwrap();
    assert_eq!(verdicts(&mut callers[1]), 2);
    assert!(all.queue.is_idle());
}

#[test]
fn groups_share_as_they_may() {
    for (sharing, expected) in [
        (Sharing::None, vec![vec!["key1", "key2"], vec!["key1", "key2"], vec!["key3", "key2"]]),
        (Sharing::Keys, vec![vec!["key1", "key2", "key1", "key2"], vec!["key3", "key2"]]),
        (Sharing::All, vec![vec!["key1", "key2", "key1", "key2", "key3", "key2"]]),
    ] {
        let mut all = Fixture::sharing(sharing);
        let _callers = ["key1", "key1", "key3"].map(|key| all.send_group([key, "key2"]));
        all.move_up();
        assert_eq!(all.written(), expected, "{sharing:?}");
    }
}

#[test]
fn a_reply_to_groups_that_does_not_fit_is_out_of_step() {
    let later = [record(64, 2), admitted()].concat();
    for records in [
        vec![],
        vec![admitted()],
        vec![admitted(), admitted(), admitted()],
        vec![admitted(), record(1, 1)],
        vec![record(1, 2), admitted()],
        vec![record(64, 1), admitted()],
        vec![admitted(), record(1, 1), failed()],
        vec![later, record(1, 1)],
    ] {
        let mut all = Fixture::new();
        let _callers = ["key1", "key2"].map(|key| all.send_group([key, key]));
        all.move_up();
        assert!(all.answer_groups(&records).is_err(), "{records:?}");
    }
}

#[test]
fn a_script_that_is_not_known_is_sent_once_and_groups_keep_their_order() {
    let mut all = Fixture::new();
    let mut callers = Vec::new();
    for key in ["key1", "key2"] {
        callers.push(all.send_group([key, "keys"]));
        all.move_up();
    }
    callers.push(all.send_group(["key3", "keys"]));
    all.written();
    for _ in 0..2 {
        all.reply(error("NOSCRIPT")).unwrap();
    }
    // Errors are believed once the marker is answered.
    let echo = all.said(&Value::Nil).remove(0);
    all.reply(echo).unwrap();
    all.move_up();
    let _later = all.send_group(["key4", "keys"]);
    all.move_up();
    assert!(all.queue.outgoing.starts_with(b"*"));
    assert_eq!(all.written(), [["key1", "keys", "key2", "keys", "key3", "keys"]], "the next waits until it is known");
    all.answer_groups(&[admitted(), admitted(), admitted()]).unwrap();
    assert!(callers.iter_mut().all(|caller| verdicts(caller) == 2));
    all.move_up();
    assert_eq!(all.written(), [["key4", "keys"]]);
}

#[test]
fn of_groups_on_a_connection_that_ends_those_that_were_not_sent_may_be_asked_again() {
    let mut all = Fixture::new();
    let mut sent = all.send_group(["key1", "keys"]);
    all.move_up();
    all.written();
    let mut written = all.send_group(["key2", "keys"]);
    all.move_up();
    let mut waiting = all.send_group(["key3", "keys"]);
    all.queue.close(&StoreError::unavailable("x"), &mut all.deliveries);
    all.deliver();
    assert!(matches!(sent.try_recv().unwrap(), Err(CallError::Lost(_))));
    assert!(matches!(written.try_recv().unwrap(), Err(CallError::NotSent)));
    assert!(matches!(waiting.try_recv().unwrap(), Err(CallError::NotSent)));
}
