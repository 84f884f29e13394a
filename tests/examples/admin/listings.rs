//! Rules, keys and calls in flight, as they are listed.

use super::*;

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

    let plain = strict().store(bench.server.store().mode(RedisMode::Transactions));
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
    let listed = (vec!["<a>"], &json!(1));
    assert_eq!(
        (keys_of(&listing), &listing["keys"][0]["remaining"]),
        listed
    );
    // Keys that were stored without the secret are listed with their own counts.
    let with_secret = ["--no-scripts", "--secret", "secret"];
    let listing = bench.json(&[&list[..], &with_secret].concat());
    assert_eq!(
        (keys_of(&listing), &listing["keys"][0]["remaining"]),
        listed
    );
}

#[test]
fn a_file_of_policies_gives_limits_and_overrides() {
    let bench = Bench::new(&[]);
    let toml = "\u{feff}[api]\nlimits = \"5/1m\"\nshadow = true\noverrides.\"<acme>\" = 50\n";
    // Of calls in flight, which another command counts.
    let json = r#"{ "api": { "limits": "5/1m", "concurrent": 3, "lease": "10s",
        "overrides": { "<acme>": 50 } } }"#;
    for (name, text) in [("policies.toml", toml), ("policies.json", json)] {
        has_limits_and_overrides(&bench, &File::new(name, text));
    }
    // What a service does not take is no answer here.
    let twice = r#"{ "api": "5/1m", "api": "50/1m" }"#;
    for (name, text, why) in [
        ("twice.json", twice, "the policy `api` is defined twice"),
        ("empty.toml", "", "it holds no policy"),
        ("policies", toml, "neither `.toml` nor `.json`"),
    ] {
        let file = File::new(name, text);
        let args = ["peek", "my.api", "7", "--policies", file.path()];
        let said = fails(2, &bench.with(&args));
        assert!(said.contains(name) && said.contains(why), "{said}");
    }
}

fn has_limits_and_overrides(bench: &Bench, file: &File) {
    bench.charge(&Rule::new("my.api", Limit::per_minute(5)), &[Key::of(&7)]);
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
        said.contains("has no `my.api`, only api; say --policy"),
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
    // More prefixes, and more rules of one, than are read.
    let fill = "for at = 1, ARGV[2] do redis.call('HSET', ARGV[1]:gsub('#', at), at, ARGV[3]) end";
    let line = r#"{"line":1,"limits":["1/1h"],"algorithm":"fixed_window","version":"0","day":1}"#;
    bench
        .server
        .cli(&["EVAL", fill, "0", "many:rl1:rules", "10001", line]);
    let output = admin(&bench.with(&["rules", "--prefix", "many", "--json"]));
    let many: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(many["complete"], false, "{many}");
    bench
        .server
        .cli(&["EVAL", fill, "0", "p#:rl1:rules", "101", line]);
    assert_eq!(rules(&["--prefix", "p1"])["complete"], true);
    bench.server.cli(&["DEL", "many:rl1:rules"]);
    assert_eq!(rules(&[])["complete"], false);
}

/// All of these parts are printed, and no control sequence.
fn contains_all(printed: &str, parts: &[&str]) {
    for part in parts {
        assert!(printed.contains(part), "{part} in {printed}");
    }
    assert!(!printed.contains('\u{1b}'), "{printed:?}");
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
