//! The release before this format beside this one, on one server: what it sends, as recorded from
//! it, meets the keys of this one, and the other way round.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test that cannot go on fails")]
#![allow(clippy::string_slice, reason = "hexadecimal digits")]

use std::collections::BTreeSet;
use std::time::Duration;

use ratelimit_runtime::{Algorithm, Key, Limit, RateLimitError, RateLimiter, Rule};
use redis::{Connection, cmd};

use crate::support::redis::RedisServer;
use crate::support::strict;

const MAX: u64 = 3;

/// What the earlier release asked of `sliding_window` under 3 per 600 s: the operation, and the
/// question in hexadecimal. Other algorithms differ in the second byte. The ticket of a refund
/// stands in the bytes from 20 on.
const RECORDED: [(&str, &str); 5] = [
    (
        "acquire",
        "01100100000000000000f03f0000000000000000000000000000000001000000000000084000000000a3e1c1410000000000000840",
    ),
    (
        "peek",
        "03100100000000000000f03f0000000000000000000000000000000001000000000000084000000000a3e1c1410000000000000840",
    ),
    (
        "refund",
        "04100100000000000000f03f0000000000000000cc4fcd158683194301000000000000084000000000a3e1c1410000000000000840",
    ),
    (
        "block",
        "07100100000000000000f03f00000000389c8c41000000000000000001000000000000084000000000a3e1c1410000000000000840",
    ),
    (
        "unblock",
        "08100100000000000000f03f0000000000000000000000000000000001000000000000084000000000a3e1c1410000000000000840",
    ),
];

/// A rule in both releases: the key that the earlier one gives it, its script without comments, and
/// what stands for the algorithm in its questions.
struct Case {
    algorithm: Algorithm,
    earlier_key: &'static str,
    key: &'static str,
    script: &'static str,
    number: u8,
}

const CASES: [Case; 2] = [
    Case {
        algorithm: Algorithm::SlidingWindow,
        earlier_key: "rl1:sw-600s:login:<alice@example.com>",
        key: "rl2:sw-600s:login:<alice@example.com>",
        script: include_str!("earlier_release/sliding_window.lua"),
        number: 0x10,
    },
    Case {
        algorithm: Algorithm::LeakyBucket,
        earlier_key: "rl1:lb-600s:upload:<alice@example.com>",
        key: "rl2:lb-600s:upload:<alice@example.com>",
        script: include_str!("earlier_release/leaky_bucket.lua"),
        number: 0x50,
    },
];

impl Case {
    fn rule(&self) -> Rule {
        let name = self.key.split(':').nth(2).unwrap().to_owned();
        Rule::named(name, Limit::new(MAX, Duration::from_secs(600))).with_algorithm(self.algorithm)
    }
}

/// A process of the earlier release, whose calls are replayed.
struct Earlier<'a> {
    case: &'a Case,
    key: String,
    connection: Connection,
}

impl<'a> Earlier<'a> {
    fn new(server: &RedisServer, case: &'a Case, prefix: &str) -> Self {
        let connection = redis::Client::open(server.url()).unwrap().get_connection().unwrap();
        Self { case, key: format!("{prefix}{}", case.earlier_key), connection }
    }

    /// Whether it was admitted, or changed something; and the ticket.
    fn ask(&mut self, operation: &str, ticket: f64) -> (bool, f64) {
        let (_, hex) = RECORDED.iter().find(|(recorded, _)| *recorded == operation).unwrap();
        let mut question: Vec<u8> =
            (0..hex.len() / 2).map(|at| u8::from_str_radix(&hex[2 * at..2 * at + 2], 16).unwrap()).collect();
        question[1] = self.case.number;
        question[20..28].copy_from_slice(&ticket.to_le_bytes());
        let mut call = cmd("EVAL");
        call.arg(self.case.script).arg(1).arg(&self.key).arg("").arg(b"\xa5\x87\xfbMB\xb6\xf8w").arg(question);
        let reply: Vec<u8> = call.query(&mut self.connection).unwrap();
        assert_eq!((&reply[..8], reply.len()), (&b"\xa5\x87\xfbMB\xb6\xf8w"[..], 44), "{operation}");
        (reply[8] & 1 == 1, f64::from_le_bytes(reply[36..44].try_into().unwrap()))
    }

    fn acquire(&mut self) -> Option<f64> {
        let (allowed, ticket) = self.ask("acquire", 0.0);
        allowed.then_some(ticket)
    }

    fn listed(&mut self) -> Vec<String> {
        let pattern = format!("{}*", self.key.split('<').next().unwrap());
        let (_, keys): (u64, Vec<String>) =
            cmd("SCAN").arg(0).arg("MATCH").arg(pattern).arg("COUNT").arg(250).query(&mut self.connection).unwrap();
        keys
    }

    fn reset(&mut self) -> bool {
        cmd("UNLINK").arg(&self.key).query(&mut self.connection).unwrap()
    }

    /// The value of a key, and what is left of its life in milliseconds.
    fn stored(&mut self, key: &str) -> (Option<Vec<u8>>, i64) {
        let value = cmd("DUMP").arg(key).query(&mut self.connection).unwrap();
        (value, cmd("PTTL").arg(key).query(&mut self.connection).unwrap())
    }

    /// Does something, which must leave a key as it is.
    async fn leaving<T>(&mut self, key: &str, what: impl AsyncFnOnce(&mut Self) -> T) -> T {
        let (value, life) = self.stored(key);
        assert!(value.is_some(), "{key} is there to be left alone");
        let done = what(self).await;
        let (still, left) = self.stored(key);
        assert!(value == still, "{key} was changed");
        assert!(left <= life && life - left < 10_000, "{key} lives for {left} ms and not {life}");
        done
    }
}

fn admitted(outcome: Result<ratelimit_runtime::Decision, RateLimitError>) -> bool {
    match outcome {
        Ok(_) => true,
        Err(RateLimitError::Exceeded(_)) => false,
        Err(error) => panic!("{error}"),
    }
}

async fn beside(prefix: &str, case: &Case) {
    let server = RedisServer::start();
    let limiter: RateLimiter = strict().redis(&server.url()).build().unwrap();
    let (rule, alice) = (case.rule(), Key::of("alice@example.com"));
    let mut earlier = Earlier::new(&server, case, prefix);
    let earlier_key = earlier.key.clone();

    // In turn, each has all of its limit, and no more.
    let (mut tickets, mut decisions) = (Vec::new(), Vec::new());
    for _ in 0..MAX + 2 {
        tickets.extend(earlier.acquire());
        decisions.extend(limiter.acquire(&rule, &alice).await.ok());
    }
    assert_eq!((tickets.len() as u64, decisions.len() as u64), (MAX, MAX));
    let all = || server.cli(&["KEYS", "*"]).lines().map(str::to_owned).collect::<BTreeSet<_>>();
    assert_eq!(all(), [earlier_key.clone(), case.key.to_owned()].into());

    // What the earlier release does leaves this one's key as it is.
    earlier
        .leaving(case.key, async |earlier| {
            assert!(!earlier.ask("peek", 0.0).0);
            assert!(earlier.ask("refund", *tickets.last().unwrap()).0);
            assert!(earlier.ask("peek", 0.0).0);
            assert!(earlier.ask("block", 0.0).0);
            assert!(earlier.acquire().is_none());
            assert!(earlier.ask("unblock", 0.0).0);
            assert!(earlier.acquire().is_some());
            assert_eq!(earlier.listed(), [&*earlier.key]);
        })
        .await;
    assert!(!limiter.peek(&rule, &alice).await.unwrap().is_allowed());

    // And the other way round.
    earlier
        .leaving(&earlier_key, async |_| {
            assert!(limiter.refund(&rule, &alice, decisions.last().unwrap()).await.unwrap());
            assert!(limiter.peek(&rule, &alice).await.unwrap().is_allowed());
            limiter.block(&rule, &alice, Duration::from_secs(60)).await.unwrap();
            assert!(!admitted(limiter.acquire(&rule, &alice).await));
            assert!(limiter.unblock(&rule, &alice).await.unwrap());
            assert!(admitted(limiter.acquire(&rule, &alice).await));
            let mut keys = limiter.keys(&rule);
            let mut listed = Vec::new();
            while let Some(page) = keys.next_page().await.unwrap() {
                listed.extend(page);
            }
            assert_eq!(listed, std::slice::from_ref(&alice));
            assert!(limiter.reset(&rule, &alice).await.unwrap());
        })
        .await;
    assert_eq!(all(), [earlier_key].into());
    assert!(admitted(limiter.acquire(&rule, &alice).await));
    earlier
        .leaving(case.key, async |earlier| {
            assert!(earlier.acquire().is_none());
            assert!(earlier.reset());
            assert!(earlier.acquire().is_some());
        })
        .await;
}

#[tokio::test]
async fn each_release_keeps_its_own_buckets() {
    for case in &CASES {
        beside("", case).await;
    }
}

/// The earlier release took this for a prefix.
#[tokio::test]
async fn so_it_does_where_its_prefix_is_the_version_of_this_one() {
    for case in &CASES {
        beside("rl2:", case).await;
    }
}
