//! [`ServerClock`]: the clock of a server, to be set while it runs.

use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;
use std::thread;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

use super::redis::RedisServer;
use super::unique;

/// A clock of which its servers are told by a library that is loaded before all others
/// (`settable_clock.c`).
#[derive(Debug)]
pub(crate) struct ServerClock {
    file: PathBuf,
    library: &'static Path,
    /// The right time less the monotonic clock, in microseconds, when this clock was made.
    right: i64,
}

impl ServerClock {
    /// A clock that goes right, and on where that of the machine is set.
    pub(crate) fn new() -> Self {
        static LIBRARY: LazyLock<PathBuf> = LazyLock::new(compiled);
        let micros = |clock| {
            let now = clock_gettime(clock);
            now.tv_sec * 1_000_000 + now.tv_nsec / 1_000
        };
        let clock = Self {
            file: std::env::temp_dir().join(unique("ratelimit-clock")),
            library: &LIBRARY,
            right: micros(ClockId::Realtime) - micros(ClockId::Monotonic),
        };
        fs::write(&clock.file, text(clock.right)).unwrap();
        clock
    }

    /// A server that goes by this clock.
    pub(crate) fn server(&self, args: &[&str]) -> RedisServer {
        let library = format!("LD_PRELOAD={}", self.library.display());
        let file = format!("RATELIMIT_TEST_CLOCK={}", self.file.display());
        RedisServer::start_under(&["env", &library, &file], args)
    }

    /// Sets the clock to so many milliseconds before or after the right time.
    pub(crate) fn set_ms(&self, offset: i64) {
        // All at once, and without a moment in which the file is empty.
        let mut file = OpenOptions::new().write(true).open(&self.file).unwrap();
        file.write_all(text(self.right + offset * 1_000).as_bytes())
            .unwrap();
        // Valkey 9.1 asks the system once a millisecond, and counts cycles of the processor
        // between.
        thread::sleep(Duration::from_millis(2));
    }
}

impl Drop for ServerClock {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.file);
    }
}

fn text(micros: i64) -> String {
    format!("{micros:+020}")
}

/// The library, compiled once per process, for Linux alone.
fn compiled() -> PathBuf {
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/support/settable_clock.c");
    // One for all runs: a file that is not there yet appears as a whole.
    let library = Path::new(env!("CARGO_TARGET_TMPDIR")).join("settable_clock.so");
    let fresh = Path::new(env!("CARGO_TARGET_TMPDIR")).join(unique("settable_clock"));
    let mut cc = Command::new("cc");
    cc.args(["-shared", "-fPIC", "-O1", "-o"])
        .arg(&fresh)
        .arg(source);
    assert!(
        cc.status().unwrap().success(),
        "`cc` compiles the library that sets a server's clock"
    );
    fs::rename(&fresh, &library).unwrap();
    library
}
