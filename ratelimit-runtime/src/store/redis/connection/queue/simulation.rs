//! The queue against a server that decides in Rust: random arrivals, callers who give up, replies
//! at any moment, and the end of the connection at any other.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test")]

use std::collections::{HashMap, HashSet, VecDeque};
use std::task::Waker;
use std::time::Instant;

use proptest::prelude::*;
use redis::{Value, parse_redis_value};

use super::deliveries::Deliveries;
use super::{InFlightQueue, Sharing};
use crate::Algorithm;
use crate::error::StoreError;
use crate::rule::Limit;
use crate::store::redis::batching::charge::{ChargeTerms, KeyCharge, SectionSharing};
use crate::store::redis::scripts::operation::Operation;
use crate::store::redis::scripts::protocol::{CALLS, COVERS};
use crate::store::redis::scripts::script::{self, Script};
use crate::store::redis::wire::commands::{CallError, Reply};
use crate::store::redis::wire::resp::{Parsed, parse};
use crate::store::{Request, Verdict};

/// The operation of a question.
const PEEK: u8 = 3;
const KEYS: [&[u8]; 4] = [b"a", b"b", b"c", b"broken"];

#[derive(Debug, Clone, Copy)]
enum Step {
    Ask(Asking),
    GiveUp(usize),
    /// The connection's turn.
    Turn,
    /// The system takes so many bytes.
    Send(usize),
    /// The server answers so many calls.
    Answer(usize),
    Flush,
}

#[derive(Debug, Clone, Copy)]
struct Asking {
    key: usize,
    max: u64,
    cost: u64,
    now: Option<u64>,
    is_late: bool,
    log: bool,
    peeks: bool,
}

/// A caller, and what has to come of it.
struct Caller {
    member: usize,
    terms: ChargeTerms,
    is_late: bool,
    /// What the server said to it.
    decided: Option<Result<Verdict, ()>>,
    is_over: bool,
}

/// A call that has reached the server, with its reply.
type Served = (Vec<(bool, Vec<u8>)>, Vec<u8>);

struct World {
    queue: InFlightQueue,
    sharing: Sharing,
    now: Instant,
    deliveries: Deliveries,
    callers: Vec<Caller>,
    /// Of each script and key, who is to be decided next, in order.
    order: HashMap<(bool, Vec<u8>), VecDeque<usize>>,
    used: HashMap<Vec<u8>, u64>,
    known: HashSet<String>,
    /// Keys of calls that were not known, until that is believed.
    unknown: Vec<(bool, Vec<u8>)>,
    wire: Vec<u8>,
    served: VecDeque<Served>,
    full_calls: usize,
    /// How many calls were served.
    calls: usize,
    not_known: usize,
}

fn script(log: bool) -> &'static Script {
    script::of(if log { Algorithm::SlidingWindow } else { Algorithm::FixedWindow })
}

fn string(bytes: &[u8]) -> Vec<u8> {
    [format!("${}\r\n", bytes.len()).as_bytes(), bytes, b"\r\n"].concat()
}

/// How many are still decided in a call, and how many of each key were put off.
struct Budget {
    most: u16,
    later: HashMap<Vec<u8>, usize>,
}

impl World {
    fn new(sharing: Sharing) -> Self {
        let now = Instant::now();
        let scripts = [true, false].map(|log| script(log).sha1().to_owned());
        Self {
            queue: InFlightQueue::new(sharing),
            sharing,
            now,
            deliveries: Deliveries::default(),
            callers: Vec::new(),
            order: HashMap::new(),
            used: HashMap::new(),
            // Where each decision is a call of its own, those that have to be asked again lose
            // their places.
            known: if sharing == Sharing::None { scripts.into() } else { HashSet::new() },
            unknown: Vec::new(),
            wire: Vec::new(),
            served: VecDeque::new(),
            full_calls: 0,
            calls: 0,
            not_known: 0,
        }
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Ask(asking) => self.ask(asking),
            Step::GiveUp(index) if !self.callers.is_empty() => self.give_up(index % self.callers.len()),
            Step::Turn => self.turn(),
            Step::Send(bytes) => self.send(bytes),
            Step::Answer(calls) => self.answer(calls),
            Step::Flush if self.shares_calls() => self.known.clear(),
            Step::GiveUp(_) | Step::Flush => {}
        }
        self.collect();
    }

    fn shares_calls(&self) -> bool {
        self.sharing != Sharing::None
    }

    fn ask(&mut self, asking: Asking) {
        let limits = [Limit::new(asking.max, std::time::Duration::from_secs(60))];
        let algorithm = if asking.log { Algorithm::SlidingWindow } else { Algorithm::FixedWindow };
        let request = Request::new(KEYS[asking.key], algorithm, &limits).with_cost(asking.cost);
        let operation = if asking.peeks { Operation::Peek } else { Operation::Acquire };
        let terms = ChargeTerms::new(operation, &request, None, asking.now);
        let timeout_at = asking.is_late.then_some(self.now);
        let charge = KeyCharge { script: script(asking.log), key: KEYS[asking.key], terms: terms.clone(), timeout_at };
        let member = self.queue.charge(&charge, Waker::noop(), self.now).unwrap();
        let caller = Caller { member, terms, is_late: asking.is_late, decided: None, is_over: false };
        self.callers.push(caller);
        if !asking.is_late {
            let order = self.order.entry((asking.log, KEYS[asking.key].to_vec())).or_default();
            order.push_back(self.callers.len() - 1);
        }
    }

    fn give_up(&mut self, index: usize) {
        if std::mem::replace(&mut self.callers[index].is_over, true) {
            return;
        }
        // One that was asked goes on counting.
        if self.queue.waits(self.callers[index].member) {
            for order in self.order.values_mut() {
                order.retain(|other| *other != index);
            }
        }
        self.queue.cancel(self.callers[index].member);
    }

    fn turn(&mut self) {
        self.queue.move_up(self.now, &mut self.deliveries);
        self.deliveries.deliver();
    }

    fn send(&mut self, bytes: usize) {
        let bytes = bytes.min(self.queue.outgoing.len());
        self.wire.extend_from_slice(&self.queue.outgoing[..bytes]);
        self.queue.note_sent(bytes);
        while let Parsed::Reply(call, taken) = parse(&self.wire) {
            self.wire.drain(..taken);
            self.serve(&call);
        }
    }

    /// Redis runs a call.
    fn serve(&mut self, call: &Value) {
        let Value::Array(arguments) = call else { panic!("{call:?}") };
        let text = |value: &Value| match value {
            Value::BulkString(text) => text.clone(),
            other => panic!("{other:?}"),
        };
        let arguments: Vec<Vec<u8>> = arguments.iter().map(text).collect();
        if let [ping, number] = arguments.as_slice() {
            assert_eq!(ping, b"PING");
            self.served.push_back((Vec::new(), string(number)));
            return;
        }
        let name = String::from_utf8(arguments[1].clone()).unwrap();
        let count: usize = String::from_utf8(arguments[2].clone()).unwrap().parse().unwrap();
        let (keys, rest) = arguments[3..].split_at(count);
        let (head, questions) = rest.split_first().unwrap();
        let (number, clock) = head.split_at(8);
        let is_log = [script(true).sha1(), script(true).source()].contains(&name.as_str());
        match arguments[0].as_slice() {
            b"EVAL" => {
                self.full_calls += 1;
                self.known.insert(script(is_log).sha1().to_owned());
            }
            b"EVALSHA" if !self.known.contains(&name) => {
                self.not_known += 1;
                let served = keys.iter().map(|key| (is_log, key.clone())).collect();
                self.served.push_back((served, b"-NOSCRIPT No matching script.\r\n".to_vec()));
                return;
            }
            other => assert_eq!(other, b"EVALSHA"),
        }
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a whole number")]
        let now = (!clock.is_empty()).then(|| f64::from_le_bytes(clock.try_into().unwrap()) as u64);
        let mut reply = number.to_vec();
        let served = keys.iter().map(|key| (is_log, key.clone())).collect();
        self.calls += 1;
        // Every third call would keep the server too long.
        let mut budget =
            Budget { most: if self.calls.is_multiple_of(3) { 2 } else { u16::MAX }, later: HashMap::new() };
        let mut covered = 0;
        let mut asked = Vec::new();
        for question in questions {
            let covers = usize::from(u16::from_le_bytes(question[COVERS].try_into().unwrap()));
            let first = if covers == 0 { covered - 1 } else { covered };
            covered += covers;
            asked.extend(keys[first..covered].iter().map(|key| (key, question)));
        }
        assert_eq!(covered, count, "each key is covered once");
        assert!(self.shares_calls() || count == 1, "keys are distinct");
        let is_alone = asked.len() == 1;
        for (key, question) in asked {
            let record = self.decide(is_log, key, question, now, &mut budget);
            let failed = record.first() == Some(&128);
            if failed && is_alone {
                let message = b"-WRONGTYPE Operation against a key\r\n";
                self.served.push_back((served, message.to_vec()));
                return;
            }
            reply.extend(record);
        }
        self.served.push_back((served, string(&reply)));
    }

    /// What a script answers.
    fn decide(&mut self, is_log: bool, key: &[u8], question: &[u8], now: Option<u64>, budget: &mut Budget) -> Vec<u8> {
        let all = u16::from_le_bytes(question[CALLS].try_into().unwrap());
        let number = |at: usize| f64::from_le_bytes(question[at..at + 8].try_into().unwrap());
        let (cost, max) = (number(7), number(31));
        let order = &self.order[&(is_log, key.to_vec())];
        let peeks = question[0] == PEEK;
        // An error is for all who ask.
        let calls = if key == b"broken" && budget.most > 0 { all } else { all.min(budget.most) };
        budget.most = budget.most.saturating_sub(calls);
        let later = budget.later.entry(key.to_vec()).or_default();
        let asked: Vec<usize> = order.iter().skip(*later).copied().collect();
        let callers = if peeks && self.sharing != Sharing::None {
            // One answer is for all who have been sent, and ask the same one after the other.
            let terms = &self.callers[asked[0]].terms;
            let asks = |caller: &Caller| caller.terms == *terms && (caller.is_over || !self.queue.waits(caller.member));
            asked.iter().take_while(|caller| asks(&self.callers[**caller])).count()
        } else {
            usize::from(all)
        };
        let answered = if peeks { callers * usize::from(calls) } else { usize::from(calls) };
        self.order.get_mut(&(is_log, key.to_vec())).unwrap().drain(..answered);
        *later += callers - answered;
        let asked = &asked[..callers];
        for caller in asked {
            let asked = &self.callers[*caller].terms;
            let mut packed = asked.packed.clone();
            packed[CALLS.start..COVERS.end].copy_from_slice(&question[CALLS.start..COVERS.end]);
            assert_eq!((packed.as_slice(), asked.now), (question, now), "each is asked what it asked, in order");
            assert!(all == 1 || matches!(asked.sharing, SectionSharing::Calls { .. }));
        }
        let later = |mut reply: Vec<u8>| {
            if calls < all {
                reply.extend([[64, 0].as_slice(), &(all - calls).to_le_bytes(), &[0; 32]].concat());
            }
            reply
        };
        let asked = asked.iter().copied().take(answered);
        if calls == 0 {
            return later(Vec::new());
        }
        if key == b"broken" {
            for caller in asked {
                self.callers[caller].decided = Some(Err(()));
            }
            let message = b"WRONGTYPE Operation against a key";
            return [&[128, 0, u8::try_from(message.len()).unwrap(), 0], message.as_slice()].concat();
        }
        let used = self.used.entry([if is_log { b"log:" } else { b"win:" }, key].concat()).or_default();
        let (before, mut admitted) = (*used, 0_u16);
        for (index, caller) in asked.enumerate() {
            #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "small")]
            let (cost, max) = (cost as u64, max as u64);
            let index = u64::try_from(index).unwrap();
            let verdict = if peeks && *used + cost <= max {
                admitted = 1;
                Verdict { remaining: max - *used, reset_after_us: 60, ..Verdict::admitted() }
            } else if *used + cost <= max {
                *used += cost;
                admitted += 1;
                let ticket = if is_log { before + 1 + index } else { before + 1 };
                Verdict { remaining: max - *used, reset_after_us: 60, ticket, ..Verdict::admitted() }
            } else {
                let remaining = max.saturating_sub(*used);
                Verdict { remaining, retry_after_us: 60, reset_after_us: 60, ..Verdict::refused() }
            };
            self.callers[caller].decided = Some(Ok(verdict));
        }
        let record = |flags: u8, calls: u16, numbers: [f64; 4]| {
            let mut record = [[flags, 0].as_slice(), &calls.to_le_bytes()].concat();
            record.extend(numbers.into_iter().flat_map(f64::to_le_bytes));
            record
        };
        #[allow(clippy::cast_precision_loss, reason = "small")]
        let (left, ticket) = ((max - *used as f64).max(0.0), if peeks { 0.0 } else { before as f64 + 1.0 });
        let mut reply = Vec::new();
        if admitted > 0 {
            reply.extend(record(1, admitted, [left, 0.0, 60.0, ticket]));
        }
        if admitted < calls {
            reply.extend(record(0, calls - admitted, [left, 60.0, 60.0, 0.0]));
        }
        later(reply)
    }

    fn answer(&mut self, calls: usize) {
        // Of each key at most one call is in flight.
        let mut asked = HashSet::new();
        for (keys, _) in &self.served {
            let keys: HashSet<_> = keys.iter().collect();
            assert!(keys.into_iter().all(|key| asked.insert(key)) || !self.shares_calls());
        }
        for _ in 0..calls {
            let Some((keys, reply)) = self.served.pop_front() else { return };
            let is_unknown = reply.starts_with(b"-NOSCRIPT");
            let mut over = if self.shares_calls() { keys.clone() } else { Vec::new() };
            if is_unknown {
                self.unknown.extend(keys);
            } else if !reply.starts_with(b"-") {
                over.append(&mut self.unknown);
            }
            // Callers that gave up meanwhile are not asked for again.
            let callers = &self.callers;
            for key in &over {
                self.order.get_mut(key).unwrap().retain(|caller| !callers[*caller].is_over);
            }
            let reply = match parse_redis_value(&reply).unwrap() {
                Value::BulkString(bytes) => {
                    self.queue.reply(Reply::Bulk(&bytes), self.now, &mut self.deliveries).map(drop)
                }
                other => self.queue.reply(Reply::Other(other), self.now, &mut self.deliveries).map(drop),
            };
            assert!(reply.is_ok(), "the reply fits");
        }
        self.deliveries.deliver();
    }

    /// Everybody looks whether there is an answer.
    fn collect(&mut self) {
        for caller in self.callers.iter_mut().filter(|caller| !caller.is_over) {
            let Ok(decided) = self.queue.poll(caller.member, Waker::noop()) else { continue };
            caller.is_over = true;
            match (decided, caller.decided) {
                (Ok(verdict), Some(Ok(expected))) => assert_eq!(verdict, expected),
                (Err(CallError::Server(error)), Some(Err(()))) => assert_eq!(error.code(), "WRONGTYPE"),
                (Err(CallError::TooLate), None) if caller.is_late => {}
                (other, expected) => panic!("{other:?} instead of {expected:?}"),
            }
        }
    }

    /// The connection ends: callers that were not asked for may ask again, and no others.
    fn close(mut self) {
        self.queue.close(&StoreError::unavailable("over"), &mut self.deliveries);
        self.deliveries.deliver();
        for caller in self.callers.iter().filter(|caller| !caller.is_over) {
            match self.queue.poll(caller.member, Waker::noop()) {
                Ok(Err(CallError::NotSent)) => assert!(caller.decided.is_none(), "it was decided"),
                // Perhaps only a part of the call was sent.
                Ok(Err(CallError::Lost(_))) => {}
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(self.queue.members(), 0, "no caller is left behind");
    }
}

fn asking() -> impl Strategy<Value = Asking> {
    let log_and_peeks = (prop::bool::weighted(0.8), prop::bool::weighted(0.3));
    let clock = prop_oneof![8 => Just(None), 1 => Just(Some(1)), 1 => Just(Some(2))];
    (0..KEYS.len(), 1..=3_u64, prop_oneof![6 => Just(1), 1 => Just(2_u64)], clock, 0..10, log_and_peeks).prop_map(
        |(key, times, cost, now, late, (log, peeks))| Asking {
            key,
            max: 20 * times,
            cost,
            now,
            is_late: late == 0,
            log,
            peeks,
        },
    )
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        12 => asking().prop_map(Step::Ask),
        2 => any::<prop::sample::Index>().prop_map(|index| Step::GiveUp(index.index(1 << 20))),
        4 => Just(Step::Turn),
        2 => (0..400_usize).prop_map(Step::Send),
        3 => Just(Step::Send(usize::MAX)),
        3 => (1..4_usize).prop_map(Step::Answer),
        1 => Just(Step::Flush),
    ];
    prop::collection::vec(step, 0..300)
}

fn sharing() -> impl Strategy<Value = Sharing> {
    prop_oneof![3 => Just(Sharing::All), 1 => Just(Sharing::Keys), 1 => Just(Sharing::None)]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn everybody_gets_exactly_its_verdict_in_order(steps in steps(), sharing in sharing()) {
        let mut world = World::new(sharing);
        for step in steps {
            world.step(step);
            world.queue.assert_consistent();
        }
        // What is left comes to an end by itself.
        for _ in 0..200 {
            if world.queue.is_idle() {
                break;
            }
            world.step(Step::Turn);
            world.step(Step::Send(usize::MAX));
            world.step(Step::Answer(usize::MAX));
        }
        prop_assert!(world.callers.iter().all(|caller| caller.is_over));
        prop_assert!(world.queue.is_idle());
        prop_assert_eq!(world.queue.members(), 0);
        // Each time a script was missing, it was sent in full once, or is going to be.
        prop_assert!(world.full_calls <= world.not_known);
    }

    #[test]
    fn a_connection_that_ends_at_any_moment_loses_no_caller(steps in steps(), sharing in sharing()) {
        let mut world = World::new(sharing);
        for step in steps {
            world.step(step);
            world.queue.assert_consistent();
        }
        world.close();
    }
}

fn unit(key: usize) -> Asking {
    Asking { key, max: 1_000, cost: 1, now: None, is_late: false, log: true, peeks: false }
}

#[test]
fn callers_that_come_during_a_call_are_asked_for_at_once() {
    let mut world = World::new(Sharing::All);
    world.known.insert(script(true).sha1().to_owned());
    let all = |world: &mut World| {
        world.step(Step::Turn);
        world.step(Step::Send(usize::MAX));
    };
    world.step(Step::Ask(unit(0)));
    all(&mut world);
    for _ in 0..100 {
        world.step(Step::Ask(unit(0)));
    }
    all(&mut world);
    assert_eq!(world.served.len(), 1, "one call of a key at a time");
    world.step(Step::Answer(1));
    all(&mut world);
    assert_eq!(world.served.len(), 1);
    world.step(Step::Answer(1));
    assert!(world.callers.iter().all(|caller| caller.is_over));
}

#[test]
fn a_cold_script_cache_is_told_the_script_once_while_others_wait() {
    let mut world = World::new(Sharing::All);
    for round in 0..3 {
        world.known.clear();
        let before = (world.full_calls, world.callers.len());
        for index in 0..64 {
            world.step(Step::Ask(unit(index % 3)));
            world.step(Step::Turn);
            world.step(Step::Send(usize::MAX));
        }
        for _ in 0..10 {
            world.step(Step::Answer(1));
            world.step(Step::Turn);
            world.step(Step::Send(usize::MAX));
        }
        assert_eq!((world.full_calls, world.callers.len()), (before.0 + 1, before.1 + 64), "round {round}");
        assert!(world.callers.iter().all(|caller| caller.is_over));
    }
}

#[test]
fn a_reply_that_is_too_short_or_too_long_is_out_of_step() {
    for change in [-1_isize, 1, -36, 36, -40, -44] {
        let mut world = World::new(Sharing::All);
        world.known.insert(script(true).sha1().to_owned());
        world.step(Step::Ask(unit(0)));
        world.step(Step::Ask(unit(1)));
        world.step(Step::Turn);
        world.step(Step::Send(usize::MAX));
        let (_, reply) = world.served.pop_front().unwrap();
        let Ok(Value::BulkString(mut bytes)) = parse_redis_value(&reply) else { panic!("{reply:?}") };
        bytes.resize(bytes.len().checked_add_signed(change).unwrap(), 1);
        assert!(world.queue.reply(Reply::Bulk(&bytes), world.now, &mut world.deliveries).is_err(), "{change}");
        world.close();
    }
}

#[test]
fn of_a_server_that_does_not_serve_waiting_callers_are_told_and_those_in_flight_answered() {
    for knows_script in [true, false] {
        let mut world = World::new(Sharing::All);
        if knows_script {
            world.known.insert(script(true).sha1().to_owned());
        }
        world.step(Step::Ask(unit(0)));
        world.step(Step::Turn);
        world.step(Step::Send(usize::MAX));
        for _ in 0..3 {
            world.step(Step::Ask(unit(0)));
        }
        world.queue.set_unready(Some(StoreError::unavailable("slow")), &mut world.deliveries);
        for caller in &mut world.callers[1..] {
            let told = world.queue.poll(caller.member, Waker::noop());
            assert!(matches!(told, Ok(Err(CallError::Unready(_)))), "{told:?}");
            caller.is_over = true;
        }
        if knows_script {
            world.step(Step::Answer(1));
            assert!(world.callers[0].is_over);
        } else {
            let (_, reply) = world.served.pop_front().unwrap();
            let reply = Reply::Other(parse_redis_value(&reply).unwrap());
            world.queue.reply(reply, world.now, &mut world.deliveries).unwrap();
            let told = world.queue.poll(world.callers[0].member, Waker::noop());
            assert!(told.is_err(), "an error is not believed at once");
            world.send(usize::MAX);
            world.answer(1);
            let told = world.queue.poll(world.callers[0].member, Waker::noop());
            assert!(matches!(told, Ok(Err(CallError::Unready(_)))), "{told:?}");
        }
        world.turn();
        assert!(world.queue.is_idle());
        assert_eq!(world.queue.members(), 0);
    }
}
