//! [`Row`]: what one fault did, as a line of a Markdown table.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::load::TIMEOUT;
use super::witness::stalled_since;

/// One line of the table.
#[derive(Debug, Clone)]
pub(crate) struct Row {
    pub(super) fault: String,
    pub(super) calls: String,
    pub(super) slowest: String,
    pub(super) admitted: String,
    pub(super) seen: String,
    pub(super) recovery: String,
}

impl Row {
    /// The row of a case that counts by itself; [`Account::row`](super::Account::row) makes the
    /// others.
    pub(crate) fn new(fault: impl Into<String>) -> Self {
        let none = || "–".to_owned();
        Self {
            fault: fault.into(),
            calls: none(),
            slowest: none(),
            admitted: none(),
            seen: none(),
            recovery: none(),
        }
    }

    pub(crate) fn calls(self, calls: usize) -> Self {
        Self {
            calls: calls.to_string(),
            ..self
        }
    }

    pub(crate) fn slowest(self, slowest: Duration, timeout: Duration) -> Self {
        Self {
            slowest: format!("{} of {}", millis(slowest), millis(timeout)),
            ..self
        }
    }

    pub(crate) fn admitted(self, admitted: impl Into<String>) -> Self {
        Self {
            admitted: admitted.into(),
            ..self
        }
    }

    pub(crate) fn seen(self, seen: impl Into<String>) -> Self {
        Self {
            seen: seen.into(),
            ..self
        }
    }

    pub(crate) fn recovery(self, recovery: impl Into<String>) -> Self {
        Self {
            recovery: recovery.into(),
            ..self
        }
    }
}

impl From<Row> for Vec<Row> {
    fn from(row: Row) -> Self {
        vec![row]
    }
}

/// What became of the calls of a case that counts by itself.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    calls: usize,
    slowest: Duration,
    answered: BTreeMap<String, usize>,
}

impl Tally {
    /// What a busy machine may add to a call.
    const SLACK: Duration = Duration::from_millis(250);

    /// Counts a call that took so long, and by whom it was answered.
    pub(crate) fn add(&mut self, took: Duration, by: &str) {
        let stalled = Instant::now()
            .checked_sub(took)
            .map_or(Duration::ZERO, stalled_since);
        assert!(
            took <= TIMEOUT + Self::SLACK + stalled,
            "a call took {took:?}"
        );
        self.calls += 1;
        self.slowest = self.slowest.max(took);
        *self.answered.entry(by.to_owned()).or_default() += 1;
    }

    pub(crate) fn has(&self, by: &str) -> bool {
        self.answered.contains_key(by)
    }

    pub(crate) fn row(&self, fault: &str, recovery: Duration) -> Row {
        let answered: Vec<_> = self
            .answered
            .iter()
            .map(|(by, count)| format!("{by} {count}"))
            .collect();
        let row = Row::new(fault)
            .calls(self.calls)
            .slowest(self.slowest, TIMEOUT)
            .seen(answered.join(", "));
        row.recovery(format!("{} ms", recovery.as_millis()))
    }
}

pub(super) fn millis(duration: Duration) -> String {
    if duration < Duration::from_millis(10) {
        let tenths = (duration.as_micros() + 50) / 100;
        return format!("{}.{} ms", tenths / 10, tenths % 10);
    }
    format!("{} ms", duration.as_millis())
}

/// The table of these rows.
pub(super) fn table(rows: &[Row]) -> String {
    let mut table = String::from(
        "| fault | calls | slowest call (timeout) | admitted in the worst window (allowed) | who \
         answered, from the fault to the recovery | store answers again after: the first, the last \
         by policy |\n| --- | --- | --- | --- | --- | --- |\n",
    );
    for row in rows {
        let cells = [
            &row.fault,
            &row.calls,
            &row.slowest,
            &row.admitted,
            &row.seen,
            &row.recovery,
        ];
        table.push('|');
        for cell in cells {
            table.push(' ');
            table.push_str(&cell.replace('|', "\\|").replace('\n', " "));
            table.push_str(" |");
        }
        table.push('\n');
    }
    table
}
