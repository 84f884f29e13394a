//! `ratelimit-admin`, as an operator runs it beside a running service.

use std::collections::BTreeSet;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use ratelimit_runtime::{
    Algorithm, Key, Limit, RateLimiter, RateLimiterBuilder, RedisMode, RedisStore, Rule, key,
};
use serde_json::{Value, json};

use super::support::cluster::RedisCluster;
use super::support::redis::{RedisServer, free_port};
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

fn admin(args: &[&str]) -> Output {
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

/// A limit is used up, and the deny cache of the service knows of it; the operator frees the user,
/// and the service admits the next call within the staleness. Then the same with a block.
fn frees_a_user_of_a_running_service(url: &str) {
    let service = Service::start(Some(url));
    service.wait_for("Redis answers");
    let rule = ["send_code.send_code", "--limits", "3/1m", "--url", url];
    let on_alice = |command: &str, more: &[&str]| {
        json(&[&[command, rule[0], "alice@example.com"], &rule[1..], more].concat())
    };
    let admitted_in_time = || {
        let start = Instant::now();
        while service.send("alice@example.com").status != 200 {
            assert!(
                start.elapsed() < STALENESS + SLACK,
                "still refused after {:?}",
                start.elapsed()
            );
            std::thread::sleep(Duration::from_millis(10));
        }
    };

    for status in [200, 200, 200, 429, 429] {
        assert_eq!(service.send("alice@example.com").status, status);
    }
    let standing = on_alice("peek", &[]);
    let wait = standing["retry_after_seconds"].as_f64().unwrap();
    assert!((1.0..=60.0).contains(&wait), "{standing}");
    for (field, value) in [
        ("rule", json!("send_code.send_code")),
        ("key", json!("<alice@example.com>")),
        ("state", json!("refused")),
        ("limit", json!(3)),
        ("remaining", json!(0)),
        ("window_seconds", json!(60.0)),
    ] {
        assert_eq!(standing[field], value, "{field}");
    }
    assert_eq!(service.send("bob@example.com").status, 200);
    let listing = json(&[&["list"], &rule[..]].concat());
    assert_eq!(
        keys_of(&listing),
        ["<alice@example.com>", "<bob@example.com>"]
    );

    let change = on_alice("reset", &[]);
    assert_eq!(
        (&change["command"], &change["changed"]),
        (&json!("reset"), &json!(true))
    );
    assert_eq!(
        (&change["before"]["state"], &change["after"]["state"]),
        (&json!("refused"), &json!("allowed"))
    );
    assert_eq!(change["after"]["remaining"], 3);
    admitted_in_time();
    assert_eq!(on_alice("reset", &[])["changed"], true);
    assert_eq!(on_alice("reset", &[])["changed"], false, "nothing was left");

    let change = on_alice("block", &["--for", "10m"]);
    assert_eq!(
        (&change["before"]["state"], &change["after"]["state"]),
        (&json!("allowed"), &json!("blocked"))
    );
    let refusal = service.send("alice@example.com");
    let wait: u64 = refusal.header("retry-after").unwrap().parse().unwrap();
    assert!(
        refusal.status == 429 && (590..=600).contains(&wait),
        "{wait}"
    );
    assert_eq!(
        service.send("bob@example.com").status,
        200,
        "no other key is blocked"
    );
    let change = on_alice("unblock", &[]);
    assert_eq!(
        (&change["changed"], &change["before"]["state"]),
        (&json!(true), &json!("blocked"))
    );
    admitted_in_time();
    assert_eq!(on_alice("unblock", &[])["changed"], false);
}

#[test]
fn an_operator_frees_a_user_on_one_server_by_sentinel_and_on_a_cluster() {
    frees_a_user_of_a_running_service(&RedisServer::start().url());
    frees_a_user_of_a_running_service(&Sentinels::start(1).url());
    frees_a_user_of_a_running_service(&RedisCluster::start(3, 0).url());
}

#[test]
fn the_output_shows_the_state_before_and_after() {
    let bench = Bench::new(&["--limits", "5/1m,50/1d"]);
    let rule = Rule::new("log in", Limit::per_minute(5)).and(Limit::per_day(50));
    let (tenant, user) = ("acme", 7);
    bench.charge(&rule, &[key!("<tenant>/<user>"), Key::global()]);
    let cases: [(&[&str], &[&str]); 7] = [
        (
            &["peek", "log in", "<acme>/<7>"],
            &["log in <acme>/<7>: 4 of 5 left in 1m, all of them in "],
        ),
        (
            &["list", "log in"],
            &[
                "(all callers)",
                "\n<acme>/<7>     4 of 5 left in 1m",
                "\n2 keys of log in\n",
            ],
        ),
        (
            &["block", "log in", "<acme>/<7>", "--for", "10m"],
            &[
                "block log in <acme>/<7> for 10m\n  before: 4 of 5 left in 1m",
                "\n  now:    0 of 5 left in 1m, blocked, admitted in 10m\n",
            ],
        ),
        (
            &["reset", "log in", "<acme>/<7>"],
            &[
                "before: 0 of 5 left in 1m, blocked, admitted in ",
                "now:    5 of 5 left",
            ],
        ),
        (
            &["unblock", "log in", "<acme>/<7>"],
            &["log in <acme>/<7>: there was nothing to unblock; are name, windows"],
        ),
        (
            &["reset", "log in", "--global"],
            &["reset log in (all callers)\n"],
        ),
        (
            &["list", "log in"],
            &["no keys of log in are stored; are name, windows"],
        ),
    ];
    for (args, parts) in cases {
        let printed = bench.says(args);
        for part in parts {
            assert!(printed.contains(part), "{args:?}: {printed}");
        }
    }
}

/// A stranger chooses a key: it must not steer the terminal of an operator, and can be acted on as
/// it is shown.
#[test]
fn a_listed_key_steers_no_terminal_and_can_be_acted_on() {
    let bench = Bench::hourly();
    let users = [
        "bob\u{9b}2J\u{202e}\u{200b}moc",
        "Zoë \"d'Arc\"",
        r"DOMAIN\user",
    ];
    bench.charge_hourly("login", &users);
    let shown = [
        r"<bob\u{9b}2J\u{202e}\u{200b}moc>",
        "<Zoë \"d'Arc\">",
        r"<DOMAIN\user>",
    ];
    let printed = bench.says(&["list", "login"]);
    for key in shown {
        assert!(
            printed.lines().any(|line| line.starts_with(key)),
            "{key} in {printed}"
        );
    }
    let printed = bench.says(&["list", "login", "--json"]);
    let is_quiet = |c: char| !c.is_control() && !('\u{200b}'..='\u{202e}').contains(&c);
    assert!(printed.trim_end().chars().all(is_quiet), "{printed}");
    let listing: Value = serde_json::from_str(&printed).unwrap();
    let listed: BTreeSet<&str> = keys_of(&listing).into_iter().collect();
    assert_eq!(
        listed,
        users
            .map(|user| format!("<{user}>"))
            .iter()
            .map(String::as_str)
            .collect()
    );
    for key in shown {
        assert_eq!(
            bench.json(&["reset", "login", key])["changed"],
            true,
            "{key}"
        );
    }
    assert_eq!(bench.server.cli(&["KEYS", "*"]), "");
}

/// A name of its own may hold the colons that paths hold.
#[test]
fn an_explicit_name_with_colons_is_that_rule_and_no_other() {
    let bench = Bench::hourly();
    bench.charge_hourly("api::v1", &["alice"]);
    bench.charge_hourly("api.v1", &["alice", "bob"]);
    assert_eq!(keys_of(&bench.json(&["list", "api::v1"])), ["<alice>"]);
    assert_eq!(bench.json(&["reset", "api::v1", "alice"])["changed"], true);
    assert_eq!(
        bench.server.cli(&["KEYS", "*alice*"]),
        "rl1:sw-3600s:api.v1:<alice>"
    );
    // A path in the words of the code is told what its name is.
    let printed = bench.says(&["reset", "shop::send", "bob"]);
    assert!(
        printed.contains("its name is the path with dots: shop.Mailer.send"),
        "{printed}"
    );
}

/// A block of a key that nothing is known of succeeds, and may be a slip of the pen.
#[test]
fn a_block_says_whether_there_was_anything_before() {
    let bench = Bench::hourly();
    bench.charge_hourly("login", &["alice", "bob"]);
    for (key, existed) in [("alice", true), ("alcie", false)] {
        let block = ["block", "login", key, "--for", "1m"];
        let printed = bench.says(&block);
        assert_eq!(
            printed.contains("nothing was counted for it before; are name,"),
            !existed,
            "{printed}"
        );
        assert_eq!(bench.json(&block)["existed"], true, "it is blocked by now");
        assert_eq!(bench.json(&["reset", "login", key])["existed"], true);
        assert_eq!(bench.json(&block)["existed"], false);
    }
}

#[test]
fn a_block_that_the_limits_outlast_says_both_times() {
    let bench = Bench::hourly();
    bench.charge_hourly("login", &["alice"; 5]);
    let block = |time| ["block", "login", "alice", "--for", time];
    for (time, is_whole) in [("10m", false), ("2h", true)] {
        let printed = bench.says(&block(time));
        let admitted = format!("left in 1h, blocked, admitted in {time}\n");
        assert!(
            printed.starts_with(&format!("block login <alice> for {time}\n"))
                && printed.contains(" left in 1h, blocked, admitted in ")
                && printed.ends_with(&admitted) == is_whole,
            "{printed}"
        );
    }
    assert_eq!(bench.json(&block("10m"))["blocked_for_seconds"], 600.0);
}

/// The block of a name that the service does not use would refuse no call.
#[test]
fn a_block_of_a_rule_that_redis_does_not_know_is_an_error() {
    let bench = Bench::new(&[]);
    for name in ["shop.query", "shop.mail.send", "forum.mail.send"] {
        bench.charge_hourly(name, &["alice"]);
    }
    let block = |name, limits, algorithm, more: &[&'static str]| {
        let block = [
            "block",
            name,
            "bob",
            "--for",
            "1m",
            "--limits",
            limits,
            "--algorithm",
            algorithm,
        ];
        [&block[..], more].concat()
    };
    let log = "sliding_window";
    for (args, expected) in [
        (
            block("send", "5/1h", log, &[]),
            "send may be forum.mail.send, shop.mail.send: say which",
        ),
        (block("qurey", "5/1h", log, &[]), "no key of a rule qurey"),
        (block("qurey", "5/1h", log, &[]), "keys of shop.query"),
        (block("qurey", "5/1h", log, &[]), "say --new"),
        (
            block("shop.query", "5/1m", log, &[]),
            "holds keys of shop.query under sliding_window 1h, and none under",
        ),
        (
            block("shop.query", "5/1h", "token_bucket", &[]),
            "holds keys of shop.query under sliding_window 1h",
        ),
    ] {
        let said = fails(2, &bench.with(&args));
        assert!(said.contains(expected), "{args:?}: {said}");
    }
    assert_eq!(
        bench.server.cli(&["KEYS", "*bob*"]),
        "",
        "nothing is written"
    );
    // The last part is enough where it is the only one.
    bench.says(&block("query", "5/1h", log, &[]));
    assert_eq!(
        bench.server.cli(&["KEYS", "*bob*"]),
        "rl1:sw-3600s:shop.query:<bob>"
    );
    bench.says(&block("new", "5/1h", log, &["--new"]));
    assert_eq!(
        bench.json(&["peek", "new", "bob", "--limits", "5/1h"])["state"],
        "blocked"
    );
}

/// Services count an IPv6 address by its /64, unless their key says otherwise.
#[test]
fn a_lone_ipv6_address_stands_for_its_network() {
    let bench = Bench::hourly();
    bench.charge_hourly("login", &["2001:db8:1:2::/64", "2001:db8:9::7"]);
    for (said, key) in [
        ("2001:db8:1:2::7", "<2001:db8:1:2::/64>"),
        ("2001:db8:9::7", "<2001:db8:9::7>"),
        ("2001:db8:5::7", "<2001:db8:5::/64>"),
        ("<2001:db8:5::7>", "<2001:db8:5::7>"),
        ("::ffff:192.0.2.1", "<192.0.2.1>"),
    ] {
        assert_eq!(bench.json(&["peek", "login", said])["key"], key, "{said}");
    }
}

/// A block of one would be said to be in force, and refuse no call.
#[test]
fn a_network_of_addresses_is_no_key() {
    let bench = Bench::hourly();
    for network in ["203.0.113.0/24", "<acme>/<203.0.113.0/24>", "2001:db8::/32"] {
        let block = ["block", "login", network, "--for", "1h", "--new"];
        let error = fails(2, &bench.with(&block));
        assert!(
            error.contains("no call has the network"),
            "{network}: {error}"
        );
    }
    let subscriber = bench.json(&["peek", "login", "<2001:db8:1:2::/64>"]);
    assert_eq!(subscriber["key"], "<2001:db8:1:2::/64>");
}

/// An operator can say all that a service says about its limiter.
#[test]
fn keys_of_every_kind_of_limiter_are_found() {
    let bench = Bench::new(&[]);
    let limit = Limit::per_second(1).with_burst(9);
    let bucket = |name| Rule::new(name, limit).with_algorithm(Algorithm::TokenBucket);
    charge(
        bench.limiter().prefix("shop:prod").hash_keys("secret"),
        &bucket("api"),
        &[Key::of("alice")],
    );
    let flags = [
        "--prefix",
        "shop:prod",
        "--limits",
        "1/1s",
        "--algorithm",
        "token_bucket",
        "--burst",
        "9",
    ];
    let with_secret = [&flags[..], &["--secret", "secret"]].concat();
    let listing = bench.json(&[&["list", "api"], &flags[..]].concat());
    let digest = keys_of(&listing)[0];
    assert!(digest.starts_with('#') && digest.len() == 33, "{listing}");
    for (key, flags) in [
        ("alice", &with_secret[..]),
        (digest, &flags),
        (digest, &with_secret),
    ] {
        let standing = bench.json(&[&["peek", "api", key], flags].concat());
        assert_eq!(standing["limit"], 9, "{standing}");
        assert_ne!(standing["reset_after_seconds"], 0.0, "{standing}");
    }

    let plain = strict().store(
        RedisStore::new(&bench.server.url())
            .unwrap()
            .mode(RedisMode::Transactions),
    );
    charge(
        plain,
        &Rule::new("plain", Limit::per_hour(2)).with_algorithm(Algorithm::FixedWindow),
        &[Key::of("a")],
    );
    let list = [
        "list",
        "plain",
        "--limits",
        "2/1h",
        "--algorithm",
        "fixed_window",
    ];
    assert!(keys_of(&bench.json(&list)).is_empty());
    let listing = bench.json(&[&list[..], &["--no-scripts"]].concat());
    assert_eq!(
        (keys_of(&listing), &listing["keys"][0]["remaining"]),
        (vec!["<a>"], &json!(1))
    );
}

#[test]
fn a_file_of_policies_gives_limits_and_overrides() {
    let bench = Bench::new(&[]);
    bench.charge(&Rule::new("my.api", Limit::per_minute(5)), &[Key::of(&7)]);
    let file = File::new(
        "policies.toml",
        "[api]\nlimits = \"5/1m\"\nshadow = true\noverrides.\"<acme>\" = 50\n",
    );
    let path = file.path();
    let of = |command: &'static str, key: &'static str| {
        [
            command,
            "my.api",
            key,
            "--policies",
            path,
            "--policy",
            "api",
        ]
    };
    assert_eq!(bench.json(&of("peek", "acme"))["limit"], 50);
    assert_eq!(bench.json(&of("peek", "bob"))["limit"], 5);
    assert_eq!(bench.json(&of("reset", "7"))["changed"], true);
    let said = fails(2, &bench.with(&["list", "my.api", "--policies", path]));
    assert!(
        said.contains("no `my.api` among them, only api; say --policy"),
        "{said}"
    );
}

#[test]
fn a_list_is_no_longer_than_was_asked_for() {
    let bench = Bench::hourly();
    let users: Vec<String> = (0..150).map(|user| user.to_string()).collect();
    bench.charge_hourly(
        "login",
        &users.iter().map(String::as_str).collect::<Vec<_>>(),
    );
    let listing = bench.json(&["list", "login"]);
    assert_eq!(
        (keys_of(&listing).len(), &listing["complete"]),
        (100, &json!(false))
    );
    let printed = bench.says(&["list", "login"]);
    assert!(
        printed.ends_with("\n100 keys of login, and there are more: see --max-keys\n"),
        "{printed}"
    );
    let listing = bench.json(&["list", "login", "--max-keys", "150"]);
    assert_eq!(
        (keys_of(&listing).len(), &listing["complete"]),
        (150, &json!(true))
    );
}

/// Nothing is asked of Redis, let alone changed, before all of it is understood.
#[test]
fn a_wrong_command_is_an_error_and_changes_nothing() {
    let bench = Bench::new(&[]);
    bench.charge_hourly("login", &["alice"]);
    let connections = || {
        bench
            .server
            .info("stats", "total_connections_received")
            .parse::<u32>()
            .unwrap()
    };
    let before = connections();
    let reset = ["reset", "login", "alice", "--limits", "5/1h"];
    let of = |more: &[&'static str]| [&reset[..], more].concat();
    for (args, expected) in [
        (
            vec!["rset", "login", "alice", "--limits", "5/1h"],
            "a similar subcommand exists: 'reset'",
        ),
        (
            vec!["reset", "login", "--limits", "5/1h"],
            "or --global for a rule without one",
        ),
        (
            vec!["peek", "login", "alice", "--algorithm", "token_bucket"],
            "--limits <LIMITS>",
        ),
        (
            vec!["reset", "login", "alice", "--limits", "5/1 parsec"],
            "`1 parsec` is not a duration",
        ),
        (
            vec!["reset", "login", "", "--limits", "5/1h"],
            "a value is required for '[KEY]'",
        ),
        (
            vec!["reset", "login", "<alice", "--limits", "5/1h"],
            "each value stands in its own `<` and `>`",
        ),
        (
            vec!["reset", "login", "<{alice}>", "--limits", "5/1h"],
            "not a rendered key",
        ),
        (
            vec![
                "reset",
                "login",
                "alice",
                "--policies",
                "/nowhere/policies.toml",
            ],
            "/nowhere/policies.toml: No such file",
        ),
        (
            of(&["--algorithm", "gcra"]),
            "unknown algorithm \"gcra\": write sliding_window",
        ),
        (of(&["--burst", "9"]), "`sliding_window` has no burst"),
        (of(&["--prefix", "a b"]), "white space"),
        (of(&["--secret", ""]), "secret"),
        (of(&["--timeout", "1h"]), "between 1ms and 60s"),
        (
            vec!["block", "login", "alice", "--limits", "5/1h"],
            "--for <DURATION>",
        ),
        (
            vec![
                "block", "login", "alice", "--limits", "5/1h", "--for", "soon",
            ],
            "soon",
        ),
    ] {
        let said = fails(2, &bench.with(&args));
        assert!(said.contains(expected), "{args:?}: {said}");
    }
    assert_eq!(connections(), before + 1, "only this test has asked Redis");
    for (args, expected) in [
        (&[][..], "set RATELIMIT_URL or REDIS_URL"),
        (&["--url", "memory:"], "redis"),
    ] {
        let said = fails(2, &[&reset[..], args].concat());
        assert!(said.contains(expected), "{args:?}: {said}");
    }
    for (duration, expected) in [("0s", "more than 0"), ("400d", "at most 366 days")] {
        let block = [
            "block", "login", "alice", "--limits", "5/1h", "--for", duration, "--new",
        ];
        let said = fails(2, &bench.with(&block));
        assert!(said.contains(expected), "{duration}: {said}");
    }
    assert_eq!(
        bench.server.cli(&["ZCARD", "rl1:sw-3600s:login:<alice>"]),
        "1"
    );
}

#[test]
fn the_url_comes_from_the_environment_and_help_hides_it_and_names_all_subcommands() {
    let server = RedisServer::start();
    for variable in ["RATELIMIT_URL", "REDIS_URL"] {
        let mut command = Command::new(admin_program());
        command
            .env_remove("RATELIMIT_URL")
            .env_remove("REDIS_URL")
            .env(variable, server.url());
        let output = command
            .args(["peek", "login", "alice", "--limits", "5/1h"])
            .output()
            .unwrap();
        assert!(output.status.success(), "{output:?}");
    }
    let mut hidden = Command::new(admin_program());
    let hidden = hidden
        .args(["peek", "--help"])
        .env("RATELIMIT_URL", "redis://:pw@host")
        .output()
        .unwrap();
    let help = String::from_utf8_lossy(&hidden.stdout);
    assert!(
        help.contains("redis+cluster://") && !help.contains("pw"),
        "{help}"
    );

    let all = says(&["--help"]);
    for subcommand in [
        "rules",
        "find",
        "top",
        "peek",
        "list",
        "in-flight",
        "reset",
        "block",
        "unblock",
        "replay",
    ] {
        let about = all.lines().find_map(|line| {
            line.trim()
                .strip_prefix(&format!("{subcommand} "))?
                .split('.')
                .next()
        });
        let about = about
            .unwrap_or_else(|| panic!("{subcommand} in {all}"))
            .trim();
        assert!(says(&[subcommand, "-h"]).contains(about), "{subcommand}");
    }
}

#[test]
fn a_redis_that_does_not_answer_is_named_in_time() {
    admin_program(); // is built by now
    let fails = |url: &str, code: i32, expected: &str| {
        let asked = Instant::now();
        let said = fails(
            code,
            &[
                "reset",
                "login",
                "alice",
                "--limits",
                "5/1h",
                "--timeout",
                "500ms",
                "--url",
                url,
            ],
        );
        assert!(
            said.starts_with("error: ") && said.contains(expected) && !said.contains("pw"),
            "{said}"
        );
        assert!(
            asked.elapsed() < Duration::from_secs(5),
            "{:?}",
            asked.elapsed()
        );
    };
    let nobody = format!("127.0.0.1:{}", free_port());
    fails(
        &format!("redis://:pw@{nobody}/"),
        1,
        &format!("no connection to Redis at {nobody}"),
    );
    fails(&format!("redis+cluster://:pw@{nobody}"), 1, &nobody);
    fails(&format!("redis+sentinel://:pw@{nobody}/main"), 1, &nobody);

    let server = RedisServer::start_with(&["--requirepass", "right"]);
    fails(
        &format!("redis://:pw@{}/", server.address()),
        2,
        "does not accept the user name or the password",
    );
    let server = RedisServer::start();
    server.freeze();
    fails(
        &server.url(),
        1,
        &format!("no connection to Redis at {}", server.address()),
    );
    server.thaw();
}

/// Nothing has to be known by heart: rules of every algorithm are listed with their windows and
/// prefixes.
#[test]
fn the_rules_that_redis_knows_are_listed() {
    let bench = Bench::new(&[]);
    let rules = |args: &[&str]| bench.json(&[&["rules"], args].concat());
    assert!(
        bench
            .says(&["rules"])
            .starts_with("no keys of any rule are stored")
    );
    for algorithm in ratelimit_conformance::ALGORITHMS {
        let rule =
            Rule::named(algorithm.to_string(), Limit::per_minute(5)).with_algorithm(*algorithm);
        bench.charge(&rule, &[Key::of("alice"), Key::of("bob")]);
    }
    let odd =
        Rule::new("log:in {1}", Limit::new(5, Duration::from_millis(1_500))).and(Limit::per_day(9));
    let keys = [Key::of("a:rl1:sw-1s:x:"), Key::global(), Key::of("bob")];
    charge(bench.limiter().prefix("shop:prod"), &odd, &keys);
    let all = rules(&[]);
    assert_eq!(all["complete"], true);
    let all = all["rules"].as_array().unwrap();
    assert_eq!(
        all.len(),
        ratelimit_conformance::ALGORITHMS.len() + 1,
        "{all:?}"
    );
    for algorithm in ratelimit_conformance::ALGORITHMS {
        let name = json!(algorithm.to_string());
        let row = all.iter().find(|row| row["rule"] == name).unwrap();
        assert_eq!(
            (&row["algorithm"], &row["prefix"], &row["keys"]),
            (&name, &json!(""), &json!(2))
        );
        assert_eq!(row["windows_seconds"], json!([60.0]));
    }
    let of_shop = rules(&["--prefix", "shop:prod"]);
    let [row] = of_shop["rules"].as_array().unwrap().as_slice() else {
        panic!("{of_shop}")
    };
    assert_eq!(
        (&row["rule"], &row["keys"]),
        (&json!("log:in {1}"), &json!(3))
    );
    assert_eq!(row["windows_seconds"], json!([1.5, 86_400.0]));
    let printed = bench.says(&["rules"]);
    let rows: Vec<_> = printed
        .lines()
        .map(|row| row.split_whitespace().collect::<Vec<_>>().join(" "))
        .collect();
    let odd = "log:in {1} sliding_window 1s 500ms + 1day 3 keys, --prefix shop:prod";
    let count = format!("{} rules", all.len());
    for row in ["leaky_bucket leaky_bucket 1m 2 keys", odd, &count] {
        assert!(rows.iter().any(|other| other == row), "{row} in {printed}");
    }
}

/// Another program, or a later release, may write under the prefix of a limiter.
#[test]
fn keys_that_cannot_be_read_are_named_and_the_others_shown() {
    let bench = Bench::new(&[]);
    bench.charge_hourly("login", &["alice", "bob"]);
    let permits = Rule::new("login", Limit::per_hour(5)).with_concurrent(2);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let limiter = bench.limiter().build().unwrap();
    runtime.block_on(async {
        let permit = limiter.enter(&permits, &Key::of("alice")).await;
        std::mem::forget(permit.unwrap());
        // The rule is written within a second or two.
        let is_written = || bench.server.cli(&["EXISTS", "rl1:rules"]) == "1";
        while !is_written() {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    });
    let log = |key: &[u8]| [b"rl1:sw-3600s:login:", key].concat();
    let (of_bytes, of_control) = (log(b"<\xff>"), log(b"<\x1b[2J"));
    for key in [
        &log(b"<carl>")[..],
        &of_bytes,
        &of_control,
        b"rl1:cc:login:<carl>",
        b"rl1:xx-60s:login:<a>",
        b"rl1:sw-60s:x",
        b"rl1:sw:x:",
        b"rl1:sw-60:x:",
        b"rl1:sw-60s:%2:",
        b"shop:rl1:new:<a>",
        b"rl1",
        b"other",
    ] {
        bench.server.cli(&[&b"SET"[..], key, b"1"]);
    }
    bench
        .server
        .cli(&["ZADD", "rl1:sw-3600s:login:<dora>", "1", "x"]);
    let contains_all = |printed: &str, parts: &[&str]| {
        for part in parts {
            assert!(printed.contains(part), "{part} in {printed}");
        }
        assert!(!printed.contains('\u{1b}'), "{printed:?}");
    };

    let foreign = "is left out: a key of the rate limiter holds something that another program";
    let listed = says_in_part(&bench.with(&["list", "login", "--limits", "5/1h"]));
    contains_all(
        &listed,
        &[
            "<alice>  3 of 5 left in 1h, ",
            "<bob>    4 of 5 left in 1h, ",
            "\n2 keys of login\n",
            &format!("the key rl1:sw-3600s:login:<carl> {foreign}"),
            &format!("the key rl1:sw-3600s:login:<dora> {foreign}"),
            r"the key rl1:sw-3600s:login:<\u{1b}[2J is left out: no key is rendered so",
            "the key rl1:sw-3600s:login:<\u{fffd}> is left out: no key is rendered so",
        ],
    );
    let printed = says_in_part(&bench.with(&["list", "login", "--limits", "5/1h", "--json"]));
    let listing: Value = serde_json::from_str(&printed).unwrap();
    assert_eq!(listing["unread"].as_array().unwrap().len(), 4, "{listing}");
    assert_eq!(keys_of(&listing), ["<alice>", "<bob>"]);

    let rules = says_in_part(&bench.with(&["rules"]));
    let other = "is left out: its name is none of this release";
    for key in [
        "xx-60s:login:<a>",
        "sw-60s:x",
        "sw:x:",
        "sw-60:x:",
        "sw-60s:%2:",
    ] {
        contains_all(&rules, &[&format!("the key rl1:{key} {other}")]);
    }
    contains_all(&rules, &[&format!("the key shop:rl1:new:<a> {other}")]);
    assert!(!rules.contains("other is"), "{rules}");
    let of_shop = says_in_part(&bench.with(&["rules", "--prefix", "shop"]));
    assert_eq!(of_shop.matches("is left out").count(), 1, "{of_shop}");

    let in_flight = says_in_part(&bench.with(&["in-flight", "login"]));
    contains_all(
        &in_flight,
        &[
            "<alice>  1 in flight\n",
            &format!("the key rl1:cc:login:<carl> {foreign}"),
        ],
    );
    let top = says_in_part(&bench.with(&["top", "login"]));
    contains_all(
        &top,
        &["0 of 4 keys are", &format!("login:<carl> {foreign}")],
    );
    for command in [
        &["peek"][..],
        &["reset"],
        &["unblock"],
        &["block", "--for", "1m"],
    ] {
        let of_carl = [command, &["login", "carl", "--limits", "5/1h"]].concat();
        let said = fails(2, &bench.with(&of_carl));
        let why = "error: login <carl>: a key of the rate limiter holds something";
        assert!(said.starts_with(why), "{command:?}: {said}");
    }
    assert_eq!(bench.server.cli(&["GET", "rl1:sw-3600s:login:<carl>"]), "1");
}

#[test]
fn the_rules_of_all_masters_of_a_cluster_are_listed() {
    let cluster = RedisCluster::start(3, 0);
    let keys: Vec<_> = (0..30).map(|user| Key::of(&user)).collect();
    charge(
        strict().redis(&cluster.url()),
        &Rule::new("api", Limit::per_hour(5)),
        &keys,
    );
    let listed = json(&["rules", "--url", &cluster.url()]);
    assert_eq!(
        (&listed["rules"][0]["rule"], &listed["rules"][0]["keys"]),
        (&json!("api"), &json!(30)),
        "{listed}"
    );
}

#[test]
fn a_quota_of_the_calendar_names_its_zone_and_its_end() {
    let bench = Bench::new(&[]);
    let quota =
        Rule::named("report", "2/month".parse().unwrap()).with_algorithm(Algorithm::FixedWindow);
    let quota = quota.with_zone("Etc/GMT+2");
    bench.charge(&quota, &[Key::of("alice")]);
    let row = &bench.json(&["rules"])["rules"][0];
    assert_eq!(
        (&row["windows_seconds"], &row["calendar"]),
        (&json!([31.0 * 86_400.0]), &json!(["month@Etc/GMT+2"]))
    );

    let of = |command| {
        [
            command,
            "report",
            "alice",
            "--limits",
            "2/month",
            "--algorithm",
            "fixed_window",
            "--zone",
            "etc/gmt+2",
        ]
    };
    let peeked = bench.says(&of("peek"));
    assert!(
        peeked.starts_with("report <alice>: 1 of 2 left until 1 "),
        "{peeked}"
    );
    assert!(peeked.ends_with(" 00:00 Etc/GMT+2\n"), "{peeked}");
    let ends = bench.json(&of("peek"))["window_ends"]
        .as_str()
        .unwrap()
        .to_owned();
    assert!(
        ends.ends_with("-01T02:00:00Z"),
        "midnight two hours west of Greenwich: {ends}"
    );
    bench.charge(&quota, &[Key::of("alice")]);
    assert!(
        bench
            .says(&of("peek"))
            .ends_with(" 00:00 Etc/GMT+2, refused\n")
    );
}

#[test]
fn calls_in_flight_are_listed_by_key() {
    let bench = Bench::new(&["--prefix", "shop"]);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let limiter = bench.limiter().prefix("shop").build().unwrap();
    let [export, other] = ["export: all", "export"]
        .map(|name| Rule::named(name, Limit::per_hour(9)).with_concurrent(3));
    let enter = async |rule: &Rule, user: &str| limiter.enter(rule, &Key::of(user)).await.unwrap();
    let permits = runtime.block_on(async {
        let of_alice = [enter(&export, "alice").await, enter(&export, "alice").await];
        (
            of_alice,
            enter(&export, "bob").await,
            enter(&other, "eve").await,
        )
    });
    let list = ["in-flight", "export: all"];
    let keys = json!([{"key": "<alice>", "in_flight": 2}, {"key": "<bob>", "in_flight": 1}]);
    assert_eq!(
        bench.json(&list),
        json!({"rule": "export: all", "keys": keys, "complete": true})
    );
    assert_eq!(
        bench.says(&list),
        "<alice>  2 in flight\n<bob>    1 in flight\n2 keys of export: all\n"
    );
    assert!(
        bench
            .says(&[&list[..], &["--max-keys", "1"]].concat())
            .contains("and there are more")
    );
    assert!(
        bench
            .says(&["in-flight", "nothing"])
            .starts_with("no calls of nothing are in flight")
    );
    drop(permits);
}

#[test]
fn settings_of_the_service_stand_before_the_subcommand_behind_it_or_in_the_environment() {
    let bench = Bench::hourly();
    let rule = Rule::named("login", Limit::new(5, Duration::from_secs(3600)));
    charge(bench.limiter().prefix("shop"), &rule, &[Key::of("alice")]);
    let url = bench.server.url();
    let peek = ["peek", "login", "alice", "--limits", "5/1h"];
    let left = |output: &Output| {
        assert!(output.status.success(), "{output:?}");
        let printed: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        printed["remaining"].as_u64()
    };
    let service = ["--url", &url, "--prefix", "shop", "--json"];
    assert_eq!(left(&admin(&[&service[..], &peek].concat())), Some(4));
    assert_eq!(left(&admin(&[&peek[..], &service].concat())), Some(4));
    let mut command = program();
    command
        .env("RATELIMIT_URL", &url)
        .env("RATELIMIT_PREFIX", "shop");
    assert_eq!(
        left(&command.args(peek).arg("--json").output().unwrap()),
        Some(4)
    );
    // What is said goes before the environment.
    command.args(["--prefix", "other"]);
    assert_eq!(left(&command.output().unwrap()), Some(5));
}

#[test]
fn settings_of_the_service_are_refused_where_no_redis_is_asked() {
    for subcommand in [
        &["replay", "--rule", "1/1m"][..],
        &["completions", "bash"],
        &["man"],
    ] {
        let url = ["--url", "redis://127.0.0.1/"];
        let said = fails(2, &[&url[..], subcommand].concat());
        assert!(said.contains("asks no Redis: leave --url out"), "{said}");
        let said = fails(2, &[subcommand, &["--timeout", "1s"]].concat());
        assert!(
            said.contains("asks no Redis: leave --timeout out"),
            "{said}"
        );
        // An environment is set for all commands.
        let mut command = program();
        let output = command
            .args(subcommand)
            .env("RATELIMIT_URL", "redis://127.0.0.1/")
            .stdin(std::process::Stdio::null())
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!said.contains("asks no Redis"), "{said}");
    }
}

#[test]
fn shells_and_man_get_all_subcommands() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = says(&["completions", shell]);
        for word in ["in-flight", "replay", "show-keys", "unblock"] {
            assert!(script.contains(word), "{shell}: {word}");
        }
    }
    let page = says(&["man"]);
    assert!(
        page.contains(".TH ratelimit-admin 1") && page.contains("Exit codes"),
        "{page}"
    );
    assert!(page.contains("ratelimit\\-admin\\-unblock(1)"), "{page}");
    let page = says(&["man", "replay"]);
    assert!(
        page.contains(".TH ratelimit-admin-replay 1") && page.contains("sample"),
        "{page}"
    );
    assert!(fails(2, &["man", "nothing"]).contains("there is no subcommand"));
}

#[test]
fn exit_codes_are_those_of_the_help() {
    let nobody = format!("redis://127.0.0.1:{}/", free_port());
    let secure = nobody.replace("redis://", "rediss://");
    let cluster = nobody.replace("redis://", "redis+cluster://");
    for url in [&nobody, &secure, &cluster] {
        fails(1, &["rules", "--url", url]);
    }
    fails(2, &["rules"]);
    fails(2, &["rules", "--url", "http://127.0.0.1/"]);
    fails(2, &["replay", "--rule", "1/1m", "/no/such.log"]);
    let bench = Bench::hourly();
    bench.says(&["reset", "login", "alice"]);
    let zoned = [
        "peek",
        "login",
        "alice",
        "--limits",
        "5/day",
        "--algorithm",
        "fixed_window",
        "--zone",
        "Europe/Berlin",
    ];
    says(&[&zoned[..], &["--url", &bench.server.url()]].concat());
}
