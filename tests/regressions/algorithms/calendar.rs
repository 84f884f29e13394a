//! Calendar periods as the scripts see them: the instants come from the caller, and what is stored
//! holds whatever a later caller's say.

#![allow(clippy::float_cmp, clippy::cast_precision_loss, reason = "whole numbers below 2^53")]

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use ratelimit_runtime::testkit::scripts;

use super::batches::{Said, ask, keys};
use super::scripts::{NUMBER, head, loaded};
use crate::support::redis::shared;
use crate::support::unique;

const ACQUIRE: u8 = 1;
const RESERVE: u8 = 2;
const PEEK: u8 = 3;
const REFUND: u8 = 4;
const RELEASE: u8 = 5;
const COMMIT: u8 = 6;
const BLOCK: u8 = 7;
const UNBLOCK: u8 = 8;
const COMMIT_ACTUAL: u8 = 9;

const HOUR: u64 = 3_600_000_000;
const DAY: u64 = 24 * HOUR;
/// The longest day.
const LONGEST: u64 = 25 * HOUR;
/// A midnight.
const MIDNIGHT: u64 = 1_700_006_400_000_000;

/// A limit of a question: a window, or the instants of a calendar period.
#[derive(Debug, Clone, Copy)]
enum Window {
    Span(u64),
    Days([u64; 4]),
}

/// The instants of a caller for whom a day began at `start` of the day that is meant.
const fn days_from(start: u64) -> Window {
    Window::Days([start - DAY, start, start + DAY, start + 2 * DAY])
}

#[derive(Debug, Clone)]
struct Question {
    operation: u8,
    calls: u16,
    cost: u64,
    block: u64,
    limits: Vec<(u64, Window)>,
    behind: Vec<u64>,
}

impl Question {
    fn new(operation: u8, limits: &[(u64, Window)]) -> Self {
        Self { operation, calls: 1, cost: 1, block: 0, limits: limits.to_vec(), behind: Vec::new() }
    }

    fn behind(mut self, numbers: &[u64]) -> Self {
        self.behind = numbers.to_vec();
        self
    }

    fn bytes(&self, covers: u16) -> Vec<u8> {
        let [low, high] = self.calls.to_le_bytes();
        let [covers, _] = covers.to_le_bytes();
        let limits = u8::try_from(self.limits.len()).unwrap();
        let mut bytes = vec![self.operation, scripts::CALENDAR << 4, low, high, covers, 0, limits];
        let mut numbers = vec![self.cost, self.block, 0];
        for &(max, window) in &self.limits {
            numbers.extend(match window {
                Window::Span(window) => [max, window, max, 1],
                Window::Days(_) => [max, LONGEST, 0, 1],
            });
        }
        for (_, window) in &self.limits {
            if let Window::Days(instants) = window {
                numbers.extend(instants);
            }
        }
        numbers.extend(&self.behind);
        bytes.extend(numbers.into_iter().flat_map(|number| (number as f64).to_le_bytes()));
        bytes
    }
}

/// A key that is asked with the whole script.
struct Calendar {
    script: String,
    keys: [String; 1],
}

impl Calendar {
    fn new(what: &str) -> Self {
        Self { script: loaded(scripts::calendar()), keys: [unique(what)] }
    }

    /// The flags and the numbers: remaining, retry after, reset after, ticket.
    fn ask(&self, now: u64, question: &Question) -> (u8, [f64; 4]) {
        match ask(shared(), &self.script, &self.keys, Some(now), &[question.bytes(1)]).pop() {
            Some(Said::Record(flags, _, numbers)) => (flags, numbers),
            other => panic!("{other:?}"),
        }
    }

    /// What the server says to a question that fails.
    fn failure(&self, now: u64, question: &Question) -> String {
        let (head, bytes) = (head(now), question.bytes(1));
        let command: [&[u8]; 6] = [b"EVALSHA", self.script.as_bytes(), b"1", self.keys[0].as_bytes(), &head, &bytes];
        shared().cli(&command)
    }

    fn acquire(&self, now: u64, max: u64, window: Window) -> (u8, [f64; 4]) {
        self.ask(now, &Question::new(ACQUIRE, &[(max, window)]))
    }

    /// What is used, the end, and when the window was begun.
    fn stored(&self) -> Vec<f64> {
        let script = "return (string.gsub(redis.call('GET', KEYS[1]) or '', '.', \
                      function(c) return string.format('%02x', string.byte(c)) end))";
        let hex = shared().cli(&["EVAL", script, "1", &self.keys[0]]);
        let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
        let bytes: Vec<u8> = hex.as_bytes().chunks(2).map(byte).collect();
        bytes.chunks(8).map(|bytes| f64::from_le_bytes(bytes.try_into().unwrap())).collect()
    }
}

/// It lasts from midnight to midnight, not for a day from the first call on, and what has not been
/// asked for since yesterday is of yesterday.
#[test]
fn a_period_ends_when_its_caller_says() {
    let key = Calendar::new("period");
    let today = days_from(MIDNIGHT);
    let noon = MIDNIGHT + 12 * HOUR;
    let half = 12.0 * HOUR as f64;
    assert_eq!(key.acquire(noon, 2, today), (1, [1.0, 0.0, half, noon as f64]));
    assert_eq!(key.acquire(noon, 2, today).0, 1);
    assert_eq!(key.acquire(noon, 2, today), (0, [0.0, half, half, 0.0]));
    assert_eq!(key.acquire(MIDNIGHT + DAY - 1, 2, today), (0, [0.0, 1.0, 1.0, 0.0]));
    // The caller has made its instants before midnight, and the server decides after it.
    let late = MIDNIGHT + DAY;
    assert_eq!(key.acquire(late, 2, today), (1, [1.0, 0.0, DAY as f64, late as f64]));
    assert_eq!(key.acquire(late, 2, days_from(late)), (1, [0.0, 0.0, DAY as f64, late as f64]));
    assert_eq!(key.stored(), [2.0, (late + DAY) as f64, late as f64]);
}

/// A caller whose clock is ahead of the decision, or behind it, by less than a period names a
/// period that has the time of the decision; by more, none.
#[test]
fn a_clock_that_is_more_than_a_period_off_is_told_so() {
    for (days, is_told) in [(-2_i64, true), (-1, false), (0, false), (1, false), (2, true)] {
        let key = Calendar::new("off");
        let caller = days_from(MIDNIGHT.checked_add_signed(days * DAY.cast_signed()).unwrap());
        let question = Question::new(ACQUIRE, &[(2, caller)]);
        if is_told {
            for operation in [ACQUIRE, RESERVE, PEEK] {
                let failure = key.failure(MIDNIGHT, &Question { operation, ..question.clone() });
                assert!(failure.contains("CLOCK "), "{days}, {operation}: {failure}");
            }
            assert_eq!(shared().cli(&["EXISTS", &key.keys[0]]), "0", "{days}");
        } else {
            assert_eq!(key.ask(MIDNIGHT, &question).0, 1, "{days}");
            assert_eq!(key.stored(), [1.0, (MIDNIGHT + DAY) as f64, MIDNIGHT as f64], "{days}");
        }
    }
}

/// Two processes with different zone data: the stored period lasts until its stored end for both,
/// and the next is that of the one who begins it.
#[test]
fn a_stored_period_lasts_whatever_other_zone_data_says() {
    let key = Calendar::new("zones");
    let (one, other) = (days_from(MIDNIGHT), days_from(MIDNIGHT + HOUR));
    assert_eq!(key.acquire(MIDNIGHT + 23 * HOUR, 1, one).0, 1);
    let (flags, [_, retry, ..]) = key.acquire(MIDNIGHT + 23 * HOUR + 1, 1, other);
    assert_eq!((flags, retry), (0, (HOUR - 1) as f64));
    // For the other the old day still lasts an hour.
    let over = MIDNIGHT + DAY;
    assert_eq!(key.acquire(over, 1, other).0, 1);
    let (flags, [_, retry, ..]) = key.acquire(over + 1, 1, one);
    assert_eq!((flags, retry), (0, (HOUR - 1) as f64));
    assert_eq!(key.acquire(over + HOUR, 1, days_from(over)).0, 1);
    assert_eq!(key.stored(), [1.0, (over + DAY) as f64, (over + HOUR) as f64]);
}

/// A server that is set back and forth across midnight, its callers with it or not: no period
/// admits twice.
#[test]
fn a_clock_set_back_and_forth_across_midnight_admits_no_period_twice() {
    for callers_follow in [false, true] {
        let key = Calendar::new("back");
        let [before, after] = [MIDNIGHT - HOUR, MIDNIGHT + HOUR];
        let day = |now: u64| {
            let is_before = callers_follow && now < MIDNIGHT;
            days_from(if is_before { MIDNIGHT - DAY } else { MIDNIGHT })
        };
        assert_eq!(key.acquire(before, 1, day(before)).0, 1);
        assert_eq!(key.acquire(after, 1, day(after)).0, 1);
        for _ in 0..3 {
            // What waits, waits for the end of the day that has begun.
            let (flags, [_, retry, ..]) = key.acquire(before, 1, day(before));
            assert_eq!((flags, retry), (0, (DAY + HOUR) as f64), "callers follow: {callers_follow}");
            assert_eq!(key.acquire(after, 1, day(after)).0, 0);
        }
        assert_eq!(key.acquire(MIDNIGHT + DAY, 1, days_from(MIDNIGHT + DAY)).0, 1);
    }
}

/// The same beside a window of an hour, whose clock stands still.
#[test]
fn a_span_beside_a_period_keeps_both_where_the_clock_is_set_back() {
    let key = Calendar::new("mixed");
    let limits = |day: u64| [(2, days_from(day)), (1, Window::Span(HOUR))];
    let after = MIDNIGHT + 30 * HOUR / 60;
    let acquire = |now: u64, day: u64| key.ask(now, &Question::new(ACQUIRE, &limits(day))).0;
    assert_eq!(acquire(after, MIDNIGHT), 1);
    assert_eq!(acquire(after, MIDNIGHT), 0);
    // Set back to yesterday: the hour waits, and what lives longest is still known.
    let before = MIDNIGHT - 2 * HOUR;
    assert_eq!(acquire(before, MIDNIGHT - DAY), 0);
    let left: u64 = shared().cli(&["PTTL", &key.keys[0]]).parse().unwrap();
    assert!(left > 22 * HOUR / 1_000, "the day's end holds: {left} ms");
    assert_eq!(acquire(after + HOUR, MIDNIGHT), 1);
    assert_eq!(acquire(after + 2 * HOUR, MIDNIGHT), 0, "the day is used up");
    assert_eq!(acquire(MIDNIGHT + DAY, MIDNIGHT), 1);
}

/// A key that is written while time stands still, for a reservation or a window beside the period,
/// lives until the period ends by the clock: else the rest of it would admit anew.
#[test]
fn a_key_written_while_the_clock_is_back_lives_as_long_as_its_period() {
    let (now, back) = (MIDNIGHT + 3 * HOUR, MIDNIGHT + HOUR);
    let until_end = (DAY - HOUR) / 1_000;
    let left = |key: &Calendar| shared().cli(&["PTTL", &key.keys[0]]).parse::<u64>().unwrap();

    let key = Calendar::new("reserved");
    let limits = [(2, days_from(MIDNIGHT))];
    let (flags, [.., ticket]) = key.ask(now, &Question::new(RESERVE, &limits));
    assert_eq!(flags, 1);
    let ticket = format!("{ticket}").parse::<u64>().unwrap();
    assert_eq!(key.ask(back, &Question::new(COMMIT, &limits).behind(&[ticket])).0, 1);
    assert!(left(&key) + 60_000 > until_end, "reserved: {} of {until_end} ms", left(&key));

    let key = Calendar::new("beside");
    let limits = [(2, days_from(MIDNIGHT)), (9, Window::Span(HOUR))];
    for at in [now, back] {
        assert_eq!(key.ask(at, &Question::new(ACQUIRE, &limits)).0, 1);
    }
    assert!(left(&key) + 60_000 > until_end, "beside: {} of {until_end} ms", left(&key));
}

/// Reservations are settled in the period in which the settlement comes; a refund goes to that of
/// its ticket, while it lasts.
#[test]
fn reservations_refunds_and_actual_costs() {
    let key = Calendar::new("settled");
    let limits = [(10, days_from(MIDNIGHT))];
    let at = |operation: u8, cost: u64| Question { cost, ..Question::new(operation, &limits) };
    let now = MIDNIGHT + HOUR;
    let ticket = |(flags, [.., ticket]): (u8, [f64; 4])| {
        assert_eq!(flags, 1);
        format!("{ticket}").parse::<u64>().unwrap()
    };
    let [first, second, third] = [0, 1, 2].map(|later| ticket(key.ask(now + later, &at(RESERVE, 3))));
    assert_eq!(key.ask(now + 3, &at(ACQUIRE, 2)).0, 0);
    assert_eq!(key.ask(now + 4, &at(RELEASE, 3).behind(&[first])).0, 1);
    assert_eq!(key.ask(now + 5, &at(COMMIT, 3).behind(&[second])).0, 1);
    // More than the estimate, which is a debt.
    let (flags, [.., dropped]) = key.ask(now + 6, &at(COMMIT_ACTUAL, 3).behind(&[third, 30]));
    assert_eq!((flags, dropped), (1, 13.0));
    assert_eq!(key.stored(), [20.0, (MIDNIGHT + DAY) as f64, now as f64]);
    assert_eq!(key.ask(now + 7, &at(COMMIT, 3).behind(&[second])).0, 0, "it is not there any more");

    // A refund across midnight.
    let key = Calendar::new("refunded");
    let charged = ticket(key.ask(MIDNIGHT + DAY - 1, &at(ACQUIRE, 3)));
    let next = MIDNIGHT + DAY;
    let tomorrow = ticket(key.ask(next, &at(ACQUIRE, 4)));
    assert_eq!(key.ask(next + 1, &at(REFUND, 3).behind(&[charged])).0, 0);
    assert_eq!(key.ask(next + 1, &at(REFUND, 3).behind(&[tomorrow])).0, 1);
    assert_eq!(key.stored(), [1.0, (next + DAY) as f64, next as f64]);

    // What was given back is not given back once more, out of a later charge.
    let key = Calendar::new("twice");
    let charged = ticket(key.ask(now, &at(ACQUIRE, 3)));
    assert_eq!(key.ask(now + 1, &at(REFUND, 3).behind(&[charged])).0, 1);
    assert_eq!(key.ask(now + 2, &at(ACQUIRE, 4)).0, 1);
    assert_eq!(key.ask(now + 3, &at(REFUND, 3).behind(&[charged])).0, 0);
    assert_eq!(key.stored(), [4.0, (MIDNIGHT + DAY) as f64, (now + 2) as f64]);

    // What was charged before a reset is not given back after it, though the day is the same.
    let key = Calendar::new("reset");
    let charged = ticket(key.ask(now, &at(ACQUIRE, 3)));
    assert_eq!(shared().cli(&["UNLINK", &key.keys[0]]), "1");
    assert_eq!(key.ask(now + 1, &at(ACQUIRE, 4)).0, 1);
    assert_eq!(key.ask(now + 2, &at(REFUND, 3).behind(&[charged])).0, 0);
    assert_eq!(key.stored(), [4.0, (MIDNIGHT + DAY) as f64, (now + 1) as f64]);
}

#[test]
fn blocks() {
    let key = Calendar::new("blocked");
    let limits = [(1, days_from(MIDNIGHT))];
    let blocking = Question { block: HOUR, ..Question::new(ACQUIRE, &limits) };
    let late = MIDNIGHT + DAY - HOUR / 2;
    assert_eq!(key.ask(late, &blocking).0, 1);
    assert_eq!(key.ask(late, &blocking).0, 2);
    // It outlives the day.
    let (flags, [_, retry, ..]) = key.ask(MIDNIGHT + DAY, &Question::new(PEEK, &limits));
    assert_eq!((flags, retry), (2, HOUR as f64 / 2.0));
    assert_eq!(key.ask(MIDNIGHT + DAY, &Question::new(UNBLOCK, &limits).behind(&[0])).0, 1);
    assert_eq!(key.ask(MIDNIGHT + DAY, &blocking).0, 1);
    let by_hand = Question { block: HOUR, ..Question::new(BLOCK, &limits) }.behind(&[0]);
    assert_eq!(key.ask(MIDNIGHT + DAY, &by_hand).0, 1);
    assert_eq!(key.ask(MIDNIGHT + DAY, &blocking).0, 2);
}

/// No value admits for ever or refuses beyond the next period, and none is touched that no process
/// has written.
#[test]
fn damaged_values() {
    let now = MIDNIGHT + HOUR;
    let [today, tomorrow] = [MIDNIGHT + DAY, MIDNIGHT + 2 * DAY].map(|end| end as f64);
    let nan = f64::NAN;
    let begun = MIDNIGHT as f64;
    let rows: [(&str, &[f64], &str); 14] = [
        ("full", &[5.0, today, begun], "refused"),
        ("of a process that is a day ahead", &[5.0, tomorrow, begun], "refused"),
        ("over", &[5.0, now as f64, begun], "admitted"),
        ("further off than the next period", &[5.0, tomorrow + 1.0, begun], "foreign"),
        ("further off, with nothing used", &[0.0, tomorrow + 1.0, begun], "admitted"),
        ("endless", &[5.0, f64::INFINITY, begun], "foreign"),
        ("no end", &[5.0, nan, begun], "foreign"),
        ("NaN used", &[nan, today, begun], "foreign"),
        ("negative", &[-1.0, today, begun], "foreign"),
        ("too much", &[1e15, today, begun], "refused"),
        ("begun at no time", &[1.0, today, nan], "foreign"),
        ("begun later", &[1.0, today, tomorrow], "admitted"),
        ("cut short", &[5.0, today], "foreign"),
        ("too long", &[5.0, today, begun, 0.0], "foreign"),
    ];
    for (what, value, then) in rows {
        for operation in [ACQUIRE, PEEK, RESERVE] {
            let key = Calendar::new("damaged");
            let bytes: Vec<u8> = value.iter().flat_map(|number| number.to_le_bytes()).collect();
            let set: [&[u8]; 3] = [b"SET", key.keys[0].as_bytes(), &bytes];
            assert_eq!(shared().cli(&set), "OK");
            let question = Question::new(operation, &[(5, days_from(MIDNIGHT))]);
            if then == "foreign" {
                assert!(key.failure(now, &question).contains("WRONGTYPE"), "{what}, {operation}");
                let stored = key.stored();
                assert!(
                    stored.iter().zip(value).all(|(now, was)| now.to_bits() == was.to_bits()),
                    "{what}: {stored:?}"
                );
            } else {
                assert_eq!(key.ask(now, &question).0, u8::from(then == "admitted"), "{what}, {operation}");
            }
        }
    }
}

/// One call for a caller of the old day and one of the new, on one key and on several: each is
/// decided as if it stood alone.
#[test]
fn a_call_with_questions_of_two_days() {
    let script = loaded(scripts::calendar());
    let now = MIDNIGHT + DAY;
    let [old, new] = [MIDNIGHT, now].map(|day| Question::new(ACQUIRE, &[(3, days_from(day))]));
    let [one_key, keys] = [vec![unique("one")], keys("several")];
    let said = ask(shared(), &script, &one_key, Some(now), &[old.bytes(1), new.bytes(0), old.bytes(0), new.bytes(0)]);
    let remaining = |said: &Said| match said {
        Said::Record(flags, 1, [remaining, ..]) => (*flags, *remaining),
        other => panic!("{other:?}"),
    };
    assert_eq!(said.iter().map(remaining).collect::<Vec<_>>(), [(1, 2.0), (1, 1.0), (1, 0.0), (0, 0.0)]);
    // One that is off by two days fails alone.
    let off = Question::new(ACQUIRE, &[(3, days_from(MIDNIGHT - DAY))]);
    let said = ask(shared(), &script, &keys, Some(now), &[old.bytes(1), off.bytes(1), new.bytes(1)]);
    assert!(matches!(&said[1], Said::Failed(message) if message.contains("CLOCK")), "{said:?}");
    assert_eq!([remaining(&said[0]), remaining(&said[2])], [(1, 2.0), (1, 2.0)]);
    assert_eq!(shared().cli(&["EXISTS", &keys[1]]), "0");
}

/// Keys that are charged together, all or none: what one that refuses or fails leaves.
#[test]
fn a_group_with_a_period_is_charged_as_a_whole() {
    for source in [scripts::all_or_none_with_calendar(), scripts::all_or_none_with_both()] {
        let script = loaded(source);
        let keys = keys("group");
        let now = MIDNIGHT + HOUR;
        let [wide, narrow, off] = [(5, MIDNIGHT), (1, MIDNIGHT), (5, MIDNIGHT - 2 * DAY)]
            .map(|(max, day)| Question::new(ACQUIRE, &[(max, days_from(day))]).bytes(1));
        let group = |questions: [&Vec<u8>; 2]| {
            let list = vec![2_u8, 0, 1, 0];
            ask(shared(), &script, &keys[..2], Some(now), &[list, questions[0].clone(), questions[1].clone()])
        };
        assert!(group([&wide, &narrow]).iter().all(Said::is_admitted));
        let said = group([&wide, &narrow]);
        assert!(said[0].is_admitted() && !said[1].is_admitted(), "{said:?}");
        let head = head(now);
        let list: &[u8] = &[2, 0, 1, 0];
        let command: [&[u8]; 8] =
            [b"EVALSHA", script.as_bytes(), b"2", keys[0].as_bytes(), keys[1].as_bytes(), &head, list, &wide];
        let command = [&command[..], &[&off]].concat();
        assert!(shared().cli(&command).contains("CLOCK"));
        // One has been charged, by the first group alone.
        let [(_, peeked), _] = [&keys[0], &keys[1]].map(|key| {
            let key = Calendar { script: loaded(scripts::calendar()), keys: [key.clone()] };
            key.ask(now, &Question::new(PEEK, &[(5, days_from(MIDNIGHT))]))
        });
        assert_eq!(peeked[0], 4.0);
        // The same key twice fits once, which is given back.
        let twice = unique("twice");
        let again = ask(
            shared(),
            &script,
            &[twice.clone(), twice.clone()],
            Some(now),
            &[list.to_vec(), narrow.clone(), narrow.clone()],
        );
        assert!(!again.iter().all(Said::is_admitted), "{again:?}");
        let key = Calendar { script: loaded(scripts::calendar()), keys: [twice] };
        assert_eq!(key.ask(now, &Question::new(PEEK, &[(1, days_from(MIDNIGHT))])).1[0], 1.0);
    }
}

/// What the quick part leaves to the full one is an error here: there is none.
#[test]
fn most_calls_are_answered_by_the_quick_part() {
    let [quick, full] = [scripts::calendar_quick_alone(), scripts::calendar_full_alone()].map(|source| loaded(&source));
    let today = days_from(MIDNIGHT);
    let limits: [&[(u64, Window)]; 3] =
        [&[(3, today)], &[(4, today), (3, Window::Span(HOUR))], &[(9, Window::Span(HOUR)), (3, today), (5, today)]];
    for limits in limits {
        let keys = [unique("quick"), unique("full")];
        for (at, (operation, calls)) in
            [(PEEK, 1), (ACQUIRE, 1), (PEEK, 1), (ACQUIRE, 2), (ACQUIRE, 1), (PEEK, 1)].into_iter().enumerate()
        {
            let now = MIDNIGHT + HOUR + at as u64;
            let [by_quick, by_full] = [(&quick, &keys[0]), (&full, &keys[1])].map(|(script, key)| {
                let mut question = Question { calls, ..Question::new(operation, limits) };
                let mut all = Vec::new();
                while question.calls > 0 {
                    let said = ask(shared(), script, std::slice::from_ref(key), Some(now), &[question.bytes(1)]);
                    for said in said {
                        let Said::Record(flags, calls, [remaining, retry, reset, ticket]) = said else {
                            panic!("{said:?}")
                        };
                        question.calls -= calls;
                        all.extend((0..calls).map(|i| {
                            let later = if flags == 1 { f64::from(calls - 1 - i) } else { 0.0 };
                            (flags, remaining + later, retry, ticket, if i + 1 == calls { reset } else { 0.0 })
                        }));
                    }
                }
                (
                    all.iter().map(|said| (said.0, said.1, said.2, said.3)).collect::<Vec<_>>(),
                    all.last().map(|said| said.4),
                )
            });
            assert_eq!(by_quick, by_full, "{limits:?}, step {at}");
        }
    }
}

/// Any run of calls, with callers of any days of 23 to 25 hours and a clock that goes back: the
/// quick part says what the full one does, and both what a counter with a stored end says.
#[test]
fn the_script_is_a_counter_with_a_stored_end() {
    let [whole, full] = [scripts::calendar().to_owned(), scripts::calendar_full_alone()].map(|source| loaded(&source));
    let step = (-40_i64..60, -2_i64..3, 23_u64..26, prop_oneof![4 => Just(ACQUIRE), 1 => Just(PEEK)], 1_u64..4);
    let runs = (1_u64..12, prop::collection::vec(step, 1..25));
    let mut runner = TestRunner::new(Config { cases: 60, failure_persistence: None, ..Config::default() });
    let done = runner.run(&runs, |(max, steps)| {
        let keys = [unique("whole"), unique("full")];
        let (mut now, mut used, mut end) = (MIDNIGHT + HOUR, 0_u64, 0_u64);
        for step in &steps {
            let (hours, off, length, operation, cost) = *step;
            now = now.checked_add_signed(hours * HOUR.cast_signed() / 2).unwrap();
            let start = (now - MIDNIGHT % DAY) / DAY * DAY + MIDNIGHT % DAY;
            let start = start.checked_add_signed(off * DAY.cast_signed()).unwrap();
            let instants = [start - DAY, start, start + length * HOUR, start + length * HOUR + DAY];
            let (cost, question) = (cost.min(max), Question::new(operation, &[(max, Window::Days(instants))]));
            let question = Question { cost, ..question };
            let told = [(&whole, &keys[0]), (&full, &keys[1])].map(|(script, key)| {
                let (head, bytes) = (head(now), question.bytes(1));
                shared().cli(&[b"EVALSHA".as_slice(), script.as_bytes(), b"1", key.as_bytes(), &head, &bytes])
            });
            prop_assert_eq!(&told[0], &told[1], "{:?} of {:?}", step, steps);
            let expected = if now < instants[0] || now >= instants[3] {
                Err("CLOCK")
            } else if used > 0 && end > instants[3] {
                Err("WRONGTYPE")
            } else {
                let (counted, until) = if used == 0 || now >= end {
                    (0, *instants.iter().skip(1).find(|end| now < **end).unwrap())
                } else {
                    (used, end)
                };
                let is_admitted = counted + cost <= max;
                let retry = if is_admitted { 0 } else { until - now };
                if is_admitted && operation == ACQUIRE {
                    (used, end) = (counted + cost, until);
                    Ok((true, max - used, 0))
                } else {
                    Ok((is_admitted, max - counted, retry))
                }
            };
            match expected {
                Err(code) => prop_assert!(told[0].contains(code), "{}: {:?} of {:?}", &told[0], step, steps),
                Ok((is_admitted, remaining, retry)) => {
                    let hex = told[0].as_bytes();
                    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
                    prop_assert!(hex.len() == 2 * (NUMBER.len() + 36), "{}: {:?} of {:?}", &told[0], step, steps);
                    let bytes: Vec<u8> = hex.chunks(2).map(byte).collect();
                    let number = |at: usize| f64::from_le_bytes(bytes[8 + at..16 + at].try_into().unwrap());
                    let said = (bytes[8] == 1, number(4), number(12));
                    prop_assert_eq!(said, (is_admitted, remaining as f64, retry as f64), "{:?} of {:?}", step, steps);
                }
            }
        }
        Ok(())
    });
    done.unwrap_or_else(|error| panic!("{error}"));
}
