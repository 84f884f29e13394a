//! [`Holders`]: processes whose calls hold places, some of which are killed; and the witness of how
//! many calls are in flight.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use crate::sizes::resident_kb;
use crate::support::redis::RedisServer;
use crate::support::unique;
use crate::support::worker::Worker;

/// Keys that have places, and the places of each.
const KEYS: usize = 3;
const MAX: i64 = 5;
/// Processes, and the calls that each has of a key.
const PROCESSES: usize = 4;
const CALLS: usize = 3;
/// Longer than any fault of [`Fault`](crate::faults::Fault) lasts: leases do not lapse.
const LEASE: Duration = Duration::from_secs(15);
/// How many faults there are for each process that is killed: places of two of them are never taken
/// by the dead at a time.
const FAULTS_PER_KILL: usize = 4;

pub(crate) struct Holders {
    url: String,
    prefix: String,
    /// A server that no fault meets.
    witness: RedisServer,
    /// The first is never killed.
    processes: Vec<Worker>,
    looks: usize,
    killed: usize,
    /// The most in flight at a time: without a fail-over before, and after one.
    most: [i64; 2],
    entered: i64,
    first_kb: Option<u64>,
    last_kb: u64,
}

impl Holders {
    pub(crate) fn start(url: &str) -> Self {
        let (witness, prefix) = (RedisServer::start(), unique("hold"));
        let mut holders = Self {
            url: url.to_owned(),
            prefix,
            witness,
            processes: Vec::new(),
            looks: 0,
            killed: 0,
            most: [0; 2],
            entered: 0,
            first_kb: None,
            last_kb: 0,
        };
        holders.processes = (0..PROCESSES).map(|_| holders.process()).collect();
        holders
    }

    fn process(&self) -> Worker {
        let lease = LEASE.as_secs().to_string();
        let numbers = [KEYS, CALLS, usize::try_from(MAX).unwrap()].map(|number| number.to_string());
        let [keys, calls, max] = numbers.each_ref().map(String::as_str);
        Worker::start(&["hold", &self.url, &self.prefix, &self.witness.address(), keys, calls, max, &lease])
    }

    /// The keys as they are stored, to find them on the servers.
    pub(crate) fn keys(&self) -> Vec<String> {
        (0..KEYS).map(|key| format!("{}:rl1:cc:hold:<{key}>", self.prefix)).collect()
    }

    /// Looks at what has been since the last look, in a calm moment after a fault: never were more
    /// calls in flight than there are places, but after a fail-over that may have lost writes,
    /// until their bodies ended. Kills a process now and then.
    pub(crate) fn look(&mut self, can_forget: bool) {
        let most: i64 = self.witness.cli(&["ZSCORE", "most", "most"]).parse().expect("calls have entered");
        self.witness.cli(&["DEL", "most"]);
        let seen = &mut self.most[usize::from(can_forget)];
        *seen = most.max(*seen);
        assert!(can_forget || most <= MAX, "{most} calls were in flight of {MAX}");
        let entered = self.witness.number(&["GET", "entered"]);
        assert!(entered > self.entered, "no call has entered since the last fault");
        self.entered = entered;
        self.last_kb = resident_kb(self.processes[0].id());
        self.looks += 1;
        // What is allocated once, or lazily, is there by now.
        if self.looks > FAULTS_PER_KILL {
            self.first_kb.get_or_insert(self.last_kb);
        }
        if self.looks.is_multiple_of(FAULTS_PER_KILL) {
            self.kill_one();
        }
    }

    /// The places of a process that is killed stay taken until their leases end.
    fn kill_one(&mut self) {
        let at = 1 + self.killed % (PROCESSES - 1);
        let dead = self.processes.swap_remove(at);
        let id = dead.id();
        drop(dead.kill());
        self.killed += 1;
        for key in 0..KEYS {
            for call in 0..CALLS {
                self.witness.cli(&["SREM", &format!("held:{key}"), &format!("{id}.{call}")]);
            }
        }
        self.processes.push(self.process());
    }

    /// Lets all calls end, and waits until no place is taken: not longer than a lease, for those of
    /// the dead.
    pub(crate) fn stop(&mut self, stored: impl Fn(&str) -> bool) {
        self.processes.iter_mut().for_each(Worker::go);
        for mut process in self.processes.drain(..) {
            assert_eq!(process.rest(), "");
        }
        let start = Instant::now();
        while self.keys().iter().any(|key| stored(key)) {
            assert!(start.elapsed() < LEASE + Duration::from_secs(5), "places are taken, and no call is in flight");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    pub(crate) fn summary(&self) -> String {
        let mut text = format!(
            "calls in flight: {} entered in {PROCESSES} processes, {} of which were killed and replaced\n",
            self.entered, self.killed
        );
        let [calm, forgotten] = self.most;
        let _ = writeln!(
            text,
            "the most in flight of a key: {calm} of {MAX} without a fail-over, {forgotten} after one; of the process that \
             was never killed: {} KB after {} faults, {} KB at the end",
            self.first_kb.unwrap_or(self.last_kb),
            FAULTS_PER_KILL + 1,
            self.last_kb
        );
        text
    }

    pub(crate) fn assert_flat(&self) {
        let grown = self.last_kb.saturating_sub(self.first_kb.unwrap_or(self.last_kb)) / 1024;
        assert!(grown <= crate::sizes::SLACK_MB, "a process whose calls hold places has grown by {grown} MB");
    }
}
