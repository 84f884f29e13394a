//! [`OnRedis`]: the same work with the limits on a redis-server, for what it costs this process.

use std::fmt;
use std::hint::black_box;
use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use ratelimit_runtime::{Limit, OnUnavailable, RateLimiter, Rule, key};
use tokio::runtime::Runtime;

/// Who asks, and about what.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Load {
    /// One caller after the other.
    One,
    /// The same, by a limiter that gives its keys a prefix.
    OnePrefixed,
    /// Callers on keys of their own.
    Many,
    /// Callers on one key.
    Hot,
}

impl Load {
    pub const ALL: [Self; 4] = [Self::One, Self::OnePrefixed, Self::Many, Self::Hot];

    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|load| format!("{load:?}") == name)
    }

    fn callers(self) -> u64 {
        match self {
            Self::One | Self::OnePrefixed => 1,
            Self::Many => 64,
            Self::Hot => 512,
        }
    }
}

static RULE: Rule = Rule::new("rate", Limit::per_hour(100_000_000));
/// Nobody's call is given up, however slow a tool makes this process.
const TIMEOUT: Duration = Duration::from_secs(60);

/// A limiter that is connected, and callers for it.
pub struct OnRedis {
    load: Load,
    limiter: RateLimiter,
    asked: AtomicU64,
    runtime: Arc<Runtime>,
    _server: Server,
}

impl OnRedis {
    /// # Panics
    ///
    /// If there is no redis-server.
    #[must_use]
    pub fn new(load: Load) -> Arc<Self> {
        let server = Server::start();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let builder = RateLimiter::builder().redis(&server.url()).timeout(TIMEOUT).on_unavailable(OnUnavailable::Deny);
        let builder = if load == Load::OnePrefixed { builder.prefix("shop:prod") } else { builder };
        let limiter = builder.build().unwrap();
        runtime.block_on(limiter.ready()).unwrap();
        let ready =
            Arc::new(Self { load, limiter, asked: AtomicU64::new(0), runtime: Arc::new(runtime), _server: server });
        ready.run(2_048);
        ready
    }

    /// Makes so many checks. Tools find it by its name.
    #[inline(never)]
    pub fn measured(self: &Arc<Self>, checks: u64) {
        black_box(self.run(checks));
    }

    fn run(self: &Arc<Self>, checks: u64) {
        let callers = self.load.callers();
        self.runtime.block_on(async {
            let callers: Vec<_> = (0..callers).map(|_| tokio::spawn(Arc::clone(self).call(checks / callers))).collect();
            for caller in callers {
                caller.await.unwrap();
            }
        });
    }

    async fn call(self: Arc<Self>, calls: u64) {
        for _ in 0..calls {
            let number = self.asked.fetch_add(1, Ordering::Relaxed);
            let user = if self.load == Load::Hot { 0 } else { number % 50_000 };
            let user = format!("user{user}");
            let _ = black_box(self.limiter.acquire(&RULE, &key!("<user>")).await.unwrap());
        }
    }
}

impl fmt::Debug for OnRedis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OnRedis").field("load", &self.load).finish_non_exhaustive()
    }
}

/// A redis-server on a socket in a folder of its own. It ends with this process: a shell waits for that.
struct Server {
    watchdog: Child,
    socket: String,
}

const WATCHDOG: &str = r#"
dir=$(mktemp -d)
redis-server --port 0 --unixsocket "$dir/socket" --save '' --appendonly no --dir "$dir" >/dev/null 2>&1 &
pid=$!
while [ ! -S "$dir/socket" ]; do sleep 0.02; kill -0 "$pid" || exit 1; done
echo "$dir/socket"
read -r _
kill -9 "$pid" 2>/dev/null
wait "$pid" 2>/dev/null
rm -rf -- "$dir"
"#;

impl Server {
    fn start() -> Self {
        let mut command = Command::new("sh");
        command.args(["-c", WATCHDOG]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut watchdog = command.spawn().unwrap();
        let mut socket = String::new();
        BufReader::new(watchdog.stdout.take().unwrap()).read_line(&mut socket).unwrap();
        assert!(!socket.is_empty(), "redis-server is not installed: run scripts/test.sh, or install it");
        Self { watchdog, socket: socket.trim().to_owned() }
    }

    fn url(&self) -> String {
        format!("unix://{}", self.socket)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.watchdog.stdin.take());
        let _ = self.watchdog.wait();
    }
}
