//! The third stage's result: a function and the guard it gets.

use syn::{Ident, Path};

use crate::check::body::{Body, Shape};
use crate::check::checked::Checked;
use crate::check::output::Output;
use crate::check::refusal::Refusal;
use crate::parse::function::Function;
use crate::plan::guard::{self, Guard};

pub(crate) struct Plan {
    pub(crate) function: Function,
    /// Where the guard goes.
    pub(crate) shape: Shape,
    /// What `return` returns there.
    pub(crate) output: Output,
    /// What `self` is called there.
    pub(crate) receiver: Option<Ident>,
    /// The runtime crate, if not the usual one.
    pub(crate) krate: Option<Path>,
    pub(crate) guard: Guard,
    pub(crate) refusal: Refusal,
}

pub(crate) fn plan(checked: Checked) -> Plan {
    let Checked { function, body: Body { shape, output, scope }, krate, rules, refusal } = checked;
    Plan { function, shape, output, receiver: scope.receiver, krate, guard: guard::plan(rules), refusal }
}
