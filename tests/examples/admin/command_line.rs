//! Arguments, variables of the environment, help, errors and exit codes.

use std::process::Stdio;

use super::super::support::tls::{Authority, TlsServer};
use super::*;

/// Where no server listens, nor comes to: a port that was free may be another test's by now.
const NOBODY: &str = "127.0.0.1:1";

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
        (vec!["rules", "--prefix", "a b"], "white space"),
        (vec!["find", "alice", "--timeout", "0s"], "between 1ms"),
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

    // They ask no Redis, and refuse its options.
    for subcommand in ["replay", "completions", "man"] {
        for shown in [says(&[subcommand, "--help"]), says(&["man", subcommand])] {
            assert!(!shown.contains("RATELIMIT_"), "{shown}");
            assert!(!shown.contains("json          "), "{shown}");
        }
    }

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
    let nobody = NOBODY;
    fails(
        &format!("redis://:pw@{nobody}/"),
        1,
        &format!("no connection to Redis at {nobody}"),
    );
    fails(&format!("redis+cluster://:pw@{nobody}"), 1, nobody);
    fails(&format!("redis+sentinel://:pw@{nobody}/main"), 1, nobody);

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
            .stdin(Stdio::null())
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
    let nobody = format!("redis://{NOBODY}/");
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

/// As by `2>&1 | head`.
#[test]
fn an_error_that_nobody_reads_has_its_exit_code() {
    let nobody = format!("redis://{NOBODY}/");
    let url = ["rules", "--timeout", "300ms", "--url", &nobody];
    for (code, args) in [(1, &url[..]), (2, &["rules"]), (2, &["replay"])] {
        let mut command = program();
        let command = command.args(args).stderr(Stdio::piped());
        let mut process = command.stdin(Stdio::null()).spawn().unwrap();
        drop(process.stderr.take());
        assert_eq!(process.wait().unwrap().code(), Some(code), "{args:?}");
    }
}

/// As by `--url "$STAGING"` where that is not set: no other Redis is asked in its place.
#[test]
fn a_url_that_is_said_and_empty_is_an_error() {
    let server = RedisServer::start();
    let reset = ["reset", "login", "alice", "--limits", "5/1h"];
    let mut command = program();
    command.args(reset).env("REDIS_URL", server.url());
    // An empty variable counts as unset, as it does for services.
    let output = command.env("RATELIMIT_URL", "").output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let output = command.args(["--url", ""]).output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("--url is empty"), "{said}");
}

/// Redis asks clients of TLS for a certificate unless told otherwise.
#[test]
fn certificates_are_read_from_files() {
    let authority = Authority::new();
    let shown = authority.identity(&["127.0.0.1", "localhost"]);
    let server = TlsServer::start_with(&authority, &shown, &["--tls-auth-clients", "yes"]);
    let client = authority.identity(&["operator"]);
    let ca = File::new("ca.pem", &authority.certificate());
    let cert = File::new("cert.pem", &client.certificate);
    let key = File::new("key.pem", &client.key);
    let url = server.url();
    let rules = ["rules", "--url", &url];
    let trusting = [&rules[..], &["--ca", ca.path()]].concat();
    let whole = [
        &trusting[..],
        &["--cert", cert.path(), "--cert-key", key.path()],
    ]
    .concat();
    assert!(says(&whole).starts_with("no keys of any rule are stored"));

    let unknown = fails(2, &rules);
    assert!(unknown.contains("UnknownIssuer"), "{unknown}");
    let nameless = fails(2, &trusting);
    assert!(nameless.contains("certificate"), "{nameless}");
    let half = fails(2, &[&trusting[..], &["--cert", cert.path()]].concat());
    assert!(half.contains("--cert-key"), "{half}");
    let missing = fails(2, &[&rules[..], &["--ca", "no/such.pem"]].concat());
    assert!(missing.contains("no/such.pem: "), "{missing}");
    let other = fails(2, &[&rules[..], &["--ca", key.path()]].concat());
    assert!(other.contains("key.pem: "), "{other}");
    let plain = fails(
        2,
        &["rules", "--url", "redis://127.0.0.1/", "--ca", ca.path()],
    );
    assert!(plain.contains("certificates are for TLS"), "{plain}");
}
