//! Four processes, and what may happen to them: however they call, no limit is passed.

use std::fmt;
use std::thread::sleep;
use std::time::{Duration, Instant};

use ratelimit_runtime::{Algorithm, Limit};

use crate::abreast::{abreast, is_chosen};
use crate::fleet::{Arrivals, Fleet, Plan, Record};
use crate::oracle::check;
use crate::support::clock::ServerClock;
use crate::support::random::Random;

const LOADS: [f64; 6] = [0.3, 0.9, 1.0, 1.2, 1.5, 5.0];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    Nothing,
    /// The process that calls most is killed.
    Killed,
    /// And another one takes its place.
    Restarted,
    /// The process that calls most stands still for longer than a lease.
    Stopped,
    /// The server closes all connections.
    Disconnected,
    /// The server's clock is set back.
    SetBack,
}

impl Fault {
    const ALL: [Self; 6] = [
        Self::Nothing,
        Self::Killed,
        Self::Restarted,
        Self::Stopped,
        Self::Disconnected,
        Self::SetBack,
    ];
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Lease {
    /// 10 ms, calls of several units.
    Least,
    /// A fiftieth of the window, calls of one unit.
    Most,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Case {
    algorithm: Algorithm,
    load: f64,
    arrivals: Arrivals,
    lease: Lease,
    fault: Fault,
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            algorithm,
            load,
            arrivals,
            lease,
            fault,
        } = self;
        write!(
            f,
            "{algorithm}, load {load}, {arrivals:?}, lease {lease:?}, fault {fault:?}"
        )
    }
}

impl Case {
    fn plan(self, seed: u64) -> Plan {
        let millis = Duration::from_millis;
        let (window, lease, costs) = match self.lease {
            Lease::Least => (1_000, 10, 4),
            Lease::Most => (2_000, 40, 1),
        };
        // What a machine of two processors can call.
        let max = if self.load > 2.0 { 800 } else { 3_000 };
        let limit = Limit::new(max, millis(window));
        Plan {
            algorithm: self.algorithm,
            // A burst of a tenth is where a bucket is emptied again and again.
            limit: if self.algorithm.has_burst() {
                limit.with_burst(max / 10)
            } else {
                limit
            },
            lease: millis(lease),
            load: self.load,
            arrivals: self.arrivals,
            costs,
            length: millis(2_500 + window),
            seed,
        }
    }

    fn run(self, seed: u64) -> Record {
        let plan = self.plan(seed);
        let clock = ServerClock::new();
        let server = clock.server(&[]);
        let mut fleet = Fleet::new(&server.url(), plan);
        fleet.go();
        // When the first window is over, and units are held.
        let (start, moment) = (Instant::now(), plan.length / 2);
        sleep(moment);
        match self.fault {
            Fault::Nothing => {}
            Fault::Killed => fleet.kill_busiest(None),
            Fault::Restarted => {
                fleet.kill_busiest(Some(plan.length.saturating_sub(start.elapsed())));
            }
            Fault::Stopped => {
                fleet.busiest().signal("STOP");
                sleep(plan.lease * 3);
                fleet.busiest().signal("CONT");
            }
            Fault::Disconnected => {
                server.cli(&["CLIENT", "KILL", "TYPE", "normal"]);
            }
            Fault::SetBack => clock.set_ms(-250),
        }
        let record = fleet.end();
        check(self.algorithm, &plan.limit, &record.admissions, 0)
            .unwrap_or_else(|why| panic!("{why}"));
        self.assert_tried(&record);
        record
    }

    /// Nothing is learnt where hardly any call is admitted, or nothing is taken ahead.
    fn assert_tried(self, record: &Record) {
        let plan = self.plan(0);
        let windows = plan.length.as_secs_f64() / plan.limit.window().as_secs_f64();
        let asked = plan.limit.max() as f64 * windows * self.load.min(1.0);
        let units = record.units();
        assert!(
            units as f64 >= asked * 0.3,
            "{units} units of {asked} were admitted, {} of {} calls were not answered",
            record.failed,
            record.calls
        );
        let takes_ahead = self.load >= 0.9 && self.load < 1.5 && self.lease == Lease::Most;
        if takes_ahead {
            assert!(record.share_of_grants() > 0.0, "nothing was taken ahead");
        }
    }
}

fn every_case() -> Vec<Case> {
    let mut cases = Vec::new();
    for &algorithm in Algorithm::ALL {
        for load in LOADS {
            for arrivals in [Arrivals::Steady, Arrivals::Bursts] {
                for lease in [Lease::Least, Lease::Most] {
                    for fault in Fault::ALL {
                        cases.push(Case {
                            algorithm,
                            load,
                            arrivals,
                            lease,
                            fault,
                        });
                    }
                }
            }
        }
    }
    cases
}

/// Each algorithm, load and fault at least once.
fn some_cases() -> Vec<Case> {
    use Algorithm::{FixedWindow, LeakyBucket, SlidingCounter, SlidingWindow, TokenBucket};
    use Arrivals::{Bursts, Steady};
    use Lease::{Least, Most};
    let table = [
        (SlidingWindow, 1.0, Steady, Most, Fault::Stopped),
        (SlidingWindow, 1.2, Bursts, Most, Fault::Nothing),
        (SlidingWindow, 0.9, Steady, Least, Fault::Disconnected),
        (SlidingWindow, 1.5, Steady, Most, Fault::Restarted),
        (FixedWindow, 1.2, Steady, Most, Fault::Stopped),
        (FixedWindow, 5.0, Bursts, Least, Fault::Nothing),
        (SlidingCounter, 1.0, Bursts, Most, Fault::SetBack),
        (SlidingCounter, 1.5, Steady, Least, Fault::Killed),
        (TokenBucket, 1.0, Steady, Most, Fault::Nothing),
        (TokenBucket, 1.2, Bursts, Most, Fault::Stopped),
        (TokenBucket, 0.3, Bursts, Most, Fault::SetBack),
        (LeakyBucket, 0.9, Steady, Most, Fault::Killed),
    ];
    let case = |(algorithm, load, arrivals, lease, fault)| Case {
        algorithm,
        load,
        arrivals,
        lease,
        fault,
    };
    table.into_iter().map(case).collect()
}

/// Runs cases, some at a time.
fn run(cases: Vec<Case>) {
    let mut random = Random::another();
    let seeded = cases.into_iter().map(|case| (case, random.number()));
    abreast(seeded.collect(), |(case, seed)| {
        let record = case.run(seed);
        println!(
            "{case}: {} calls, {} units, {:.2} of the admissions by grants",
            record.calls,
            record.units(),
            record.share_of_grants()
        );
    });
}

#[test]
fn no_limit_is_passed() {
    run(some_cases());
}

#[test]
#[ignore = "takes a quarter of an hour"]
fn no_limit_is_passed_in_any_case() {
    let cases = every_case().into_iter();
    run(cases.filter(|case| is_chosen(&case.to_string())).collect());
}
