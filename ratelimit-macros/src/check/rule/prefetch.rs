//! `prefetch` beside the limits: its lease is short, because units that a process takes ahead are
//! refused to others until it ends.
//!
//! With a lease of a fiftieth of the window at least 0.98 of what an exact limiter admits of a
//! steady load is admitted; with a tenth it was 0.91.

use crate::check::rule::limits::Limits;
use crate::check::rule::settings::{PREFETCH, Setting, SettingValue};
use crate::diagnostics::Diagnostics;
use crate::duration::Readable;
use crate::parse::arguments::Arguments;

/// The shortest window is at least so many leases.
const LEASES: u64 = 50;

/// Reports a `prefetch` that is too long for the shortest window.
pub(crate) fn must_be_short(
    arguments: &Arguments,
    settings: &[Setting],
    limits: &Limits,
    diagnostics: &mut Diagnostics,
) {
    let lease = settings.iter().find_map(|setting| match setting {
        Setting {
            name: "prefetch",
            value: SettingValue::Micros(lease),
        } => Some(*lease),
        _ => None,
    });
    let (Some(argument), Some(lease), Some(window)) =
        (&arguments.prefetch, lease, limits.shortest_window())
    else {
        return;
    };
    let longest = window / LEASES;
    if lease <= longest {
        return;
    }
    let write = if longest < PREFETCH.shortest {
        let shortest = Readable(LEASES * PREFETCH.shortest);
        format!("leave it out, because no window may be below {shortest} beside it")
    } else {
        format!("write at most \"{}\"", Readable(longest))
    };
    diagnostics.error(
        &argument.value,
        format!("`prefetch` is at most a fiftieth of the shortest window: {write}"),
    );
}
