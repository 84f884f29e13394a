//! The programs of `examples/`, run as their readers run them.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that cannot go on fails"
)]

mod admin;
mod frameworks;
mod grpc;
mod in_flight;
mod logs;
mod outbound;
mod patterns;
mod playground;
mod policies;
mod replay;
mod rules_in_force;
#[path = "../../examples/custom_store/store.rs"]
mod store;
#[path = "../support/mod.rs"]
mod support;
mod terminal;

use std::io::{BufRead as _, BufReader, Read, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::OnceLock;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use ratelimit_runtime::testkit::FakeClock;
use store::LogStore;

/// The path of an example.
fn example(name: &str) -> PathBuf {
    programs().join("examples").join(name)
}

/// The path of the program for operators.
fn admin_program() -> PathBuf {
    programs().join("ratelimit-admin")
}

/// Where the programs are, in the target folder of this test. `cargo test` for the whole workspace
/// has built them already, with the same features; for this test alone they are built now.
fn programs() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        // <target>/<profile>/deps/examples-<hash>
        let test = std::env::current_exe().expect("a path of this test");
        let profile = test
            .parent()
            .and_then(|deps| deps.parent())
            .expect("target/<profile>/deps");
        let target = profile.parent().expect("a target folder");
        let mut cargo = Command::new(env!("CARGO"));
        cargo
            .args([
                "build",
                "--workspace",
                "--all-features",
                "--examples",
                "--bins",
                "--target-dir",
            ])
            .arg(target);
        if profile
            .file_name()
            .is_some_and(|profile| profile == "release")
        {
            cargo.arg("--release");
        }
        // What cargo says to a test would be news to build scripts, which then run again, and all
        // that stands on them.
        for (name, _) in std::env::vars_os()
            .filter(|(name, _)| name.to_string_lossy().starts_with("CARGO_MANIFEST_"))
        {
            cargo.env_remove(name);
        }
        let status = cargo.current_dir(env!("CARGO_MANIFEST_DIR")).status();
        assert!(
            status.expect("cargo can be started").success(),
            "the programs build"
        );
        profile.to_owned()
    })
}

fn run(name: &str) -> String {
    let output = Command::new(example(name))
        .output()
        .expect("the example can be started");
    assert!(output.status.success(), "{name} failed: {output:?}");
    String::from_utf8(output.stdout).expect("text")
}

#[test]
fn service_method_runs() {
    let printed = run("service_method");
    assert!(
        printed.contains("the fourth of a day: too many, try again in"),
        "{printed}"
    );
    assert!(
        printed.contains("the third of an hour: too many, try again in"),
        "{printed}"
    );
    assert!(
        printed.contains("export of acme, after a reset"),
        "{printed}"
    );
}

#[test]
fn custom_store_runs() {
    let printed = run("custom_store");
    assert!(
        printed.contains("the third in ten seconds: Err(too many requests, try again in "),
        "{printed}"
    );
    assert!(printed.contains("bob found a needle"), "{printed}");
}

async fn log_store() -> (LogStore<FakeClock>, FakeClock) {
    let clock = FakeClock::new();
    (LogStore::new(clock.clone()), clock)
}

ratelimit_conformance::conformance!(the_custom_store_keeps_the_contract, log_store);

/// A running service on a free port. It is killed on drop.
struct Service {
    process: Child,
    port: u16,
    printed: Receiver<String>,
}

impl Service {
    fn start(redis_url: Option<&str>) -> Self {
        let mut command = send_code();
        if let Some(url) = redis_url {
            command.env("REDIS_URL", url);
        }
        Self::started(&mut command)
    }

    fn started(command: &mut Command) -> Self {
        let command = command
            .env("PORT", "0")
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut process = command.spawn().expect("it can be started");
        let (sender, printed) = channel();
        let stdout: Box<dyn Read + Send> = Box::new(process.stdout.take().expect("piped"));
        let stderr: Box<dyn Read + Send> = Box::new(process.stderr.take().expect("piped"));
        for output in [stdout, stderr] {
            let sender = sender.clone();
            let lines = BufReader::new(output).lines().map_while(Result::ok);
            std::thread::spawn(move || lines.into_iter().try_for_each(|line| sender.send(line)));
        }
        let mut service = Self {
            process,
            port: 0,
            printed,
        };
        let said = service.wait_for(" http://127.0.0.1:");
        service.port = said
            .trim()
            .rsplit(':')
            .next()
            .unwrap()
            .parse()
            .expect("a port");
        service
    }

    /// The output up to the next line that holds `text`.
    fn wait_for(&self, text: &str) -> String {
        let deadline = Instant::now() + Duration::from_secs(20);
        let mut said = String::new();
        while !said.lines().last().is_some_and(|line| line.contains(text)) {
            let left = deadline.saturating_duration_since(Instant::now());
            let line = self
                .printed
                .recv_timeout(left)
                .unwrap_or_else(|_| panic!("never {text:?}, but {said}"));
            said = said + &line + "\n";
        }
        said
    }

    fn send(&self, email: &str) -> Reply {
        self.post("application/json", &format!(r#"{{"email":"{email}"}}"#))
    }

    fn post(&self, content_type: &str, body: &str) -> Reply {
        request(self.port, "POST", "/send/code", content_type, body)
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// A file that is removed in the end.
struct File(PathBuf);

impl File {
    fn new(name: &str, text: &str) -> Self {
        let file =
            Self(std::env::temp_dir().join(format!("{}-{name}", support::unique("examples"))));
        file.write(text);
        file
    }

    fn path(&self) -> &str {
        self.0.to_str().expect("a path of this test")
    }

    fn read(&self) -> String {
        std::fs::read_to_string(&self.0).expect("a file can be read")
    }

    /// In one step, as careful editors do.
    fn write(&self, text: &str) {
        let new = self.0.with_extension("new");
        std::fs::write(&new, text).expect("a file can be written");
        std::fs::rename(&new, &self.0).expect("a file can be replaced");
    }
}

impl Drop for File {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

struct Reply {
    status: u16,
    headers: Vec<(String, String)>,
    body: String,
}

impl Reply {
    fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(known, _)| known.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.as_str())
    }

    fn json(&self) -> serde_json::Value {
        assert_eq!(self.header("content-type"), Some("application/json"));
        serde_json::from_str(&self.body).expect("a JSON body")
    }
}

/// One HTTP/1.1 request on a connection of its own.
fn request(port: u16, method: &str, path: &str, content_type: &str, body: &str) -> Reply {
    let length = body.len();
    exchange(
        port,
        &format!("{method} {path}"),
        &format!("content-type: {content_type}\r\ncontent-length: {length}\r\n"),
        body,
    )
}

fn exchange(port: u16, what: &str, headers: &str, body: &str) -> Reply {
    let mut stream =
        TcpStream::connect((Ipv4Addr::LOCALHOST, port)).expect("the service takes connections");
    stream
        .set_read_timeout(Some(Duration::from_secs(20)))
        .unwrap();
    write!(
        stream,
        "{what} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n{headers}\r\n{body}"
    )
    .expect("the service reads the request");
    let mut reply = String::new();
    stream
        .read_to_string(&mut reply)
        .expect("the service answers");
    let (head, body) = reply.split_once("\r\n\r\n").expect("a head and a body");
    let mut lines = head.lines();
    let status = lines
        .next()
        .and_then(|line| line.split(' ').nth(1))
        .expect("a status line");
    let headers = lines
        .filter_map(|line| line.split_once(": "))
        .map(|(name, value)| (name.into(), value.into()));
    Reply {
        status: status.parse().expect("a status"),
        headers: headers.collect(),
        body: body.to_owned(),
    }
}

fn send_code() -> Command {
    command("send_code")
}

fn command(name: &str) -> Command {
    let mut command = Command::new(example(name));
    command
        .env_remove("PORT")
        .env_remove("REDIS_URL")
        .env_remove("RATELIMIT_URL");
    command
}

fn fails_with(output: &Output, text: &str) {
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert!(stderr.contains(text), "{stderr}");
}

#[test]
fn the_fourth_code_in_a_minute_is_refused() {
    let service = Service::start(None);
    for _ in 0..3 {
        let reply = service.send("alice@example.com");
        assert_eq!(reply.status, 200);
        assert_eq!(
            reply.body,
            r#"{"code":0,"message":"ok","data":{"email":"alice@example.com"}}"#
        );
        assert_eq!(reply.header("content-type"), Some("application/json"));
    }
    let reply = service.send("alice@example.com");
    assert_eq!(reply.status, 429);
    let wait: u64 = reply
        .header("retry-after")
        .expect("Retry-After")
        .parse()
        .expect("seconds");
    assert!((1..=60).contains(&wait), "Retry-After: {wait}");
    let body = reply.json();
    assert_eq!(body["code"], 429);
    assert!(body["data"].is_null() && body.get("data").is_some());
    assert!(
        body["message"]
            .as_str()
            .is_some_and(|message| message.contains("try again in")),
        "{body}"
    );

    assert_eq!(
        service.send(" Alice@EXAMPLE.com ").status,
        429,
        "the same mailbox, spelled differently"
    );
    assert_eq!(service.send("bob@example.com").status, 200, "another key");
}

#[test]
fn bad_requests_have_a_status_of_4xx_and_consume_nothing() {
    let service = Service::start(None);
    let json = "application/json";
    let long = format!(r#"{{"email":"{}@x"}}"#, "a".repeat(300));
    let table = [
        (400, json, ""),
        (400, json, "{"),
        (400, json, r#"{"email":"alice@example.com"} x"#),
        (422, json, "{}"),
        (422, json, r#"{"email":7}"#),
        (422, json, r#"{"email":" \t\n "}"#),
        (422, json, r#"{"email":"alice"}"#),
        (
            422,
            json,
            r#"{"email":"alice@example.com, bob@example.com"}"#,
        ),
        (422, json, &long),
        (415, "text/plain", r#"{"email":"alice@example.com"}"#),
    ];
    for (status, content_type, body) in table {
        // Four times: were it counted, the fourth would be a 429.
        for _ in 0..4 {
            let reply = service.post(content_type, body);
            assert_eq!(reply.status, status, "{body}");
            let answer = reply.json();
            assert_eq!(answer["code"], status, "{body}");
            assert!(
                answer["message"]
                    .as_str()
                    .is_some_and(|message| message.len() > 8),
                "{answer}"
            );
            assert!(
                answer["data"].is_null() && answer.get("data").is_some(),
                "{answer}"
            );
        }
    }
    assert_eq!(
        request(service.port, "GET", "/send/code", json, "").status,
        405
    );
    assert_eq!(request(service.port, "GET", "/", json, "").status, 404);
    for _ in 0..3 {
        assert_eq!(service.send("alice@example.com").status, 200);
    }
    assert_eq!(service.send("alice@example.com").status, 429);
}

/// The cluster that `scripts/cluster.sh` starts; it stops it on drop.
struct Cluster {
    first_port: u16,
}

impl Cluster {
    fn start() -> Self {
        // Another program may have the ports, or a cluster there: then the script starts none.
        let place =
            |attempt: u32| u16::try_from((std::process::id() + attempt * 97) % 900).unwrap();
        let mut ports = (0..10).map(|attempt| 5_000 + place(attempt) * 6);
        let first_port = ports.find(|&port| Self::script("start", port).status.success());
        Self {
            first_port: first_port.expect("the script starts a cluster"),
        }
    }

    fn url(&self) -> String {
        String::from_utf8(Self::script("url", self.first_port).stdout)
            .unwrap()
            .trim()
            .to_owned()
    }

    fn script(what: &str, first_port: u16) -> Output {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../scripts/cluster.sh");
        Command::new(script)
            .arg(what)
            .env("CLUSTER_PORT", first_port.to_string())
            .output()
            .unwrap()
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        Self::script("stop", self.first_port);
    }
}

#[test]
fn send_code_runs_on_a_cluster_by_its_url_alone() {
    let cluster = Cluster::start();
    let (one, two) = (
        Service::start(Some(&cluster.url())),
        Service::start(Some(&cluster.url())),
    );
    one.wait_for("Redis answers");
    two.wait_for("Redis answers");
    for (service, status) in [
        (&one, 200),
        (&two, 200),
        (&one, 200),
        (&two, 429),
        (&one, 429),
    ] {
        assert_eq!(service.send("alice@example.com").status, status);
    }
    for user in 0..50 {
        assert_eq!(two.send(&format!("user{user}@example.com")).status, 200);
    }
    let first = cluster.first_port;
    drop(cluster);
    let listens = |port: u16| TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_ok();
    assert!(
        (first..first + 6).all(|port| !listens(port)),
        "all of them are gone"
    );
}

#[test]
fn settings_that_cannot_work_are_named_and_end_the_program() {
    let output = |variable: &str, value: &str| send_code().env(variable, value).output().unwrap();
    fails_with(&output("PORT", "http"), "PORT is a number");
    fails_with(&output("PORT", "65536"), "PORT is a number");
    fails_with(&output("REDIS_URL", "http://127.0.0.1/"), "REDIS_URL: ");
    let secret = output("REDIS_URL", "redis://:geheim@127.0.0.1:99999/");
    fails_with(&secret, "REDIS_URL: ");
    assert!(!String::from_utf8_lossy(&secret.stderr).contains("geheim"));

    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    fails_with(
        &output("PORT", &port.to_string()),
        &format!("cannot listen on 127.0.0.1:{port}"),
    );
}
