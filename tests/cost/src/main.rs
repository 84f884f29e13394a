//! Makes checks for a tool that counts: `ratelimit-cost <work> <checks>`, with the feature `metrics` followed by who records
//! them. `ratelimit-cost threads` prints what a second thread adds.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a measurement that cannot go on fails")]

use ratelimit_cost::{Load, OnRedis, Ready, Work, scaling};

fn main() {
    let mut arguments = std::env::args().skip(1);
    let work = arguments.next().unwrap();
    if work == "threads" {
        let (store, attribute) = scaling();
        println!("two threads on distinct keys: {store:.2} x one for the store, {attribute:.2} x by the attribute");
        return;
    }
    let checks = arguments.next().unwrap().parse().unwrap();
    #[cfg(feature = "metrics")]
    ratelimit_cost::Recording::named(&arguments.next().unwrap()).unwrap().install();
    match Load::named(&work) {
        Some(load) => OnRedis::new(load).measured(checks),
        None => Ready::new(Work::named(&work).unwrap()).measured(checks),
    }
}
