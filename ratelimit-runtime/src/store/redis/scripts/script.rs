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
    /// What the script of stacks knows it by; 0 of that itself.
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

/// The number of an algorithm's script: the first algorithm's, where several have one file.
fn number(algorithm: Algorithm) -> u8 {
    let has_its = |other: &&Algorithm| lua(**other).body == lua(algorithm).body;
    Algorithm::ALL.iter().find(has_its).map_or(0, |first| first.row().number)
}

/// The algorithms whose scripts there are: one for each file.
fn with_files() -> impl Iterator<Item = Algorithm> {
    Algorithm::ALL.iter().copied().filter(|algorithm| number(*algorithm) == algorithm.row().number)
}

impl Script {
    fn alone(algorithm: Algorithm) -> Self {
        let (Lua { body, reads, .. }, windows) = (lua(algorithm), algorithm.row().windows);
        Self::new(format!("local READS, WINDOWS = {reads}, {windows}\n{HEAD}{body}{TAIL}"), number(algorithm))
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
    for algorithm in with_files() {
        let (Lua { body, reads, .. }, row) = (lua(algorithm), algorithm.row());
        add(row.number, body, *reads, row.windows);
    }
    add(PLACES_NUMBER, PLACES, false, 1);
    source + STACK_TAIL
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
    with_files().map(Script::of).chain([Script::stack(), Script::places()]).map(Script::load).collect()
}
