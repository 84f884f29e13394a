//! guide/observability.md says what there is: all of it, and nothing else.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::sync::Mutex;

use metrics::{Counter, Gauge, Histogram, Key, KeyName, Metadata, Recorder, SharedString, Unit};
use ratelimit_runtime::RateLimiter;

/// A metric as it is documented.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Metric {
    pub(crate) kind: String,
    pub(crate) labels: BTreeSet<String>,
}

pub(crate) fn file(path: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path)).unwrap()
}

/// The rows of the table of guide/observability.md whose head begins like this.
pub(crate) fn table(head: &str) -> Vec<Vec<String>> {
    let text = file("ratelimit-runtime/src/guide/observability.md");
    let mut lines = text.lines().skip_while(|line| !line.starts_with(head));
    assert!(
        lines.next().is_some() && lines.next().is_some(),
        "no table with the head {head}"
    );
    let cells = |line: &str| {
        line.trim_matches('|')
            .split('|')
            .map(|cell| cell.trim().to_owned())
            .collect()
    };
    lines
        .take_while(|line| line.starts_with('|'))
        .map(cells)
        .collect()
}

/// The words of a cell that are code.
pub(crate) fn code(cell: &str) -> BTreeSet<String> {
    cell.split('`')
        .skip(1)
        .step_by(2)
        .map(str::to_owned)
        .collect()
}

/// The documented metrics, by name.
pub(crate) fn metrics() -> BTreeMap<String, Metric> {
    let rows = table("| name | type | unit |");
    let metric = |row: &Vec<String>| {
        let [name, kind, _, labels, _] = row.as_slice() else {
            panic!("{row:?}")
        };
        (
            name.trim_matches('`').to_owned(),
            Metric {
                kind: kind.clone(),
                labels: code(labels),
            },
        )
    };
    rows.iter().map(metric).collect()
}

/// The documented values of labels.
pub(crate) fn values() -> BTreeMap<String, BTreeSet<String>> {
    let rows = table("| label | values |");
    rows.iter()
        .map(|row| (row[0].trim_matches('`').to_owned(), code(&row[1])))
        .collect()
}

/// Hears what metrics mean.
#[derive(Default)]
struct Descriptions(Mutex<BTreeMap<String, Description>>);

/// The kind, the unit and the text.
type Description = (&'static str, Option<Unit>, String);

impl Descriptions {
    fn add(&self, kind: &'static str, name: &KeyName, unit: Option<Unit>, text: &SharedString) {
        self.0
            .lock()
            .unwrap()
            .insert(name.as_str().to_owned(), (kind, unit, text.to_string()));
    }
}

impl Recorder for Descriptions {
    fn describe_counter(&self, name: KeyName, unit: Option<Unit>, text: SharedString) {
        self.add("counter", &name, unit, &text);
    }

    fn describe_gauge(&self, name: KeyName, unit: Option<Unit>, text: SharedString) {
        self.add("gauge", &name, unit, &text);
    }

    fn describe_histogram(&self, name: KeyName, unit: Option<Unit>, text: SharedString) {
        self.add("histogram", &name, unit, &text);
    }

    fn register_counter(&self, _: &Key, _: &Metadata<'_>) -> Counter {
        Counter::noop()
    }

    fn register_gauge(&self, _: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::noop()
    }

    fn register_histogram(&self, _: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::noop()
    }
}

/// What a limiter says of its metrics when it is made.
#[test]
fn the_metrics_of_the_code_are_those_of_the_document() {
    let said = Descriptions::default();
    metrics::with_local_recorder(&said, || drop(RateLimiter::memory()));
    let said = said.0.into_inner().unwrap();
    let said_kinds: BTreeMap<_, _> = said
        .iter()
        .map(|(name, (kind, ..))| (name.clone(), (*kind).to_owned()))
        .collect();
    let documented: BTreeMap<_, _> = metrics()
        .into_iter()
        .map(|(name, metric)| (name, metric.kind))
        .collect();
    assert_eq!(said_kinds, documented);
    for (name, (kind, unit, text)) in said {
        assert!(!text.is_empty(), "{name}");
        assert_eq!(kind == "counter", name.ends_with("_total"), "{name}");
        assert_eq!(
            unit == Some(Unit::Seconds),
            name.ends_with("_seconds"),
            "{name}"
        );
    }
}

/// What other metrics than these are in the documents are mistakes.
#[test]
fn documents_speak_of_no_other_metrics() {
    let documented = metrics();
    for path in [
        "ratelimit-runtime/src/guide/observability.md",
        "docs/prometheus-alerts.yml",
        "README.md",
        "CHANGELOG.md",
    ] {
        let text = file(path);
        let words = text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
        for word in words.filter(|word| word.starts_with("ratelimit_")) {
            let is_crate = ["ratelimit_runtime", "ratelimit_macros"].contains(&word);
            assert!(
                is_crate || documented.contains_key(crate::samples::base(word)),
                "{path}: {word}"
            );
        }
    }
}
