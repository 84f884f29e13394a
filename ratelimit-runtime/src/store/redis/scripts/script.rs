//! [`Script`]: a script, and the name that Redis knows it by.

use std::fmt::Write as _;
use std::sync::LazyLock;

use redis::Cmd;
use sha1::{Digest as _, Sha1};

use crate::algorithm::Lua;
#[allow(
    clippy::wildcard_imports,
    reason = "the table names the folder of each algorithm"
)]
use crate::algorithm::*;
use crate::rule::Algorithm;

const HEAD: &str = include_str!("head.lua");
const TAIL: &str = include_str!("tail.lua");
const STACK_HEAD: &str = include_str!("stack_head.lua");
const STACK_TAIL: &str = include_str!("stack_tail.lua");

/// A script, and the name that Redis knows it by.
#[derive(Debug)]
pub(crate) struct Script {
    pub(super) source: String,
    pub(super) sha1: String,
    /// What the script of stacks knows it by; 0 of that itself. Scripts of one number are the same.
    pub(crate) number: u8,
}

macro_rules! scripts {
    ($($(#[$attribute:meta])* $variant:ident $module:ident $state:tt $row:tt)*) => {
        /// What the folder of an algorithm says of its script.
        pub(crate) fn lua(algorithm: Algorithm) -> &'static Lua {
            match algorithm { $(Algorithm::$variant => &$module::SCRIPT,)* }
        }

        impl Script {
            /// The script that answers questions under one algorithm, each by itself.
            pub(crate) fn of(algorithm: Algorithm) -> &'static Self {
                match algorithm {
                    $(Algorithm::$variant => {
                        static SCRIPT: LazyLock<Script> = LazyLock::new(|| Decider::of(Algorithm::$variant).script());
                        &SCRIPT
                    })*
                }
            }
        }
    };
}

crate::__algorithms!(scripts);

/// What decides the questions of one script: the body of `decide`, and what its head says.
struct Decider {
    /// What the script of stacks knows it by.
    number: u8,
    body: &'static str,
    reads: bool,
    windows: u64,
}

/// Calls in flight stand in the place of an algorithm.
const PLACES: Decider = Decider {
    number: 15,
    body: include_str!("../permits/places.lua"),
    reads: false,
    windows: 1,
};

impl Decider {
    fn of(algorithm: Algorithm) -> Self {
        let (Lua { body, reads, .. }, row) = (lua(algorithm), algorithm.row());
        // Where several algorithms have one file, it is known by the first one's number.
        let first = Algorithm::ALL
            .iter()
            .find(|other| lua(**other).body == *body);
        Self {
            number: first.map_or(row.number, |first| first.row().number),
            body,
            reads: *reads,
            windows: row.windows,
        }
    }

    /// The algorithms that have a file of their own.
    fn algorithms() -> impl Iterator<Item = Algorithm> {
        Algorithm::ALL
            .iter()
            .copied()
            .filter(|algorithm| Self::of(*algorithm).number == algorithm.row().number)
    }

    /// Its script, which answers each question by itself.
    fn script(&self) -> Script {
        let Self {
            number,
            body,
            reads,
            windows,
        } = self;
        Script::new(
            format!("local READS, WINDOWS = {reads}, {windows}\n{HEAD}{body}{TAIL}"),
            *number,
        )
    }
}

impl Script {
    /// The script that answers questions about places of calls in flight.
    pub(crate) fn places() -> &'static Self {
        static SCRIPT: LazyLock<Script> = LazyLock::new(|| PLACES.script());
        &SCRIPT
    }

    /// The script that charges several questions on keys of one server, all or none.
    pub(crate) fn stack() -> &'static Self {
        static SCRIPT: LazyLock<Script> = LazyLock::new(|| Script::new(stack(), 0));
        &SCRIPT
    }

    fn new(source: String, number: u8) -> Self {
        let mut sha1 = String::new();
        for byte in Sha1::digest(&source) {
            let _ = write!(sha1, "{byte:02x}");
        }
        Self {
            source,
            sha1,
            number,
        }
    }

    pub(crate) fn is_stack(&self) -> bool {
        self.number == 0
    }
}

/// The source of the script of stacks: a function for each decider.
fn stack() -> String {
    let head = HEAD.rsplit_once("decide(");
    debug_assert!(head.is_some(), "the head of the scripts ends with `decide`");
    let parameters = head.map_or("", |(_, parameters)| parameters);
    let mut source = STACK_HEAD.to_owned();
    for Decider { number, body, .. } in Decider::algorithms().map(Decider::of).chain([PLACES]) {
        let _ = writeln!(
            source,
            "algorithms[{number}] = function({parameters}{body}end"
        );
    }
    source + STACK_TAIL
}

/// The commands that make all scripts known to a server.
pub(crate) fn load_all() -> Vec<Cmd> {
    let scripts = Decider::algorithms()
        .map(Script::of)
        .chain([Script::stack(), Script::places()]);
    scripts
        .map(|script| redis::cmd("SCRIPT").arg("LOAD").arg(&script.source).take())
        .collect()
}
