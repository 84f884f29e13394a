//! Calls of a script with several keys and questions: each key is decided as if it stood alone.

#![allow(clippy::float_cmp, reason = "whole numbers")]

use ratelimit_runtime::Algorithm;
use ratelimit_runtime::testkit::scripts;

use super::scripts::{NUMBER, asked, head, loaded};
use crate::support::redis::{RedisServer, shared};
use crate::support::unique;

const START: u64 = 1_700_000_000_000_000;
/// Long, so that nothing expires on the server meanwhile.
const LIMIT: (u32, u32) = (5, 3_000_000_000);

/// What a record says: flags, how many calls, and the numbers; or the message of a key that failed.
#[derive(Debug, PartialEq)]
pub(super) enum Said {
    Record(u8, u16, [f64; 4]),
    Failed(String),
}

impl Said {
    pub(super) fn is_admitted(&self) -> bool {
        matches!(self, Self::Record(1, ..))
    }
}

/// A question of so many calls about so many keys.
pub(super) fn question(algorithm: Algorithm, operation: u8, calls: u16, covers: u16) -> Vec<u8> {
    let mut question = asked(scripts::number(algorithm) << 4, (0, operation, calls, 1, 0), &[LIMIT]);
    question[4..6].copy_from_slice(&covers.to_le_bytes());
    question
}

/// Asks the script, which [`loaded`] has wrapped; `None` is the server's clock.
pub(super) fn ask(
    server: &RedisServer,
    script: &str,
    keys: &[String],
    now: Option<u64>,
    questions: &[Vec<u8>],
) -> Vec<Said> {
    let count = keys.len().to_string();
    let first = now.map_or(NUMBER.to_vec(), head);
    let mut command: Vec<&[u8]> = vec![b"EVALSHA", script.as_bytes(), count.as_bytes()];
    command.extend(keys.iter().map(String::as_bytes));
    command.push(&first);
    command.extend(questions.iter().map(Vec::as_slice));
    let reply = server.cli(&command);
    assert!(!reply.starts_with('-') && !reply.contains("ERR"), "{reply}");
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
    let bytes: Vec<u8> = reply.as_bytes().chunks(2).map(byte).collect();
    let mut rest = bytes.strip_prefix(NUMBER).unwrap();
    let mut said = Vec::new();
    while let [flags, _, low, high, after @ ..] = rest {
        let calls = u16::from_le_bytes([*low, *high]);
        if *flags == 128 {
            let (message, after) = after.split_at(calls.into());
            said.push(Said::Failed(String::from_utf8_lossy(message).into_owned()));
            rest = after;
        } else {
            let (numbers, after) = after.split_at(32);
            let number = |at: usize| f64::from_le_bytes(numbers[8 * at..8 * at + 8].try_into().unwrap());
            said.push(Said::Record(*flags, calls, [0, 1, 2, 3].map(number)));
            rest = after;
        }
    }
    said
}

pub(super) fn keys(what: &str) -> Vec<String> {
    ["a", "b", "c"].map(|key| unique(&format!("{what}-{key}"))).to_vec()
}

/// Several keys of one question, and further questions about one of them, are answered as if each
/// had come alone: also where the first question has changed what was read for all.
#[test]
fn a_call_of_many_questions_is_many_calls() {
    const ACQUIRE: u8 = 1;
    const RESERVE: u8 = 2;
    const PEEK: u8 = 3;
    let server = shared();
    for &algorithm in Algorithm::ALL {
        let script = loaded(scripts::whole(algorithm));
        for further in [[ACQUIRE, PEEK], [PEEK, ACQUIRE], [RESERVE, ACQUIRE], [ACQUIRE, RESERVE]] {
            let (together, apart) = (keys("together"), keys("apart"));
            for round in 0..3 {
                let now = Some(START + round);
                let all = [
                    question(algorithm, ACQUIRE, 1, 2),
                    question(algorithm, further[0], 1, 0),
                    question(algorithm, further[1], 1, 0),
                    question(algorithm, ACQUIRE, 2, 1),
                ];
                let said = ask(server, &script, &together, now, &all);
                let one_by_one =
                    [(0, ACQUIRE, 1), (1, ACQUIRE, 1), (1, further[0], 1), (1, further[1], 1), (2, ACQUIRE, 2)];
                // What was put off, as behind a set that became a ring, is asked again.
                let said = said.into_iter().enumerate().flat_map(|(at, said)| match said {
                    Said::Record(64, calls, _) => {
                        let (key, operation, _) = one_by_one[at.min(4)];
                        let again = question(algorithm, operation, calls, 1);
                        ask(server, &script, &together[key..=key], now, &[again])
                    }
                    said => vec![said],
                });
                let said: Vec<_> = said.collect();
                let alone = one_by_one.into_iter().flat_map(|(key, operation, calls)| {
                    let alone = question(algorithm, operation, calls, 1);
                    ask(server, &script, &apart[key..=key], now, &[alone])
                });
                assert_eq!(said, alone.collect::<Vec<_>>(), "{algorithm}, {further:?}, {round}");
            }
        }
    }
}

/// What holds something else fails alone, and the keys beside it are decided.
#[test]
fn a_foreign_type_fails_alone() {
    let server = shared();
    for &algorithm in Algorithm::ALL {
        let script = loaded(scripts::whole(algorithm));
        let keys = keys("foreign");
        assert_eq!(server.cli(&["LPUSH", &keys[1], "x"]), "1");
        for left in [4.0, 3.0] {
            let said = ask(server, &script, &keys, None, &[question(algorithm, 1, 1, 3)]);
            let [first, Said::Failed(message), last] = said.as_slice() else { panic!("{algorithm}: {said:?}") };
            assert!(message.contains("WRONGTYPE"), "{algorithm}: {message}");
            for other in [first, last] {
                assert!(matches!(other, Said::Record(1, 1, [remaining, ..]) if *remaining == left), "{other:?}");
            }
        }
        assert_eq!(server.cli(&["LLEN", &keys[1]]), "1");
    }
}

/// A user who may not read several keys at once reads them one by one.
#[test]
fn a_user_without_mget_is_served() {
    let server = RedisServer::start();
    for &algorithm in Algorithm::ALL {
        let source = scripts::whole(algorithm);
        let hex = "return (string.gsub(run(), '.', function(c) return string.format('%02x', string.byte(c)) end))";
        let sha1 = server.cli(&["SCRIPT", "LOAD", &format!("local function run()\n{source}\nend\n{hex}")]);
        let keys = keys("mget");
        let rounds = |server: &RedisServer| {
            [4.0, 3.0, 2.0].map(|left| {
                let said = ask(server, &sha1, &keys, None, &[question(algorithm, 1, 1, 3)]);
                let is_right = |said: &Said| matches!(said, Said::Record(1, 1, [remaining, ..]) if *remaining == left);
                assert!(said.len() == 3 && said.iter().all(is_right), "{algorithm}: {said:?}");
            })
        };
        assert_eq!(server.cli(&["ACL", "SETUSER", "default", "-mget"]), "OK");
        rounds(&server);
        assert_eq!(server.cli(&["ACL", "SETUSER", "default", "+mget"]), "OK");
    }
}

/// A key may expire or be evicted between any two calls: then it is a new one, and those beside it
/// are what they were.
#[test]
fn a_key_that_is_gone_is_new() {
    let server = shared();
    for &algorithm in Algorithm::ALL {
        let script = loaded(scripts::whole(algorithm));
        let keys = keys("gone");
        for left in [4.0, 3.0] {
            let said = ask(server, &script, &keys, None, &[question(algorithm, 1, 1, 3)]);
            assert!(said.iter().all(|said| matches!(said, Said::Record(1, 1, [remaining, ..]) if *remaining == left)));
        }
        assert_eq!(server.cli(&["PEXPIRE", &keys[1], "1"]), "1");
        while server.cli(&["EXISTS", &keys[1]]) != "0" {}
        let said = ask(server, &script, &keys, None, &[question(algorithm, 1, 1, 3)]);
        for (said, left) in said.iter().zip([2.0, 4.0, 2.0]) {
            assert!(matches!(said, Said::Record(1, 1, [remaining, ..]) if *remaining == left), "{algorithm}: {said:?}");
        }
    }
}
