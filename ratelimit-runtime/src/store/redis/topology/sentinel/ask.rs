//! What a sentinel is asked, and what it says.

use redis::{Value, cmd};

use crate::error::StoreError;
use crate::store::redis::errors;
use crate::store::redis::wire::login::{Role, converse};
use crate::store::redis::wire::server::Server;
use crate::store::redis::wire::stream::Stream;

/// What a sentinel says of a master.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Said {
    Master {
        host: String,
        port: u16,
        /// Counts fail-overs: of two sentinels that disagree, the one with the higher number knows better. 0 if it may
        /// not be asked.
        epoch: u64,
        /// Where further sentinels are, but those that it holds to be down.
        others: Vec<(String, u16)>,
    },
    /// It does not watch a master of this name.
    Unknown,
}

/// A connection to a sentinel.
pub(super) struct Line<'a> {
    sentinel: &'a Server,
    stream: Stream,
}

impl<'a> Line<'a> {
    pub(crate) async fn open(sentinel: &'a Server) -> Result<Self, StoreError> {
        let opened = sentinel.stream(Role::Any).await;
        let (stream, ..) = opened.map_err(|error| of(sentinel, "", &error))?;
        Ok(Self { sentinel, stream })
    }

    pub(crate) async fn ask(&mut self, name: &str) -> Result<Said, StoreError> {
        let asked = ["GET-MASTER-ADDR-BY-NAME", "MASTER", "SENTINELS"];
        let asked = asked.map(|what| cmd("SENTINEL").arg(what).arg(name).take());
        let replies = converse(&mut self.stream, &asked).await.map_err(|error| self.sentinel.not_logged_in(error))?;
        match replies.as_slice() {
            [address, master, others] => {
                read(address, master, others).ok_or_else(|| of(self.sentinel, "", &errors::unexpected_reply()))
            }
            [Value::ServerError(error)] => {
                Err(of(self.sentinel, "SENTINEL GET-MASTER-ADDR-BY-NAME: ", &errors::from_server(error)))
            }
            _ => Err(of(self.sentinel, "", &errors::unexpected_reply())),
        }
    }
}

/// An error that came from a sentinel.
fn of(sentinel: &Server, doing: &str, error: &StoreError) -> StoreError {
    StoreError::new(error.kind(), format!("the sentinel at {sentinel}: {doing}{}", error.message()))
}

/// The other two may be refused to a user who may ask for the address.
pub(crate) fn read(address: &Value, master: &Value, others: &Value) -> Option<Said> {
    match address {
        Value::Nil => Some(Said::Unknown),
        Value::Array(parts) => {
            let [host, port] = parts.as_slice() else { return None };
            let others = match others {
                Value::Array(others) => others.as_slice(),
                _ => &[],
            };
            let is_down = |other: &Value| field(other, "flags").is_some_and(|flags| flags.contains("s_down"));
            let place = |other: &Value| Some((field(other, "ip")?.to_owned(), field(other, "port")?.parse().ok()?));
            Some(Said::Master {
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
        let said = |epoch, others| Some(Said::Master { host: "10.0.0.1".to_owned(), port: 6379, epoch, others });
        let address = list(&["10.0.0.1", "6379"]);
        assert_eq!(read(&address, &master, &others), said(7, vec![("b".to_owned(), 2)]));
        assert_eq!(read(&address, &error, &error), said(0, vec![]), "what may not be asked");
        assert_eq!(read(&Value::Nil, &error, &error), Some(Said::Unknown));
        for nonsense in [Value::Int(1), list(&["h"]), list(&["h", "port"]), list(&["h", "70000"]), Value::Array(vec![])]
        {
            assert_eq!(read(&nonsense, &master, &others), None, "{nonsense:?}");
        }
    }
}
