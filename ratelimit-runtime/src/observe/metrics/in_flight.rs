//! Calls in flight, by rule.

use ::metrics::{Key, Label, with_recorder};

use super::{IN_FLIGHT, METADATA};
use crate::rule::Name;

/// So many more calls of this process are in flight, or fewer.
pub(crate) fn in_flight(rule: Name, more: f64) {
    let key = Key::from_parts(IN_FLIGHT, vec![Label::from_static_parts("rule", rule.as_str())]);
    with_recorder(|recorder| recorder.register_gauge(&key, &METADATA).increment(more));
}
