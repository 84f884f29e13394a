//! `examples/policies`, whose limits change while it runs.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use crate::{Reply, example, fails_with, request};

/// A running `policies` on a free port. It is killed on drop.
struct Service {
    process: Child,
    port: u16,
    log: Receiver<String>,
}

fn policies(file: Option<&Path>, environment: &[(&str, &str)]) -> Command {
    let mut command = Command::new(example("policies"));
    command.args(file).env("PORT", "0").env_remove("REDIS_URL").env_remove("RATELIMIT_URL");
    command.env_remove("RUST_LOG").envs(environment.iter().copied());
    command
}

impl Service {
    fn start(file: Option<&Path>, environment: &[(&str, &str)]) -> Self {
        let mut command = policies(file, environment);
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
    let service = Service::start(Some(&file.0), &[]);
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
        ("login = \"40/1h\"\nlogin = \"40/1h\"\n", "duplicate key"),
        ("logn = \"40/1h\"\nlogin = \"40/1h\"\nsearch = \"9/1h\"\n", "a policy `logn`"),
        ("login = \"40/1h\"\n", "the policy `search` is missing"),
    ] {
        file.write(text);
        let said = service.logs("the policies stay as they were");
        assert!(said.contains("ERROR") && said.contains(why), "{why}: {said}");
        assert!(said.contains(file.0.to_str().unwrap()), "{said}");
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
    let service = Service::start(Some(&file.0), &[]);
    assert_eq!(service.admitted("alice"), 2);
    file.write("{\n  \"login\": { \"limits\": \"4/1h\", \"brust\": 5 },\n  \"search\": \"9/1h\"\n}\n");
    let said = service.logs("the policies stay as they were");
    assert!(said.contains("unknown field `brust`") && said.contains("line 2 column"), "{said}");
    assert!(said.contains(file.0.to_str().unwrap()), "{said}");
    file.write("{\n  \"login\": \"fixed_window 4/1h\",\n  \"search\": \"9/1h\"\n}\n");
    service.logs("the policies are replaced");
    assert_eq!(service.admitted("alice"), 4, "another algorithm starts afresh");
}

#[test]
fn the_environment_is_enough_and_goes_before_a_file() {
    let environment = [("RATELIMIT_POLICY_LOGIN", "token_bucket 1/1h burst 3"), ("RATELIMIT_POLICY_SEARCH", "9/1h")];
    assert_eq!(Service::start(None, &environment).admitted("alice"), 3);

    let file = File::new("environment.toml", "login = \"2/1h\"\nsearch = \"1/1h\"\n");
    let service = Service::start(Some(&file.0), &environment[1..]);
    assert_eq!(service.admitted("alice"), 2);
    let search = || request(service.port, "GET", "/search/tea", "text/plain", "").status;
    assert_eq!((0..9).map(|_| search()).filter(|status| *status == 200).count(), 9);
    assert_eq!(search(), 429);
}

#[test]
fn policies_that_are_wrong_from_the_start_end_the_program() {
    let output = |file: Option<&Path>, environment: &[(&str, &str)]| policies(file, environment).output().unwrap();
    let broken = File::new("broken.toml", "search = \"9/1h\"\nlogin = \"0/1h\"\n");
    fails_with(&output(Some(&broken.0), &[]), "refuses every call");
    fails_with(&output(Some(&broken.0), &[]), "line 2");
    fails_with(&output(Some(Path::new("/no/such/file.toml")), &[]), "/no/such/file.toml: ");
    fails_with(&output(Some(Path::new("/etc/hostname")), &[]), "neither .toml nor .json");
    fails_with(&output(None, &[]), "the policy `login` is missing");
    let wrong = [("RATELIMIT_POLICY_LOGIN", "5/1h burst 9")];
    fails_with(&output(None, &wrong), "RATELIMIT_POLICY_LOGIN: only the buckets have a burst");
}

#[cfg(unix)]
#[test]
fn a_hangup_does_not_end_it() {
    let file = File::new("hangup.toml", "login = \"2/1h\"\nsearch = \"9/1h\"\n");
    let service = Service::start(Some(&file.0), &[]);
    // It has read the file once, and listens for signals since.
    file.write("login = \"3/1h\"\nsearch = \"9/1h\"\n");
    service.logs("the policies are replaced");
    file.write("login = \"4/1h\"\nsearch = \"9/1h\"\n");
    let hangup = Command::new("kill").args(["-HUP", &service.process.id().to_string()]).status();
    assert!(hangup.expect("kill can be run").success());
    service.logs("the policies are replaced");
    assert_eq!(service.admitted("alice"), 4);
}
