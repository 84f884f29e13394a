//! `places.lua` on a server: random steps are played on it and on a map of leases.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test that cannot go on fails")]

use std::collections::BTreeMap;

use redis::Value;

use super::open::member;
use super::state::question;
use crate::store::redis::scripts::Script;
use crate::store::redis::scripts::agreement::{KEY, ScriptServer, Xorshift};
use crate::store::{PermitId, PlaceRequest};

const START: u64 = 1_700_000_000_000_000;
const LEASE: u64 = 5_000_000;

fn send<const N: usize>(server: &mut ScriptServer, command: [&str; N]) -> Value {
    let mut sent = redis::cmd(command[0]);
    sent.arg(&command[1..]);
    server.send(&sent)
}

/// What other programs and clocks may leave: no permits, and permits whose leases have ended.
const FOREIGN: [(&str, &str); 6] = [
    ("junk", "+inf"),
    ("", "9000000000000000"),
    ("00000000000000aa.7.99999999999", "9000000000000000"),
    ("aa.7.5000", "+inf"),
    ("junk", "-inf"),
    ("00000000000000aa.7.5000", "1000"),
];

#[test]
fn random_steps_are_answered_as_by_a_map_of_leases() {
    let mut server = ScriptServer::start("places");
    server.load(Script::places());
    let (mut random, shortest) = (Xorshift(7), PlaceRequest::MIN_LEASE);
    for _ in 0..60 {
        send(&mut server, ["DEL", "key"]);
        let permits: Vec<_> = (0..6).map(|_| PermitId::next()).collect();
        let any = |random: &mut Xorshift| permits[usize::try_from(random.below(6)).unwrap()];
        let (mut now, mut ends) = (START, BTreeMap::new());
        for _ in 0..60 {
            now = now + random.below(LEASE / 3) - if random.below(12) == 0 { random.below(2 * LEASE) } else { 0 };
            if random.below(10) == 0 {
                let (member, score) = FOREIGN[usize::try_from(random.below(6)).unwrap()];
                send(&mut server, ["ZADD", "key", score, member]);
            }
            let (permit, left, max) = (any(&mut random), any(&mut random), 1 + random.below(5));
            let operation = ["enter", "renew", "leave", "look"][usize::try_from(random.below(4)).unwrap()];
            let place = PlaceRequest::new(KEY, max, permit).with_lease(shortest);
            let leaving = if random.below(4) == 0 && left != permit {
                ends.remove(&left);
                vec![member(&place.with_permit(left))]
            } else {
                Vec::new()
            };
            let held = ends.get(&permit).is_some_and(|end| *end > now);
            // No permit enters twice.
            let operation = if operation == "enter" && held { "look" } else { operation };
            let answer = server.ask(&question(operation, &place, leaving, Some(now)), 1, random.below(2) == 0).1;
            if operation == "leave" {
                // A lease that has ended may have been swept out.
                assert!(u16::from(held) <= answer.admitted);
                ends.remove(&permit);
                continue;
            }
            for end in ends.values_mut() {
                *end = (now + LEASE).min(*end);
            }
            ends.retain(|_, end| *end > now);
            let renewed = operation == "renew" && held;
            let admits = renewed || u64::try_from(ends.len()).unwrap() < max;
            if admits && operation != "look" {
                ends.insert(permit, now + LEASE);
            }
            let ticket = if operation == "look" || !admits { 0 } else { 1 + u64::from(operation == "renew" && !held) };
            let expected = (u16::from(admits), u64::try_from(ends.len()).unwrap(), ticket);
            assert_eq!((answer.admitted, answer.remaining, answer.ticket), expected, "{operation} of {max}: {ends:?}");
            if ticket > 0 {
                // A second longer than the lease, by the caller's clock.
                assert!(matches!(send(&mut server, ["PTTL", "key"]), Value::Int(5_900..=6_001)));
            }
        }
    }
}

#[test]
fn a_call_sweeps_64_and_cuts_a_lease_to_its_own_length() {
    let mut server = ScriptServer::start("places-swept");
    server.load(Script::places());
    let place = PlaceRequest::new(KEY, 2, PermitId::next()).with_lease(PlaceRequest::MIN_LEASE);
    for number in 0..200 {
        send(&mut server, ["ZADD", "key", "1000", &format!("00000000000000aa.{number}.5000")]);
    }
    send(&mut server, ["ZADD", "key", "9000000000000000", "00000000000000aa.200.6000"]);
    for left in [138, 74, 10, 2] {
        let question = question("renew", &place, Vec::new(), Some(START));
        assert_eq!(server.ask(&question, 1, true).1.remaining, 2);
        assert_eq!(send(&mut server, ["ZCARD", "key"]), Value::Int(left));
        assert!(matches!(send(&mut server, ["PTTL", "key"]), Value::Int(6_900..=7_001)));
    }
    let look = question("look", &place, Vec::new(), Some(START + 6_000_000));
    assert_eq!(server.ask(&look, 1, true).1.remaining, 0);
}
