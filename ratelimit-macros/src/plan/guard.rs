//! The one guard of a function.

use crate::check::rule::Rule;
use crate::check::rule::count::Count;
use crate::plan::check::{self, Check};

/// What stands before the body, and in the last case around it.
pub(crate) enum Guard {
    /// One check, made at every call.
    One(Box<Check>),
    /// Several, or one that `when` may leave out.
    All(Vec<Check>),
    /// Checks some of which take places for as long as the body runs.
    Enter(Vec<Check>),
    /// Checks that reserve, and may take places; and which outcomes count, or what they cost, for
    /// each of them.
    Reserve(Vec<Check>, Vec<Count>),
}

pub(crate) fn plan(rules: Vec<Rule>) -> Guard {
    let (mut checks, counts): (Vec<_>, Vec<_>) = rules.into_iter().map(check::plan).unzip();
    if checks.iter().any(|check| check.reserves) {
        return Guard::Reserve(checks, counts);
    }
    if checks.iter().any(|check| check.enters) {
        return Guard::Enter(checks);
    }
    match checks.pop() {
        Some(only) if checks.is_empty() && only.call.when.is_none() => Guard::One(Box::new(only)),
        last => {
            checks.extend(last);
            Guard::All(checks)
        }
    }
}
