//! Properties that hold for all arrivals, limits and keys, tried on random ones.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on fails")]

use std::collections::HashMap;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use ratelimit_runtime::__private::KeyBuilder;
/// The longest rendering of one value.
const MAX_PART: usize = 160;
use ratelimit_conformance::Reference;
use ratelimit_runtime::store::{Answer, Request, Store as _, Verdict};
use ratelimit_runtime::testkit::FakeClock;
use ratelimit_runtime::{Algorithm, Key, KeyPart, KeyWriter, Limit, MemoryStore, key};

/// One call: how long after the one before, under which `max`, of which cost.
#[derive(Debug, Clone, Copy)]
struct Call {
    after_us: u64,
    max: u64,
    cost: u64,
    peek: bool,
}

const WINDOW_US: u64 = 10_000;
/// More than a case may use at one moment.
const AT_ONCE: u64 = 2_000;

fn calls() -> impl Strategy<Value = Vec<Call>> {
    let after_us = prop_oneof![
        4 => 0..WINDOW_US / 4,
        1 => Just(0_u64),
        1 => select(vec![1, WINDOW_US - 1, WINDOW_US, WINDOW_US + 1, 3 * WINDOW_US]),
    ];
    let call = (after_us, 1..12_u64, any::<prop::sample::Index>(), prop::bool::weighted(0.15)).prop_map(
        |(after_us, max, cost, peek)| {
            // A cost above the limit never reaches a store; most calls are light.
            let cost = if cost.index(3) == 0 { 1 + cost.index(usize::try_from(max).unwrap()) as u64 } else { 1 };
            Call { after_us, max, cost, peek }
        },
    );
    vec(call, 1..120)
}

/// A memory store, its clock, and one key.
struct Memory {
    store: MemoryStore,
    clock: FakeClock,
}

impl Memory {
    fn new() -> Self {
        let clock = FakeClock::new();
        Self { store: MemoryStore::new().with_clock(clock.clone()), clock }
    }

    fn now(&self) -> u64 {
        u64::try_from(self.clock.now().as_micros()).unwrap()
    }

    fn ask(&self, call: Call) -> Verdict {
        let limits = [limit(call)];
        let request = Request::new(b"key", Algorithm::SlidingWindow, &limits).with_cost(call.cost);
        at_once(if call.peek { self.store.peek(request) } else { self.store.acquire(request) })
    }
}

fn limit(call: Call) -> Limit {
    Limit::new(call.max, Duration::from_micros(WINDOW_US))
}

/// The answer of a store that never waits.
fn at_once<T: Unpin>(answer: Answer<'_, T>) -> T {
    match pin!(answer).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(answer) => answer.unwrap(),
        Poll::Pending => panic!("a store in memory answers at once"),
    }
}

fn config() -> ProptestConfig {
    ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(512) }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn memory_agrees_with_the_reference(calls in calls()) {
        let memory = Memory::new();
        let mut reference = Reference::sliding_window();
        for call in calls {
            memory.clock.advance(Duration::from_micros(call.after_us));
            let verdict = memory.ask(call);
            let (now, limit) = (memory.now(), limit(call));
            let wait = reference.wait(now, limit, call.cost);
            if wait == 0 && !call.peek {
                let _ = reference.charge(now, limit, call.cost);
            }
            let expected = (wait == 0, reference.remaining(now, limit), wait, reference.reset_after(now, limit));
            let answer = (verdict.allowed, verdict.remaining, verdict.retry_after_us, verdict.reset_after_us);
            prop_assert_eq!(answer, expected, "{:?}", call);
        }
    }

    /// Says it without the reference: every window that ends in an admission holds at most the
    /// `max` it was asked with.
    #[test]
    fn no_window_holds_more_than_max(calls in calls()) {
        let memory = Memory::new();
        let mut admitted: Vec<(u64, u64)> = Vec::new();
        for call in calls {
            memory.clock.advance(Duration::from_micros(call.after_us));
            if memory.ask(call).allowed && !call.peek {
                let now = memory.now();
                admitted.push((now, call.cost));
                let held: u64 = admitted.iter().filter(|(at, _)| now < at + WINDOW_US).map(|(_, cost)| cost).sum();
                prop_assert!(held <= call.max, "{} in a window under {:?}", held, call);
            }
        }
    }

    #[test]
    fn refused_until_exactly_retry_after_then_admitted(calls in calls()) {
        let memory = Memory::new();
        for call in calls {
            memory.clock.advance(Duration::from_micros(call.after_us));
            let verdict = memory.ask(call);
            if verdict.allowed {
                continue;
            }
            // Units that were admitted at once have the microseconds that follow.
            prop_assert!((1..=WINDOW_US + AT_ONCE).contains(&verdict.retry_after_us));
            memory.clock.advance(Duration::from_micros(verdict.retry_after_us - 1));
            prop_assert!(!memory.ask(call).allowed, "a microsecond early");
            memory.clock.advance(Duration::from_micros(1));
            prop_assert!(memory.ask(call).allowed, "at the moment that was named");
        }
    }

    /// Time that the clock takes back still has passed: windows are counted in what went by, never
    /// in less. And whatever the clock did, a window after it has caught up nothing is left.
    #[test]
    fn a_clock_that_steps_back_frees_nothing_early_and_keeps_nothing_long(
        calls in calls(),
        steps in vec(prop_oneof![3 => Just(0), 1 => 0..3 * WINDOW_US], 120),
    ) {
        let memory = Memory::new();
        let (mut elapsed, mut latest, mut admitted) = (0, 0, Vec::<(u64, u64)>::new());
        for (call, step) in calls.into_iter().zip(steps) {
            memory.clock.step_back(Duration::from_micros(step));
            memory.clock.advance(Duration::from_micros(call.after_us));
            elapsed += call.after_us;
            let now = memory.now();
            latest = now.max(latest);
            let verdict = memory.ask(call);
            let longest = latest - now + WINDOW_US + AT_ONCE;
            prop_assert!(verdict.retry_after_us <= longest && verdict.reset_after_us <= longest, "{:?}", verdict);
            if verdict.allowed && !call.peek {
                admitted.push((elapsed, call.cost));
                let held: u64 = admitted.iter().filter(|(at, _)| elapsed < at + WINDOW_US).map(|(_, cost)| cost).sum();
                prop_assert!(held <= call.max, "{} in a window under {:?}", held, call);
            }
        }
        memory.clock.advance(Duration::from_micros(latest - memory.now() + WINDOW_US + AT_ONCE));
        let whole = memory.ask(Call { after_us: 0, max: 12, cost: 1, peek: true });
        prop_assert_eq!((whole.remaining, whole.reset_after_us), (12, 0));
    }
}

/// A value of any shape that a `KeyPart` can write.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Shape {
    Item(Vec<u8>),
    Group(String, Vec<Self>),
    /// Several items without a group, as a hand-written `KeyPart` may write them.
    Items(Vec<Self>),
}

impl KeyPart for Shape {
    fn write_key(&self, key: &mut KeyWriter<'_>) {
        match self {
            Self::Item(bytes) => key.bytes(bytes),
            Self::Group(name, shapes) => key.group(name, |group| {
                for shape in shapes {
                    group.part(shape);
                }
            }),
            Self::Items(shapes) => {
                for shape in shapes {
                    key.part(shape);
                }
            }
        }
    }
}

impl Shape {
    /// The stated equivalences: one item is what it holds, and several as one item are a group
    /// without a name.
    fn nested(&self) -> Self {
        match self {
            Self::Item(bytes) => Self::Item(bytes.clone()),
            Self::Group(name, shapes) => Self::Group(name.clone(), shapes.iter().map(Self::nested).collect()),
            Self::Items(shapes) => match shapes.as_slice() {
                [only] => only.nested(),
                shapes => Self::Group(String::new(), shapes.iter().map(Self::nested).collect()),
            },
        }
    }

    /// What a placeholder makes of it: its items; none at all read as an empty group.
    fn items(&self) -> Vec<Self> {
        match self {
            Self::Items(shapes) if !shapes.is_empty() => shapes.iter().map(Self::nested).collect(),
            other => vec![other.nested()],
        }
    }
}

/// Few different bytes, and those that have a meaning in a key: what could collide is tried often.
fn bytes() -> impl Strategy<Value = Vec<u8>> {
    let byte = select(b"ab,()<>{}%#-:.0C2\0\x1f\x7f\xc3\xa9\xff".to_vec());
    prop_oneof![
        8 => vec(byte, 0..4),
        1 => select(vec![b"%-".to_vec(), b"()".to_vec(), b"some(a)".to_vec(), b"%2C".to_vec(), b"<a>".to_vec()]),
        1 => vec(any::<u8>(), 0..20),
        1 => (150..200_usize, select(b"a,\xff".to_vec())).prop_map(|(length, byte)| vec![byte; length]),
    ]
}

fn shape() -> impl Strategy<Value = Shape> {
    let name = select(vec!["", "some", "a", "(", "a,", "%", "{"]).prop_map(str::to_owned);
    bytes().prop_map(Shape::Item).prop_recursive(3, 12, 3, move |shape| {
        prop_oneof![
            (name.clone(), vec(shape.clone(), 0..3)).prop_map(|(name, shapes)| Shape::Group(name, shapes)),
            vec(shape, 0..3).prop_map(Shape::Items),
        ]
    })
}

/// One piece of a template with its value filled in.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Piece {
    Text(String),
    Part(Vec<Shape>),
}

fn pieces() -> impl Strategy<Value = Vec<(Option<String>, Shape)>> {
    let text = "[ab:/<>{}%(),#\\n]{0,3}";
    vec((prop::option::of(text), shape()), 0..4)
}

/// Renders texts and values in turn, and says what was rendered with neighbouring texts as one.
fn render(pieces: &[(Option<String>, Shape)]) -> (Key, Vec<Piece>) {
    let (mut builder, mut meaning) = (KeyBuilder::new(), Vec::new());
    for (text, shape) in pieces {
        if let Some(text) = text {
            builder.text(text);
            match meaning.last_mut() {
                Some(Piece::Text(before)) => before.push_str(text),
                _ if text.is_empty() => {}
                _ => meaning.push(Piece::Text(text.clone())),
            }
        } else {
            builder.part(shape);
            meaning.push(Piece::Part(shape.items()));
        }
    }
    (builder.finish(), meaning)
}

fn has_brace(key: &Key) -> bool {
    key.as_bytes().iter().any(|byte| matches!(byte, b'{' | b'}'))
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn keys_are_equal_exactly_when_the_values_are(shapes in vec(shape(), 2..40)) {
        let mut by_key: HashMap<Key, Vec<Shape>> = HashMap::new();
        let mut by_value: HashMap<Vec<Shape>, Key> = HashMap::new();
        for shape in shapes {
            let (key, value) = (Key::of(&shape), shape.items());
            prop_assert_eq!(by_key.entry(key.clone()).or_insert_with(|| value.clone()), &value, "{:?}", key.as_bytes());
            prop_assert_eq!(by_value.entry(value).or_insert_with(|| key.clone()).as_bytes(), key.as_bytes());
            prop_assert!(!has_brace(&key));
            prop_assert!(key.as_bytes().len() <= MAX_PART + 2, "a value and its brackets");
        }
    }

    #[test]
    fn keys_are_equal_exactly_when_templates_and_values_are(templates in vec(pieces(), 2..40)) {
        let mut by_key: HashMap<Key, Vec<Piece>> = HashMap::new();
        let mut by_meaning: HashMap<Vec<Piece>, Key> = HashMap::new();
        for template in templates {
            let (key, meaning) = render(&template);
            prop_assert_eq!(
                by_key.entry(key.clone()).or_insert_with(|| meaning.clone()), &meaning, "{:?}", key.as_bytes()
            );
            prop_assert_eq!(by_meaning.entry(meaning).or_insert_with(|| key.clone()).as_bytes(), key.as_bytes());
            prop_assert!(!has_brace(&key));
        }
    }

    /// The same through the macro: no value runs over the literal between two placeholders.
    #[test]
    fn two_placeholders_never_run_into_each_other(
        (a, b) in (bytes(), bytes()),
        (c, d) in (bytes(), bytes()),
        cut in any::<prop::sample::Index>(),
    ) {
        let key_of = |a: &[u8], b: &[u8]| key!("<a>:<b>");
        prop_assert_eq!(key_of(&a, &b) == key_of(&c, &d), (&a, &b) == (&c, &d));

        // One text, cut at another place.
        let whole = [a.as_slice(), b">:<", b.as_slice()].concat();
        let (left, right) = whole.split_at(cut.index(whole.len() + 1));
        prop_assert_eq!(key_of(left, right) == key_of(&a, &b), (left, right) == (&a, &b));
    }

    /// The implementations for the types that users have.
    #[test]
    fn ordinary_values_are_told_apart(values in vec(ordinary(), 2..20)) {
        let mut by_key = HashMap::new();
        for value in values {
            let key = Key::of(&value);
            prop_assert!(!has_brace(&key));
            prop_assert_eq!(by_key.entry(key).or_insert_with(|| value.clone()), &value);
        }
    }
}

type Ordinary = (String, Vec<String>, Option<Option<String>>, Vec<u8>, (i64, bool, char), [Option<u8>; 2]);

fn ordinary() -> impl Strategy<Value = Ordinary> {
    let text = || "[a,()<>{}%]{0,2}";
    (
        text(),
        vec(text(), 0..3),
        prop::option::of(prop::option::of(text())),
        bytes(),
        (-2..3_i64, any::<bool>(), select(vec!['a', ',', '(', '{', '\0', 'é'])),
        [prop::option::of(0..3_u8), prop::option::of(0..3_u8)],
    )
}
