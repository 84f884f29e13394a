//! Follows a file of policies while the program runs.

use std::path::PathBuf;
use std::time::Duration;

use ratelimit_runtime::RateLimiter;
use tokio::time::interval;

use crate::policies::{self, Policies};

/// Reads the policies once a second, and at once on SIGHUP. What is read is compared with what was
/// read before: that notices every way in which files are replaced (by editors, by links, on
/// network drives), and needs no library.
///
/// Policies with a mistake are told of, once, and those in force stay.
pub(crate) async fn forever(file: PathBuf, in_force: Policies, limiter: RateLimiter) {
    let mut last = Ok(in_force);
    let mut ticks = interval(Duration::from_secs(1));
    loop {
        tokio::select! {
            _ = ticks.tick() => {}
            () = hangup() => {}
        }
        let read = policies::read(Some(&file));
        if read == last {
            continue;
        }
        let set = read.clone().and_then(|new| limiter.set_policies(new).map_err(|error| error.to_string()));
        match set {
            Ok(()) => tracing::info!(file = %file.display(), "the policies are replaced"),
            Err(error) => tracing::error!("{error}; the policies stay as they were"),
        }
        last = read;
    }
}

/// Resolves when the process is told to read its configuration, which would end it otherwise.
#[cfg(unix)]
async fn hangup() {
    use tokio::signal::unix::{SignalKind, signal};
    match signal(SignalKind::hangup()) {
        Ok(mut hangup) => drop(hangup.recv().await),
        Err(_) => std::future::pending().await,
    }
}

#[cfg(not(unix))]
async fn hangup() {
    std::future::pending().await
}
