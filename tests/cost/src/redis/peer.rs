//! [`Peer`]: what others have the server do for a decision.

use std::time::{SystemTime, UNIX_EPOCH};

use redis::{Cmd, Connection, Value, cmd};

use super::table::WINDOW;

/// The scripts that benches/peers measures by the clock.
const ZSET: &str = include_str!("../../../../benches/peers/src/peer/zset.lua");
const INCR: &str = include_str!("../../../../benches/peers/src/peer/incr.lua");

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Peer {
    /// The sorted set in Lua that articles have.
    ArticleZset,
    /// Their counter in Lua.
    ArticleIncr,
    /// The native command of the module redis-cell.
    RedisCell,
}

/// One that is ready to be asked.
pub(super) struct Asked {
    peer: Peer,
    script: String,
    connection: Connection,
    calls: u64,
}

impl Asked {
    pub(super) fn on(mut connection: Connection, peer: Peer) -> Self {
        let mut load = |source| cmd("SCRIPT").arg("LOAD").arg(source).query(&mut connection).unwrap();
        let script = match peer {
            Peer::ArticleZset => load(ZSET),
            Peer::ArticleIncr => load(INCR),
            Peer::RedisCell => String::new(),
        };
        Self { peer, script, connection, calls: 0 }
    }

    /// Makes `calls` calls, so many in a pipeline; the key of a call is its number modulo `keys`.
    /// Returns how many were admitted.
    pub(super) fn ask(&mut self, work: &str, max: u64, pipelined: u64, calls: u64, keys: u64) -> u64 {
        let mut admitted = 0;
        let mut number = 0;
        while number < calls {
            let mut pipe = redis::pipe();
            for _ in 0..pipelined.min(calls - number) {
                pipe.add_command(self.command(max, &format!("{work}:user{}", number % keys)));
                number += 1;
            }
            let replies: Vec<Value> = pipe.query(&mut self.connection).unwrap();
            admitted += replies.iter().filter(|reply| self.admits(reply)).count() as u64;
        }
        admitted
    }

    fn command(&mut self, max: u64, key: &str) -> Cmd {
        self.calls += 1;
        let millis = u64::try_from(WINDOW.as_millis()).unwrap();
        let mut command = match self.peer {
            Peer::ArticleZset | Peer::ArticleIncr => cmd("EVALSHA").arg(&self.script).arg(1).to_owned(),
            Peer::RedisCell => cmd("CL.THROTTLE"),
        };
        command.arg(key);
        match self.peer {
            Peer::ArticleZset => {
                let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis();
                let now = u64::try_from(now).unwrap();
                command.arg(now).arg(millis).arg(max).arg(format!("{now}-{}", self.calls))
            }
            Peer::ArticleIncr => command.arg(millis).arg(max),
            // It admits one more than the burst that it is told.
            Peer::RedisCell => command.arg(max - 1).arg(max).arg(WINDOW.as_secs()).arg(1),
        };
        command
    }

    fn admits(&self, reply: &Value) -> bool {
        match (self.peer, reply) {
            (Peer::ArticleZset | Peer::ArticleIncr, Value::Int(admitted)) => *admitted == 1,
            (Peer::RedisCell, Value::Array(fields)) => fields.first() == Some(&Value::Int(0)),
            _ => panic!("{:?} answers {reply:?}", self.peer),
        }
    }
}
