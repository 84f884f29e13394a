//! Replies as bytes, beside the client library's parser.
#![allow(clippy::expect_used, reason = "a panic is what is looked for")]
#![allow(clippy::missing_panics_doc, reason = "each panics if something does not hold")]

use redis::{Value, parse_redis_value};

use super::{Parsed, bulk, parse};

/// Only reads, for who counts what that allocates.
pub fn read_resp(data: &[u8]) {
    let _ = parse(data);
}

/// Whatever a server sends, cut anywhere.
pub fn resp(data: &[u8]) {
    let theirs = parse_redis_value(data);
    match parse(data) {
        Parsed::Reply(value, taken) => {
            let whole = data.get(..taken).expect("it took what is there");
            same(&value, &parse_redis_value(whole).expect("the client library reads it too"));
            let string = bulk(data).map(|(bulk, taken)| (Value::BulkString(bulk.to_vec()), taken));
            assert_eq!(string.is_some(), matches!(value, Value::BulkString(_)) && data.first() == Some(&b'$'));
            assert!(string.is_none_or(|string| string == (value, taken)));
            for end in (0..taken).rev().take(256) {
                let cut = parse(data.get(..end).unwrap_or_default());
                assert!(matches!(cut, Parsed::Incomplete), "cut at {end}: {cut:?}");
            }
        }
        Parsed::Push(taken) => {
            // Whatever its kind is: as an array it can be read.
            let whole = data.get(1..taken).expect("it took what is there");
            let array = [b"*", whole].concat();
            assert!(matches!(parse(&array), Parsed::Reply(_, length) if length == taken));
        }
        Parsed::Incomplete => assert!(theirs.is_err(), "the client library read {theirs:?}"),
        Parsed::Malformed => {
            assert!(bulk(data).is_none());
            assert!(!theirs.is_ok_and(|theirs| is_plain(&theirs, data)), "the client library reads it");
        }
    }
}

/// Not-a-number is not equal to itself.
fn same(ours: &Value, theirs: &Value) {
    assert!(ours == theirs || format!("{ours:?}") == format!("{theirs:?}"), "{ours:?} and {theirs:?}");
}

/// Whether a server that keeps to the protocol may send a reply so: what is refused here, and the
/// client library reads, is spelled in another way, or nested too deeply.
fn is_plain(value: &Value, data: &[u8]) -> bool {
    let mut wire = Vec::new();
    write(value, 0, &mut wire).is_some() && data.starts_with(&wire)
}

fn write(value: &Value, depth: u32, wire: &mut Vec<u8>) -> Option<()> {
    let mut line = |sort: u8, text: &[u8]| {
        wire.push(sort);
        wire.extend_from_slice(text);
        wire.extend_from_slice(b"\r\n");
    };
    let count = |length: usize| length.to_string().into_bytes();
    match value {
        _ if depth > 8 => return None,
        Value::Nil => line(b'_', b""),
        Value::Okay => line(b'+', b"OK"),
        Value::Int(number) => line(b':', number.to_string().as_bytes()),
        Value::SimpleString(text) if !text.contains('\r') => line(b'+', text.as_bytes()),
        Value::Boolean(flag) => line(b'#', if *flag { b"t" } else { b"f" }),
        Value::BulkString(bytes) => {
            line(b'$', &count(bytes.len()));
            wire.extend_from_slice(bytes);
            wire.extend_from_slice(b"\r\n");
        }
        Value::Array(values) | Value::Set(values) => {
            line(if matches!(value, Value::Set(_)) { b'~' } else { b'*' }, &count(values.len()));
            return values.iter().try_for_each(|value| write(value, depth + 1, wire));
        }
        Value::Map(pairs) => {
            line(b'%', &count(pairs.len()));
            return pairs.iter().try_for_each(|(key, value)| {
                write(key, depth + 1, wire)?;
                write(value, depth + 1, wire)
            });
        }
        _ => return None,
    }
    Some(())
}
