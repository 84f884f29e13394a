//! `examples/policies`, whose limits change while it runs.

use std::process::Command;

use super::support::redis::RedisServer;
use crate::{File, Reply, Service, command, fails_with, request};

fn policies(source: Option<&str>, environment: &[(&str, &str)]) -> Command {
    let mut command = command("policies");
    command
        .args(source)
        .env_remove("RUST_LOG")
        .envs(environment.iter().copied());
    command
}

/// A running `policies`.
struct Running(Service);

impl Running {
    fn start(source: Option<&str>, environment: &[(&str, &str)]) -> Self {
        Self(Service::started(&mut policies(source, environment)))
    }

    fn logs(&self, text: &str) -> String {
        self.0.wait_for(text)
    }

    fn login(&self, user: &str) -> Reply {
        request(
            self.0.port,
            "GET",
            &format!("/login/{user}"),
            "text/plain",
            "",
        )
    }

    /// How many logins of a user are admitted until one is refused.
    fn admitted(&self, user: &str) -> usize {
        (0..100)
            .take_while(|_| self.login(user).status == 200)
            .count()
    }
}

#[test]
fn a_changed_file_is_in_force_and_a_broken_one_changes_nothing() {
    let file = File::new("changed.toml", "login = \"2/1h\"\nsearch = \"9/1h\"\n");
    let service = Running::start(Some(file.path()), &[]);
    assert_eq!(service.admitted("alice"), 2);
    file.write("login = \"4/1h\"\nsearch = \"9/1h\"\nother = \"1/1h\"\n");
    let said = service.logs("policies=3");
    assert!(
        said.contains("the policies of the file are in force"),
        "{said}"
    );
    assert_eq!(service.admitted("alice"), 2);
    file.write("search = \"9/1h\"\nlogin = \"40/1 parsec\"\n");
    let said = service.logs("the policies stay as they were");
    assert!(
        said.contains("ERROR") && said.contains("line 2, column 9") && said.contains(file.path()),
        "{said}"
    );
}

#[test]
fn the_environment_is_enough() {
    let environment = [
        ("RATELIMIT_POLICY_LOGIN", "token_bucket 1/1h burst 3"),
        ("RATELIMIT_POLICY_SEARCH", "9/1h"),
    ];
    let service = Running::start(None, &environment);
    assert_eq!(service.admitted("alice"), 3);
    let search = || request(service.0.port, "GET", "/search/tea", "text/plain", "").status;
    assert_eq!(
        (0..9)
            .map(|_| search())
            .filter(|status| *status == 200)
            .count(),
        9
    );
    assert_eq!(search(), 429);
}

#[test]
fn policies_come_from_a_database_and_change_there() {
    let mut server = RedisServer::start();
    let client = redis::Client::open(server.url()).unwrap();
    let set = |name: &str, policy: &str| {
        let mut connection = client.get_connection().unwrap();
        redis::cmd("HSET")
            .arg("policies")
            .arg(name)
            .arg(policy)
            .exec(&mut connection)
            .unwrap();
    };
    set("login", "2/1h");
    set("search", "9/1h");
    let service = Running::start(Some(&server.url()), &[]);
    assert_eq!(service.admitted("alice"), 2);
    set(
        "login",
        r#"{"limits": "4/1h", "overrides": {"<alice>": 7}}"#,
    );
    service.logs("the policies are replaced");
    assert_eq!((service.admitted("alice"), service.admitted("bob")), (5, 4));
    set("login", "40/1 parsec");
    let said = service.logs("the policies stay as they were");
    assert!(
        said.contains("the policy `login`") && said.contains("`1 parsec` is not a duration"),
        "{said}"
    );
    assert_eq!(service.admitted("carol"), 4);
    server.stop();
    service.logs("cannot be read, and stay as they are");
    assert_eq!(service.admitted("dave"), 4);
}

#[test]
fn policies_that_are_wrong_from_the_start_end_the_program() {
    let output = |source: Option<&str>, environment: &[(&str, &str)]| {
        policies(source, environment).output().unwrap()
    };
    let broken = File::new("broken.toml", "search = \"9/1h\"\nlogin = \"0/1h\"\n");
    fails_with(&output(Some(broken.path()), &[]), "refuses every call");
    fails_with(&output(Some(broken.path()), &[]), "line 2");
    fails_with(
        &output(Some("/no/such/file.toml"), &[]),
        "/no/such/file.toml: ",
    );
    fails_with(
        &output(Some("/etc/hostname"), &[]),
        "neither `.toml` nor `.json`",
    );
    let wrong = [("RATELIMIT_POLICY_LOGIN", "5/1h burst 9")];
    fails_with(
        &output(None, &wrong),
        "RATELIMIT_POLICY_LOGIN: `sliding_window` has no burst",
    );
}
