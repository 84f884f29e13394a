//! [`Server`]: a redis-server of our own; [`CountedServer`]: one whose instructions are counted.

use std::ffi::OsString;
use std::io::{BufRead as _, BufReader, ErrorKind};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::{fmt, fs};

use redis::Connection;

/// A redis-server without persistence, on a socket in a folder of its own.
///
/// It ends with this process, however that ends: a shell waits for its standard input to close.
pub(super) struct Server {
    watchdog: Child,
    folder: PathBuf,
}

const WATCHDOG: &str = r#"
dir=$(mktemp -d)
cd "$dir" || exit 1
"$@" --port 0 --unixsocket socket --save '' --appendonly no >log 2>&1 &
pid=$!
while ! grep -qs 'ready to accept' log; do sleep 0.02; kill -0 "$pid" 2>/dev/null || { cat log >&2; break; }; done
echo "$dir"
read -r _
kill -9 "$pid" 2>/dev/null
wait "$pid" 2>/dev/null
cd / && rm -rf -- "$dir"
"#;

impl Server {
    pub(super) fn start() -> Self {
        Self::run([program()])
    }

    /// Runs a command that becomes the server, given the rest of its arguments.
    fn run(command: impl IntoIterator<Item = OsString>) -> Self {
        let mut watchdog = Command::new("sh");
        watchdog
            .args(["-c", WATCHDOG, "redis-watchdog"])
            .args(command);
        let mut watchdog = watchdog
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut folder = String::new();
        BufReader::new(watchdog.stdout.take().unwrap())
            .read_line(&mut folder)
            .unwrap();
        let server = Self {
            watchdog,
            folder: folder.trim().into(),
        };
        assert!(
            server.folder.join("socket").exists(),
            "redis-server does not start: run scripts/test.sh, or install it"
        );
        server
    }

    pub(super) fn url(&self) -> String {
        format!("unix://{}", self.folder.join("socket").display())
    }

    pub(super) fn connect(&self) -> Connection {
        redis::Client::open(self.url())
            .unwrap()
            .get_connection()
            .unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.watchdog.stdin.take());
        let _ = self.watchdog.wait();
    }
}

fn program() -> OsString {
    std::env::var_os("RATELIMIT_TEST_REDIS_BIN").unwrap_or_else(|| "redis-server".into())
}

/// A redis-server in callgrind.
///
/// A mark is the command `ECHO`, which no decision uses: callgrind writes what it has counted since
/// the last mark into a file when the server comes to its function.
pub struct CountedServer {
    server: Server,
    control: Connection,
    marks: u32,
}

impl CountedServer {
    /// Starts one.
    #[must_use]
    pub fn start() -> Self {
        let found = Command::new("valgrind")
            .arg("--version")
            .stdout(Stdio::null())
            .status();
        assert!(
            !matches!(found, Err(error) if error.kind() == ErrorKind::NotFound),
            "instructions are counted by valgrind, which is not installed: scripts/test.sh --all \
             installs it"
        );
        let mut command: Vec<OsString> = [
            "valgrind",
            "--tool=callgrind",
            "--callgrind-out-file=counts",
            "--dump-before=echoCommand",
        ]
        .map(OsString::from)
        .into();
        // Once a second instead of ten times the server looks after itself, which is not counted.
        command.extend([program(), "--hz".into(), "1".into()]);
        let server = Server::run(command);
        let control = server.connect();
        Self {
            server,
            control,
            marks: 0,
        }
    }

    /// How many instructions the server executes while `work` is done.
    pub(super) fn instructions(&mut self, work: impl FnOnce()) -> u64 {
        self.mark();
        work();
        let counts = fs::read_to_string(self.mark()).unwrap();
        let total = counts
            .lines()
            .find_map(|line| line.strip_prefix("totals: "));
        total.and_then(|total| total.trim().parse().ok()).unwrap()
    }

    /// The file of what was counted since the last mark.
    fn mark(&mut self) -> PathBuf {
        let _: String = redis::cmd("ECHO").arg("").query(&mut self.control).unwrap();
        self.marks += 1;
        let counts = self.server.folder.join(format!("counts.{}", self.marks));
        assert!(
            counts.exists(),
            "callgrind does not find the functions of this redis-server"
        );
        counts
    }

    pub(super) fn url(&self) -> String {
        self.server.url()
    }

    /// Forgets all keys, not the scripts.
    pub(super) fn empty(&mut self) {
        redis::cmd("FLUSHALL")
            .arg("SYNC")
            .exec(&mut self.control)
            .unwrap();
    }

    /// The version of the server: `7.0.15`.
    pub fn version(&mut self) -> String {
        let info: String = redis::cmd("INFO")
            .arg("server")
            .query(&mut self.control)
            .unwrap();
        let field = |name: &str| {
            info.lines()
                .find_map(|line| line.strip_prefix(name))
                .map(str::trim)
        };
        field("valkey_version:")
            .or_else(|| field("redis_version:"))
            .unwrap()
            .to_owned()
    }
}

impl fmt::Debug for CountedServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CountedServer")
            .field("folder", &self.server.folder)
            .finish_non_exhaustive()
    }
}
