//! [`Lua`]: an algorithm as Redis runs it.

use crate::rule::Algorithm;

/// The two parts of an algorithm's script, each as the files that it is made of, in their order.
#[derive(Debug)]
pub(crate) struct Lua {
    /// Answers what most calls ask, in a straight line, or nothing: then it has written nothing.
    pub(crate) quick: &'static [&'static str],
    /// Answers everything, in functions that are made when they are needed. Ends with
    /// `return answering(…)`.
    pub(crate) full: &'static [&'static str],
}

macro_rules! parts {
    ($($(#[$attribute:meta])* $variant:ident $module:ident $state:tt $row:tt)*) => {
        impl Lua {
            /// What Redis runs for this algorithm.
            pub(crate) fn of(algorithm: Algorithm) -> &'static Self {
                match algorithm { $(Algorithm::$variant => &super::$module::LUA,)* }
            }
        }
    };
}

crate::__algorithms!(parts);
