//! Replies as they come in: RESP2 and RESP3, from bytes that may end anywhere.

use redis::{Value, parse_redis_value};

#[cfg(any(test, fuzzing))]
pub(crate) mod fuzzing;

/// What can be read from the front of a buffer.
#[derive(Debug)]
pub(crate) enum Parsed {
    /// A whole reply, and how many bytes it took.
    Reply(Value, usize),
    /// A push takes no question's place.
    Push(usize),
    /// The rest is not there yet.
    Incomplete,
    /// This is not RESP.
    Malformed,
}

/// Replies nest no deeper than this.
const DEEPEST: usize = 8;
/// A reply has no more bytes. The largest that is asked for names the owners of 16,384 slots.
const LARGEST: usize = 1 << 24;
/// A reply has no more elements, each of which takes some 60 bytes.
const MOST: usize = 1 << 19;
/// A line has no more bytes.
const LONGEST_LINE: usize = 1 << 16;

/// Why there is no value: not yet, or never.
#[derive(Debug, PartialEq, Eq)]
enum Stop {
    Incomplete,
    Malformed,
}

/// The bulk string at the front of a buffer, and how many bytes it took; `None` if it is not there,
/// or not there as a whole.
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

/// How far the reply at the front of a buffer has been looked through. Each element is looked at
/// once, in however many pieces the reply comes, and nothing is made of it until all of it is
/// there.
#[derive(Debug, Default)]
pub(super) struct Progress {
    at: usize,
    elements: usize,
    /// On each level, how many elements are to come.
    open: Vec<usize>,
}

impl Progress {
    /// Goes on with the same reply, or begins with the next one after a whole one.
    pub(crate) fn parse(&mut self, bytes: &[u8]) -> Parsed {
        let whole = match self.find_end(bytes) {
            Ok(end) => bytes.get(..end).unwrap_or_default(),
            Err(Stop::Incomplete) if bytes.len() <= LARGEST => return Parsed::Incomplete,
            Err(_) => return Parsed::Malformed,
        };
        *self = Self { open: std::mem::take(&mut self.open), ..Self::default() };
        if whole.first() == Some(&b'>') {
            return Parsed::Push(whole.len());
        }
        Reader { bytes: whole, at: 0 }.value().map_or(Parsed::Malformed, |value| Parsed::Reply(value, whole.len()))
    }

    fn find_end(&mut self, bytes: &[u8]) -> Result<usize, Stop> {
        let mut reader = Reader { bytes, at: self.at };
        loop {
            let inside = match reader.element()? {
                Element::Some(_, length) => length,
                Element::Push(length) if self.at == 0 => length,
                Element::Push(_) => return Err(Stop::Malformed),
                Element::One(_) => 0,
            };
            self.at = reader.at;
            self.elements += 1;
            if inside > 0 {
                if self.open.len() == DEEPEST || inside > MOST.saturating_sub(self.elements) {
                    return Err(Stop::Malformed);
                }
                self.open.push(inside);
                continue;
            }
            // The last element of a level ends it, and so is the next one of the level around it.
            loop {
                match self.open.last_mut() {
                    None => return Ok(self.at),
                    Some(left) if *left > 1 => {
                        *left -= 1;
                        break;
                    }
                    Some(_) => self.open.pop(),
                };
            }
        }
    }
}

/// Reads the reply at the front.
#[cfg(any(test, fuzzing))]
pub(crate) fn parse(bytes: &[u8]) -> Parsed {
    Progress::default().parse(bytes)
}

/// An element of a reply, without those in it.
enum Element {
    One(Value),
    /// Of so many.
    Some(Sort, usize),
    Push(usize),
}

#[derive(Clone, Copy)]
enum Sort {
    Array,
    Set,
    Map,
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    /// The value that is here as a whole.
    fn value(&mut self) -> Result<Value, Stop> {
        let (sort, length) = match self.element()? {
            Element::One(value) => return Ok(value),
            Element::Some(sort, length) => (sort, length),
            Element::Push(_) => return Err(Stop::Malformed),
        };
        let mut values = Vec::with_capacity(length.min(MOST));
        for _ in 0..length {
            values.push(self.value()?);
        }
        Ok(match sort {
            Sort::Array => Value::Array(values),
            Sort::Set => Value::Set(values),
            Sort::Map => {
                let (mut pairs, mut values) = (Vec::with_capacity(length / 2), values.into_iter());
                while let (Some(key), Some(value)) = (values.next(), values.next()) {
                    pairs.push((key, value));
                }
                Value::Map(pairs)
            }
        })
    }

    fn element(&mut self) -> Result<Element, Stop> {
        let start = self.at;
        let line = self.line()?;
        let (sort, rest) = line.split_first().ok_or(Stop::Malformed)?;
        let value = match sort {
            b':' => Value::Int(integer(rest)?),
            b'+' if rest == b"OK" => Value::Okay,
            b'+' => Value::SimpleString(text(rest)?),
            b'_' if rest.is_empty() => Value::Nil,
            b'$' => match length(rest)? {
                Some(length) => Value::BulkString(self.bulk(length)?.to_vec()),
                None => Value::Nil,
            },
            b'*' => match length(rest)? {
                Some(length) => return Ok(Element::Some(Sort::Array, length)),
                None => Value::Nil,
            },
            b'~' => return Ok(Element::Some(Sort::Set, some(rest)?)),
            b'%' => return Ok(Element::Some(Sort::Map, 2 * some(rest)?)),
            b'>' => return Ok(Element::Push(some(rest)?)),
            // A line of its own, rare or of many forms: the client library knows them all.
            b'-' | b',' | b'#' | b'(' => self.read_from(start)?,
            b'=' | b'!' => {
                self.bulk(some(rest)?)?;
                self.read_from(start)?
            }
            _ => return Err(Stop::Malformed),
        };
        Ok(Element::One(value))
    }

    /// What the client library makes of what has been taken.
    fn read_from(&self, start: usize) -> Result<Value, Stop> {
        let whole = self.bytes.get(start..self.at).ok_or(Stop::Malformed)?;
        parse_redis_value(whole).map_err(|_| Stop::Malformed)
    }

    /// Up to the next line break, which is taken as well.
    fn line(&mut self) -> Result<&'a [u8], Stop> {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        let Some(end) = rest.iter().take(LONGEST_LINE).position(|byte| *byte == b'\r') else {
            return Err(if rest.len() < LONGEST_LINE { Stop::Incomplete } else { Stop::Malformed });
        };
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

    /// What has been looked through is not looked at again: here it is not even there any more.
    #[test]
    fn a_reply_in_pieces_is_looked_through_once() {
        let whole =
            format!("*3\r\n*2\r\n:1\r\n$4\r\na\r\nb\r\n%1\r\n+k\r\n*{}\r\n{}*0\r\n", 1000, ":7\r\n".repeat(1000));
        let whole = whole.as_bytes();
        let (mut progress, mut bytes) = (Progress::default(), Vec::new());
        for piece in whole.chunks(16) {
            let looked_at = progress.at;
            bytes.extend_from_slice(piece);
            bytes[..looked_at].fill(b'?');
            match progress.find_end(&bytes) {
                Ok(end) => assert_eq!((end, bytes.len()), (whole.len(), whole.len())),
                Err(stop) => assert!(stop == Stop::Incomplete && bytes.len() < whole.len()),
            }
            // But for the element that was cut.
            assert!(bytes.len() - progress.at < 32);
        }
        assert_eq!(progress.at, whole.len());
    }

    /// A length costs nothing until its bytes come, and no reply gets as many as it wants.
    #[test]
    fn a_reply_has_a_budget() {
        assert!(matches!(parse(b"*500000\r\n:1\r\n"), Parsed::Incomplete));
        assert!(matches!(parse(b"*600000\r\n:1\r\n"), Parsed::Malformed));
        assert!(matches!(parse(b"*2\r\n*300000\r\n:1\r\n"), Parsed::Incomplete));
        let many = format!("*300\r\n{}", format!("*2000\r\n{}", ":1\r\n".repeat(2000)).repeat(300));
        assert!(matches!(parse(many.as_bytes()), Parsed::Malformed), "elements of elements");
        assert!(matches!(parse(b"$16777217\r\nx"), Parsed::Malformed));
        let wide = [
            b"*20\r\n".as_slice(),
            &[b"$1048576\r\n".as_slice(), vec![b'x'; 1 << 20].as_slice(), b"\r\n"].concat().repeat(17),
        ]
        .concat();
        assert!(matches!(parse(&wide), Parsed::Malformed), "bytes of elements");
        assert!(matches!(parse(&vec![b'+'; 1 << 17]), Parsed::Malformed), "a line that never ends");
    }
}
