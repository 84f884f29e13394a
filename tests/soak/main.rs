//! Load on a Redis Cluster for minutes, while faults come at random from a printed seed:
//! `scripts/soak.sh MINUTES [SEED]`. Calls are limited, cost what is known afterwards, and hold
//! places in processes that are killed. Nothing that is promised may break, and memory has to stay
//! flat, of the processes and of the servers.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "it fails by panicking"
)]
#![allow(clippy::print_stdout, reason = "its output is its answer")]

mod callers;
mod faults;
mod holders;
mod promises;
mod sizes;
#[path = "../support/mod.rs"]
mod support;

use std::thread;
use std::time::{Duration, Instant};

use crate::callers::{Callers, LIMIT};
use crate::faults::{Fault, Faults};
use crate::holders::Holders;
use crate::promises::{Promises, SETTLED};
use crate::sizes::Sizes;
use crate::support::cluster::RedisCluster;
use crate::support::random::{Random, seed};

/// One node that is sick does not make the others refuse what they have.
const EACH_FOR_ITSELF: [&str; 2] = ["--cluster-require-full-coverage", "no"];
/// What a cluster may take to serve all slots again after a fault, and callers to see that.
const RECOVERY: Duration = Duration::from_secs(20);

fn main() {
    let minutes = std::env::args().nth(1).and_then(|minutes| minutes.parse::<f64>().ok());
    let time = Duration::from_secs_f64(60.0 * minutes.expect("soak MINUTES: how long"));
    let mut random = Random::new(seed());
    let mut cluster = RedisCluster::start_with(3, 1, &EACH_FOR_ITSELF);
    let promises = Promises::default();
    // Callers have one thread, so that a late timer tells of late answers; this one brings faults
    // about, and waits for servers.
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let callers = runtime.block_on(Callers::start(&cluster.url(), &promises, random.fork()));
    let mut holders = Holders::start(&cluster.url());
    let hot = [callers.hot_keys(), holders.keys()].concat();
    let (start, mut faults, mut sizes) = (Instant::now(), Faults::default(), Sizes::default());
    thread::sleep(3 * LIMIT.window());
    while start.elapsed() < time {
        let fault = Fault::any(&mut random);
        let begin = promises.fault_begins(fault.can_forget());
        fault.bring_about(&mut cluster, &hot, &mut random);
        let recovered = callers.recovered(begin, RECOVERY);
        faults.recovered(fault, recovered);
        // A calm while, in which limits hold as if nothing had ever been wrong.
        thread::sleep(2 * LIMIT.window() + Duration::from_millis(random.below(1_000)));
        sizes.look(&cluster, start.elapsed());
        println!("{:>5} s  {fault:<28} answered by the store alone after {recovered:?}", start.elapsed().as_secs());
        promises.assert_kept();
        holders.look(fault.can_forget());
    }
    runtime.block_on(callers.stop());
    thread::sleep(2 * SETTLED);
    holders.stop(|key| cluster.node(cluster.owner_of_key(key.as_bytes())).number(&["EXISTS", key]) > 0);
    let (kept, held) = (promises.summary(start.elapsed()), holders.summary());
    println!("\n{}{kept}{held}{}", faults.summary(), sizes.summary());
    promises.assert_kept();
    sizes.assert_flat();
    holders.assert_flat();
}
