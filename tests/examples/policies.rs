//! `examples/policies`, whose limits change while it runs.

use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use super::support::redis::RedisServer;
use crate::{Reply, example, fails_with, request};

/// A running `policies` on a free port. It is killed on drop.
struct Service {
    process: Child,
    port: u16,
    log: Receiver<String>,
}

fn policies(source: Option<&str>, environment: &[(&str, &str)]) -> Command {
    let mut command = Command::new(example("policies"));
    command.args(source).env("PORT", "0").env_remove("REDIS_URL").env_remove("RATELIMIT_URL");
    command.env_remove("RUST_LOG").envs(environment.iter().copied());
    command
}

impl Service {
    fn start(source: Option<&str>, environment: &[(&str, &str)]) -> Self {
        let mut command = policies(source, environment);
        let mut process = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it can be started");
        let mut line = String::new();
        BufReader::new(process.stdout.take().expect("piped")).read_line(&mut line).expect("a line");
        let port = line.trim().rsplit(':').next().unwrap().parse().expect("a port");
        let stderr = BufReader::new(process.stderr.take().expect("piped"));
        let (sender, log) = channel();
        std::thread::spawn(move || stderr.lines().map_while(Result::ok).try_for_each(|line| sender.send(line)));
        Self { process, port, log }
    }

    /// What the log says up to a line that holds `text`.
    fn logs(&self, text: &str) -> String {
        let deadline = Instant::now() + Duration::from_secs(20);
        let mut said = String::new();
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let line = self.log.recv_timeout(left).unwrap_or_else(|_| panic!("never logged {text:?}, but {said}"));
            said = said + &line + "\n";
            if line.contains(text) {
                return said;
            }
        }
    }

    fn login(&self, user: &str) -> Reply {
        request(self.port, "GET", &format!("/login/{user}"), "text/plain", "")
    }

    /// How many logins of a user are admitted until one is refused.
    fn admitted(&self, user: &str) -> usize {
        (0..100).take_while(|_| self.login(user).status == 200).count()
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
        let file = Self(std::env::temp_dir().join(format!("ratelimit-policies-{}-{name}", std::process::id())));
        file.write(text);
        file
    }

    fn path(&self) -> &str {
        self.0.to_str().expect("a path of this test")
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

#[test]
fn a_changed_file_is_in_force_at_once_and_a_broken_one_changes_nothing() {
    let file = File::new("changed.toml", "login = \"2/1h\"\nsearch = \"9/1h\"\n");
    let service = Service::start(Some(file.path()), &[]);
    assert_eq!(service.admitted("alice"), 2);
    let refused = service.login("alice");
    assert_eq!(refused.status, 429);
    assert_eq!(refused.header("ratelimit-policy"), Some("\"login\";q=2;w=3600"));

    // What was used goes on counting.
    file.write("login = \"4/1h\"\nsearch = \"9/1h\"\n");
    service.logs("the policies are replaced");
    assert_eq!(service.admitted("alice"), 2);
    assert_eq!(service.login("alice").header("ratelimit-policy"), Some("\"login\";q=4;w=3600"));

    for (text, why) in [
        ("search = \"9/1h\"\nlogin = \"40/1 parsec\"\n", "line 2, column 9"),
        ("login = \"40/1h\"\nsearch = {\n", "line 2"),
        ("login = \"40/1h\"\nlogin = \"40/1h\"\n", "line 2, column 1"),
        ("logn = \"40/1h\"\nsearch = \"9/1h\"\n", "lacks the policy `login`"),
    ] {
        file.write(text);
        let said = service.logs("the policies stay as they were");
        assert!(said.contains("ERROR") && said.contains(why), "{why}: {said}");
        assert!(said.contains(file.path()), "{said}");
        assert_eq!(service.login("alice").status, 429);
    }
    assert_eq!(service.admitted("bob"), 4);

    std::fs::remove_file(&file.0).unwrap();
    service.logs("the policies stay as they were");
    assert_eq!(service.admitted("carol"), 4);

    file.write("login = \"5/1h\"\nsearch = \"9/1h\"\n");
    service.logs("the policies are replaced");
    assert_eq!(service.admitted("alice"), 1);
}

#[test]
fn json_says_the_same_as_toml() {
    let file = File::new("same.json", "{\n  \"login\": { \"limits\": [\"2/1h\"] },\n  \"search\": \"9/1h\"\n}\n");
    let service = Service::start(Some(file.path()), &[]);
    assert_eq!(service.admitted("alice"), 2);
    file.write("{\n  \"login\": { \"limits\": \"4/1h\", \"brust\": 5 },\n  \"search\": \"9/1h\"\n}\n");
    let said = service.logs("the policies stay as they were");
    assert!(said.contains("unknown field `brust`") && said.contains("line 2 column"), "{said}");
    assert!(said.contains(file.path()), "{said}");
    file.write("{\n  \"login\": \"fixed_window 4/1h\",\n  \"search\": \"9/1h\"\n}\n");
    service.logs("the policies are replaced");
    assert_eq!(service.admitted("alice"), 4, "another algorithm starts afresh");
}

#[test]
fn the_environment_is_enough() {
    let environment = [("RATELIMIT_POLICY_LOGIN", "token_bucket 1/1h burst 3"), ("RATELIMIT_POLICY_SEARCH", "9/1h")];
    let service = Service::start(None, &environment);
    assert_eq!(service.admitted("alice"), 3);
    let search = || request(service.port, "GET", "/search/tea", "text/plain", "").status;
    assert_eq!((0..9).map(|_| search()).filter(|status| *status == 200).count(), 9);
    assert_eq!(search(), 429);
}

#[test]
fn policies_come_from_a_database_and_change_there() {
    let mut server = RedisServer::start();
    let client = redis::Client::open(server.url()).unwrap();
    let set = |name: &str, policy: &str| {
        let mut connection = client.get_connection().unwrap();
        redis::cmd("HSET").arg("policies").arg(name).arg(policy).exec(&mut connection).unwrap();
    };
    set("login", "2/1h");
    set("search", "9/1h");
    let service = Service::start(Some(&server.url()), &[]);
    assert_eq!(service.admitted("alice"), 2);
    set("login", r#"{"limits": "4/1h", "overrides": {"<alice>": 7}}"#);
    service.logs("the policies are replaced");
    assert_eq!((service.admitted("alice"), service.admitted("bob")), (5, 4));
    set("login", "40/1 parsec");
    let said = service.logs("the policies stay as they were");
    assert!(said.contains("the policy `login`") && said.contains("unknown unit `parsec`"), "{said}");
    assert_eq!(service.admitted("carol"), 4);
    server.stop();
    service.logs("cannot be read, and stay as they are");
    assert_eq!(service.admitted("dave"), 4);
}

#[test]
fn policies_that_are_wrong_from_the_start_end_the_program() {
    let output = |source: Option<&str>, environment: &[(&str, &str)]| policies(source, environment).output().unwrap();
    let broken = File::new("broken.toml", "search = \"9/1h\"\nlogin = \"0/1h\"\n");
    fails_with(&output(Some(broken.path()), &[]), "refuses every call");
    fails_with(&output(Some(broken.path()), &[]), "line 2");
    fails_with(&output(Some("/no/such/file.toml"), &[]), "/no/such/file.toml: ");
    fails_with(&output(Some("/etc/hostname"), &[]), "neither `.toml` nor `.json`");
    let wrong = [("RATELIMIT_POLICY_LOGIN", "5/1h burst 9")];
    fails_with(&output(None, &wrong), "RATELIMIT_POLICY_LOGIN: only the buckets have a burst");
}
