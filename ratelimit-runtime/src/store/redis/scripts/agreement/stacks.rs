//! The script of stacks says what the memory store says of a group.

use super::*;
use crate::store::memory::MemoryStore;
use crate::store::redis::scripts::call::Stacked;
use crate::testkit::FakeClock;

const KEYS: [&[u8]; 4] = [b"{s}one", b"{s}two", b"{s}three", b"{s}four"];

/// The rule of each key: one for the life of a run.
fn rules() -> Vec<(Algorithm, Vec<Limit>)> {
    let [minute, ten] = [MINUTE, MINUTE * 10];
    vec![
        (Algorithm::TokenBucket, vec![Limit::new(3, minute)]),
        (Algorithm::LeakyBucket, vec![Limit::new(5, minute).with_burst(2), Limit::new(20, ten)]),
        (Algorithm::FixedWindow, vec![Limit::new(4, minute)]),
        (Algorithm::FixedWindow, vec![Limit::new(4, minute), Limit::new(9, ten)]),
        (Algorithm::SlidingCounter, vec![Limit::new(4, minute)]),
        (Algorithm::SlidingCounter, vec![Limit::new(9, ten), Limit::new(2, minute)]),
    ]
}

fn ask(server: &mut ScriptServer, members: &[(&[u8], &Question)]) -> Stacked {
    let reply = server.send(&call::stack_command(7, members));
    call::read_stack(&reply, 7, members).unwrap_or_else(|_| panic!("{reply:?}"))
}

/// Plays random groups. Where a key may stand in a group twice, it is open which of the two is
/// charged first.
fn play(server: &mut ScriptServer, seed: u64, twice: bool) {
    let mut random = Xorshift(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
    let (clock, rules) = (FakeClock::new(), rules());
    let memory = MemoryStore::new().with_clock(clock.clone());
    let rules: Vec<&(Algorithm, Vec<Limit>)> = KEYS.iter().map(|_| random.of(&rules)).collect();
    let block = Duration::from_secs(*random.of(&[0, 0, 7, 90]));
    server.send(redis::cmd("DEL").arg(&KEYS[..]));
    for step in 0..80 {
        clock.advance(Duration::from_micros(*random.of(&[0, 1, 1_000_000, 20_000_000, 30_000_000])));
        if !twice && random.one_in(30) {
            clock.step_back(Duration::from_secs(random.below(50)));
        }
        for key in KEYS {
            server.send(redis::cmd("PERSIST").arg(key));
        }
        let now = u64::try_from(crate::clock::Clock::now(&clock).as_micros()).unwrap();
        let mut keys: Vec<usize> = (0..KEYS.len()).filter(|_| !random.one_in(3)).collect();
        if twice {
            keys.extend((0..KEYS.len()).filter(|_| random.one_in(3)));
        }
        if keys.is_empty() {
            continue;
        }
        let requests: Vec<Request<'_>> = keys
            .iter()
            .map(|key| {
                let (algorithm, limits) = rules[*key];
                let request = Request::new(KEYS[*key], *algorithm, limits).with_cost(1 + random.below(2));
                let request = if !twice && random.one_in(2) { request.with_block(block) } else { request };
                match random.below(4) {
                    0 if !twice => request.reserving(),
                    1 if !twice => request.reserving_estimate(),
                    _ => request,
                }
            })
            .collect();
        let questions: Vec<Question> =
            requests.iter().map(|request| Question::new(Operation::Acquire, request, Some(now))).collect();
        let members: Vec<(&[u8], &Question)> = requests.iter().map(Request::key).zip(&questions).collect();
        let context = format!("seed {seed} step {step}: {requests:?}");
        let expected =
            crate::store::BuiltInStore::acquire_all(&memory, &requests).known().unwrap_or_else(|_| panic!()).unwrap();
        let stacked = ask(server, &members);
        let is_admitted = expected.iter().all(|verdict| verdict.allowed);
        assert_eq!(stacked.is_charged, is_admitted, "{context}\n{expected:#?}\n{stacked:#?}");
        if twice {
            continue;
        }
        for ((answer, question), expected) in stacked.answers.iter().zip(&questions).zip(&expected) {
            let verdict = answer.as_ref().unwrap().verdict(0, question, stacked.now);
            assert_eq!(verdict, *expected, "{context}");
        }
    }
}

#[test]
fn the_script_decides_a_group_as_memory_does() {
    let mut server = ScriptServer::start("stacks");
    server.load(Script::stack());
    for run in 0..runs() {
        play(&mut server, run + 1, false);
    }
}

#[test]
fn a_key_that_stands_twice_is_charged_twice_or_not_at_all() {
    let mut server = ScriptServer::start("stacks-twice");
    server.load(Script::stack());
    for run in 0..runs() {
        play(&mut server, run + 1, true);
    }
}

#[test]
fn an_error_of_one_member_is_said_and_nothing_is_charged() {
    let mut server = ScriptServer::start("stacks-errors");
    server.load(Script::stack());
    let (limits, now) = ([Limit::new(3, MINUTE)], Some(START));
    for algorithm in [Algorithm::TokenBucket, Algorithm::FixedWindow, Algorithm::SlidingCounter] {
        let question = Question::new(Operation::Acquire, &Request::new(KEY, algorithm, &limits), now);
        for (foreign, key) in KEYS.iter().enumerate().take(3) {
            server.send(redis::cmd("DEL").arg(&KEYS[..]));
            server.send(redis::cmd("HSET").arg(*key).arg("field").arg("value"));
            let members: Vec<(&[u8], &Question)> = KEYS.iter().take(3).map(|key| (*key, &question)).collect();
            let stacked = ask(&mut server, &members);
            assert!(!stacked.is_charged);
            for (index, answer) in stacked.answers.iter().enumerate() {
                assert_eq!(
                    answer.as_ref().err().map(redis::ServerError::code),
                    (index == foreign).then_some("WRONGTYPE")
                );
            }
            assert_eq!(server.send(redis::cmd("EXISTS").arg(&KEYS[..])), Value::Int(1));
        }
    }
}
