//! [`Fleet`]: processes that call on one key of one server, and what they were admitted.

use std::time::Duration;

use ratelimit_runtime::{Algorithm, Key, Limit, Rule};
use tokio::runtime::Builder;

use crate::oracle::Admission;
use crate::support::worker::Worker;
use crate::support::{strict, unique};

/// What each process calls of the whole, in twelfths of what the first one does.
const SHARES: [f64; 4] = [12.0, 6.0, 4.0, 3.0];

/// What the processes do.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Plan {
    pub(crate) algorithm: Algorithm,
    pub(crate) limit: Limit,
    /// Zero takes nothing ahead.
    pub(crate) lease: Duration,
    /// How much they ask for, as a multiple of the limit's rate.
    pub(crate) load: f64,
    pub(crate) arrivals: Arrivals,
    /// A call costs 1 to so many units.
    pub(crate) costs: u32,
    /// How long they call.
    pub(crate) length: Duration,
    pub(crate) seed: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Arrivals {
    /// At random, at one rate.
    Steady,
    /// For 0.3 s at three times the rate, then for 0.6 s not at all, all processes at once.
    Bursts,
}

/// Processes that are running, or have been.
pub(crate) struct Fleet {
    plan: Plan,
    url: String,
    prefix: String,
    workers: Vec<Worker>,
    /// What those have printed that are over.
    printed: String,
}

/// What all processes were told.
#[derive(Debug, Default)]
pub(crate) struct Record {
    pub(crate) admissions: Vec<Admission>,
    /// Calls of processes that were not killed, and how many of them were not answered.
    pub(crate) calls: u64,
    pub(crate) failed: u64,
}

impl Fleet {
    /// Processes that are ready to begin.
    pub(crate) fn new(url: &str, plan: Plan) -> Self {
        let mut fleet = Self {
            plan,
            url: url.to_owned(),
            prefix: unique("fleet"),
            workers: Vec::new(),
            printed: String::new(),
        };
        let processes = 0..SHARES.len();
        fleet.workers = processes
            .map(|process| fleet.worker(process, plan.length, 0))
            .collect();
        fleet.workers.iter_mut().for_each(ready);
        fleet
    }

    fn worker(&self, process: usize, length: Duration, life: u64) -> Worker {
        let plan = &self.plan;
        let rate = plan.load * plan.limit.max() as f64 / plan.limit.window().as_secs_f64();
        let calls = rate / (f64::from(1 + plan.costs) / 2.0);
        let gap = SHARES.iter().sum::<f64>() / SHARES[process] / calls;
        let gap = Duration::from_secs_f64(gap).as_nanos();
        let number = process as u64 + life * SHARES.len() as u64;
        let arrivals = match plan.arrivals {
            Arrivals::Steady => "steady",
            Arrivals::Bursts => "bursts",
        };
        Worker::start(&[
            "spend",
            &self.url,
            &self.prefix,
            &plan.algorithm.to_string(),
            &plan.limit.max().to_string(),
            &plan.limit.window().as_millis().to_string(),
            &plan.limit.capacity().to_string(),
            &plan.lease.as_millis().to_string(),
            arrivals,
            &gap.to_string(),
            &plan.costs.to_string(),
            &length.as_millis().to_string(),
            &plan.seed.wrapping_add(number << 32).to_string(),
        ])
    }

    pub(crate) fn go(&mut self) {
        self.workers.iter_mut().for_each(Worker::go);
    }

    /// The process that calls most.
    pub(crate) fn busiest(&self) -> &Worker {
        &self.workers[0]
    }

    /// Kills the process that calls most. Another one may take its place for some time.
    pub(crate) fn kill_busiest(&mut self, and_restart_for: Option<Duration>) {
        let killed = self.workers.remove(0).kill();
        self.printed += &killed;
        self.printed += "\n";
        if let Some(length) = and_restart_for {
            let mut worker = self.worker(0, length, 1);
            ready(&mut worker);
            worker.go();
            self.workers.insert(0, worker);
        }
    }

    /// Waits until all of them are over, a lease after their last call.
    pub(crate) fn end(&mut self) -> Record {
        for mut worker in self.workers.drain(..) {
            self.printed += &worker.rest();
            self.printed += "\n";
        }
        Record::read(&self.printed)
    }

    /// How many units the server counts, of a limit in whose window all of them were charged.
    pub(crate) fn used(&self) -> u64 {
        let builder = strict().redis(&self.url).prefix(self.prefix.as_str());
        let limiter = builder.build().unwrap();
        let rule = Rule::new("spend", self.plan.limit).with_algorithm(self.plan.algorithm);
        let runtime = Builder::new_current_thread().enable_all().build();
        let key = Key::of("shared");
        let seen = limiter.peek(&rule, &key);
        let seen = runtime.unwrap().block_on(seen).unwrap();
        self.plan.limit.capacity() - seen.remaining()
    }
}

fn ready(worker: &mut Worker) {
    assert_eq!(worker.line(), "ready");
}

impl Record {
    /// Of lines that the processes print. A line that was cut off by a kill is left out.
    fn read(printed: &str) -> Self {
        let mut record = Self::default();
        for line in printed.lines() {
            let words: Vec<_> = line.split(' ').collect();
            match words.as_slice() {
                [before, after, units, source @ ("grant" | "store")] => {
                    record.admissions.push(Admission {
                        before: before.parse().unwrap(),
                        after: after.parse().unwrap(),
                        units: units.parse().unwrap(),
                        by_grant: *source == "grant",
                    });
                }
                ["calls", calls, "failed", failed] => {
                    record.calls += calls.parse::<u64>().unwrap();
                    record.failed += failed.parse::<u64>().unwrap();
                }
                _ => {}
            }
        }
        record
    }

    pub(crate) fn units(&self) -> u64 {
        let units = self.admissions.iter().map(|one| one.units).sum::<i64>();
        u64::try_from(units).unwrap()
    }

    /// The share of admissions that were paid for by units taken ahead.
    pub(crate) fn share_of_grants(&self) -> f64 {
        let grants = self.admissions.iter().filter(|one| one.by_grant).count();
        grants as f64 / self.admissions.len().max(1) as f64
    }
}
