//! Makes checks for a tool that counts.
//!
//! ```text
//! ratelimit-cost WORK CHECKS [RECORDER]   checks in memory or on Redis; with the feature `metrics` counted by RECORDER
//! ```

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a measurement that cannot go on fails"
)]

use ratelimit_cost::{Full, Load, OnRedis, Ready, Recording, Work};

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        [work, checks] => count(work, checks.parse().unwrap()),
        [work, checks, recorder] => {
            Recording::named(recorder).unwrap().install();
            count(work, checks.parse().unwrap());
        }
        _ => panic!("WORK CHECKS [RECORDER]"),
    }
}

fn count(work: &str, checks: u64) {
    match (Load::named(work), Full::named(work)) {
        (Some(load), _) => OnRedis::new(load).measured(checks),
        (None, Some(full)) => full.measured(checks),
        (None, None) => Ready::new(Work::named(work).unwrap()).measured(checks),
    }
}
