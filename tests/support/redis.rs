//! [`RedisServer`]: a redis-server process of a test's own.

use std::ffi::OsString;
use std::fs;
use std::io::{BufRead as _, BufReader, ErrorKind, Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::thread;
use std::time::{Duration, Instant};

use ratelimit_runtime::__private::BuiltInStore as _;
use ratelimit_runtime::RedisStore;

/// The server is the child of a shell that waits for its standard input to end. However the test
/// process dies, its end of that pipe closes, and the server goes with it. `$1` is the log, `$2`
/// the server's folder, the rest the command.
const WATCHDOG: &str = r#"
log=$1; dir=$2; shift 2
"$@" >>"$log" 2>&1 &
pid=$!
echo "$pid"
read -r _
kill -9 "$pid" 2>/dev/null
wait "$pid" 2>/dev/null
rm -rf -- "$dir"
"#;

const MISSING: &str = "redis-server is not installed: run scripts/test.sh, or install it (apt-get \
    install redis-server)";

/// How long a server may take to start, and to answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// A redis-server on a free port of 127.0.0.1, without persistence, in a folder of its own. It is
/// killed on drop, and when the test process ends in any other way.
#[derive(Debug)]
pub(crate) struct RedisServer {
    port: u16,
    how: How,
    running: Option<Running>,
}

/// How a server is started.
#[derive(Debug, Clone, Default)]
pub(crate) struct How {
    /// What runs the binary, such as `env NAME=value`.
    pub(crate) launcher: Vec<String>,
    /// What its configuration file begins with.
    pub(crate) config: String,
    pub(crate) args: Vec<String>,
}

#[derive(Debug)]
struct Running {
    watchdog: Child,
    pid: u32,
}

/// Why a server did not start.
enum StartError {
    PortTaken,
    Other(String),
}

impl RedisServer {
    /// A server with the default settings.
    pub(crate) fn start() -> Self {
        Self::start_with(&[])
    }

    /// A server with further arguments, such as `&["--maxmemory", "3mb"]`.
    pub(crate) fn start_with(args: &[&str]) -> Self {
        Self::start_as(&How {
            args: owned(args),
            ..How::default()
        })
    }

    /// A server with a configuration file, which it may write to.
    pub(crate) fn start_from(config: &str, args: &[&str]) -> Self {
        Self::start_as(&How {
            config: config.to_owned(),
            args: owned(args),
            ..How::default()
        })
    }

    /// A server that is run by another command, which must become the server:
    /// `&["env", "NAME=value"]`.
    pub(crate) fn start_under(launcher: &[&str], args: &[&str]) -> Self {
        Self::start_as(&How {
            launcher: owned(launcher),
            args: owned(args),
            ..How::default()
        })
    }

    /// A server whose folder is gone, so that it cannot save to its disk. [`fail_to_save`] lets it
    /// notice.
    ///
    /// [`fail_to_save`]: Self::fail_to_save
    pub(crate) fn start_without_disk() -> Self {
        let dir = server_dir();
        let path = dir.to_str().expect("a path that is text");
        let server = Self::start_with(&["--dir", path]);
        // Redis 6.2 takes the first of two such arguments.
        server.cli(&["CONFIG", "SET", "save", "3600 1"]);
        fs::remove_dir_all(&dir).expect("the folder is the test's own");
        server
    }

    /// Lets a server without a disk try to save: from then on it answers every write, and PING,
    /// with MISCONF.
    pub(crate) fn fail_to_save(&self) {
        self.cli(&["SET", "unsaved", "1"]);
        self.cli(&["BGSAVE"]);
        let deadline = Instant::now() + PATIENCE;
        while self.info("persistence", "rdb_last_bgsave_status") != "err" {
            assert!(Instant::now() < deadline, "it cannot save");
            thread::sleep(Duration::from_millis(5));
        }
    }

    fn start_as(how: &How) -> Self {
        // Between finding a free port and binding it, another program may take it.
        let started = (0..10).find_map(|_| Self::start_on(free_port(), how));
        started.unwrap_or_else(|| panic!("redis-server found ten ports in a row taken"))
    }

    /// A server on this port, unless that is taken.
    pub(crate) fn start_on(port: u16, how: &How) -> Option<Self> {
        match Running::start(port, how) {
            Ok(running) => Some(Self {
                port,
                how: how.clone(),
                running: Some(running),
            }),
            Err(StartError::PortTaken) => None,
            Err(StartError::Other(why)) => panic!("redis-server did not start: {why}"),
        }
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// Whether it has been started, and not been stopped since.
    pub(crate) fn runs(&self) -> bool {
        self.running.is_some()
    }

    /// `127.0.0.1:<port>`
    pub(crate) fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// `redis://127.0.0.1:<port>/`
    pub(crate) fn url(&self) -> String {
        format!("redis://127.0.0.1:{}/", self.port)
    }

    pub(crate) fn store(&self) -> RedisStore {
        patient(&self.url())
    }

    /// Kills the server at once (SIGKILL); all its data is gone. [`restart`](Self::restart) brings
    /// it back.
    pub(crate) fn stop(&mut self) {
        self.running = None;
    }

    /// Kills the server if it runs, and starts an empty one on the same port with the same
    /// arguments.
    pub(crate) fn restart(&mut self) {
        self.stop();
        let deadline = Instant::now() + PATIENCE;
        loop {
            match Running::start(self.port, &self.how) {
                Ok(running) => {
                    self.running = Some(running);
                    return;
                }
                Err(StartError::PortTaken) if Instant::now() < deadline => {
                    thread::sleep(Duration::from_millis(50));
                }
                Err(StartError::PortTaken) => {
                    panic!("port {} was taken while the server was down", self.port)
                }
                Err(StartError::Other(why)) => panic!("redis-server did not start again: {why}"),
            }
        }
    }

    /// Stops the process without ending it (SIGSTOP): connections stay open, nothing is answered.
    pub(crate) fn freeze(&self) {
        self.running().signal("STOP", |state| state == 'T');
    }

    /// Lets a frozen server go on (SIGCONT).
    pub(crate) fn thaw(&self) {
        self.running().signal("CONT", |state| state != 'T');
    }

    /// Sends one command on a connection of its own, and gives its reply as text: elements of
    /// arrays one per line, an error with a leading `-`, nil as nothing.
    pub(crate) fn cli(&self, command: &[impl AsRef<[u8]>]) -> String {
        self.connect().send(command).expect("the server answers")
    }

    /// A connection to send several commands on.
    pub(crate) fn connect(&self) -> Link {
        let mut link = Link::open(self.port).expect("the server takes connections");
        if let Some(password) = self.password() {
            link.send(&["AUTH", password])
                .expect("the server answers AUTH");
        }
        link
    }

    /// The number that a command gives.
    pub(crate) fn number(&self, command: &[&str]) -> i64 {
        let reply = self.cli(command);
        reply
            .parse()
            .unwrap_or_else(|_| panic!("{command:?} gave {reply:?}"))
    }

    /// Its clock, in microseconds.
    pub(crate) fn now_us(&self) -> i64 {
        let time = self.cli(&["TIME"]);
        let mut parts = time
            .lines()
            .map(|part| part.parse::<i64>().expect("a number"));
        parts.next().unwrap_or_default() * 1_000_000 + parts.next().unwrap_or_default()
    }

    /// One field of a section of INFO.
    pub(crate) fn info(&self, section: &str, field: &str) -> String {
        let info = self.cli(&["INFO", section]);
        let value = info
            .lines()
            .find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
        value.unwrap_or_default().trim().to_owned()
    }

    /// The version, such as `7.0.15`; of Valkey its own, not the Redis version it stands for.
    pub(crate) fn version(&self) -> String {
        let info = self.cli(&["INFO", "server"]);
        let field = |name: &str| {
            info.lines()
                .find_map(|line| line.strip_prefix(name))
                .map(|v| v.trim().to_owned())
        };
        field("valkey_version:")
            .or_else(|| field("redis_version:"))
            .expect("INFO names the version")
    }

    fn password(&self) -> Option<&str> {
        let by_argument = self.how.args.windows(2).find_map(|pair| match pair {
            [name, value] if name == "--requirepass" => Some(value.as_str()),
            _ => None,
        });
        by_argument.or_else(|| {
            self.how
                .config
                .lines()
                .find_map(|line| line.strip_prefix("requirepass "))
        })
    }

    fn running(&self) -> &Running {
        self.running.as_ref().expect("the server runs")
    }
}

/// A store by which the servers of a busy machine are not slow, unless its limiter says so.
pub(crate) fn patient(url: &str) -> RedisStore {
    let store = RedisStore::new(url).unwrap();
    store.answers_within(PATIENCE);
    store
}

/// One server for all tests of the process. Use unique keys, and leave the server as it was.
pub(crate) fn shared() -> &'static RedisServer {
    static SHARED: OnceLock<RedisServer> = OnceLock::new();
    SHARED.get_or_init(RedisServer::start)
}

impl Running {
    fn start(port: u16, how: &How) -> Result<Self, StartError> {
        let binary = binary();
        let dir = server_dir();
        let (log, file) = (dir.join("log"), dir.join("conf"));
        fs::write(&file, &how.config).expect("the folder can be written to");
        let mut watchdog = Command::new("sh")
            .args(["-c", WATCHDOG, "redis-watchdog"])
            .args([&log, &dir])
            .args(&how.launcher)
            .arg(binary)
            .arg(&file)
            .args([
                "--port",
                &port.to_string(),
                "--bind",
                "127.0.0.1",
                "--save",
                "",
                "--appendonly",
                "no",
                "--dir",
            ])
            .arg(&dir)
            .args(&how.args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("sh can be started");
        let mut pid = String::new();
        let stdout = watchdog.stdout.take().expect("stdout is piped");
        BufReader::new(stdout)
            .read_line(&mut pid)
            .expect("the watchdog says which process it watches");
        let running = Self {
            watchdog,
            pid: pid.trim().parse().expect("a process id"),
        };

        let deadline = Instant::now() + PATIENCE;
        loop {
            let said = fs::read_to_string(&log).unwrap_or_default();
            // The log tells our server from another one that has the port.
            if said.contains("Ready to accept connections") || said.contains("Sentinel ID is") {
                break;
            }
            if said.contains("Address already in use") || said.contains("Failed listening on port")
            {
                return Err(StartError::PortTaken);
            }
            if running.state().is_none_or(|state| state == 'Z') || Instant::now() > deadline {
                return Err(StartError::Other(said));
            }
            thread::sleep(Duration::from_millis(5));
        }
        let answers = |mut link: Link| link.send(&["PING"]);
        match Link::open(port).and_then(answers) {
            Ok(reply) if reply == "PONG" || reply.starts_with("-NOAUTH") => Ok(running),
            Ok(reply) => Err(StartError::Other(format!(
                "PING was answered with {reply:?}"
            ))),
            Err(error) => Err(StartError::Other(format!("PING was not answered: {error}"))),
        }
    }

    fn signal(&self, name: &str, arrived: impl Fn(char) -> bool) {
        let status = Command::new("sh")
            .args([
                "-c",
                "kill -\"$1\" \"$2\"",
                "kill",
                name,
                &self.pid.to_string(),
            ])
            .status();
        assert!(
            status.expect("sh can be started").success(),
            "the server takes SIG{name}"
        );
        let deadline = Instant::now() + PATIENCE;
        while !self.state().is_some_and(&arrived) {
            assert!(Instant::now() < deadline, "SIG{name} has an effect");
            thread::sleep(Duration::from_millis(1));
        }
    }

    /// The state letter of the process (`R`, `S`, `T`, `Z`, …); nothing when it is gone.
    fn state(&self) -> Option<char> {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.pid)).ok()?;
        stat.rsplit_once(") ")?.1.chars().next()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        drop(self.watchdog.stdin.take());
        let _ = self.watchdog.wait();
    }
}

fn owned(words: &[&str]) -> Vec<String> {
    words.iter().map(|&word| word.to_owned()).collect()
}

fn binary() -> OsString {
    let binary =
        std::env::var_os("RATELIMIT_TEST_REDIS_BIN").unwrap_or_else(|| "redis-server".into());
    let version = Command::new(&binary)
        .arg("--version")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    match version {
        Ok(_) => binary,
        Err(error) if error.kind() == ErrorKind::NotFound => panic!("{MISSING}"),
        Err(error) => panic!("{} cannot be started: {error}", binary.display()),
    }
}

fn server_dir() -> PathBuf {
    let dir = std::env::temp_dir().join(super::unique("ratelimit-redis"));
    fs::create_dir(&dir).expect("a folder for the server");
    dir
}

pub(crate) fn free_port() -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    listener.local_addr().expect("a bound port").port()
}

/// One connection, speaking RESP2.
#[derive(Debug)]
pub(crate) struct Link(BufReader<TcpStream>);

impl Link {
    fn open(port: u16) -> std::io::Result<Self> {
        let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
        stream.set_read_timeout(Some(PATIENCE))?;
        Ok(Self(BufReader::new(stream)))
    }

    /// Sends a command, and gives its reply as [`RedisServer::cli`] does.
    pub(crate) fn send(&mut self, command: &[impl AsRef<[u8]>]) -> std::io::Result<String> {
        let mut request = Vec::new();
        write!(request, "*{}\r\n", command.len())?;
        for part in command {
            let part = part.as_ref();
            write!(request, "${}\r\n", part.len())?;
            request.extend_from_slice(part);
            request.extend_from_slice(b"\r\n");
        }
        self.0.get_mut().write_all(&request)?;
        self.reply()
    }

    fn reply(&mut self) -> std::io::Result<String> {
        let mut line = String::new();
        if self.0.read_line(&mut line)? == 0 {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        let line = line.trim_end();
        let length = || {
            line.get(1..)
                .and_then(|n| n.parse::<i64>().ok())
                .ok_or(ErrorKind::InvalidData)
        };
        match line.chars().next() {
            Some('+' | ':') => Ok(line.get(1..).unwrap_or_default().to_owned()),
            Some('-') => Ok(line.to_owned()),
            Some('$') => match usize::try_from(length()?) {
                Ok(length) => {
                    let mut bytes = vec![0; length + 2];
                    self.0.read_exact(&mut bytes)?;
                    bytes.truncate(length);
                    Ok(String::from_utf8_lossy(&bytes).into_owned())
                }
                Err(_) => Ok(String::new()),
            },
            Some('*') => {
                let elements: std::io::Result<Vec<_>> =
                    (0..length()?).map(|_| self.reply()).collect();
                Ok(elements?.join("\n"))
            }
            _ => Err(ErrorKind::InvalidData.into()),
        }
    }
}
