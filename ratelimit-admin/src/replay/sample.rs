//! A generated log to try the program with.

use std::io::{self, Write};

use fastrand::Rng;

use crate::replay::time::rfc3339;

/// 2026-01-01T09:00:00Z
const START: u64 = 1_767_258_000_000_000;
/// Microseconds between two requests, on average: 100 a second.
const PACE: u64 = 10_000;

/// Writes a log of `requests` requests, always the same. Some of 10,000 users make far more
/// requests than others, and for five minutes of each half hour an attacker tries passwords.
pub(crate) fn write(requests: u32, out: &mut impl Write) -> io::Result<()> {
    let mut random = Rng::with_seed(1);
    let mut at = START;
    writeln!(out, "time,key,cost")?;
    for _ in 0..requests {
        at += random.u64(0..=2 * PACE);
        let minute = (at - START) / 60_000_000 % 30;
        if (3..8).contains(&minute) && random.f64() < 0.3 {
            writeln!(out, "{},203.0.113.{},1", rfc3339(at), random.u8(1..=4))?;
        } else {
            let user = (random.f64().powi(2) * 10_000.0).floor();
            writeln!(out, "{},user{user}@example.com,1", rfc3339(at))?;
        }
    }
    Ok(())
}
