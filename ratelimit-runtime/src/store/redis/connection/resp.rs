//! Replies as they come in: RESP2 and RESP3, from bytes that may end anywhere.

use redis::{PushKind, Value, parse_redis_value};

/// What can be read from the front of a buffer.
#[derive(Debug)]
pub(super) enum Parsed {
    /// A whole reply, and how many bytes it took.
    Reply(Value, usize),
    /// A push takes no question's place.
    Push(usize),
    /// The rest is not there yet.
    Incomplete,
    /// This is not RESP.
    Malformed,
}

/// Replies nest no deeper than this, and have no more elements or bytes.
const DEEPEST: u32 = 8;
const LARGEST: usize = 1 << 26;

/// Why there is no value: not yet, or never.
enum Stop {
    Incomplete,
    Malformed,
}

/// The bulk string at the front of a buffer, and how many bytes it took; `None` if it is not there, or not there as a
/// whole.
pub(super) fn bulk(bytes: &[u8]) -> Option<(&[u8], usize)> {
    if bytes.first() != Some(&b'$') {
        return None;
    }
    let mut reader = Reader { bytes, at: 0 };
    let line = reader.line().ok()?;
    let length = length(line.get(1..)?).ok()??;
    let bulk = reader.bulk(length).ok()?;
    Some((bulk, reader.at))
}

pub(super) fn parse(bytes: &[u8]) -> Parsed {
    let mut reader = Reader { bytes, at: 0 };
    let push = bytes.first() == Some(&b'>');
    match reader.value(0) {
        Ok(_) if push => Parsed::Push(reader.at),
        Ok(value) => Parsed::Reply(value, reader.at),
        Err(Stop::Incomplete) if bytes.len() <= LARGEST => Parsed::Incomplete,
        Err(_) => Parsed::Malformed,
    }
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    fn value(&mut self, depth: u32) -> Result<Value, Stop> {
        if depth > DEEPEST {
            return Err(Stop::Malformed);
        }
        let start = self.at;
        let line = self.line()?;
        let (sort, rest) = line.split_first().ok_or(Stop::Malformed)?;
        match sort {
            b':' => integer(rest).map(Value::Int),
            b'+' if rest == b"OK" => Ok(Value::Okay),
            b'+' => text(rest).map(Value::SimpleString),
            b'_' if rest.is_empty() => Ok(Value::Nil),
            b'$' => match length(rest)? {
                Some(length) => self.bulk(length).map(|bulk| Value::BulkString(bulk.to_vec())),
                None => Ok(Value::Nil),
            },
            b'*' => match length(rest)? {
                Some(length) => self.values(length, depth).map(Value::Array),
                None => Ok(Value::Nil),
            },
            b'~' => self.values(some(rest)?, depth).map(Value::Set),
            b'>' if depth == 0 => {
                let data = self.values(some(rest)?, depth)?;
                Ok(Value::Push { kind: PushKind::Other(String::new()), data })
            }
            b'%' => {
                let length = some(rest)?;
                let mut pairs = Vec::with_capacity(length.min(64));
                for _ in 0..length {
                    pairs.push((self.value(depth + 1)?, self.value(depth + 1)?));
                }
                Ok(Value::Map(pairs))
            }
            // A line of its own, rare or of many forms: the client library knows them all.
            b'-' | b',' | b'#' | b'(' => {
                let whole = self.bytes.get(start..self.at).ok_or(Stop::Malformed)?;
                parse_redis_value(whole).map_err(|_| Stop::Malformed)
            }
            b'=' | b'!' => {
                self.bulk(some(rest)?)?;
                let whole = self.bytes.get(start..self.at).ok_or(Stop::Malformed)?;
                parse_redis_value(whole).map_err(|_| Stop::Malformed)
            }
            _ => Err(Stop::Malformed),
        }
    }

    /// Up to the next line break, which is taken as well.
    fn line(&mut self) -> Result<&'a [u8], Stop> {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        let end = rest.iter().position(|byte| *byte == b'\r').ok_or(Stop::Incomplete)?;
        match rest.get(end + 1) {
            Some(b'\n') => {}
            Some(_) => return Err(Stop::Malformed),
            None => return Err(Stop::Incomplete),
        }
        self.at += end + 2;
        Ok(rest.get(..end).unwrap_or_default())
    }

    fn bulk(&mut self, length: usize) -> Result<&'a [u8], Stop> {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        let (bulk, after) = rest.split_at_checked(length).ok_or(Stop::Incomplete)?;
        match after {
            [b'\r', b'\n', ..] => {}
            [] | [b'\r'] => return Err(Stop::Incomplete),
            _ => return Err(Stop::Malformed),
        }
        self.at += length + 2;
        Ok(bulk)
    }

    fn values(&mut self, length: usize, depth: u32) -> Result<Vec<Value>, Stop> {
        // The length is the server's word; memory is only taken for what has come.
        let mut values = Vec::with_capacity(length.min(64));
        for _ in 0..length {
            values.push(self.value(depth + 1)?);
        }
        Ok(values)
    }
}

fn integer(digits: &[u8]) -> Result<i64, Stop> {
    std::str::from_utf8(digits).ok().and_then(|digits| digits.parse().ok()).ok_or(Stop::Malformed)
}

fn text(bytes: &[u8]) -> Result<String, Stop> {
    String::from_utf8(bytes.to_vec()).map_err(|_| Stop::Malformed)
}

/// A length; `None` for RESP2's null.
fn length(digits: &[u8]) -> Result<Option<usize>, Stop> {
    match integer(digits)? {
        -1 => Ok(None),
        length => match usize::try_from(length) {
            Ok(length) if length <= LARGEST => Ok(Some(length)),
            _ => Err(Stop::Malformed),
        },
    }
}

fn some(digits: &[u8]) -> Result<usize, Stop> {
    length(digits)?.ok_or(Stop::Malformed)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "a test")]

    use super::*;

    const REPLIES: &[&str] = &[
        "*7\r\n:1\r\n:0\r\n:41\r\n:0\r\n:3600000000\r\n:1790000000000123\r\n:0\r\n",
        "+OK\r\n",
        "+PONG\r\n",
        ":-1\r\n",
        "$-1\r\n",
        "*-1\r\n",
        "_\r\n",
        "$0\r\n\r\n",
        "$4\r\na\r\nb\r\n",
        "*0\r\n",
        "*2\r\n*1\r\n:1\r\n$1\r\nx\r\n",
        "-NOSCRIPT No matching script. Please use EVAL.\r\n",
        "-ERR\r\n",
        ",1.5\r\n",
        ",inf\r\n",
        "#t\r\n",
        "=8\r\ntxt:none\r\n",
        "!5\r\nERR x\r\n",
        "~1\r\n:1\r\n",
        "%2\r\n+server\r\n$5\r\nredis\r\n+proto\r\n:3\r\n",
    ];

    #[test]
    fn replies_are_what_the_client_library_makes_of_them() {
        for reply in REPLIES {
            match parse(reply.as_bytes()) {
                Parsed::Reply(value, taken) => {
                    assert_eq!(value, parse_redis_value(reply.as_bytes()).unwrap(), "{reply:?}");
                    assert_eq!(taken, reply.len());
                }
                other => panic!("{reply:?}: {other:?}"),
            }
            for end in 0..reply.len() {
                let part = parse(&reply.as_bytes()[..end]);
                assert!(matches!(part, Parsed::Incomplete), "{reply:?} up to {end}: {part:?}");
            }
        }
    }

    #[test]
    fn only_a_whole_reply_is_taken() {
        let all = REPLIES.concat();
        let mut rest = all.as_bytes();
        for reply in REPLIES {
            let Parsed::Reply(_, taken) = parse(rest) else { panic!("{reply:?}") };
            assert_eq!(taken, reply.len());
            rest = &rest[taken..];
        }
        assert!(matches!(parse(b">2\r\n+invalidate\r\n*1\r\n+x\r\n:1\r\n"), Parsed::Push(25)));
    }

    #[test]
    fn what_is_not_resp_is_known_at_once() {
        for garbage in [
            "HTTP/1.1 400\r\n",
            "?\r\n",
            "_x\r\n",
            ":x\r\n",
            "$-2\r\n",
            "*99999999999\r\n",
            "$1\r\nxx\r\n",
            "\r\n",
            ":1\rx",
        ] {
            assert!(matches!(parse(garbage.as_bytes()), Parsed::Malformed), "{garbage:?}");
        }
        assert!(matches!(parse("*1\r\n".repeat(20).as_bytes()), Parsed::Malformed));
    }

    /// A length costs nothing until its bytes come.
    #[test]
    fn a_promise_takes_no_memory() {
        assert!(matches!(parse(b"*60000000\r\n:1\r\n"), Parsed::Incomplete));
    }
}
