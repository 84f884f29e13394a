//! [`Server`]: a redis-server of our own, and what it counts.

use std::collections::HashMap;
use std::io::{BufRead as _, BufReader};
use std::net::{Ipv4Addr, TcpListener};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU16, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::{Failure, proxy};

/// The server is the child of a shell that waits for its standard input to end, so it goes however
/// this program ends.
const WATCHDOG: &str = r#"
dir=$1; shift
"$@" >"$dir/log" 2>&1 &
pid=$!
echo "$pid"
read -r _
kill -9 "$pid"; wait "$pid" 2>/dev/null
rm -rf -- "$dir"
"#;

/// Commands that run others: their time holds that of the commands inside, which the server counts
/// a second time.
const OUTERMOST: [&str; 7] = [
    "eval",
    "evalsha",
    "eval_ro",
    "evalsha_ro",
    "fcall",
    "exec",
    "cl.throttle",
];

/// Commands that never run inside another one, and are part of a decision.
const NEVER_INSIDE: [&str; 4] = ["multi", "watch", "unwatch", "script|load"];

/// A server that is far, for as long as this lives.
pub struct Far<'a>(&'a Server);

impl Drop for Far<'_> {
    fn drop(&mut self) {
        self.0.reached_by.store(self.0.port, Relaxed);
    }
}

/// The slots of a Cluster.
const SLOTS: usize = 16_384;
/// The key of the rules that a limiter writes for operators.
const RULES: &str = "rl1:rules";

/// A redis-server on a free port, without persistence; or a Cluster of them, of which this is the
/// first master.
pub struct Server {
    watchdog: Child,
    port: u16,
    /// The port that [`url`](Self::url) names: the server's own, or that of a delaying proxy.
    reached_by: AtomicU16,
    admin: Mutex<redis::Connection>,
    /// The other masters of a Cluster.
    others: Vec<Self>,
    /// Whether it has the module redis-cell.
    pub has_cell: bool,
}

impl Server {
    /// `RATELIMIT_TEST_REDIS_BIN` names another binary; `RATELIMIT_REDIS_CELL` the module to load.
    pub fn start() -> Result<Self, Failure> {
        Self::start_with(&[])
    }

    /// A Cluster of so many masters, which have the slots in equal parts.
    pub fn start_cluster(masters: usize) -> Result<Self, Failure> {
        let start = || Self::start_with(&["--cluster-enabled", "yes"]);
        let mut first = start()?;
        first.others = (1..masters).map(|_| start()).collect::<Result<_, _>>()?;
        for (at, master) in first.all().enumerate() {
            let slots = SLOTS * at / masters..SLOTS * (at + 1) / masters;
            let slots: Vec<_> = slots.map(|slot| slot.to_string()).collect();
            let slots = slots.iter().map(String::as_str);
            master.ask(
                &["CLUSTER", "ADDSLOTS"]
                    .into_iter()
                    .chain(slots)
                    .collect::<Vec<_>>(),
            )?;
            master.ask(&["CLUSTER", "SET-CONFIG-EPOCH", &(at + 1).to_string()])?;
            first.ask(&["CLUSTER", "MEET", "127.0.0.1", &master.port.to_string()])?;
        }
        let deadline = Instant::now() + Duration::from_secs(20);
        for master in first.all() {
            let is_whole = || -> Result<bool, Failure> {
                let info: String = redis::from_redis_value(master.ask(&["CLUSTER", "INFO"])?)?;
                let knows_all = format!("cluster_known_nodes:{masters}\r");
                Ok(info.contains("cluster_state:ok") && info.contains(&knows_all))
            };
            while !is_whole()? {
                if Instant::now() > deadline {
                    return Err("the Cluster does not form".into());
                }
                thread::sleep(Duration::from_millis(10));
            }
        }
        Ok(first)
    }

    fn start_with(arguments: &[&str]) -> Result<Self, Failure> {
        let binary =
            std::env::var_os("RATELIMIT_TEST_REDIS_BIN").unwrap_or_else(|| "redis-server".into());
        let module = std::env::var_os("RATELIMIT_REDIS_CELL").filter(|module| !module.is_empty());
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?
            .local_addr()?
            .port();
        let dir =
            std::env::temp_dir().join(format!("ratelimit-peers-{}-{port}", std::process::id()));
        std::fs::create_dir(&dir)?;
        let mut command = Command::new("sh");
        command
            .args(["-c", WATCHDOG, "redis-watchdog"])
            .arg(&dir)
            .arg(binary);
        command.args([
            "--port",
            &port.to_string(),
            "--bind",
            "127.0.0.1",
            "--save",
            "",
            "--appendonly",
            "no",
            "--dir",
        ]);
        command.arg(&dir).args(arguments);
        if let Some(module) = &module {
            command.arg("--loadmodule").arg(PathBuf::from(module));
        }
        let mut watchdog = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        if let Some(stdout) = watchdog.stdout.take() {
            BufReader::new(stdout).read_line(&mut String::new())?;
        }
        let client = redis::Client::open(("127.0.0.1", port))?;
        let deadline = Instant::now() + Duration::from_secs(10);
        let admin = loop {
            match client.get_connection() {
                Ok(admin) => break admin,
                Err(error) if Instant::now() > deadline => {
                    let said = std::fs::read_to_string(dir.join("log")).unwrap_or_default();
                    return Err(format!("redis-server did not start: {error}\n{said}").into());
                }
                Err(_) => thread::sleep(Duration::from_millis(10)),
            }
        };
        Ok(Self {
            watchdog,
            port,
            reached_by: AtomicU16::new(port),
            admin: Mutex::new(admin),
            others: Vec::new(),
            has_cell: module.is_some(),
        })
    }

    /// All masters of a Cluster, or the server alone.
    fn all(&self) -> impl Iterator<Item = &Self> {
        std::iter::once(self).chain(&self.others)
    }

    /// `127.0.0.1:<port>` of each server, by way of the delaying proxy while it is
    /// [far](Self::far).
    pub fn addresses(&self) -> Vec<String> {
        let ports = self.all().map(|server| server.reached_by.load(Relaxed));
        ports.map(|port| format!("127.0.0.1:{port}")).collect()
    }

    /// `redis://` and the address of the server, or `redis+cluster://` and those of all masters.
    pub fn url(&self) -> String {
        let kind = if self.others.is_empty() {
            "redis"
        } else {
            "redis+cluster"
        };
        format!("{kind}://{}", self.addresses().join(","))
    }

    /// Reaches the server through a proxy that delays each way, while the value lives. The
    /// connections that are open meanwhile go on through it afterwards.
    pub fn far(&self) -> Result<Far<'_>, Failure> {
        self.reached_by.store(proxy::start(self.port)?, Relaxed);
        Ok(Far(self))
    }

    /// Forgets all keys, not the scripts.
    pub fn empty(&self) -> Result<(), Failure> {
        self.ask_all(&["FLUSHALL", "SYNC"])
    }

    /// Starts counting anew.
    pub fn count_anew(&self) -> Result<(), Failure> {
        self.ask_all(&["CONFIG", "RESETSTAT"])
    }

    /// What was done since [`count_anew`](Self::count_anew).
    pub fn work(&self) -> Result<ServerWork, Failure> {
        self.all().try_fold(ServerWork::default(), |sum, server| {
            let info: String = redis::from_redis_value(server.ask(&["INFO", "commandstats"])?)?;
            Ok(sum.with(ServerWork::of(&info)))
        })
    }

    /// The bytes that the server has allocated.
    pub fn used_memory(&self) -> Result<u64, Failure> {
        let info: String = redis::from_redis_value(self.ask(&["INFO", "memory"])?)?;
        let bytes = info
            .lines()
            .find_map(|line| line.strip_prefix("used_memory:"));
        Ok(bytes.ok_or("INFO has no used_memory")?.trim().parse()?)
    }

    /// The bytes of the only key that holds a limit.
    pub fn bytes_of_the_key(&self) -> Result<u64, Failure> {
        let mut keys: Vec<String> = redis::from_redis_value(self.ask(&["KEYS", "*"])?)?;
        keys.retain(|key| key != RULES);
        let [key] = &keys[..] else {
            return Err(format!("there are {} keys, and not one", keys.len()).into());
        };
        Ok(redis::from_redis_value(
            self.ask(&["MEMORY", "USAGE", key, "SAMPLES", "0"])?,
        )?)
    }

    /// Forgets the calls that took long.
    pub fn watch_slow(&self, microseconds: u32) -> Result<(), Failure> {
        self.ask(&[
            "CONFIG",
            "SET",
            "slowlog-log-slower-than",
            &microseconds.to_string(),
        ])?;
        self.ask(&["CONFIG", "SET", "slowlog-max-len", "10000"])?;
        self.ask(&["SLOWLOG", "RESET"]).map(drop)
    }

    /// How many calls took longer since [`watch_slow`](Self::watch_slow), and the microseconds of
    /// the longest.
    pub fn slow(&self) -> Result<Slow, Failure> {
        let redis::Value::Array(entries) = self.ask(&["SLOWLOG", "GET", "10000"])? else {
            return Err("SLOWLOG is not a list".into());
        };
        let took = |entry: &redis::Value| match entry {
            redis::Value::Array(fields) => match fields.get(2) {
                Some(redis::Value::Int(took)) => *took,
                _ => 0,
            },
            _ => 0,
        };
        Ok(Slow {
            calls: entries.len(),
            longest: entries.iter().map(took).max().unwrap_or(0),
        })
    }

    pub fn version(&self) -> Result<String, Failure> {
        let info: String = redis::from_redis_value(self.ask(&["INFO", "server"])?)?;
        let field = |name: &str| {
            info.lines()
                .find_map(|line| line.strip_prefix(name))
                .map(|at| at.trim().to_owned())
        };
        field("valkey_version:")
            .or_else(|| field("redis_version:"))
            .ok_or_else(|| "INFO has no version".into())
    }

    fn ask_all(&self, command: &[&str]) -> Result<(), Failure> {
        self.all()
            .try_for_each(|server| server.ask(command).map(drop))
    }

    /// One command on a connection of its own.
    pub fn ask(&self, command: &[&str]) -> Result<redis::Value, Failure> {
        let mut admin = self.admin.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(redis::cmd(command[0])
            .arg(&command[1..])
            .query(&mut *admin)?)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.watchdog.stdin.take());
        let _ = self.watchdog.wait();
    }
}

/// Calls above a threshold.
#[derive(Debug, Clone, Copy)]
pub struct Slow {
    pub calls: usize,
    /// In microseconds; 0 if there was none.
    pub longest: i64,
}

/// The commands that clients sent, and the time that they took.
#[derive(Debug, Clone, Copy, Default)]
pub struct ServerWork {
    pub calls: u64,
    pub microseconds: u64,
}

impl ServerWork {
    /// Reads `cmdstat_<name>:calls=<n>,usec=<n>,…` lines. Where something ran others, only it
    /// counts, and what cannot have been inside; else everything does.
    fn of(info: &str) -> Self {
        let mut commands = HashMap::new();
        for line in info.lines() {
            let Some((name, fields)) = line
                .strip_prefix("cmdstat_")
                .and_then(|line| line.split_once(':'))
            else {
                continue;
            };
            let field = |name: &str| {
                let value = fields
                    .split(',')
                    .find_map(|field| field.strip_prefix(name)?.strip_prefix('='));
                value.and_then(|value| value.parse().ok()).unwrap_or(0)
            };
            commands.insert(
                name,
                Self {
                    calls: field("calls"),
                    microseconds: field("usec"),
                },
            );
        }
        commands.retain(|name, _| {
            !name.starts_with("config") && *name != "info" && *name != "flushall"
        });
        if OUTERMOST.iter().any(|name| commands.contains_key(name)) {
            commands.retain(|name, _| OUTERMOST.contains(name) || NEVER_INSIDE.contains(name));
        }
        commands.into_values().fold(Self::default(), Self::with)
    }

    fn with(self, other: Self) -> Self {
        Self {
            calls: self.calls + other.calls,
            microseconds: self.microseconds + other.microseconds,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_script_calls_is_not_counted_twice() {
        let info = "# Commandstats\r\ncmdstat_evalsha:calls=2,usec=10,usec_per_call=5\r\n\
            cmdstat_zadd:calls=2,usec=3\r\ncmdstat_multi:calls=1,usec=1\r\n\
            cmdstat_config|resetstat:calls=1,usec=99\r\n";
        let work = ServerWork::of(info);
        assert_eq!((work.calls, work.microseconds), (3, 11));
        let work = ServerWork::of("cmdstat_set:calls=2,usec=10\r\ncmdstat_incr:calls=2,usec=3\r\n");
        assert_eq!((work.calls, work.microseconds), (4, 13));
    }
}
