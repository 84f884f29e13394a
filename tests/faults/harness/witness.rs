//! What the machine does to a client and a server that have nothing to do with any fault.
//!
//! A machine that is busy with other things, or a virtual one that is put to sleep, stops servers
//! and clients for longer than a timeout. Then calls are answered by policy, as they should be, and
//! no case may blame its fault for it.

use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::support::redis::RedisServer;

/// From when to when no caller was served in time.
pub(super) type Stall = (Instant, Instant);

static STALLS: Mutex<Vec<Stall>> = Mutex::new(Vec::new());

const PAUSE: Duration = Duration::from_millis(5);
/// A round trip takes a tenth of a millisecond.
const LONG: Duration = Duration::from_millis(25);

/// Watches from now on, until the process ends.
pub(super) fn watch() {
    thread::spawn(|| {
        let server = RedisServer::start();
        let mut link = server.connect();
        loop {
            let before = Instant::now();
            thread::sleep(PAUSE);
            let answered = link.send(&["PING"]).is_ok();
            assert!(answered, "the server of the witness answers");
            if before.elapsed() > PAUSE + LONG {
                STALLS
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .push((before, Instant::now()));
            }
        }
    });
}

/// How long callers were not served since this moment, the machine being to blame.
pub(crate) fn stalled_since(moment: Instant) -> Duration {
    stalls_since(moment)
        .into_iter()
        .map(|(from, to)| to.saturating_duration_since(from.max(moment)))
        .sum()
}

/// The stalls that ended after this moment.
pub(super) fn stalls_since(moment: Instant) -> Vec<Stall> {
    let stalls = STALLS.lock().unwrap_or_else(PoisonError::into_inner);
    stalls
        .iter()
        .filter(|(_, to)| *to > moment)
        .copied()
        .collect()
}
