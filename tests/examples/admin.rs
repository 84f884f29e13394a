//! `ratelimit-admin`, as an operator runs it beside a running service.

use std::collections::BTreeSet;
use std::fs;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use ratelimit_runtime::{Algorithm, Key, Limit, RateLimiter, RedisMode, RedisStore, Rule, key};
use serde_json::Value;

use super::support::cluster::RedisCluster;
use super::support::redis::{RedisServer, free_port};
use super::support::sentinel::Sentinels;
use super::support::{strict, unique};
use super::{Service, example};

/// A service sees what another process has changed this late at most.
const STALENESS: Duration = Duration::from_secs(1);
/// What a busy machine may add.
const SLACK: Duration = Duration::from_millis(700);

fn admin(args: &[&str]) -> Output {
    let mut command = Command::new(example("ratelimit-admin"));
    for variable in ["RATELIMIT_URL", "REDIS_URL", "RATELIMIT_SECRET"] {
        command.env_remove(variable);
    }
    command.args(args).output().expect("admin can be started")
}

/// What it prints if all is well.
fn says(args: &[&str]) -> String {
    let output = admin(args);
    assert!(output.status.success(), "{args:?}: {output:?}");
    assert!(output.stderr.is_empty(), "{args:?}: {output:?}");
    String::from_utf8(output.stdout).expect("text")
}

fn json(args: &[&str]) -> Value {
    let printed = says(&[args, &["--json"]].concat());
    assert_eq!(printed.lines().count(), 1, "{printed}");
    serde_json::from_str(&printed).expect("JSON")
}

fn keys_of(listing: &Value) -> Vec<&str> {
    listing["keys"].as_array().unwrap().iter().map(|standing| standing["key"].as_str().unwrap()).collect()
}

/// A limit is used up, and the deny cache of the service knows of it; the operator frees the user,
/// and the service admits the next call within the staleness. Then the same with a block.
fn frees_a_user_of_a_running_service(url: &str) {
    let service = Service::start(Some(url));
    service.wait_for("Redis answers");
    let rule = ["send_code.send_code", "--limits", "3/1m", "--url", url];
    let on_alice =
        |command: &str, more: &[&str]| json(&[&[command, rule[0], "alice@example.com"], &rule[1..], more].concat());
    let admitted_in_time = || {
        let start = Instant::now();
        while service.send("alice@example.com").status != 200 {
            assert!(start.elapsed() < STALENESS + SLACK, "still refused after {:?}", start.elapsed());
            std::thread::sleep(Duration::from_millis(10));
        }
    };

    for status in [200, 200, 200, 429, 429] {
        assert_eq!(service.send("alice@example.com").status, status);
    }
    let standing = on_alice("peek", &[]);
    assert_eq!(standing["rule"], "send_code.send_code");
    assert_eq!(standing["key"], "<alice@example.com>");
    assert_eq!(
        (&standing["state"], &standing["limit"], &standing["remaining"]),
        (&"refused".into(), &3.into(), &0.into())
    );
    assert_eq!(standing["window_seconds"], 60.0);
    let wait = standing["retry_after_seconds"].as_f64().unwrap();
    assert!((1.0..=60.0).contains(&wait), "{standing}");

    assert_eq!(service.send("bob@example.com").status, 200);
    let listing = json(&[&["list"], &rule[..]].concat());
    assert_eq!(keys_of(&listing), ["<alice@example.com>", "<bob@example.com>"]);
    assert_eq!(listing["complete"], true);

    let change = on_alice("reset", &[]);
    assert_eq!((&change["command"], &change["changed"]), (&"reset".into(), &true.into()));
    assert_eq!((&change["before"]["state"], &change["after"]["state"]), (&"refused".into(), &"allowed".into()));
    assert_eq!(change["after"]["remaining"], 3);
    admitted_in_time();
    assert_eq!(on_alice("reset", &[])["changed"], true);
    assert_eq!(on_alice("reset", &[])["changed"], false, "nothing was left");

    let change = on_alice("block", &["--for", "10m"]);
    assert_eq!((&change["before"]["state"], &change["after"]["state"]), (&"allowed".into(), &"blocked".into()));
    let refusal = service.send("alice@example.com");
    assert_eq!(refusal.status, 429);
    let wait: u64 = refusal.header("retry-after").unwrap().parse().unwrap();
    assert!((590..=600).contains(&wait), "{wait}");
    assert_eq!(service.send("bob@example.com").status, 200, "no other key is blocked");
    let change = on_alice("unblock", &[]);
    assert_eq!((&change["changed"], &change["before"]["state"]), (&true.into(), &"blocked".into()));
    admitted_in_time();
    assert_eq!(on_alice("unblock", &[])["changed"], false);
}

#[test]
fn it_frees_a_user_on_one_server() {
    frees_a_user_of_a_running_service(&RedisServer::start().url());
}

#[test]
fn it_frees_a_user_by_sentinel() {
    frees_a_user_of_a_running_service(&Sentinels::start(1).url());
}

#[test]
fn it_frees_a_user_on_a_cluster() {
    frees_a_user_of_a_running_service(&RedisCluster::start(3, 0).url());
}

fn charge(limiter: &RateLimiter, rule: &Rule, keys: &[Key]) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        for key in keys {
            let _ = limiter.acquire(rule, key).await.unwrap();
        }
    });
}

#[test]
fn the_output_shows_the_state_before_and_after() {
    let server = RedisServer::start();
    let url = server.url();
    let flags = ["--url", &url, "--limits", "5/1m,50/1d"];
    let limiter = strict().redis(&url).build().unwrap();
    let rule = Rule::new("log in", Limit::per_minute(5)).and(Limit::per_day(50));
    let (tenant, user) = ("acme", 7);
    charge(&limiter, &rule, &[key!("<tenant>/<user>"), Key::global()]);
    let says = |args: &[&str]| says(&[args, &flags].concat());

    let printed = says(&["peek", "log in", "<acme>/<7>"]);
    assert!(printed.starts_with("log in <acme>/<7>: 4 of 5 left in 1m, all of them in "), "{printed}");
    let printed = says(&["list", "log in"]);
    assert!(
        printed.contains("\n<acme>/<7>     4 of 5 left in 1m") && printed.starts_with("(all callers)"),
        "{printed}"
    );
    assert!(printed.ends_with("\n2 keys of log in\n"), "{printed}");

    let printed = says(&["block", "log in", "<acme>/<7>", "--for", "10m"]);
    assert!(printed.starts_with("block log in <acme>/<7>\n  before: 4 of 5 left in 1m, all"), "{printed}");
    assert!(printed.contains("\n  now:    0 of 5 left in 1m, blocked for 10m\n"), "{printed}");
    let printed = says(&["reset", "log in", "<acme>/<7>"]);
    assert!(
        printed.contains("before: 0 of 5 left in 1m, blocked for ") && printed.contains("now:    5 of 5 left"),
        "{printed}"
    );
    let printed = says(&["unblock", "log in", "<acme>/<7>"]);
    assert!(printed.starts_with("log in <acme>/<7>: there was nothing to unblock; are name, windows"), "{printed}");
    assert!(says(&["reset", "log in", "--global"]).starts_with("reset log in (all callers)\n"));
    assert!(says(&["list", "log in"]).starts_with("no keys of log in are stored; are name, windows"));
}

/// A key is what a stranger sent: it must not steer the terminal of an operator, and can be acted
/// on as it is shown.
#[test]
fn a_listed_key_steers_no_terminal_and_can_be_acted_on() {
    let server = RedisServer::start();
    let url = server.url();
    let flags = ["--url", &url, "--limits", "5/1h"];
    let hostile = "bob\u{9b}2J\u{202e}\u{200b}moc";
    let (plain, backslash) = ("Zoë \"d'Arc\"", r"DOMAIN\user");
    let keys = [Key::of(hostile), Key::of(plain), Key::of(backslash)];
    charge(&strict().redis(&url).build().unwrap(), &Rule::new("login", Limit::per_hour(5)), &keys);
    let list = [&["list", "login"], &flags[..]].concat();

    let printed = says(&list);
    let shown = [r"<bob\u{9b}2J\u{202e}\u{200b}moc>", "<Zoë \"d'Arc\">", r"<DOMAIN\user>"];
    for key in shown {
        assert!(printed.lines().any(|line| line.starts_with(key)), "{key} in {printed}");
    }
    let printed = says(&[&list[..], &["--json"]].concat());
    let is_quiet = |c: char| !c.is_control() && !('\u{200b}'..='\u{202e}').contains(&c);
    assert!(printed.trim_end().chars().all(is_quiet), "{printed}");
    let listing: Value = serde_json::from_str(&printed).unwrap();
    let listed: BTreeSet<&str> = keys_of(&listing).into_iter().collect();
    assert_eq!(listed, keys.iter().map(|key| std::str::from_utf8(key.as_bytes()).unwrap()).collect());

    for key in shown {
        assert_eq!(json(&[&["reset", "login", key], &flags[..]].concat())["changed"], true, "{key}");
    }
    assert_eq!(server.cli(&["KEYS", "*"]), "");
}

/// A name of its own may hold what paths hold.
#[test]
fn an_explicit_name_with_colons_is_that_rule_and_no_other() {
    let server = RedisServer::start();
    let url = server.url();
    let flags = ["--url", &url, "--limits", "5/1h"];
    let limiter = strict().redis(&url).build().unwrap();
    charge(&limiter, &Rule::new("api::v1", Limit::per_hour(5)), &[Key::of("alice")]);
    charge(&limiter, &Rule::new("api.v1", Limit::per_hour(5)), &[Key::of("alice"), Key::of("bob")]);

    assert_eq!(keys_of(&json(&[&["list", "api::v1"], &flags[..]].concat())), ["<alice>"]);
    assert_eq!(json(&[&["reset", "api::v1", "alice"], &flags[..]].concat())["changed"], true);
    assert_eq!(server.cli(&["KEYS", "*alice*"]), "rl1:sw-3600s:api.v1:<alice>");
    // A path in the words of the code is told what its name is.
    for command in [&["reset", "shop::send", "bob"][..], &["block", "shop::send", "bob", "--for", "1m", "--new"]] {
        let printed = says(&[command, &flags].concat());
        assert!(printed.contains("its name is the path with dots: shop.Mailer.send"), "{printed}");
    }
}

/// A block of a key that nothing is known of succeeds, and may be a slip of the pen.
#[test]
fn a_block_says_whether_there_was_anything_before() {
    let server = RedisServer::start();
    let url = server.url();
    let flags = ["--url", &url, "--limits", "5/1h"];
    charge(
        &strict().redis(&url).build().unwrap(),
        &Rule::new("login", Limit::per_hour(5)),
        &[Key::of("alice"), Key::of("bob")],
    );
    for (key, existed) in [("alice", true), ("alcie", false)] {
        let block = [&["block", "login", key, "--for", "1m"], &flags[..]].concat();
        let printed = says(&block);
        assert_eq!(printed.contains("nothing was counted for it before; are name,"), !existed, "{printed}");
        assert_eq!(json(&block)["existed"], true, "it is blocked by now");
        assert_eq!(json(&[&["reset", "login", key], &flags[..]].concat())["existed"], true);
        assert_eq!(json(&block)["existed"], false);
    }
}

/// The block of a name that the service does not use would refuse no call.
#[test]
fn a_block_of_a_rule_that_redis_does_not_know_is_an_error() {
    let server = RedisServer::start();
    let url = server.url();
    let flags = ["--for", "1m", "--url", &url, "--limits", "5/1h"];
    let block = |name: &str, more: &[&str]| admin(&[&["block", name, "bob"], &flags[..], more].concat());
    let limiter = strict().redis(&url).build().unwrap();
    for name in ["shop.query", "shop.mail.send", "forum.mail.send"] {
        charge(&limiter, &Rule::new(name, Limit::per_hour(5)), &[Key::of("alice")]);
    }
    let several = block("send", &[]);
    assert_eq!(several.status.code(), Some(2));
    let said = String::from_utf8_lossy(&several.stderr).into_owned();
    assert!(said.contains("send may be forum.mail.send, shop.mail.send: say which"), "{said}");
    for (wrong, near) in [("qurey", "shop.query")] {
        let output = block(wrong, &[]);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(&format!("no key of a rule {wrong}")) && said.contains("say --new"), "{said}");
        assert!(said.contains(&format!("keys of {near}")), "{said}");
    }
    assert_eq!(server.cli(&["KEYS", "*bob*"]), "", "nothing is written");
    // Another window or algorithm would be another bucket.
    for (limits, algorithm) in [("5/1m", "sliding_window"), ("5/1h", "token_bucket")] {
        let flags = ["--for", "1m", "--url", &url, "--limits", limits, "--algorithm", algorithm];
        let output = admin(&[&["block", "shop.query", "bob"], &flags[..]].concat());
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains("holds keys of shop.query under sliding_window 1h, and none under"), "{said}");
    }
    assert_eq!(server.cli(&["KEYS", "*bob*"]), "", "nothing is written");
    // The last part is enough where it is the only one.
    assert!(block("query", &[]).status.success());
    assert_eq!(server.cli(&["KEYS", "*bob*"]), "rl1:sw-3600s:shop.query:<bob>");
    assert!(says(&["unblock", "query", "bob", "--url", &url, "--limits", "5/1h"]).contains("shop.query"));
    assert!(block("new", &["--new"]).status.success());
    assert_eq!(json(&["peek", "new", "bob", "--url", &url, "--limits", "5/1h"])["state"], "blocked");
}

/// Services count an IPv6 address by its /64, unless their key says otherwise.
#[test]
fn a_lone_ipv6_address_stands_for_its_network() {
    let server = RedisServer::start();
    let url = server.url();
    let flags = ["--url", &url, "--limits", "5/1h"];
    let limiter = strict().redis(&url).build().unwrap();
    let rule = Rule::new("login", Limit::per_hour(5));
    charge(&limiter, &rule, &[Key::of("2001:db8:1:2::/64"), Key::of("2001:db8:9::7")]);
    for (said, key) in [
        ("2001:db8:1:2::7", "<2001:db8:1:2::/64>"),
        ("2001:db8:9::7", "<2001:db8:9::7>"),
        ("2001:db8:5::7", "<2001:db8:5::/64>"),
        ("<2001:db8:5::7>", "<2001:db8:5::7>"),
        ("192.0.2.1", "<192.0.2.1>"),
        ("::ffff:192.0.2.1", "<192.0.2.1>"),
    ] {
        assert_eq!(json(&[&["peek", "login", said], &flags[..]].concat())["key"], key, "{said}");
    }
    assert_eq!(json(&[&["block", "login", "2001:db8:1:2::7", "--for", "1m"], &flags[..]].concat())["existed"], true);
    assert!(
        matches!(tokio::runtime::Runtime::new().unwrap().block_on(limiter.peek(&rule, &Key::of("2001:db8:1:2::/64"))),
        Ok(decision) if decision.is_blocked())
    );
}

/// What a service can say about its limiter, an operator can say too.
#[test]
fn it_finds_the_keys_of_every_kind_of_limiter() {
    let server = RedisServer::start();
    let url = server.url();
    let bucket = Limit::per_second(1).with_burst(9);
    let rule = Rule::new("api", bucket).with_algorithm(Algorithm::TokenBucket);
    let limiter = strict().redis(&url).prefix("shop:prod").hash_keys("secret").build().unwrap();
    charge(&limiter, &rule, &[Key::of("alice")]);
    let flags =
        ["--url", &url, "--prefix", "shop:prod", "--limits", "1/1s", "--algorithm", "token_bucket", "--burst", "9"];
    let with_secret = [&flags[..], &["--secret", "secret"]].concat();

    let listing = json(&[&["list", "api"], &flags[..]].concat());
    let digest = keys_of(&listing)[0];
    assert!(digest.starts_with('#') && digest.len() == 33, "{listing}");
    for (key, flags) in [("alice", &with_secret[..]), (digest, &flags), (digest, &with_secret)] {
        let standing = json(&[&["peek", "api", key], flags].concat());
        assert_eq!(standing["limit"], 9, "{standing}");
        assert_ne!(standing["reset_after_seconds"], 0.0, "{standing}");
    }

    let file = std::env::temp_dir().join(unique("policies"));
    fs::write(&file, "api = { limits = \"1/1s\", algorithm = \"token_bucket\", burst = 9 }\n").unwrap();
    let file = file.to_str().unwrap();
    let by_file = ["--policies", file, "--policy", "api", "--url", &url];
    charge(
        &strict().redis(&url).build().unwrap(),
        &Rule::named("my.api", bucket).with_algorithm(Algorithm::TokenBucket),
        &[Key::of(&7)],
    );
    assert_eq!(json(&[&["list", "my.api"], &by_file[..]].concat())["keys"].as_array().unwrap().len(), 1);
    assert_eq!(json(&[&["reset", "my.api", "7"], &by_file[..]].concat())["changed"], true);
    let output = admin(&["list", "my.api", "--policies", file, "--url", &url]);
    assert_eq!(output.status.code(), Some(2));
    assert!(
        String::from_utf8_lossy(&output.stderr).contains("no `my.api` among them, only api; say --policy"),
        "{output:?}"
    );
    fs::remove_file(file).unwrap();

    let plain = strict().store(RedisStore::new(&url).unwrap().mode(RedisMode::Transactions)).build().unwrap();
    charge(&plain, &Rule::new("plain", Limit::per_hour(2)).with_algorithm(Algorithm::FixedWindow), &[Key::of("a")]);
    let flags = ["--url", &url, "--limits", "2/1h", "--algorithm", "fixed_window"];
    assert_eq!(json(&[&["list", "plain"], &flags[..]].concat())["keys"].as_array().unwrap().len(), 0);
    let listing = json(&[&["list", "plain", "--no-scripts"], &flags[..]].concat());
    assert_eq!((keys_of(&listing), &listing["keys"][0]["remaining"]), (vec!["<a>"], &1.into()));
}

#[test]
fn a_list_is_no_longer_than_was_asked_for() {
    let server = RedisServer::start();
    let keys: Vec<Key> = (0..150).map(|user| Key::of(&user)).collect();
    let url = server.url();
    charge(&strict().redis(&url).build().unwrap(), &Rule::new("login", Limit::per_hour(5)), &keys);
    let args = ["list", "login", "--limits", "5/1h", "--url", &url];
    let listing = json(&args);
    assert_eq!((keys_of(&listing).len(), &listing["complete"]), (100, &false.into()));
    assert!(says(&args).ends_with("\n100 keys of login, and there are more: see --max-keys\n"));
    let listing = json(&[&args[..], &["--max-keys", "150"]].concat());
    assert_eq!(listing["complete"], true);
    let listed: BTreeSet<&str> = keys_of(&listing).into_iter().collect();
    assert_eq!(listed, keys.iter().map(|key| std::str::from_utf8(key.as_bytes()).unwrap()).collect());
}

/// Nothing is asked of Redis, let alone changed, before all of it is understood.
#[test]
fn a_wrong_command_is_an_error_and_changes_nothing() {
    let server = RedisServer::start();
    let url = server.url();
    charge(&strict().redis(&url).build().unwrap(), &Rule::new("login", Limit::per_hour(5)), &[Key::of("alice")]);
    let connections = || server.info("stats", "total_connections_received").parse::<u32>().unwrap();
    let before = connections();
    let cases: &[(&[&str], &str)] = &[
        (&[], "Usage: ratelimit-admin"),
        (&["rset", "login", "alice", "--limits", "5/1h"], "a similar subcommand exists: 'reset'"),
        (&["reset", "login", "--limits", "5/1h"], "or --global for a rule without one"),
        (&["reset", "login", "alice"], "--limits <LIMITS>|--policies <FILE>"),
        (&["reset", "login", "alice", "--limits", "5"], "write \"3/60s\""),
        (&["reset", "login", "alice", "--limits", "5/1 parsec"], "unknown unit `parsec`"),
        (&["reset", "login", "alice", "--limits", "0/1h"], "refuses every call"),
        (
            &["reset", "login", "alice", "--limits", "5/1h", "--algorithm", "gcra"],
            "unknown algorithm \"gcra\": did you mean \"leaky_bucket\"?",
        ),
        (&["reset", "login", "alice", "--limits", "5/1h", "--burst", "9"], "goes with token_bucket"),
        (&["reset", "login", "<alice", "--limits", "5/1h"], "each value stands in its own `<` and `>`"),
        (&["reset", "login", "<{alice}>", "--limits", "5/1h"], "not a rendered key"),
        (&["reset", "login", "alice", "--limits", "5/1h", "--prefix", "a b"], "white space"),
        (&["reset", "login", "alice", "--limits", "5/1h", "--secret", ""], "secret"),
        (&["reset", "login", "alice", "--limits", "5/1h", "--timeout", "1h"], "between 1ms and 60s"),
        (&["reset", "login", "alice", "--policies", "/nowhere/policies.toml"], "/nowhere/policies.toml: No such file"),
        (&["block", "login", "alice", "--limits", "5/1h"], "--for <DURATION>"),
        (&["block", "login", "alice", "--limits", "5/1h", "--for", "soon"], "soon"),
    ];
    for (args, expected) in cases {
        let output = admin(&[*args, &["--url", &url]].concat());
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {stderr}");
        assert!(stderr.contains(expected) && output.stdout.is_empty(), "{args:?}: {stderr}");
    }
    assert_eq!(connections(), before + 1, "only this test has asked Redis");
    assert_eq!(server.cli(&["KEYS", "*"]), "rl1:sw-3600s:login:<alice>");

    let login = ["peek", "login", "alice", "--limits", "5/1h"];
    for (url, expected) in
        [(None, "set RATELIMIT_URL or REDIS_URL"), (Some("memory:"), "redis"), (Some("http://x"), "redis")]
    {
        let output = admin(&[&login[..], &url.map_or(vec![], |url| vec!["--url", url])].concat());
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(2) && stderr.contains(expected), "{url:?}: {stderr}");
    }
    for (duration, expected) in [("0s", "more than 0"), ("400d", "at most 366 days")] {
        let output = admin(&["block", "login", "alice", "--limits", "5/1h", "--for", duration, "--new", "--url", &url]);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(2) && stderr.contains(expected), "{duration}: {stderr}");
    }
    assert_eq!(json(&[&login[..], &["--url", &url]].concat())["state"], "allowed");
}

#[test]
fn the_url_comes_from_the_environment_as_that_of_the_service() {
    let server = RedisServer::start();
    for variable in ["RATELIMIT_URL", "REDIS_URL"] {
        let mut command = Command::new(example("ratelimit-admin"));
        command.env_remove("RATELIMIT_URL").env_remove("REDIS_URL").env(variable, server.url());
        let output = command.args(["peek", "login", "alice", "--limits", "5/1h"]).output().unwrap();
        assert!(output.status.success(), "{output:?}");
    }
}

#[test]
fn a_redis_that_does_not_answer_is_named_in_time() {
    example("ratelimit-admin"); // is built by now
    let fails = |url: &str, code: i32, expected: &str| {
        let asked = Instant::now();
        let output = admin(&["reset", "login", "alice", "--limits", "5/1h", "--timeout", "500ms", "--url", url]);
        let (stderr, took) = (String::from_utf8_lossy(&output.stderr), asked.elapsed());
        assert_eq!(output.status.code(), Some(code), "{stderr}");
        assert!(stderr.starts_with("error: ") && stderr.contains(expected), "{stderr}");
        assert!(!stderr.contains("pw") && output.stdout.is_empty(), "{stderr}");
        assert!(took < Duration::from_secs(5), "{took:?}");
    };
    let nobody = format!("127.0.0.1:{}", free_port());
    fails(&format!("redis://:pw@{nobody}/"), 1, &format!("no connection to Redis at {nobody}"));
    fails(&format!("redis+cluster://:pw@{nobody}"), 1, &nobody);
    fails(&format!("redis+sentinel://:pw@{nobody}/main"), 1, &nobody);

    let server = RedisServer::start_with(&["--requirepass", "right"]);
    fails(&format!("redis://:pw@{}/", server.address()), 2, "does not accept the user name or the password");
    let server = RedisServer::start();
    server.freeze();
    fails(&server.url(), 1, &format!("no connection to Redis at {}", server.address()));
    server.thaw();
}

#[test]
fn help_says_what_there_is_to_say() {
    let help = says(&["--help"]);
    for word in
        ["peek", "list", "reset", "block", "unblock", "replay", "--prefix shop:prod", "Examples:", "Exit codes:"]
    {
        assert!(help.contains(word), "{word} in {help}");
    }
    let help = says(&["block", "--help"]);
    for word in [
        "<RULE>",
        "[KEY]",
        "--for <DURATION>",
        "--limits",
        "--algorithm",
        "--policies",
        "'<acme>/<7>'",
        "--global",
        "--url",
        "--prefix",
        "--json",
        "redis+cluster://",
    ] {
        assert!(help.contains(word), "{word} in {help}");
    }
    assert!(!says(&["replay", "--help"]).contains("--url"), "`replay` asks no Redis");
    let hidden = Command::new(example("ratelimit-admin"))
        .args(["peek", "--help"])
        .env("RATELIMIT_URL", "redis://:pw@host")
        .output()
        .unwrap();
    assert!(!String::from_utf8_lossy(&hidden.stdout).contains("pw"), "{hidden:?}");
}

/// Nothing has to be known by heart: rules of every algorithm, with their windows, whatever prefix
/// they have.
#[test]
fn it_lists_the_rules_that_redis_knows() {
    let server = RedisServer::start();
    let url = server.url();
    let rules = |args: &[&str]| json(&[&["rules", "--url", &url], args].concat());
    assert!(says(&["rules", "--url", &url]).starts_with("no keys of any rule are stored"));

    let (plain, shop) =
        (strict().redis(&url).build().unwrap(), strict().redis(&url).prefix("shop:prod").build().unwrap());
    for algorithm in ratelimit_conformance::ALGORITHMS {
        let rule = Rule::named(algorithm.to_string(), Limit::per_minute(5)).with_algorithm(*algorithm);
        charge(&plain, &rule, &[Key::of("alice"), Key::of("bob")]);
    }
    let odd = Rule::new("log:in {1}", Limit::new(5, Duration::from_millis(1_500))).and(Limit::per_day(9));
    charge(&shop, &odd, &[Key::of("a:rl1:sw-1s:x:"), Key::global(), Key::of("bob")]);
    for foreign in ["rl1", "rl1:sw-60s:x", "rl1:xx-60s:x:", "rl1:sw:x:", "rl1:sw-60:x:", "rl1:sw-60s:%2:", "other"] {
        server.cli(&["SET", foreign, "1"]);
    }

    let all = rules(&[]);
    assert_eq!(all["complete"], true);
    let all = all["rules"].as_array().unwrap();
    assert_eq!(all.len(), ratelimit_conformance::ALGORITHMS.len() + 1, "{all:?}");
    for algorithm in ratelimit_conformance::ALGORITHMS {
        let name = algorithm.to_string();
        let row = all.iter().find(|row| row["rule"] == name.as_str()).unwrap();
        assert_eq!((&row["algorithm"], &row["prefix"], &row["keys"]), (&name.as_str().into(), &"".into(), &2.into()));
        assert_eq!(row["windows_seconds"], serde_json::json!([60.0]));
    }
    let of_shop = rules(&["--prefix", "shop:prod"]);
    let [row] = of_shop["rules"].as_array().unwrap().as_slice() else { panic!("{of_shop}") };
    assert_eq!((&row["rule"], &row["prefix"], &row["keys"]), (&"log:in {1}".into(), &"shop:prod".into(), &3.into()));
    assert_eq!(row["windows_seconds"], serde_json::json!([1.5, 86_400.0]));
    assert_eq!(rules(&["--prefix", ""])["rules"].as_array().unwrap().len(), ratelimit_conformance::ALGORITHMS.len());

    let quota = Rule::named("report", "9/month".parse().unwrap()).and(Limit::per_minute(5));
    let quota = quota.with_algorithm(Algorithm::FixedWindow).with_zone("Etc/GMT+2");
    charge(&strict().redis(&url).prefix("by:date").build().unwrap(), &quota, &[Key::of("alice")]);
    let by_date = rules(&["--prefix", "by:date"]);
    let row = &by_date["rules"][0];
    assert_eq!(row["windows_seconds"], serde_json::json!([31.0 * 86_400.0, 60.0]));
    assert_eq!(row["calendar"], serde_json::json!(["month@Etc/GMT+2", null]));
    let rule = ["report", "--url", &url, "--prefix", "by:date", "--limits", "9/month,5/1m"];
    let rule = [&rule[..], &["--algorithm", "fixed_window", "--zone", "etc/gmt+2"]].concat();
    let listed = says(&[&["list"], &rule[..]].concat());
    assert!(listed.contains("<alice>") && listed.ends_with("1 key of report\n"), "{listed}");
    says(&[&["reset"], &rule[..1], &["alice"], &rule[1..]].concat());
    let none = says(&[&["list"], &rule[..]].concat());
    assert!(none.starts_with("no keys of report are stored") && none.contains("zone (Etc/GMT+2)"), "{none}");
    charge(&strict().redis(&url).prefix("by:date").build().unwrap(), &quota, &[Key::of("alice")]);

    let printed = says(&["rules", "--url", &url]);
    assert!(printed.contains("report           fixed_window month@Etc/GMT+2 + 1m"), "{printed}");
    assert!(printed.contains("leaky_bucket     leaky_bucket 1m") && printed.ends_with("\n7 rules\n"), "{printed}");
    assert!(
        printed.contains("log:in {1}       sliding_window 1s 500ms + 1day     3 keys, --prefix shop:prod\n"),
        "{printed}"
    );

    let transactions = RedisStore::new(&url).unwrap().mode(RedisMode::Transactions);
    let without_scripts = strict().store(transactions).prefix("plain").build().unwrap();
    let counter = Rule::new("counter", Limit::per_minute(5)).with_algorithm(Algorithm::FixedWindow);
    charge(&without_scripts, &counter, &[Key::of("alice")]);
    let of_plain = rules(&["--prefix", "plain", "--no-scripts"]);
    assert_eq!(
        (&of_plain["rules"][0]["rule"], &of_plain["rules"][0]["keys"]),
        (&"counter".into(), &1.into()),
        "{of_plain}"
    );
}

#[test]
fn a_quota_by_the_calendar_says_when_it_ends() {
    let server = RedisServer::start();
    let url = server.url();
    let quota = Rule::named("report", "2/month".parse().unwrap());
    let quota = quota.with_algorithm(Algorithm::FixedWindow).with_zone("Etc/GMT+2");
    charge(&strict().redis(&url).build().unwrap(), &quota, &[Key::of("alice")]);
    let of = |command| {
        let flags = ["--limits", "2/month", "--algorithm", "fixed_window", "--zone", "Etc/GMT+2", "--url", &url];
        [&[command, "report", "alice"], &flags[..]].concat()
    };
    let peeked = says(&of("peek"));
    assert!(peeked.starts_with("report <alice>: 1 of 2 left until 1 "), "{peeked}");
    assert!(peeked.ends_with(" 00:00 Etc/GMT+2\n"), "{peeked}");
    let ends = json(&of("peek"))["window_ends"].as_str().unwrap().to_owned();
    assert!(ends.ends_with("-01T02:00:00Z"), "midnight two hours west of Greenwich: {ends}");
    charge(&strict().redis(&url).build().unwrap(), &quota, &[Key::of("alice")]);
    assert!(says(&of("peek")).ends_with(" 00:00 Etc/GMT+2, refused\n"));
}

/// Who has calls in flight, whether keys are hidden or not.
#[test]
fn it_lists_calls_in_flight() {
    let server = RedisServer::start();
    let url = server.url();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let limiter = strict().redis(&url).prefix("shop").build().unwrap();
    let [export, other] =
        ["export: all", "export"].map(|name| Rule::named(name, Limit::per_hour(9)).with_concurrent(3));
    let enter = async |rule: &Rule, user: &str| limiter.enter(rule, &Key::of(user)).await.unwrap();
    let permits = runtime.block_on(async {
        vec![
            enter(&export, "alice").await,
            enter(&export, "alice").await,
            enter(&export, "bob").await,
            enter(&other, "eve").await,
        ]
    });
    let of_shop = ["in-flight", "export: all", "--url", &url, "--prefix", "shop"];
    let listed = json(&of_shop);
    let keys = serde_json::json!([{"key": "<alice>", "in_flight": 2}, {"key": "<bob>", "in_flight": 1}]);
    assert_eq!(listed, serde_json::json!({"rule": "export: all", "keys": keys, "complete": true}));
    assert_eq!(says(&of_shop), "<alice>  2 in flight\n<bob>    1 in flight\n2 keys of export: all\n");
    assert!(says(&[&of_shop[..], &["--max-keys", "1"]].concat()).contains("and there are more"));
    assert!(says(&["in-flight", "export: all", "--url", &url]).starts_with("no calls of export: all are in flight"));
    runtime.block_on(async {
        drop(permits);
        while limiter.in_flight(&export, &Key::of("alice")).await.unwrap() > 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    });
}

#[test]
fn it_lists_the_rules_of_all_masters_of_a_cluster() {
    let cluster = RedisCluster::start(3, 0);
    let limiter = strict().redis(&cluster.url()).build().unwrap();
    let keys: Vec<_> = (0..30).map(|user| Key::of(&user)).collect();
    charge(&limiter, &Rule::new("api", Limit::per_hour(5)), &keys);
    let listed = json(&["rules", "--url", &cluster.url()]);
    assert_eq!((&listed["rules"][0]["rule"], &listed["rules"][0]["keys"]), (&"api".into(), &30.into()), "{listed}");
}

/// What a policy says of a single key is what an operator sees of it.
#[test]
fn a_file_of_policies_may_override_single_keys() {
    let server = RedisServer::start();
    let url = server.url();
    let text = "[api]\nlimits = \"5/1m\"\nshadow = true\noverrides.\"<acme>\" = 50\n";
    let file = std::env::temp_dir().join(format!("{}.toml", unique("overrides")));
    fs::write(&file, text).unwrap();
    let flags = ["--url", &url, "--policies", file.to_str().unwrap()];
    let limit = |key: &str| json(&[&["peek", "api", key], &flags[..]].concat())["limit"].clone();
    assert_eq!((limit("acme"), limit("bob")), (50.into(), 5.into()));
    assert_eq!(
        json(&[&["block", "api", "acme", "--for", "1m", "--new"], &flags[..]].concat())["after"]["state"],
        "blocked"
    );
    fs::remove_file(file).unwrap();
}
