//! The line of JSON that a store keeps for a rule.

use std::fmt::{self, Write as _};
use std::time::Duration;

use super::duration::written;
use super::summary::RuleSummary;

/// The version of the line that a store keeps for a rule. Readers skip lines of a later version,
/// and fields that they do not know.
const LINE: u32 = 1;

impl RuleSummary {
    /// The cost that a bucket admits at once, if that is not its `max`.
    fn burst(&self) -> Option<u64> {
        let limit = self.limits.first().filter(|_| self.algorithm.has_burst())?;
        Some(limit.capacity()).filter(|burst| *burst != limit.max())
    }

    /// The line of JSON that a store keeps, without its closing brace. Limits and settings are
    /// written as in a policy.
    pub(crate) fn open_line(&self) -> String {
        let lease = self.concurrent.map(|(_, lease)| quoted(time(lease)));
        let prefetch = !self.prefetch.is_zero();
        let shadow = match self.shadow {
            None => Some("call"),
            Some(on) => on.then_some("on"),
        };
        let fields = [
            ("line", Some(LINE.to_string())),
            ("limits", Some(list(&self.limits))),
            ("algorithm", Some(quoted(self.algorithm))),
            ("burst", self.burst().map(|burst| burst.to_string())),
            ("block", self.block.map(block)),
            (
                "concurrent",
                self.concurrent.map(|(max, _)| max.to_string()),
            ),
            ("lease", lease),
            ("prefetch", prefetch.then(|| quoted(time(self.prefetch)))),
            ("shadow", shadow.map(quoted)),
            ("key", self.template.map(quoted)),
            ("kinds", self.template.map(|_| list(&self.kinds))),
            ("keys", self.is_hashed.then(|| quoted("hashed"))),
            ("policy", self.policy.as_ref().map(quoted)),
            ("max", self.is_max_per_call.then(|| quoted("call"))),
            ("version", Some(quoted(env!("CARGO_PKG_VERSION")))),
        ];
        let given = fields
            .into_iter()
            .filter_map(|(name, value)| Some(format!("\"{name}\":{}", value?)));
        format!("{{{}", given.collect::<Vec<_>>().join(","))
    }
}

fn time(duration: Duration) -> String {
    written(u64::try_from(duration.as_micros()).unwrap_or(u64::MAX))
}

/// A block as JSON: `10m`, or `1m..1h` if it grows.
fn block((first, longest): (Duration, Duration)) -> String {
    let grows = (first != longest).then(|| format!("..{}", time(longest)));
    quoted(time(first) + &grows.unwrap_or_default())
}

fn list<T: fmt::Display>(values: &[T]) -> String {
    let quoted: Vec<_> = values.iter().map(quoted).collect();
    format!("[{}]", quoted.join(","))
}

/// `text` as a JSON string, without a crate for JSON in every build.
fn quoted(text: impl fmt::Display) -> String {
    let mut quoted = String::from('"');
    for c in text.to_string().chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            '\0'..' ' => {
                let _ = write!(quoted, "\\u{:04x}", u32::from(c));
            }
            c => quoted.push(c),
        }
    }
    quoted + "\""
}
