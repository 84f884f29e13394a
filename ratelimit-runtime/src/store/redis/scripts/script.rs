//! The scripts, and the names that Redis knows them by.
//!
//! What all of them begin and end with stands beside this file; `crate::algorithm` has the rest.

use std::fmt::Write as _;
use std::sync::LazyLock;

use hmac::digest::Digest as _;
use redis::{ServerError, ServerErrorKind};
use sha1::Sha1;

use crate::algorithm::Lua;
use crate::algorithm::fixed_window::CALENDAR_LUA;
use crate::rule::Algorithm;

/// A script, and the name that Redis knows it by.
#[derive(Debug)]
pub(crate) struct Script {
    source: String,
    /// The beginning of each call by its name, as bytes of the protocol.
    evalsha: String,
}

impl Script {
    fn new(source: String) -> Self {
        let evalsha = format!("$7\r\nEVALSHA\r\n$40\r\n{}\r\n", hash(&source));
        Self { source, evalsha }
    }

    pub(crate) fn source(&self) -> &str {
        &self.source
    }

    /// The name of the command, and that of the script, as arguments of a call.
    pub(crate) fn evalsha(&self) -> &[u8] {
        self.evalsha.as_bytes()
    }

    #[cfg(test)]
    pub(crate) fn sha1(&self) -> &str {
        self.evalsha.lines().nth(3).unwrap_or_default()
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
                    static SCRIPT: LazyLock<Script> =
                        LazyLock::new(|| Script::new(Parts::of(Algorithm::$variant).script()));
                    &SCRIPT
                })*
            }
        }
    };
}

crate::__algorithms!(scripts);

/// Fixed windows of which some are calendar periods. What asks for others asks no script that knows
/// of these.
pub(crate) static CALENDAR: LazyLock<Script> = LazyLock::new(|| Script::new(Parts::CALENDAR.script()));

/// What stands for [`CALENDAR`] in the place of an algorithm's number.
pub(crate) const CALENDAR_NUMBER: u8 = 6;

/// Several keys, of any algorithm: all of them are charged, or none.
pub(crate) static ALL_OR_NONE: LazyLock<Script> = LazyLock::new(|| Script::new(all_or_none("")));

/// The same, of which some may have calendar periods.
pub(crate) static ALL_OR_NONE_WITH_CALENDAR: LazyLock<Script> =
    LazyLock::new(|| Script::new(all_or_none(&calendar_answers())));

/// The same, of which some may be places of calls in flight.
pub(crate) static ALL_OR_NONE_WITH_PLACES: LazyLock<Script> = LazyLock::new(|| Script::new(all_or_none(PLACE_ANSWERS)));

/// The same, of which some may be such places, and others have calendar periods.
pub(crate) static ALL_OR_NONE_WITH_BOTH: LazyLock<Script> =
    LazyLock::new(|| Script::new(all_or_none(&(calendar_answers() + PLACE_ANSWERS))));

/// Places of calls in flight alone.
pub(crate) static PLACES: LazyLock<Script> =
    LazyLock::new(|| Script::new([text!("head.lua"), text!("places.lua"), text!("place_calls.lua")].concat()));

/// How questions about places are answered.
const PLACE_ANSWERS: &str =
    concat!(text!("places.lua"), "answers[PLACES] = function(KEYS, ARGV) return place(KEYS[1], ARGV[2]) end\n",);

fn calendar_answers() -> String {
    answers(CALENDAR_NUMBER, &Parts::CALENDAR)
}

/// How questions with this number are answered.
fn answers(number: u8, parts: &Parts) -> String {
    let questions = parts.questions();
    format!(
        "do\nlocal full\nanswers[{number}] = function(KEYS, ARGV)\n\
         local number = ''\n{questions}end\nend\n",
    )
}

fn all_or_none(further_answers: &str) -> String {
    let answers: String =
        Algorithm::ALL.iter().map(|&algorithm| answers(algorithm.row().number, &Parts::of(algorithm))).collect();
    [
        text!("head.lua"),
        "local answers = {}\n",
        &answers,
        further_answers,
        text!("answer.lua"),
        text!("all_or_none.lua"),
    ]
    .concat()
}

/// What `questions.lua` is to have in the places that it names.
#[derive(Debug, Default)]
pub(crate) struct Parts {
    quick: &'static [&'static str],
    full: &'static [&'static str],
}

impl Parts {
    /// Those of [`CALENDAR`].
    pub(crate) const CALENDAR: Self = Self::new(&CALENDAR_LUA);

    pub(crate) fn of(algorithm: Algorithm) -> Self {
        Self::new(Lua::of(algorithm))
    }

    const fn new(lua: &Lua) -> Self {
        Self { quick: lua.quick, full: lua.full }
    }

    /// Without what answers everything.
    #[cfg(feature = "testkit")]
    pub(crate) fn quick_alone(self) -> Self {
        Self { full: &[], ..self }
    }

    /// Without what answers most calls.
    #[cfg(feature = "testkit")]
    pub(crate) fn full_alone(self) -> Self {
        Self { quick: &[], ..self }
    }

    /// The script with these parts, which answers questions on keys one by one.
    pub(crate) fn script(&self) -> String {
        [text!("head.lua"), "local full\n", &self.questions()].concat()
    }

    fn questions(&self) -> String {
        self.insert(text!("questions.lua"))
    }

    /// The text with a section in the place of each line that names one.
    fn insert(&self, text: &str) -> String {
        text.lines().fold(String::new(), |mut whole, line| {
            if let Some(name) = line.trim_start().strip_prefix("-- INSERT ") {
                return whole + &self.insert(&self.section(name));
            }
            whole += line;
            whole.push('\n');
            whole
        })
    }

    /// What the files have behind lines that say `-- SECTION`, and this name.
    fn section(&self, name: &str) -> String {
        let mut section = String::new();
        if name == "full" && !self.full.is_empty() {
            section += COMMON;
        }
        if name == "full" {
            return self.full.iter().fold(section, |full, text| full + text + "\n");
        }
        for text in self.quick {
            let mut current = "";
            for line in text.lines() {
                if let Some(named) = line.strip_prefix("-- SECTION ") {
                    current = named;
                } else if current == name {
                    section += line;
                    section.push('\n');
                }
            }
        }
        section
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_is_named_by_its_sha1() {
        assert_eq!(hash("abc"), "a9993e364706816aba3e25717850c26c9cd0d89d");
    }
}
