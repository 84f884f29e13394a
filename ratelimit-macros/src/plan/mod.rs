//! Stage three: chooses the guard of a function. All arguments are valid here; no tokens are made
//! yet.

pub(crate) mod bounds;
pub(crate) mod taken;

use syn::Ident;

use crate::check::checked::Checked;

/// The function and its guard.
pub(crate) struct Plan {
    pub(crate) checked: Checked,
    pub(crate) guard: Guard,
    /// The arguments that move into the block of `count` or `actual_cost`, if there is one.
    pub(crate) taken: Vec<Ident>,
}

/// The code before the body, and in the last case around it.
pub(crate) enum Guard {
    /// One check, made at every call.
    One,
    /// Several checks, or one that `when` may leave out.
    All,
    /// Checks some of which take permits for as long as the body runs.
    Permit,
    /// Checks that reserve, and may take permits: the outcome decides what counts.
    Reserve,
}

pub(crate) fn plan(checked: Checked) -> Plan {
    let rules = &checked.rules;
    let guard = if rules.iter().any(|rule| rule.count.reserves()) {
        Guard::Reserve
    } else if rules.iter().any(|rule| rule.concurrent.is_some()) {
        Guard::Permit
    } else if matches!(rules.as_slice(), [only] if only.when.is_none()) {
        Guard::One
    } else {
        Guard::All
    };
    let taken = if let Guard::Reserve = guard {
        taken::plan(&checked)
    } else {
        Vec::new()
    };
    Plan {
        checked,
        guard,
        taken,
    }
}
