//! Keys are equal exactly where the values and the template are, whatever bytes they hold.

use std::collections::HashMap;
use std::sync::LazyLock;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use ratelimit_runtime::__private::KeyBuilder;
use ratelimit_runtime::{Key, KeyPart, KeyWriter, Limit, Override, Policy, RateLimiter};

/// The longest rendering of one value.
const MAX_PART: usize = 160;

fn config() -> ProptestConfig {
    ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::with_cases(512)
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
            Self::Group(name, shapes) => {
                Self::Group(name.clone(), shapes.iter().map(Self::nested).collect())
            }
            Self::Items(shapes) => match shapes.as_slice() {
                [only] => only.nested(),
                shapes => Self::Group(String::new(), shapes.iter().map(Self::nested).collect()),
            },
        }
    }

    /// Its items as a placeholder writes them; none at all read as an empty group.
    fn items(&self) -> Vec<Self> {
        match self {
            Self::Items(shapes) if !shapes.is_empty() => shapes.iter().map(Self::nested).collect(),
            other => vec![other.nested()],
        }
    }
}

/// Few different bytes, and those that have a meaning in a key: likely collisions are tried often.
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
    bytes()
        .prop_map(Shape::Item)
        .prop_recursive(3, 12, 3, move |shape| {
            prop_oneof![
                (name.clone(), vec(shape.clone(), 0..3))
                    .prop_map(|(name, shapes)| Shape::Group(name, shapes)),
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
    key.as_bytes()
        .iter()
        .any(|byte| matches!(byte, b'{' | b'}'))
}

/// Whether a policy takes this as the key of a call: an override that is for none is refused.
fn is_of_a_call(rendered: &str) -> bool {
    static LIMITER: LazyLock<RateLimiter> = LazyLock::new(RateLimiter::memory);
    let Ok(key) = Key::from_rendered(rendered) else {
        return false;
    };
    assert_eq!(key.as_bytes(), rendered.as_bytes());
    let policy = Policy::new(Limit::per_hour(1)).with_override(&key, Override::max(2));
    LIMITER.set_policies([("overridden", policy)]).is_ok()
}

#[test]
fn an_override_for_a_key_that_no_call_renders_is_refused() {
    for rendered in [
        "<alice@example.com>",
        "<acme>/<7>",
        "user:<>",
        "<()>",
        "<a,b>",
        "<point(1,2)>",
        "<some((a,none()))>",
        "<some(%-)>",
        "<Zoë 1/2>",
        "<2001:db8:1:2::/64>",
        "<#fdb7f3c40645e79ca4c5d1638753243c>",
        "<a,#fdb7f3c40645e79ca4c5d1638753243c>",
        "<##074d1dfbc64de4c6bd938914aff2f1b2>",
        "<%FFa%00>",
        "<,>",
    ] {
        assert!(is_of_a_call(rendered), "{rendered}");
    }
    for text in [
        "",
        "alice@example.com",
        "#fdb7f3c40645e79ca4c5d1638753243c",
        "<a",
        "a>",
        "<<a>>",
        "<a>>",
        "<{a}>",
        "{a}<a>",
        "<a\n>",
        "<%61>",
        "<%ff>",
        "<%7b>",
        "<%>",
        "<%2>",
        "<%-,a>",
        "<%->",
        "<a(%-,b)>",
        "<a(>",
        "<a)>",
        "<a(b)c>",
        "<a(b)(c)>",
        "<#12>",
        "<a#b>",
        "<#fdb7f3c40645e79ca4c5d1638753243C>",
        "<##074d>",
        "<%+1>",
        "%3c<a>",
    ] {
        assert!(!is_of_a_call(text), "{text}");
    }
    assert!(is_of_a_call(&format!("<{}>", "x".repeat(160))));
    assert!(!is_of_a_call(&format!("<{}>", "x".repeat(161))));
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn an_override_for_a_key_that_a_call_renders_is_accepted(template in pieces()) {
        let (key, meaning) = render(&template);
        let has_value = meaning.iter().any(|piece| matches!(piece, Piece::Part(_)));
        prop_assert_eq!(is_of_a_call(std::str::from_utf8(key.as_bytes()).unwrap()), has_value, "{:?}", key.as_bytes());
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

    /// The implementations for the types that users have.
    #[test]
    fn ordinary_values_are_told_apart(values in vec(ordinary(), 2..20)) {
        let mut by_key = HashMap::new();
        for value in values {
            let key = Key::of(&value);
            prop_assert!(!has_brace(&key));
            prop_assert!(key.as_bytes().len() <= MAX_PART + 2, "a value and its brackets");
            prop_assert_eq!(by_key.entry(key).or_insert_with(|| value.clone()), &value);
        }
    }
}

type Ordinary = (
    String,
    Vec<String>,
    Option<Option<String>>,
    Vec<u8>,
    (i64, bool, char),
    [Option<u8>; 2],
);

fn ordinary() -> impl Strategy<Value = Ordinary> {
    let text = || "[a,()<>{}%]{0,2}";
    (
        text(),
        vec(text(), 0..3),
        prop::option::of(prop::option::of(text())),
        bytes(),
        (
            -2..3_i64,
            any::<bool>(),
            select(vec!['a', ',', '(', '{', '\0', 'é']),
        ),
        [prop::option::of(0..3_u8), prop::option::of(0..3_u8)],
    )
}
