//! [`Script`]: a script, and the name by which Redis knows it.

use std::sync::LazyLock;

use redis::Pipeline;

use crate::algorithm::Lua;
#[allow(
    clippy::wildcard_imports,
    reason = "the table names the folder of each algorithm"
)]
use crate::algorithm::*;
use crate::rule::Algorithm;

/// The number of the script of permits, used like that of an algorithm.
pub(super) const PERMITS: u8 = 15;

/// A script, and the name by which Redis knows it.
#[derive(Debug)]
pub(crate) struct Script {
    pub(super) source: &'static str,
    pub(super) sha1: String,
    /// The number of this script within the script of stacks; 0 for the script of stacks. Equal
    /// numbers are equal scripts.
    pub(crate) number: u8,
}

macro_rules! scripts {
    ($($(#[$attribute:meta])* $variant:ident $module:ident $state:tt $row:tt)*) => {
        /// The script that an algorithm's folder declares.
        pub(crate) fn lua(algorithm: Algorithm) -> &'static Lua {
            match algorithm { $(Algorithm::$variant => &$module::SCRIPT,)* }
        }

        impl Script {
            /// The script that answers questions under one algorithm, each by itself.
            pub(crate) fn of(algorithm: Algorithm) -> &'static Self {
                match algorithm {
                    $(Algorithm::$variant => {
                        static SCRIPT: LazyLock<Script> =
                            LazyLock::new(|| Script::new(lua(Algorithm::$variant).source, number(Algorithm::$variant)));
                        &SCRIPT
                    })*
                }
            }
        }
    };
}

crate::__algorithms!(scripts);

/// The number of the algorithm's script within the script of stacks: the first algorithm's, if
/// several share the script.
fn number(algorithm: Algorithm) -> u8 {
    let has_its_script = |other: &&Algorithm| lua(**other).source == lua(algorithm).source;
    let first = Algorithm::ALL.iter().find(has_its_script);
    first.map_or(0, |first| first.row().number)
}

/// The algorithms with a script of their own, each script once.
fn algorithms() -> impl Iterator<Item = Algorithm> {
    let algorithms = Algorithm::ALL.iter().copied();
    algorithms.filter(|algorithm| number(*algorithm) == algorithm.row().number)
}

impl Script {
    /// The script that answers questions about permits of calls in flight.
    pub(crate) fn permits() -> &'static Self {
        static SCRIPT: LazyLock<Script> =
            LazyLock::new(|| Script::new(include_str!("generated/permits.lua"), PERMITS));
        &SCRIPT
    }

    /// The script that charges several questions on keys of one server, all or none.
    pub(crate) fn stack() -> &'static Self {
        static SCRIPT: LazyLock<Script> =
            LazyLock::new(|| Script::new(include_str!("generated/stack.lua"), 0));
        &SCRIPT
    }

    fn new(source: &'static str, number: u8) -> Self {
        Self {
            source,
            sha1: redis::Script::new(source).get_hash().to_owned(),
            number,
        }
    }

    pub(crate) fn is_stack(&self) -> bool {
        self.number == 0
    }
}

/// The commands that load all scripts on a server.
pub(crate) fn load_all() -> Pipeline {
    let scripts = algorithms().map(Script::of);
    let mut load = redis::pipe();
    for script in scripts.chain([Script::stack(), Script::permits()]) {
        load.cmd("SCRIPT").arg("LOAD").arg(script.source);
    }
    load
}
