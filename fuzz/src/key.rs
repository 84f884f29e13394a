//! Keys: different values, or different templates, never render the same.

use ratelimit_runtime::__private::KeyBuilder;
use ratelimit_runtime::{Key, KeyPart, KeyWriter};

use super::Input;

/// A template: text, or the type of a placeholder.
#[derive(Clone)]
enum Piece<P> {
    Text(String),
    Part(P),
}

#[derive(Clone)]
enum Type {
    Text,
    Bytes,
    Unsigned,
    Signed,
    Flag,
    Char,
    Option(Box<Self>),
    Pair(Box<Self>, Box<Self>),
    List(Box<Self>),
    Variant(Box<Self>),
}

#[derive(Debug, Clone, PartialEq)]
enum Value {
    Text(String),
    Bytes(Vec<u8>),
    Unsigned(u64),
    Signed(i64),
    Flag(bool),
    Char(char),
    Option(Option<Box<Self>>),
    Pair(Box<Self>, Box<Self>),
    List(Vec<Self>),
    Variant(&'static str, Vec<Self>),
}

impl KeyPart for Value {
    fn write_key(&self, key: &mut KeyWriter<'_>) {
        match self {
            Self::Text(text) => text.write_key(key),
            Self::Bytes(bytes) => bytes.as_slice().write_key(key),
            Self::Unsigned(number) => number.write_key(key),
            Self::Signed(number) => number.write_key(key),
            Self::Flag(flag) => flag.write_key(key),
            Self::Char(c) => c.write_key(key),
            Self::Option(value) => value.as_deref().write_key(key),
            Self::Pair(a, b) => (a, b).write_key(key),
            Self::List(values) => values.as_slice().write_key(key),
            // As the derive writes an enum.
            Self::Variant(name, values) => key.group(name, |group| {
                for value in values {
                    group.part(value);
                }
            }),
        }
    }
}

impl Type {
    fn read(input: &mut Input<'_>, depth: u8) -> Self {
        let inner = |input: &mut Input<'_>| Box::new(Self::read(input, depth + 1));
        match input.below(if depth < 4 { 10 } else { 6 }) {
            0 => Self::Text,
            1 => Self::Bytes,
            2 => Self::Unsigned,
            3 => Self::Signed,
            4 => Self::Flag,
            5 => Self::Char,
            6 => Self::Option(inner(input)),
            7 => Self::Pair(inner(input), inner(input)),
            8 => Self::List(inner(input)),
            _ => Self::Variant(inner(input)),
        }
    }

    fn value(&self, input: &mut Input<'_>) -> Value {
        let values = |of: &Self, input: &mut Input<'_>| {
            (0..input.below(4)).map(|_| of.value(input)).collect()
        };
        match self {
            Self::Text => Value::Text(input.text()),
            Self::Bytes => Value::Bytes(input.some().to_vec()),
            Self::Unsigned => Value::Unsigned(input.number()),
            Self::Signed => Value::Signed(input.number().cast_signed()),
            Self::Flag => Value::Flag(input.below(2) == 1),
            Self::Char => Value::Char(input.text().chars().next().unwrap_or_default()),
            Self::Option(of) => {
                Value::Option((input.below(2) == 1).then(|| Box::new(of.value(input))))
            }
            Self::Pair(a, b) => Value::Pair(Box::new(a.value(input)), Box::new(b.value(input))),
            Self::List(of) => Value::List(values(of, input)),
            Self::Variant(of) => {
                let names = ["", "a", "none", "some", "A(b", "#"];
                let name = names
                    .get(usize::from(input.below(6)))
                    .copied()
                    .unwrap_or_default();
                Value::Variant(name, values(of, input))
            }
        }
    }
}

/// Keys of values of any shape, and of texts under any template.
pub fn key(data: &[u8]) {
    let mut input = Input(data);
    let template: Vec<_> = (0..input.below(4))
        .map(|_| {
            if input.below(2) == 0 {
                Piece::Text(input.text())
            } else {
                Piece::Part(Type::read(&mut input, 0))
            }
        })
        .collect();
    let mut values = || -> Vec<_> {
        let mut value = |piece: &Piece<Type>| match piece {
            Piece::Text(text) => Piece::Text(text.clone()),
            Piece::Part(of) => Piece::Part(of.value(&mut input)),
        };
        template.iter().map(&mut value).collect()
    };
    same_key_for_same_values(&values(), &values());
    // Of texts alone, also under different templates.
    let mut pieces = || -> Vec<_> {
        let count = input.below(4);
        (0..count)
            .map(|_| {
                if input.below(2) == 0 {
                    Piece::Text(input.text())
                } else {
                    Piece::Part(Value::Text(input.text()))
                }
            })
            .collect()
    };
    same_key_for_same_values(&pieces(), &pieces());
}

fn same_key_for_same_values(a: &[Piece<Value>], b: &[Piece<Value>]) {
    let (key_a, key_b) = (rendered(a), rendered(b));
    assert_eq!(
        meaning(a) == meaning(b),
        key_a == key_b,
        "{:?} and {:?}",
        meaning(a),
        meaning(b)
    );
}

/// The values between the texts; no text at all where one is empty.
fn meaning(pieces: &[Piece<Value>]) -> Vec<(String, Option<&Value>)> {
    let mut meaning = vec![(String::new(), None)];
    for piece in pieces {
        match (piece, meaning.last_mut()) {
            (Piece::Text(text), Some((before, None))) => before.push_str(text),
            (Piece::Part(value), Some((_, none))) => {
                *none = Some(value);
                meaning.push((String::new(), None));
            }
            _ => {}
        }
    }
    meaning
}

fn rendered(pieces: &[Piece<Value>]) -> Key {
    let (mut builder, mut longest) = (KeyBuilder::new(), 0);
    for piece in pieces {
        match piece {
            Piece::Text(text) => {
                builder.text(text);
                longest += 3 * text.len();
            }
            Piece::Part(value) => {
                builder.part(value);
                longest += 162;
            }
        }
    }
    let key = builder.finish();
    let text = std::str::from_utf8(key.as_bytes()).expect("a key is text");
    assert!(text.len() <= longest, "{} bytes of {longest}", text.len());
    assert!(
        !text.contains(['{', '}']) && !text.contains(|c: char| c.is_ascii_control()),
        "{text:?}"
    );
    assert_eq!(Key::from_rendered(text).as_ref(), Ok(&key));
    key
}
