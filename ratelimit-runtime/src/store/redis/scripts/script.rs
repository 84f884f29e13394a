//! [`Script`]: a script, and the name that Redis knows it by.

use std::fmt::{self, Write as _};
use std::sync::LazyLock;

use redis::Cmd;
use sha1::{Digest as _, Sha1};

use crate::algorithm::Lua;
#[allow(clippy::wildcard_imports, reason = "the table names the folder of each algorithm")]
use crate::algorithm::*;
use crate::rule::Algorithm;

const HEAD: &str = include_str!("head.lua");
const TAIL: &str = include_str!("tail.lua");
const STACK_HEAD: &str = include_str!("stack_head.lua");
const STACK_TAIL: &str = include_str!("stack_tail.lua");
/// Calls in flight stand in the place of an algorithm.
const PLACES: &str = include_str!("../permits/places.lua");
/// The number of calls in flight in a stack.
const PLACES_NUMBER: u8 = 15;

/// A script, and the name that Redis knows it by.
pub(crate) struct Script {
    source: String,
    sha1: String,
    /// The algorithm's, in a stack; 0 of the script of stacks.
    number: u8,
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
                        static SCRIPT: LazyLock<Script> = LazyLock::new(|| Script::alone(Algorithm::$variant));
                        &SCRIPT
                    })*
                }
            }
        }
    };
}

crate::__algorithms!(scripts);

impl Script {
    fn alone(algorithm: Algorithm) -> Self {
        let Lua { body, reads, .. } = lua(algorithm);
        let row = algorithm.row();
        Self::new(format!("local READS, WINDOWS = {reads}, {}\n{HEAD}{body}{TAIL}", row.windows), row.number)
    }

    /// The script that answers questions about places of calls in flight.
    pub(crate) fn places() -> &'static Self {
        static SCRIPT: LazyLock<Script> = LazyLock::new(|| {
            let source = format!("local READS, WINDOWS = false, 1\n{HEAD}{PLACES}{TAIL}");
            Script::new(source, PLACES_NUMBER)
        });
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
        Self { source, sha1, number }
    }

    /// What the script of stacks knows the algorithm by.
    pub(super) fn number(&self) -> u8 {
        self.number
    }

    pub(crate) fn sha1(&self) -> &str {
        &self.sha1
    }

    pub(crate) fn source(&self) -> &str {
        &self.source
    }

    /// Makes the script known to a server.
    pub(crate) fn load(&self) -> Cmd {
        let mut load = redis::cmd("SCRIPT");
        load.arg("LOAD").arg(&self.source);
        load
    }
}

/// The source of the script of stacks: a function for each algorithm, and one for calls in flight.
fn stack() -> String {
    let parameters = HEAD.rsplit_once("decide(").map_or("", |(_, parameters)| parameters);
    let mut source = STACK_HEAD.to_owned();
    let mut add = |number: u8, body: &str, reads: bool, windows: u64| {
        let _ = writeln!(source, "algorithms[{number}] = function({parameters}{body}end");
        let _ = writeln!(source, "reads[{number}], windows[{number}] = {reads}, {windows}");
    };
    let mut bodies: Vec<(&str, u8)> = Vec::new();
    let mut aliases = String::new();
    for algorithm in Algorithm::ALL {
        let (Lua { body, reads, .. }, row) = (lua(*algorithm), algorithm.row());
        if let Some((_, other)) = bodies.iter().find(|(other, _)| other == body) {
            let _ = writeln!(
                aliases,
                "algorithms[{0}], reads[{0}], windows[{0}] = algorithms[{other}], reads[{other}], windows[{other}]",
                row.number
            );
        } else {
            bodies.push((body, row.number));
            add(row.number, body, *reads, row.windows);
        }
    }
    add(PLACES_NUMBER, PLACES, false, 1);
    source + &aliases + STACK_TAIL
}

impl fmt::Debug for Script {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.sha1)
    }
}

/// There is one of each.
impl PartialEq for Script {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self, other)
    }
}

impl Eq for Script {}

/// The commands that make all scripts known to a server.
pub(crate) fn load_all() -> Vec<Cmd> {
    let mut scripts: Vec<&Script> = Vec::new();
    let all = Algorithm::ALL.iter().map(|algorithm| Script::of(*algorithm));
    for script in all.chain([Script::stack(), Script::places()]) {
        // Both buckets have one.
        if scripts.iter().all(|other| other.sha1 != script.sha1) {
            scripts.push(script);
        }
    }
    scripts.into_iter().map(Script::load).collect()
}
