//! Follows a file of policies for as long as the limiter lives.
//!
//! It is polled by its path: that notices each way in which files are replaced (by editors, by the
//! links of mounted configuration, on network drives). A reading counts once the next one, half a
//! second later, is the same: a half-written file has changed by then.

use std::path::PathBuf;
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::task::spawn_blocking;
use tokio::time::sleep;

use super::file::{PolicyFile, Reading};
use crate::engine::Engine;
use crate::error::RateLimitError;
use crate::{observe, pace};

/// The time between two readings.
const PERIOD: Duration = Duration::from_millis(500);

/// Puts the policies of a file in force, and follows it in the background.
pub(in crate::limiter) async fn start(
    engine: &Arc<Engine>,
    path: PathBuf,
) -> Result<(), RateLimitError> {
    let file = Arc::new(PolicyFile::new(path)?);
    pace::can_wait()
        .map_err(|none| RateLimitError::misconfigured(format!("no file can be watched: {none}")))?;
    let mut readings = Readings::default();
    let policies = loop {
        if let Some(reading) = readings.add(read(&file).await) {
            break take(engine, &file, reading).await?;
        }
        sleep(PERIOD).await;
    };
    observe::policies_watched(&file.path, policies);
    tokio::spawn(follow(Arc::downgrade(engine), file, readings));
    Ok(())
}

async fn follow(engine: Weak<Engine>, file: Arc<PolicyFile>, mut readings: Readings) {
    loop {
        sleep(PERIOD).await;
        let reading = read(&file).await;
        let Some(engine) = engine.upgrade() else {
            break;
        };
        if let Some(reading) = readings.add(reading) {
            observe::policies_changed(&file.path, &take(&engine, &file, reading).await);
        }
    }
}

/// Reads the file, which may block for long on a network drive.
async fn read(file: &Arc<PolicyFile>) -> Reading {
    let file = Arc::clone(file);
    spawn_blocking(move || file.read())
        .await
        .unwrap_or_else(|error| Err(error.to_string()))
}

/// Puts a reading in force. A hundred thousand overrides take longer to parse than a check may
/// take, so that is done beside the runtime, as reading is. Returns the number of policies.
async fn take(
    engine: &Arc<Engine>,
    file: &Arc<PolicyFile>,
    reading: Reading,
) -> Result<usize, RateLimitError> {
    let (engine, file) = (Arc::clone(engine), Arc::clone(file));
    let taken = spawn_blocking(move || {
        let policies = file
            .policies(&reading)
            .map_err(RateLimitError::misconfigured)?;
        let number = policies.len();
        super::replace(&engine, policies).map(|()| number)
    });
    taken
        .await
        .unwrap_or_else(|error| Err(RateLimitError::misconfigured(error.to_string())))
}

/// The last readings of a file.
#[derive(Debug, Default)]
struct Readings {
    last: Option<Reading>,
    /// The last reading that `add` returned, whether it is in force or wrong.
    taken: Option<Reading>,
}

impl Readings {
    /// Returns the reading, if it is the second in a row and was not the last one returned.
    fn add(&mut self, reading: Reading) -> Option<Reading> {
        if self.last.as_ref() != Some(&reading) {
            self.last = Some(reading);
            return None;
        }
        (self.taken.as_ref() != Some(&reading)).then(|| {
            self.taken = Some(reading.clone());
            reading
        })
    }
}
