//! All peers, all works, in rounds: a moment when the machine is busy meets one round of a work,
//! and not its median.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::measure::{Figures, measure};
use crate::peer::{self, Kind};
use crate::progress;
use crate::server::Server;
use crate::table::{Table, number, ratio};
use crate::work::{self, Work};

/// Who did what, in medians; and what failed, and why.
pub struct Throughput {
    workers: usize,
    measured: Vec<(Kind, Work, Figures)>,
    failures: BTreeSet<String>,
}

impl Throughput {
    pub async fn measure(server: &Server, workers: usize, rounds: usize, time: Duration) -> Self {
        let mut failures = BTreeSet::new();
        let pairs = work::ALL
            .into_iter()
            .flat_map(|work| peer::ALL.map(|kind| (kind, work)));
        // One caller in the process is the same as many, on one worker.
        let pairs = pairs.filter(|(kind, work)| work.callers > 1 || !kind.is_in_process());
        let mut runs: Vec<(Kind, Work, Vec<Figures>)> =
            pairs.map(|(kind, work)| (kind, work, Vec::new())).collect();
        for round in 0..rounds {
            progress(format_args!(
                "decisions per second, workers: {workers}, round {} of {rounds}",
                round + 1
            ));
            for (kind, work, runs) in &mut runs {
                match measure(*kind, *work, server, time).await {
                    Ok(figures) => runs.push(figures),
                    Err(error) => {
                        let failure = format!("{}, {}: {error}", kind.name(), work.name);
                        progress(&failure);
                        failures.insert(failure);
                    }
                }
            }
        }
        let medians = runs.into_iter().filter(|(.., runs)| !runs.is_empty());
        let measured = medians
            .map(|(kind, work, runs)| (kind, work, Figures::median(&runs)))
            .collect();
        Self {
            workers,
            measured,
            failures,
        }
    }

    pub fn of(&self, kind: Kind, keys: work::Keys, callers: u64) -> Option<Figures> {
        let found = self
            .measured
            .iter()
            .find(|(k, work, _)| *k == kind && work.keys == keys && work.callers == callers);
        found.map(|(.., figures)| *figures)
    }

    /// One table of decisions per second, and what is missing from it.
    pub fn rates(&self) -> String {
        let workers = if self.workers == 1 {
            "one worker".to_owned()
        } else {
            format!("{} workers", self.workers)
        };
        let mut rates = Table::new(std::iter::once("").chain(work::ALL.map(|work| work.name)));
        for kind in peer::ALL {
            let rate = |work: Work| match self.of(kind, work.keys, work.callers) {
                Some(figures) => number(figures.per_second),
                None => String::new(),
            };
            rates.row(std::iter::once(kind.name()).chain(work::ALL.map(rate)));
        }
        let mut text = format!("### Decisions per second, {workers}\n\n{rates}");
        for failure in &self.failures {
            text += &format!("\nA round is missing. {failure}\n");
        }
        text
    }

    /// The same, and a table for each work with all that was measured.
    pub fn report(&self) -> String {
        let mut text = self.rates();
        for work in work::ALL {
            let article = self.of(Kind::ArticleZset, work.keys, work.callers);
            let against = |figure: f64, of: fn(&Figures) -> f64| match &article {
                Some(article) => ratio(figure / of(article)),
                None => String::new(),
            };
            let mut table = Table::new([
                work.name,
                "decisions/s",
                "× ZSET Lua",
                "p50 µs",
                "p99 µs",
                "server µs each",
                "× ZSET Lua",
                "Redis calls each",
            ]);
            for kind in peer::ALL {
                let Some(figures) = self.of(kind, work.keys, work.callers) else {
                    continue;
                };
                let server = if kind.is_in_process() {
                    f64::NAN
                } else {
                    figures.server
                };
                let calls = if kind.is_in_process() {
                    f64::NAN
                } else {
                    figures.calls
                };
                table.row([
                    kind.name(),
                    number(figures.per_second),
                    against(figures.per_second, |article| article.per_second),
                    number(figures.p50),
                    number(figures.p99),
                    number(server),
                    against(server, |article| article.server),
                    number(calls),
                ]);
            }
            text += &format!("\n{table}");
        }
        text
    }
}
