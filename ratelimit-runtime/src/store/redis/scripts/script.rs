//! The scripts, and the names that Redis knows them by.

use std::fmt::Write as _;
use std::sync::LazyLock;

use hmac::digest::Digest as _;
use redis::{ServerError, ServerErrorKind};
use sha1::Sha1;

/// A script, and the name that Redis knows it by.
#[derive(Debug)]
pub(crate) struct Script {
    source: &'static str,
    sha1: LazyLock<String>,
}

impl Script {
    const fn new(source: &'static str, sha1: fn() -> String) -> Self {
        Self { source, sha1: LazyLock::new(sha1) }
    }

    pub(crate) fn source(&self) -> &'static str {
        self.source
    }

    pub(crate) fn sha1(&self) -> &str {
        &self.sha1
    }
}

/// Whether the server does not know the script.
pub(crate) fn is_unknown(error: &ServerError) -> bool {
    error.kind() == Some(ServerErrorKind::NoScript)
}

fn hash(source: &str) -> String {
    Sha1::digest(source).iter().fold(String::with_capacity(40), |mut hex, byte| {
        let _ = write!(hex, "{byte:02x}");
        hex
    })
}

macro_rules! files {
    ($($file:literal)+) => { concat!($(include_str!($file), "\n"),+) };
}

/// The two parts of an algorithm: `quick` for the common question, and all that is made for the rest.
macro_rules! algorithm {
    (quick log) => { files!("quick/log.lua" "quick/zset.lua" "quick/ring.lua") };
    (full log) => {
        full!(
            log: "full/zset.lua" "full/ring_log.lua" "full/ring_move.lua" "full/ring_write.lua" "full/ring.lua"
                "full/convert.lua" "full/log.lua"
        )
    };
    (quick fixed_window) => { files!("quick/fixed_window.lua") };
    (full fixed_window) => { full!(fixed_window: "full/counters.lua" "full/fixed_window.lua") };
    (quick sliding_counter) => { files!("quick/sliding_counter.lua") };
    (full sliding_counter) => {
        full!(sliding_counter: "full/arithmetic.lua" "full/counters.lua" "full/sliding_counter.lua")
    };
    (quick token_bucket) => { files!("quick/token_bucket.lua") };
    (full token_bucket) => { full!(token_bucket: "full/arithmetic.lua" "full/counters.lua" "full/token_bucket.lua") };
    (quick leaky_bucket) => { files!("quick/leaky_bucket.lua") };
    (full leaky_bucket) => { full!(leaky_bucket: "full/arithmetic.lua" "full/counters.lua" "full/leaky_bucket.lua") };
}

macro_rules! full {
    ($name:ident: $($file:literal)+) => {
        concat!(files!("full/common.lua" $($file)+), "return answering(", stringify!($name), ")\n")
    };
}

/// Both parts, as functions; `full` makes another, once it is needed.
macro_rules! functions {
    ($quick:expr, $full:expr) => {
        concat!(
            "local function quick(alone, key, question, calls)\n",
            files!("first.lua"),
            $quick,
            "return record, answered, calls\nend\nlocal function full(kind)\n",
            $full,
            "end\n",
        )
    };
}

/// The script of one algorithm.
macro_rules! one {
    ($algorithm:ident) => {
        concat!(
            files!("head.lua" "alone.lua" "first.lua"), algorithm!(quick $algorithm), files!("at_once.lua"),
            functions!(algorithm!(quick $algorithm), algorithm!(full $algorithm)), files!("answer.lua" "each.lua"),
        )
    };
}

/// A part of all algorithms, chosen by their number.
macro_rules! chosen {
    ($part:ident) => {
        chosen!($part: 1 log, 2 fixed_window, 3 sliding_counter, 4 token_bucket, 5 leaky_bucket)
    };
    ($part:ident: $($number:literal $algorithm:ident),+) => {
        concat!($("if kind == ", $number, " then\n", algorithm!($part $algorithm), "end\n"),+)
    };
}

macro_rules! scripts {
    ($($(#[$doc:meta])* $name:ident: $source:expr;)*) => {$(
        $(#[$doc])*
        pub(crate) static $name: Script = {
            const SOURCE: &str = $source;
            Script::new(SOURCE, || hash(SOURCE))
        };
    )*};
}

scripts! {
    LOG: one!(log);
    FIXED_WINDOW: one!(fixed_window);
    SLIDING_COUNTER: one!(sliding_counter);
    TOKEN_BUCKET: one!(token_bucket);
    LEAKY_BUCKET: one!(leaky_bucket);
    /// Several keys, of any algorithm: all of them are charged, or none.
    ALL_OR_NONE: concat!(
        files!("head.lua"), functions!(chosen!(quick), chosen!(full)), files!("answer.lua" "all_or_none.lua"),
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_is_named_by_its_sha1() {
        assert_eq!(hash("abc"), "a9993e364706816aba3e25717850c26c9cd0d89d");
    }
}
