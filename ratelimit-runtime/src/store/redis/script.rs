//! Scripts: sent by their hash, and in full only to a server that does not know them.

use std::fmt::Write as _;
use std::sync::LazyLock;

use hmac::digest::Digest as _;
use redis::{Cmd, ServerError, ServerErrorKind};
use sha1::Sha1;

/// A script, and the name that Redis knows it by.
pub(super) struct Script {
    source: &'static str,
    sha1: LazyLock<String>,
}

impl Script {
    const fn new(source: &'static str, sha1: fn() -> String) -> Self {
        Self { source, sha1: LazyLock::new(sha1) }
    }

    /// Runs the script on `keys`, if the server knows it; `args` appends its arguments.
    pub(super) fn call(&self, keys: &[&[u8]], args: impl Fn(&mut Cmd)) -> Cmd {
        command("EVALSHA", &self.sha1, keys, args)
    }

    /// Runs it on a server that does not know it, and does from then on. `SCRIPT LOAD` would be one round trip more,
    /// and in a cluster would reach nodes that do not have the keys.
    pub(super) fn first_call(&self, keys: &[&[u8]], args: impl Fn(&mut Cmd)) -> Cmd {
        command("EVAL", self.source, keys, args)
    }
}

/// Whether the server does not know the script.
pub(super) fn is_unknown(error: &ServerError) -> bool {
    error.kind() == Some(ServerErrorKind::NoScript)
}

fn command(name: &str, script: &str, keys: &[&[u8]], args: impl Fn(&mut Cmd)) -> Cmd {
    // A check of one limit has nine arguments after its key, of twenty bytes at most.
    let bytes: usize = keys.iter().map(|key| key.len() + 120).sum();
    let mut command = Cmd::with_capacity(4 + 10 * keys.len(), name.len() + script.len() + bytes + 40);
    command.arg(name).arg(script).arg(keys.len());
    for key in keys {
        command.arg(key);
    }
    args(&mut command);
    command
}

fn hash(source: &str) -> String {
    Sha1::digest(source).iter().fold(String::with_capacity(40), |mut hex, byte| {
        let _ = write!(hex, "{byte:02x}");
        hex
    })
}

macro_rules! scripts {
    ($($(#[$doc:meta])* $name:ident: $($file:literal)+, $last:expr;)*) => {$(
        $(#[$doc])*
        pub(super) static $name: Script = {
            const SOURCE: &str = concat!($(include_str!(concat!("scripts/", $file)), "\n",)+ $last);
            Script::new(SOURCE, || hash(SOURCE))
        };
    )*};
}

scripts! {
    /// The log of calls that all weigh 1.
    ZSET: "common.lua" "zset.lua", "return zset(KEYS[1], next_request())";
    /// The log of calls that may weigh anything.
    RING: "common.lua" "ring_log.lua" "ring_write.lua" "ring.lua", "return ring(KEYS[1], next_request())";
    FIXED_WINDOW: "common.lua" "counters.lua" "fixed_window.lua", "return fixed_window(KEYS[1], next_request())";
    SLIDING_COUNTER:
        "common.lua" "arithmetic.lua" "counters.lua" "sliding_counter.lua",
        "return sliding_counter(KEYS[1], next_request())";
    TOKEN_BUCKET:
        "common.lua" "arithmetic.lua" "counters.lua" "token_bucket.lua",
        "return token_bucket(KEYS[1], next_request())";
    LEAKY_BUCKET:
        "common.lua" "arithmetic.lua" "counters.lua" "leaky_bucket.lua",
        "return leaky_bucket(KEYS[1], next_request())";
    /// Several keys, of any kind: all of them are charged, or none.
    ALL_OR_NONE:
        "common.lua" "zset.lua" "ring_log.lua" "ring_write.lua" "ring.lua" "arithmetic.lua" "counters.lua" "fixed_window.lua" "sliding_counter.lua"
        "token_bucket.lua" "leaky_bucket.lua",
        include_str!("scripts/all_or_none.lua");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_is_named_by_its_sha1() {
        assert_eq!(hash("abc"), "a9993e364706816aba3e25717850c26c9cd0d89d");
    }

    #[test]
    fn keys_are_sent_as_they_are() {
        let command = command("EVALSHA", "ab", &[b"k\r\n\xff\0"], |command| {
            command.arg(7_u64);
        });
        let packed = command.get_packed_command();
        assert_eq!(packed, b"*5\r\n$7\r\nEVALSHA\r\n$2\r\nab\r\n$1\r\n1\r\n$5\r\nk\r\n\xff\0\r\n$1\r\n7\r\n");
    }
}
