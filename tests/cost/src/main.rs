//! Makes checks for a tool that counts, or prints the costs of a server.
//!
//! ```text
//! ratelimit-cost WORK CHECKS [RECORDER]   checks in memory or on Redis; with the feature `metrics` counted by RECORDER
//! ratelimit-cost server                   what decisions cost a redis-server
//! ```

#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout, reason = "a measurement that cannot go on fails")]

use ratelimit_cost::{CountedServer, Load, OnRedis, Ready, Recording, Stacked, Table, Work, lowered};

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        ["server"] => {
            let mut server = CountedServer::start();
            println!("{}", Table::measure(&mut server));
            println!("{}", Stacked::measure(&mut server));
            println!("2,000 entries, at most 3 now: {}", lowered(&mut server));
        }
        [work, checks] => count(work, checks.parse().unwrap()),
        [work, checks, recorder] => {
            Recording::named(recorder).unwrap().install();
            count(work, checks.parse().unwrap());
        }
        _ => panic!("WORK CHECKS [RECORDER], or server"),
    }
}

fn count(work: &str, checks: u64) {
    match Load::named(work) {
        Some(load) => OnRedis::new(load).measured(checks),
        None => Ready::new(Work::named(work).unwrap()).measured(checks),
    }
}
