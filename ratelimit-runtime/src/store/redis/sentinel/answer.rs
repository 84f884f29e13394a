//! [`SentinelAnswer`]: what a sentinel is asked about a master, and what it answers.

use redis::{Pipeline, Value};

/// What a sentinel answers about a master.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum SentinelAnswer {
    Master {
        host: String,
        port: u16,
        /// Counts fail-overs: of two sentinels that disagree, the one with the higher epoch is
        /// right. 0 if the user may not ask for it.
        epoch: u64,
        /// Further sentinels that it does not take to be down.
        others: Vec<(String, u16)>,
    },
    /// It does not watch a master of this name.
    Unknown,
}

/// The commands that ask about the master of this name: three.
pub(super) fn question(name: &str) -> Pipeline {
    let mut pipeline = redis::pipe();
    for about in ["GET-MASTER-ADDR-BY-NAME", "MASTER", "SENTINELS"] {
        pipeline.cmd("SENTINEL").arg(about).arg(name);
    }
    pipeline
}

/// Reads the replies. The user may be refused all but the address.
pub(super) fn read(address: &Value, master: &Value, others: &Value) -> Option<SentinelAnswer> {
    match address {
        Value::Nil => Some(SentinelAnswer::Unknown),
        Value::Array(parts) => {
            let [host, port] = parts.as_slice() else { return None };
            let others = match others {
                Value::Array(others) => others.as_slice(),
                _ => &[],
            };
            let is_down = |other: &Value| field(other, "flags").is_some_and(|flags| flags.contains("s_down"));
            let place = |other: &Value| Some((field(other, "ip")?.to_owned(), field(other, "port")?.parse().ok()?));
            Some(SentinelAnswer::Master {
                host: text(host)?.to_owned(),
                port: text(port)?.parse().ok()?,
                epoch: field(master, "config-epoch").and_then(|epoch| epoch.parse().ok()).unwrap_or_default(),
                others: others.iter().filter(|other| !is_down(other)).filter_map(place).collect(),
            })
        }
        _ => None,
    }
}

/// A field of a list of names and values.
fn field<'a>(list: &'a Value, name: &str) -> Option<&'a str> {
    let Value::Array(list) = list else { return None };
    list.chunks_exact(2).find_map(|pair| match pair {
        [this, value] if text(this) == Some(name) => text(value),
        _ => None,
    })
}

fn text(value: &Value) -> Option<&str> {
    match value {
        Value::BulkString(bytes) => std::str::from_utf8(bytes).ok(),
        Value::SimpleString(text) => Some(text),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test")]

    use redis::parse_redis_value;

    use super::*;

    fn list(words: &[&str]) -> Value {
        Value::Array(words.iter().map(|word| Value::BulkString(word.as_bytes().to_vec())).collect())
    }

    #[test]
    fn replies() {
        let error = parse_redis_value(b"-NOPERM no\r\n").unwrap();
        let master = list(&["name", "main", "ip", "10.0.0.1", "port", "6379", "config-epoch", "7"]);
        let others = Value::Array(vec![
            list(&["name", "x", "ip", "b", "port", "2", "flags", "sentinel"]),
            list(&["name", "y", "ip", "d", "port", "2", "flags", "s_down,sentinel,disconnected"]),
            list(&["ip", "c"]),
            Value::Nil,
        ]);
        let answer =
            |epoch, others| Some(SentinelAnswer::Master { host: "10.0.0.1".to_owned(), port: 6379, epoch, others });
        let address = list(&["10.0.0.1", "6379"]);
        assert_eq!(read(&address, &master, &others), answer(7, vec![("b".to_owned(), 2)]));
        assert_eq!(read(&address, &error, &error), answer(0, vec![]), "what may not be asked");
        assert_eq!(read(&Value::Nil, &error, &error), Some(SentinelAnswer::Unknown));
        for nonsense in [Value::Int(1), list(&["h"]), list(&["h", "port"]), list(&["h", "70000"]), Value::Array(vec![])]
        {
            assert_eq!(read(&nonsense, &master, &others), None, "{nonsense:?}");
        }
    }
}
