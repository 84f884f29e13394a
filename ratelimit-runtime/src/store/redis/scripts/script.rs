//! The scripts, and the names that Redis knows them by.
//!
//! What all of them begin and end with stands beside this file; `crate::algorithm` has the rest.

use std::fmt::Write as _;
use std::sync::LazyLock;

use hmac::digest::Digest as _;
use redis::{ServerError, ServerErrorKind};
use sha1::Sha1;

use crate::algorithm::Lua;
use crate::rule::Algorithm;

/// A script, and the name that Redis knows it by.
#[derive(Debug)]
pub(crate) struct Script {
    source: String,
    sha1: String,
}

impl Script {
    fn new(source: String) -> Self {
        let sha1 = hash(&source);
        Self { source, sha1 }
    }

    pub(crate) fn source(&self) -> &str {
        &self.source
    }

    pub(crate) fn sha1(&self) -> &str {
        &self.sha1
    }
}

/// A file beside this one, and the end of its line: it need not have one.
macro_rules! text {
    ($file:literal) => {
        concat!(include_str!($file), "\n")
    };
}

/// What the full parts of all algorithms share.
pub(crate) const COMMON: &str = text!("common.lua");

macro_rules! scripts {
    ($($(#[$attribute:meta])* $variant:ident $module:ident $state:tt $row:tt)*) => {
        /// The script that answers questions on one key, or on several keys one by one.
        pub(crate) fn of(algorithm: Algorithm) -> &'static Script {
            match algorithm {
                $(Algorithm::$variant => {
                    static SCRIPT: LazyLock<Script> = LazyLock::new(|| {
                        let (quick, full) = parts(Algorithm::$variant);
                        Script::new(one_by_one(&quick, &full))
                    });
                    &SCRIPT
                })*
            }
        }
    };
}

crate::__algorithms!(scripts);

/// Several keys, of any algorithm: all of them are charged, or none.
pub(crate) static ALL_OR_NONE: LazyLock<Script> = LazyLock::new(|| {
    let chosen = |part: fn(Algorithm) -> String| {
        Algorithm::ALL.iter().fold(String::new(), |mut chosen, algorithm| {
            let _ = write!(chosen, "if algorithm == {} then\n{}end\n", algorithm.row().number, part(*algorithm));
            chosen
        })
    };
    let functions = functions(&chosen(|algorithm| parts(algorithm).0), &chosen(|algorithm| parts(algorithm).1));
    Script::new(text!("head.lua").to_owned() + &functions + text!("answer.lua") + text!("all_or_none.lua"))
});

/// The two parts of an algorithm: `quick` for the common question, and all that is made for the
/// rest.
pub(crate) fn parts(algorithm: Algorithm) -> (String, String) {
    let joined = |files: &[&str]| files.iter().fold(String::new(), |joined, file| joined + file + "\n");
    let Lua { quick, full } = Lua::of(algorithm);
    (joined(quick), COMMON.to_owned() + &joined(full))
}

/// The script of an algorithm with these parts.
pub(crate) fn one_by_one(quick: &str, full: &str) -> String {
    [
        text!("head.lua"),
        text!("alone.lua"),
        text!("first.lua"),
        quick,
        text!("at_once.lua"),
        &functions(quick, full),
        text!("answer.lua"),
        text!("each.lua"),
    ]
    .concat()
}

/// Both parts, as functions; `full` makes another, once it is needed.
fn functions(quick: &str, full: &str) -> String {
    [
        "local function quick(may_answer, key, question, calls)\n",
        text!("first.lua"),
        quick,
        "return record, answered, calls\nend\nlocal function full(algorithm)\n",
        full,
        "end\n",
    ]
    .concat()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_is_named_by_its_sha1() {
        assert_eq!(hash("abc"), "a9993e364706816aba3e25717850c26c9cd0d89d");
    }
}
