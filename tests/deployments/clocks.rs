//! `RedisStore::with_clock`: what two processes admit whose clocks differ, on each deployment.

use ratelimit_runtime::store::Request;
use ratelimit_runtime::testkit::FakeClock;
use ratelimit_runtime::{Algorithm, Limit, Store as _};

use super::*;
use crate::support::random::{Random, seed};

const WINDOW: Duration = Duration::from_secs(60);
/// How far the clock of one process is ahead.
const AHEAD: Duration = Duration::from_secs(7);
const MICROSECOND: Duration = Duration::from_micros(1);

/// Two processes: the clock of the second one is ahead.
struct Processes {
    stores: [RedisStore; 2],
    clocks: [FakeClock; 2],
}

impl Processes {
    async fn on(deployment: &Deployment) -> Self {
        let clocks = [FakeClock::new(), FakeClock::new()];
        clocks[1].advance(AHEAD);
        let store = |clock: &FakeClock| {
            let store = deployment.store();
            store.with_clock(clock.clone())
        };
        let [first, second] = clocks.each_ref().map(store);
        let stores = [ready(first).await, ready(second).await];
        Self { stores, clocks }
    }

    fn advance(&self, by: Duration) {
        self.clocks.iter().for_each(|clock| clock.advance(by));
    }

    /// Whether a process is admitted, and the wait that it is told.
    async fn call(&self, process: usize, request: Request<'_>) -> Result<(), Duration> {
        let verdict = self.stores[process].acquire(request).await.unwrap();
        match verdict.retry_after() {
            None => Ok(()),
            Some(wait) => Err(wait),
        }
    }
}

fn deployments() -> [Deployment; 3] {
    [
        Deployment::one_server(),
        Deployment::sentinel(),
        Deployment::cluster(),
    ]
}

#[tokio::test]
async fn a_clock_that_is_ahead_frees_units_so_much_earlier_and_keeps_its_own_so_much_longer() {
    let limits = [Limit::new(1, WINDOW)];
    for deployment in deployments() {
        let processes = Processes::on(&deployment).await;
        for algorithm in [Algorithm::SlidingWindow, Algorithm::LeakyBucket] {
            let key = deployment.key();
            let request = Request::new(key.as_bytes(), algorithm, &limits);
            let call = async |process| processes.call(process, request).await;
            assert_eq!(call(0).await, Ok(()));
            assert_eq!(call(0).await, Err(WINDOW), "{deployment}, {algorithm}");
            assert_eq!(
                call(1).await,
                Err(WINDOW - AHEAD),
                "{deployment}, {algorithm}"
            );
            processes.advance(WINDOW - AHEAD - MICROSECOND);
            assert_eq!(call(1).await, Err(MICROSECOND), "{deployment}, {algorithm}");
            processes.advance(MICROSECOND);
            assert_eq!(call(1).await, Ok(()), "{deployment}, {algorithm}");
            // For the other process as well, once it knows of the admission.
            assert_eq!(
                call(0).await,
                Err(WINDOW + AHEAD),
                "{deployment}, {algorithm}"
            );
            processes.advance(WINDOW + AHEAD - MICROSECOND);
            assert_eq!(call(0).await, Err(MICROSECOND), "{deployment}, {algorithm}");
            processes.advance(MICROSECOND);
            assert_eq!(call(0).await, Ok(()), "{deployment}, {algorithm}");
        }
    }
}

/// The server's clock ends keys, and theirs are decades behind it.
#[tokio::test]
async fn a_key_lives_until_the_last_of_the_clocks_has_freed_it() {
    let limits = [Limit::new(4, WINDOW)];
    for deployment in deployments() {
        let processes = Processes::on(&deployment).await;
        for &algorithm in Algorithm::ALL {
            let key = deployment.key();
            let request = Request::new(key.as_bytes(), algorithm, &limits);
            for process in [0, 1, 0, 1] {
                assert_eq!(processes.call(process, request).await, Ok(()));
                let lives = deployment.server().number(&["PTTL", &key]);
                let lives = Duration::from_millis(u64::try_from(lives).unwrap());
                let peeked = processes.stores[process].peek(request).await.unwrap();
                let reset = Duration::from_micros(peeked.reset_after_us);
                let context = format!("{deployment}, {algorithm}: {lives:?} of {reset:?}");
                // It was written a moment ago, and is kept for a second more.
                assert!(lives > reset, "{context}");
                assert!(lives <= 2 * (2 * WINDOW + AHEAD), "{context}");
            }
        }
    }
}

/// An interval by the right time is as long by the clocks, or `AHEAD` longer.
#[tokio::test]
async fn an_interval_that_is_shorter_by_the_drift_admits_no_more_than_its_bound() {
    const MAX: u64 = 6;
    let limits = [Limit::new(MAX, WINDOW)];
    let mut random = Random::new(seed());
    for deployment in [Deployment::one_server(), Deployment::cluster()] {
        let processes = Processes::on(&deployment).await;
        for &algorithm in Algorithm::ALL {
            let key = deployment.key();
            let request = Request::new(key.as_bytes(), algorithm, &limits);
            let mut admitted: Vec<Duration> = Vec::new();
            let start = processes.clocks[0].now();
            for _ in 0..400 {
                let process = usize::from(random.below(3) > 0);
                if processes.call(process, request).await.is_ok() {
                    admitted.push(processes.clocks[0].now() - start);
                }
                let step = random.of(&[0, 1, 20, 500, 3_000, 8_000]);
                processes.advance(Duration::from_millis(step));
            }
            let bound = match algorithm {
                Algorithm::SlidingWindow => MAX,
                _ => 2 * MAX,
            };
            assert!(
                admitted.len() as u64 > 2 * bound,
                "{algorithm}: {admitted:?}"
            );
            for (first, at) in admitted.iter().enumerate() {
                let within = admitted[first..]
                    .iter()
                    .take_while(|&&other| other - *at < WINDOW - AHEAD);
                let within = within.count() as u64;
                assert!(
                    within <= bound,
                    "{deployment}, {algorithm}: {within} from {at:?} on: {admitted:?}"
                );
            }
        }
    }
}
