//! `ratelimit-admin`, as an operator runs it beside a running service.

mod command_line;
mod keys;
mod listings;

use std::collections::BTreeSet;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use ratelimit_runtime::{
    Algorithm, Key, Limit, RateLimiter, RateLimiterBuilder, RedisMode, Rule, key,
};
use serde_json::{Value, json};

use super::support::cluster::RedisCluster;
use super::support::proxy::Proxy;
use super::support::redis::RedisServer;
use super::support::sentinel::Sentinels;
use super::support::strict;
use super::{File, Service, admin_program};

/// A service sees changes by another process this late at most.
const STALENESS: Duration = Duration::from_secs(1);
/// What a busy machine may add.
const SLACK: Duration = Duration::from_millis(700);

fn program() -> Command {
    let mut command = Command::new(admin_program());
    for variable in [
        "RATELIMIT_URL",
        "RATELIMIT_PREFIX",
        "RATELIMIT_SECRET",
        "REDIS_URL",
    ] {
        command.env_remove(variable);
    }
    command
}

pub(super) fn admin(args: &[&str]) -> Output {
    let mut command = program();
    command.args(args).output().expect("admin can be started")
}

/// What it prints if all is well.
pub(super) fn says(args: &[&str]) -> String {
    let output = admin(args);
    assert!(output.status.success(), "{args:?}: {output:?}");
    assert!(output.stderr.is_empty(), "{args:?}: {output:?}");
    String::from_utf8(output.stdout).expect("text")
}

/// What it prints if it leaves out what it cannot read.
pub(super) fn says_in_part(args: &[&str]) -> String {
    let output = admin(args);
    assert_eq!(output.status.code(), Some(2), "{args:?}: {output:?}");
    assert!(output.stderr.is_empty(), "{args:?}: {output:?}");
    String::from_utf8(output.stdout).expect("text")
}

pub(super) fn json(args: &[&str]) -> Value {
    let printed = says(&[args, &["--json"]].concat());
    assert_eq!(printed.lines().count(), 1, "{printed}");
    serde_json::from_str(&printed).expect("JSON")
}

/// The words of an error, which has this code.
pub(super) fn fails(code: i32, args: &[&str]) -> String {
    let output = admin(args);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        output.status.code() == Some(code) && output.stdout.is_empty(),
        "{args:?}: {said}"
    );
    said
}

fn keys_of(listing: &Value) -> Vec<&str> {
    listing["keys"]
        .as_array()
        .unwrap()
        .iter()
        .map(|standing| standing["key"].as_str().unwrap())
        .collect()
}

/// A server whose rules an operator looks at, and the flags that say where it is and which limits
/// they have.
struct Bench {
    server: RedisServer,
    flags: Vec<String>,
}

impl Bench {
    fn new(flags: &[&str]) -> Self {
        admin_program(); // is built by now: windows go by meanwhile
        let server = RedisServer::start();
        let flags = [&["--url", &server.url()], flags]
            .concat()
            .into_iter()
            .map(str::to_owned)
            .collect();
        Self { server, flags }
    }

    /// The service counts five an hour.
    fn hourly() -> Self {
        Self::new(&["--limits", "5/1h"])
    }

    fn with<'a>(&'a self, args: &[&'a str]) -> Vec<&'a str> {
        args.iter()
            .copied()
            .chain(self.flags.iter().map(String::as_str))
            .collect()
    }

    fn says(&self, args: &[&str]) -> String {
        says(&self.with(args))
    }

    fn json(&self, args: &[&str]) -> Value {
        json(&self.with(args))
    }

    fn limiter(&self) -> RateLimiterBuilder {
        strict().redis(&self.server.url())
    }

    /// Charges each of these keys once.
    fn charge(&self, rule: &Rule, keys: &[Key]) {
        charge(self.limiter(), rule, keys);
    }

    /// Charges an hourly rule of this name.
    fn charge_hourly(&self, name: &'static str, users: &[&str]) {
        self.charge(
            &Rule::new(name, Limit::per_hour(5)),
            &users.iter().map(|user| Key::of(*user)).collect::<Vec<_>>(),
        );
    }
}

fn charge(limiter: RateLimiterBuilder, rule: &Rule, keys: &[Key]) -> RateLimiter {
    let limiter = limiter.build().unwrap();
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap()
        .block_on(async {
            for key in keys {
                let _ = limiter.acquire(rule, key).await.unwrap();
            }
        });
    limiter
}
