//! [`Samples`]: all metrics of the process, as Prometheus gets them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::OnceLock;

use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};

/// The buckets that guide/observability.md proposes.
const SECONDS: [f64; 9] = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25];
const DECISIONS: [f64; 7] = [1.0, 2.0, 4.0, 16.0, 64.0, 256.0, 512.0];

/// One line of an exposition.
#[derive(Debug)]
struct Sample {
    name: String,
    labels: BTreeMap<String, String>,
    value: f64,
}

/// All metrics of the process at one moment.
#[derive(Debug)]
pub(crate) struct Samples {
    all: Vec<Sample>,
    /// The kind of each metric, by name.
    pub(crate) kinds: BTreeMap<String, String>,
    /// What is said of each.
    pub(crate) helps: BTreeMap<String, String>,
}

/// Records for the whole process from the first call on: connections are told of by tasks on other
/// threads. Tests tell each other apart by the names of their rules and servers.
pub(crate) fn record() -> &'static PrometheusHandle {
    static HANDLE: OnceLock<PrometheusHandle> = OnceLock::new();
    HANDLE.get_or_init(|| {
        PrometheusBuilder::new()
            .set_buckets_for_metric(
                Matcher::Full("ratelimit_store_seconds".to_owned()),
                &SECONDS,
            )
            .unwrap()
            .set_buckets_for_metric(
                Matcher::Full("ratelimit_command_decisions".to_owned()),
                &DECISIONS,
            )
            .unwrap()
            .install_recorder()
            .unwrap()
    })
}

impl Samples {
    /// As they are now.
    pub(crate) fn now() -> Self {
        let mut now = Self {
            all: Vec::new(),
            kinds: BTreeMap::new(),
            helps: BTreeMap::new(),
        };
        for line in record().render().lines().filter(|line| !line.is_empty()) {
            if let Some(kind) = line.strip_prefix("# TYPE ") {
                let (name, kind) = kind.split_once(' ').unwrap();
                now.kinds.insert(name.to_owned(), kind.to_owned());
            } else if let Some(help) = line.strip_prefix("# HELP ") {
                let (name, help) = help.split_once(' ').unwrap();
                now.helps.insert(name.to_owned(), help.to_owned());
            } else {
                now.all.push(Sample::parse(line));
            }
        }
        now
    }

    /// The sum of all samples of this name that have these labels.
    pub(crate) fn sum(&self, name: &str, labels: &[(&str, &str)]) -> f64 {
        self.with(name, labels).map(|sample| sample.value).sum()
    }

    /// Whether there is a sample of this name with these labels.
    pub(crate) fn has(&self, name: &str, labels: &[(&str, &str)]) -> bool {
        self.with(name, labels).next().is_some()
    }

    fn with<'a>(
        &'a self,
        name: &'a str,
        labels: &'a [(&str, &str)],
    ) -> impl Iterator<Item = &'a Sample> {
        let is_it = move |sample: &&Sample| {
            let has = |&(label, value): &(&str, &str)| {
                sample.labels.get(label).is_some_and(|had| had == value)
            };
            sample.name == name && labels.iter().all(has)
        };
        self.all.iter().filter(is_it)
    }

    /// The labels that samples of a metric have; of a histogram without its `le`.
    pub(crate) fn labels_of(&self, metric: &str) -> BTreeSet<String> {
        let of_it = self
            .all
            .iter()
            .filter(|sample| base(&sample.name) == metric);
        of_it
            .flat_map(|sample| sample.labels.keys())
            .filter(|label| *label != "le")
            .cloned()
            .collect()
    }

    /// All values of all labels.
    pub(crate) fn values(&self) -> BTreeSet<&str> {
        self.all
            .iter()
            .flat_map(|sample| sample.labels.values())
            .map(String::as_str)
            .collect()
    }

    /// The values that one label of a metric has.
    pub(crate) fn values_of(&self, metric: &str, label: &str) -> BTreeSet<&str> {
        let of_it = self
            .all
            .iter()
            .filter(|sample| base(&sample.name) == metric);
        of_it
            .filter_map(|sample| sample.labels.get(label))
            .map(String::as_str)
            .collect()
    }
}

/// The metric that a series belongs to: histograms have three.
pub(crate) fn base(series: &str) -> &str {
    ["_bucket", "_sum", "_count"]
        .iter()
        .find_map(|part| series.strip_suffix(part))
        .unwrap_or(series)
}

impl Sample {
    fn parse(line: &str) -> Self {
        let (series, value) = line.rsplit_once(' ').unwrap();
        let (name, mut rest) = series.split_once('{').unwrap_or((series, "}"));
        let mut labels = BTreeMap::new();
        while let Some((label, after)) = rest.split_once("=\"") {
            let (value, after) = unquoted(after);
            labels.insert(label.to_owned(), value);
            rest = after.strip_prefix(',').unwrap_or(after);
        }
        assert_eq!(rest, "}", "{line}");
        Self {
            name: name.to_owned(),
            labels,
            value: value.parse().unwrap(),
        }
    }
}

/// The text up to the closing quotation mark, and what follows.
fn unquoted(text: &str) -> (String, &str) {
    let (mut value, mut chars) = (String::new(), text.char_indices());
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => return (value, text.get(at + 1..).unwrap()),
            '\\' => value.push(match chars.next().unwrap().1 {
                'n' => '\n',
                other => other,
            }),
            c => value.push(c),
        }
    }
    panic!("no end: {text}")
}
