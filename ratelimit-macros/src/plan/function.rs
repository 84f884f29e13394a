//! The third stage's result: a function and the guard it gets.

use syn::{Ident, Path};

use crate::check::checked::Checked;
use crate::check::function::body::{Body, Shape};
use crate::check::function::output::Output;
use crate::check::refusal::Refusal;
use crate::parse::function::Function;
use crate::plan::guard::{self, Guard};
use crate::plan::taken;

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
    /// The arguments that go into the block that `count` or `actual_cost` makes, if it does.
    pub(crate) taken: Vec<Ident>,
    pub(crate) refusal: Refusal,
}

pub(crate) fn plan(checked: Checked) -> Plan {
    let Checked { function, body, krate, rules, refusal } = checked;
    let guard = guard::plan(rules);
    let taken = match &guard {
        Guard::Reserve(_, counts) => taken::plan(&function, &body, counts),
        Guard::One(_) | Guard::All(_) | Guard::Enter(_) => Vec::new(),
    };
    let Body { shape, output, scope } = body;
    Plan { function, shape, output, receiver: scope.receiver, krate, guard, taken, refusal }
}
