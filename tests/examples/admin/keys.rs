//! One key: what an operator is shown of it, frees and blocks.

use super::*;

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
        "eve\u{34f}\u{3164}\u{fe0f}",
    ];
    bench.charge_hourly("login", &users);
    let shown = [
        r"<bob\u{9b}2J\u{202e}\u{200b}moc>",
        "<Zoë \"d'Arc\">",
        r"<DOMAIN\user>",
        r"<eve\u{34f}\u{3164}\u{fe0f}>",
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
    assert!(fails(2, &block("10M")).contains("write `10m` or `10months`"));
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

/// A client chooses the text: an operator can free and block what is listed.
#[test]
fn a_text_that_reads_as_a_network_is_a_key_once_it_is_counted() {
    let bench = Bench::hourly();
    bench.charge_hourly("login", &["203.0.113.0/24"]);
    let on = |command, more: &[&str]| {
        let args = [&[command, "login", "<203.0.113.0/24>"], more].concat();
        bench.json(&args)
    };
    assert_eq!(on("peek", &[])["remaining"], 4);
    let blocked = on("block", &["--for", "1h"]);
    assert_eq!(blocked["after"]["state"], "blocked");
    assert_eq!(on("unblock", &[])["changed"], true);
    assert_eq!(on("reset", &[])["changed"], true);
}

/// The list of keys serves to complete the name of the rule, which may be complete.
#[test]
fn a_user_who_may_not_list_keys_resets_one() {
    let bench = Bench::hourly();
    bench.charge_hourly("login", &["alice"]);
    let user = [
        "ACL", "SETUSER", "support", "on", ">pw", "~*", "+@all", "-scan",
    ];
    bench.server.cli(&user);
    let url = format!("redis://support:pw@{}/", bench.server.address());
    let on = |command, more: &[&'static str]| {
        let args = [&[command, "login", "alice", "--limits", "5/1h"], more].concat();
        [&args[..], &["--url", &url]].concat()
    };
    assert_eq!(json(&on("reset", &[]))["changed"], true);
    assert_eq!(json(&on("unblock", &[]))["changed"], false);
    // A misspelt name would be blocked in vain.
    assert!(fails(2, &on("block", &["--for", "1h"])).contains("'scan'"));
}

/// The keys of another master cannot be listed then.
#[test]
fn a_key_is_reset_while_another_master_of_its_cluster_is_away() {
    let each_for_itself = ["--cluster-require-full-coverage", "no"];
    let mut cluster = RedisCluster::start_with(3, 0, &each_for_itself);
    let is_on = |user: &&u32, master| {
        let stored = format!("rl1:sw-3600s:login:<{user}>");
        cluster.owner_of_key(stored.as_bytes()) == master
    };
    let [near, away] = [1, 0].map(|master| (0..1_000).find(|user| is_on(&user, master)).unwrap());
    let rule = Rule::new("login", Limit::per_hour(5));
    let keys = [near, away].map(|user| Key::of(&user));
    charge(strict().redis(&cluster.url()), &rule, &keys);
    cluster.kill(0);
    let url = cluster.url();
    let on = |user: u32| {
        let user = user.to_string();
        let reset = ["reset", "login", &user, "--limits", "5/1h"];
        admin(&[&reset[..], &["--timeout", "2s", "--url", &url]].concat())
    };
    let said = on(near);
    assert!(said.status.success(), "{said:?}");
    assert_eq!(on(away).status.code(), Some(1), "it cannot be asked");
}

#[test]
fn a_user_who_may_not_read_rules_is_told_which_keys_there_are() {
    let bench = Bench::hourly();
    bench.charge_hourly("login", &["alice"]);
    let user = [
        "ACL", "SETUSER", "support", "on", ">pw", "~*", "+@all", "-hgetall",
    ];
    bench.server.cli(&user);
    let url = format!("redis://support:pw@{}/", bench.server.address());
    let block = ["block", "lagin", "alice", "--limits", "5/1h", "--for", "1h"];
    let said = fails(2, &[&block[..], &["--url", &url]].concat());
    assert!(
        said.contains("keys of login") && said.contains("--new"),
        "{said}"
    );
}

/// The server is gone after the change, before it is asked what is left now.
#[tokio::test]
async fn a_change_that_was_made_is_not_said_to_have_failed() {
    let bench = Bench::new(&[]);
    let proxy = Proxy::start(bench.server.port()).await;
    let url = proxy.url();
    let run = |bytes| {
        bench.server.cli(&["DEL", "rl1:sw-3600s:login:<bob>"]);
        proxy.cut_after(bytes);
        let block = ["block", "login", "bob", "--limits", "5/1h", "--for", "1h"];
        let output = admin(&[&block[..], &["--new", "--timeout", "300ms", "--url", &url]].concat());
        let is_blocked = !bench.server.cli(&["KEYS", "*bob*"]).is_empty();
        (is_blocked, output)
    };
    let (is_blocked, output) = run(None); // the scripts are loaded
    assert!(is_blocked && output.status.success(), "{output:?}");
    // The fewest bytes with which the change arrives.
    let (mut few, mut enough) = (0, 1 << 18);
    while few + 1 < enough {
        let bytes = usize::midpoint(few, enough);
        if run(Some(bytes)).0 {
            enough = bytes;
        } else {
            few = bytes;
        }
    }
    let (is_blocked, output) = run(Some(enough));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(is_blocked && output.status.code() == Some(1), "{output:?}");
    assert!(said.contains("may have been made or not"), "{said}");
}

#[test]
fn a_block_that_finds_no_memory_is_said_to_be_none() {
    let bench = Bench::hourly();
    bench.charge_hourly("login", &["alice"]);
    bench.server.cli(&["CONFIG", "SET", "maxmemory", "1"]);
    let said = fails(1, &bench.with(&["block", "login", "alice", "--for", "1h"]));
    assert!(
        said.contains("nothing was changed: ") && said.contains("out of memory"),
        "{said}"
    );
    bench.server.cli(&["CONFIG", "SET", "maxmemory", "0"]);
    assert_eq!(bench.json(&["peek", "login", "alice"])["state"], "allowed");
}
