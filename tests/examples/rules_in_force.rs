//! `ratelimit-admin` with the rules that a service has written to its Redis: nobody types limits.

use std::time::{Duration, Instant};

use ratelimit_runtime::{
    Algorithm, Key, KeyKind, KeyPart, Limit, Policy, RateLimitError, RateLimiter,
    RateLimiterBuilder, Rule, rate_limit,
};
use serde_json::{Value, json};

use super::File;
use super::admin::{admin, fails, json, says, says_in_part};
use super::support::cluster::RedisCluster;
use super::support::redis::RedisServer;
use super::support::strict;

/// A rule whose type hides what it is.
#[derive(KeyPart)]
struct Tenant(u64);

#[rate_limit(
    name = "shop.Mailer.send",
    key = "<to>",
    window = "1m",
    max = 3,
    block = "10m",
    limiter = limiter
)]
async fn send(limiter: &RateLimiter, to: &str) -> Result<(), RateLimitError> {
    Ok(())
}

#[rate_limit(name = "log in", key = "ip:<ip>", window = "1h", max = 5, limiter = limiter)]
async fn log_in(limiter: &RateLimiter, ip: std::net::IpAddr) -> Result<(), RateLimitError> {
    Ok(())
}

#[rate_limit(name = "report", key = "<tenant>", policy = "report", limiter = limiter)]
async fn report(limiter: &RateLimiter, tenant: Tenant) -> Result<(), RateLimitError> {
    Ok(())
}

#[rate_limit(name = "search", key = "<tenant>/<user>", window = "1h", max = 9, limiter = limiter)]
async fn search(limiter: &RateLimiter, tenant: u32, user: &str) -> Result<(), RateLimitError> {
    Ok(())
}

#[rate_limit(name = "quota", key = "<user>", window = "1h", max = most, limiter = limiter)]
async fn quota(limiter: &RateLimiter, user: &str, most: u32) -> Result<(), RateLimitError> {
    Ok(())
}

#[rate_limit(name = "ping", window = "1h", max = 5, limiter = limiter)]
async fn ping(limiter: &RateLimiter) -> Result<(), RateLimitError> {
    Ok(())
}

#[rate_limit(name = "export", key = "<user>", concurrent = 2, limiter = limiter)]
async fn export(limiter: &RateLimiter, user: &str) -> Result<(), RateLimitError> {
    Ok(())
}

#[rate_limit(
    name = "invite",
    key = "<email.trim().to_lowercase()>",
    window = "1h",
    max = 5,
    limiter = limiter
)]
async fn invite(limiter: &RateLimiter, email: &str) -> Result<(), RateLimitError> {
    Ok(())
}

#[rate_limit(name = "browse", key = "<user>", window = "1h", max = 1, limiter = limiter, shadow)]
async fn browse(limiter: &RateLimiter, user: &str) -> Result<(), RateLimitError> {
    Ok(())
}

/// A server on which a service has used its rules.
struct Desk {
    server: RedisServer,
    url: String,
}

/// Waits on the runtime that writes the rules, a second or two after they were met.
async fn written(are_all: impl Fn() -> bool) {
    let start = Instant::now();
    while !are_all() {
        assert!(
            start.elapsed() < Duration::from_secs(20),
            "all rules are written"
        );
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

impl Desk {
    fn new(work: impl AsyncFnOnce(&RateLimiter)) -> Self {
        Self::of(strict(), work)
    }

    fn of(settings: RateLimiterBuilder, work: impl AsyncFnOnce(&RateLimiter)) -> Self {
        super::admin_program();
        let server = RedisServer::start();
        let url = server.url();
        let policy = Policy::new(Limit::per_hour(10)).with_algorithm(Algorithm::FixedWindow);
        let limiter = settings.redis(&url).prefix("shop:prod");
        let limiter = limiter.policy("report", policy).build().unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        runtime.unwrap().block_on(async {
            work(&limiter).await;
            let all = limiter.rules().len().to_string();
            written(|| server.cli(&["HLEN", "shop:prod:rl1:rules"]) == all).await;
        });
        Self { server, url }
    }

    /// The service has used all rules.
    fn busy() -> Self {
        Self::new(async |limiter| {
            for _ in 0..4 {
                let _ = send(limiter, "alice@example.com").await;
            }
            send(limiter, "bob@example.com").await.unwrap();
            log_in(limiter, "192.0.2.1".parse().unwrap()).await.unwrap();
            for _ in 0..11 {
                let _ = report(limiter, Tenant(7)).await;
            }
            search(limiter, 7, "alice@example.com").await.unwrap();
            quota(limiter, "alice@example.com", 2).await.unwrap();
            ping(limiter).await.unwrap();
            export(limiter, "alice@example.com").await.unwrap();
        })
    }

    fn with<'a>(&'a self, args: &[&'a str]) -> Vec<&'a str> {
        [args, &["--url", &self.url, "--prefix", "shop:prod"]].concat()
    }

    fn says(&self, args: &[&str]) -> String {
        says(&self.with(args))
    }

    fn json(&self, args: &[&str]) -> Value {
        json(&self.with(args))
    }

    fn fails(&self, args: &[&str]) -> String {
        fails(2, &self.with(args))
    }

    fn set(&self, field: &str, line: &str) {
        self.server
            .cli(&["HSET", "shop:prod:rl1:rules", field, line]);
    }
}

fn contains_all(printed: &str, parts: &[&str]) {
    for part in parts {
        assert!(printed.contains(part), "{part} in {printed}");
    }
}

#[test]
fn an_operator_types_no_limits_in() {
    let desk = Desk::busy();
    let printed = desk.says(&["rules"]);
    contains_all(
        &printed,
        &[
            "shop.Mailer.send  sliding_window 1m",
            "    3/1m, block 10m, key <to>; written today by ",
            "    10/1h, key <tenant>, policy report; written",
            "    (said by each call)/1h, key <user>; written",
            "    at most 2 in flight, key <user>; written",
            "    5/1h, no key; written",
        ],
    );
    // Without a prefix, the rules of all prefixes.
    let all = json(&["rules", "--url", &desk.url]);
    let of_send = |all: &Value| {
        let rows = all["rules"].as_array().unwrap();
        let row = rows.iter().find(|row| row["rule"] == "shop.Mailer.send");
        row.unwrap()["in_force"][0].clone()
    };
    assert_eq!(of_send(&all), of_send(&desk.json(&["rules"])));
    assert_eq!(of_send(&all)["limits"], json!(["3/1m"]));

    let alice = "alice@example.com";
    // The last part of the name is enough.
    for name in ["shop.Mailer.send", "send"] {
        let standing = desk.json(&["peek", name, alice]);
        assert_eq!(
            (&standing["rule"], &standing["state"], &standing["limit"]),
            (&json!("shop.Mailer.send"), &json!("blocked"), &json!(3))
        );
    }
    let listing = desk.json(&["list", "report"]);
    assert_eq!(listing["keys"][0]["state"], "refused", "{listing}");
    assert_eq!(desk.json(&["unblock", "send", alice])["changed"], true);
    assert_eq!(desk.json(&["reset", "send", alice])["changed"], true);
    let block = ["block", "send", "carol@example.com", "--for", "1h"];
    assert_eq!(desk.json(&block)["after"]["state"], "blocked");
    contains_all(
        &desk.says(&["peek", "quota", alice]),
        &["quota <alice@example.com>: 1 used (each call says its `max`) in 1h, all of them in 59m"],
    );
    // What is typed in wins.
    let typed = desk.json(&["peek", "send", alice, "--limits", "9/1m"]);
    assert_eq!(
        (&typed["rule"], &typed["limit"]),
        (&json!("send"), &json!(9))
    );
}

#[test]
fn find_shows_a_value_under_each_rule_and_says_which_it_leaves_out() {
    let desk = Desk::busy();
    let printed = desk.says(&["find", "alice@example.com"]);
    contains_all(
        &printed,
        &[
            "shop.Mailer.send <alice@example.com>: 0 of 3 left in 1m, blocked, admitted in ",
            "quota <alice@example.com>: 1 used (each call says its `max`) in 1h",
            "export <alice@example.com>: 0 of 2 in flight\n",
            "3 rules\nleft out:\n",
            "  log in: its key ip:<ip> takes an IP address\n",
            "  ping: it has no key: all callers share one bucket\n",
            "  report (policy report): its key <tenant> takes a whole number\n",
            "  search: its key has 2 values, <tenant>/<user>: `ratelimit-admin list` has \
             its keys\n",
        ],
    );
    contains_all(
        &desk.says(&["find", "192.0.2.1"]),
        &["log in ip:<192.0.2.1>: 1 used, 4 of 5 left in 1h"],
    );
    contains_all(
        &desk.says(&["find", "7"]),
        &[
            "report <7>: 10 used, 0 of 10 left in 1h, refused for ",
            "; policy report\n",
        ],
    );
    // Overrides are known to the file alone.
    let policies = r#"
        [report]
        limits = "10/1h"
        algorithm = "fixed_window"
        overrides = { "<7>" = 100 }
    "#;
    let file = File::new("policies.toml", policies);
    let found = desk.json(&["find", "7", "--policies", file.path()]);
    let rules = found["rules"].as_array().unwrap();
    let row = rules.iter().find(|row| row["rule"] == "report").unwrap();
    assert_eq!(
        (
            &row["limits"]["limit"],
            &row["limits"]["remaining"],
            &row["policy"]
        ),
        (&json!(100), &json!(90), &json!("report"))
    );
    let empty = File::new("empty.toml", "other = \"1/1h\"");
    contains_all(
        &desk.says(&["find", "7", "--policies", empty.path()]),
        &["  report (policy report): the file has no policy report"],
    );
}

#[test]
fn top_lists_what_is_refused_now_and_says_when_it_was_cut() {
    let desk = Desk::busy();
    let top = desk.json(&["top"]);
    let calls = desk.server.cli(&["INFO", "commandstats"]);
    contains_all(&calls, &["cmdstat_scan:calls=1,"]);
    let keys: Vec<_> = top["keys"].as_array().unwrap().iter().collect();
    let of: Vec<_> = keys
        .iter()
        .map(|key| (&key["key"], &key["state"]))
        .collect();
    assert_eq!(
        of,
        [
            (&json!("<7>"), &json!("refused")),
            (&json!("<alice@example.com>"), &json!("blocked"))
        ],
        "those that wait longest come first: {top}"
    );
    assert_eq!(
        (&top["complete"], &top["looked_at"]),
        (&json!(true), &json!(6))
    );
    let of_send = desk.says(&["top", "send"]);
    contains_all(
        &of_send,
        &[
            "shop.Mailer.send <alice@example.com>: 0 of 3 left in 1m, blocked, admitted in ",
            "\n1 of 2 keys are refused or blocked now\n",
        ],
    );
    assert!(!of_send.contains("report"));
    contains_all(
        &desk.says(&["top", "--max-keys", "1"]),
        &[
            " of 1 keys are",
            "and there are more keys, which were not looked at",
        ],
    );
    desk.json(&["block", "send", "bob", "--for", "7d"]);
    assert_eq!(desk.json(&["top"])["keys"][0]["key"], "<bob>");
}

/// What a key is typed as is a key of the rule, or an error.
#[test]
fn a_refusal_in_shadow_mode_is_told_from_one_that_stops_calls() {
    let desk = Desk::new(async |limiter| {
        browse(limiter, "alice").await.unwrap();
        browse(limiter, "alice").await.unwrap();
        ping(limiter).await.unwrap();
    });
    let refused = "0 of 1 left in 1h, refused for ";
    let (runs, is_shadow) = (", but in shadow mode: its calls run", json!(true));
    for command in [
        &["top"][..],
        &["find", "alice"],
        &["peek", "browse", "alice"],
        &["list", "browse"],
    ] {
        contains_all(&desk.says(command), &[refused, runs]);
    }
    assert_eq!(desk.json(&["top"])["keys"][0]["shadow"], is_shadow);
    let found = desk.json(&["find", "alice"]);
    assert_eq!(found["rules"][0]["limits"]["shadow"], is_shadow);
    let rules = desk.says(&["rules"]);
    assert_eq!(rules.matches("in shadow mode").count(), 1, "{rules}");
    assert!(
        !desk.says(&["find", "bob"]).contains(runs),
        "it is admitted"
    );
}

#[test]
fn a_key_is_made_by_the_template_of_its_rule() {
    let desk = Desk::busy();
    for text in ["192.0.2.1", "::ffff:192.0.2.1", "ip:<192.0.2.1>"] {
        let standing = desk.json(&["peek", "log in", text]);
        assert_eq!(
            (&standing["key"], &standing["remaining"]),
            (&json!("ip:<192.0.2.1>"), &json!(4)),
            "{text}"
        );
    }
    for text in ["2001:db8:1:2::9", "2001:db8:1:2::/64"] {
        let block = desk.json(&["block", "log in", text, "--for", "1h"]);
        assert_eq!(block["after"]["key"], "ip:<2001:db8:1:2::/64>", "{text}");
        let found = desk.says(&["find", text]);
        contains_all(
            &found,
            &["log in ip:<2001:db8:1:2::/64>: 0 of 5 left in 1h, blocked, admitted in "],
        );
    }
    assert_eq!(desk.json(&["peek", "report", "007"])["key"], "<7>");
    // As a UUID may be.
    let largest = u128::MAX.to_string();
    let standing = desk.json(&["peek", "report", &largest]);
    assert_eq!(standing["key"], format!("<{largest}>"));
    for (args, said) in [
        (
            &["log in", "bob"][..],
            "log in: its key ip:<ip> takes an IP address",
        ),
        (&["log in", "<192.0.2.1>"], "log in: its key is ip:<ip>"),
        (
            &["log in", "ip:<2001:db8:8::5>"],
            "no call has the key ip:<2001:db8:8::5>: say ip:<2001:db8:8::/64>",
        ),
        (&["report", "<007>"], "no call has the key <007>: say <7>"),
        (&["send", "2001:DB8::7"], "write 2001:db8::7, as types of"),
        (
            &["send", "550E8400E29B41D4A716446655440000"],
            "write 550e8400-e29b-41d4-a716-446655440000, as types of",
        ),
        (
            &["report", "bob"],
            "report: its key <tenant> takes a whole number",
        ),
        (
            &["search", "bob"],
            "search: its key has 2 values, <tenant>/<user>: `ratelimit-admin list` has",
        ),
        (&["search", "<7>"], "search: its key is <tenant>/<user>"),
        (
            &["ping", "bob"],
            "ping: it has no key, all callers share one bucket: say --global",
        ),
        (
            &["ping", "<bob>"],
            "ping: it has no key, all callers share one bucket: say --global",
        ),
        (
            &["send", "--global"],
            "its key is <to>: say it in place of --global",
        ),
    ] {
        for command in [
            &["peek"][..],
            &["block", "--for", "1m"],
            &["reset"],
            &["unblock"],
        ] {
            let words = desk.fails(&[command, args].concat());
            assert!(words.contains(said), "{command:?} {args:?}: {words}");
        }
    }
}

/// Support is told addresses as their owners write them.
#[test]
fn a_text_is_spelt_as_its_placeholder_spells_it() {
    let desk = Desk::new(async |limiter| invite(limiter, "Alice@Example.com").await.unwrap());
    for text in [
        " Alice@Example.com",
        "alice@example.com",
        "<alice@example.com>",
    ] {
        let standing = desk.json(&["peek", "invite", text]);
        assert_eq!(standing["remaining"], 4, "{text}");
    }
    let words = desk.fails(&["block", "invite", "<Alice@example.com>", "--for", "1m"]);
    assert!(words.contains("say <alice@example.com>"), "{words}");
    // A text that is an address is a key as it is.
    let [host, odd] = ["2001:db8:7::5", "100%<>"];
    for (said, key) in [(host, "<2001:db8:7::5>"), (odd, "<100%25%3C%3E>")] {
        let said = if said == odd { key } else { said };
        let blocked = desk.json(&["block", "invite", said, "--for", "1m"]);
        assert_eq!(blocked["after"]["key"], key);
    }
    contains_all(
        &desk.says(&["find", "Alice@Example.com"]),
        &["invite <alice@example.com>: 1 used"],
    );
}

/// Its keys have expired, or Redis has lost them; its limits are said anew.
#[test]
fn a_rule_without_keys_is_blocked_by_its_short_name() {
    let desk = Desk::new(async |limiter| send(limiter, "bob").await.unwrap());
    desk.says(&["reset", "send", "bob"]);
    desk.says(&["block", "send", "bob", "--limits", "3/1m", "--for", "1h"]);
    contains_all(
        &desk.says(&["peek", "send", "bob"]),
        &["0 of 3 left in 1m, blocked"],
    );
}

/// A block leaves nothing, which is not said to be used.
#[test]
fn what_was_used_is_not_said_of_a_blocked_key() {
    let desk = Desk::busy();
    let printed = desk.says(&["block", "quota", "bob@example.com", "--for", "1h"]);
    contains_all(
        &printed,
        &["now:    (each call says its `max`) in 1h, blocked, admitted in 1h"],
    );
    desk.says(&["block", "log in", "192.0.2.1", "--for", "1h"]);
    let printed = desk.says(&["find", "192.0.2.1"]) + &desk.says(&["find", "bob@example.com"]);
    contains_all(
        &printed,
        &[
            "\nlog in ip:<192.0.2.1>: 0 of 5 left in 1h, blocked, admitted in ",
            "\nquota <bob@example.com>: (each call says its `max`) in 1h, blocked, admitted in ",
        ],
    );
}

#[test]
fn what_is_not_seen_is_said() {
    let desk = Desk::busy();
    let hint = "nothing is counted for it; are prefix, secret and --no-scripts those of the \
                service?";
    let overrides = "a key with an override in its policy has another limit";
    let nobody = desk.says(&["find", "nobody@example.com"]);
    assert!(
        nobody.contains(hint) && !nobody.contains(overrides),
        "{nobody}"
    );
    let seven = desk.says(&["find", "7"]);
    assert!(
        seven.contains(overrides) && !seven.contains(hint),
        "{seven}"
    );
    for args in [
        &["top"][..],
        &["list", "report"],
        &["peek", "report", "7"],
        &["reset", "report", "7"],
    ] {
        contains_all(&desk.says(args), &[overrides]);
    }
    for args in [&["top"][..], &["find", "7"]] {
        assert_eq!(desk.json(args)["without_overrides"], true);
    }
    let file = File::new("policies.toml", "report = \"fixed_window 10/1h\"");
    for args in [&["find", "7"][..], &["peek", "report", "7"]] {
        let seven = desk.says(&[args, &["--policies", file.path()]].concat());
        assert!(!seven.contains(overrides), "{seven}");
    }
    let said = desk.says(&["peek", "send", "bob@example.com"]);
    assert!(!said.contains(overrides), "{said}");
    // Keys have other names where no scripts write them.
    for (args, said) in [
        (
            &["top"][..],
            ": no key of a rule is stored; is --no-scripts right?",
        ),
        (
            &["list", "send"],
            "prefix, secret and --no-scripts those of",
        ),
    ] {
        contains_all(&desk.says(&[args, &["--no-scripts"]].concat()), &[said]);
    }
    // What a service with scripts has written there.
    desk.set(
        "bucket",
        r#"{"line":1,"limits":["9/1h"],"algorithm":"token_bucket","key":"<user>",
            "kinds":["text"],"version":"0","day":99999}"#,
    );
    for args in [&["top"][..], &["find", "bob@example.com"]] {
        contains_all(
            &desk.says(&[args, &["--no-scripts"]].concat()),
            &["\n  bucket: the store does not keep limits by `token_bucket`"],
        );
    }
}

#[test]
fn what_cannot_be_known_is_an_error_that_says_what_to_type() {
    let desk = Desk::new(async |limiter| {
        send(limiter, "alice").await.unwrap();
        export(limiter, "alice").await.unwrap();
        let bucket = Rule::new("bucket", Limit::per_hour(5)).with_algorithm(Algorithm::TokenBucket);
        let by_hand = Key::of("alice");
        let _ = limiter.acquire(&bucket, &by_hand).await.unwrap();
        let copy = Rule::new("shop.copy", Limit::per_hour(5)).with_concurrent(2);
        std::mem::forget(limiter.enter(&copy, &by_hand).await.unwrap());
        let rule = Rule::new("plan", Limit::per_hour(5)).with_policy_named("report");
        let _ = limiter.acquire(&rule, &by_hand).await.unwrap();
        let given = Rule::new("given", Limit::per_hour(5));
        let given = given.with_template("<name>", &[KeyKind::Text]);
        let _ = limiter.acquire(&given, &by_hand).await.unwrap();
    });
    for (args, said) in [
        (
            &["peek", "sned", "alice"][..],
            "Services have written shop.Mailer.send, ",
        ),
        (
            &["peek", "sned", "alice"],
            "say --limits (and --algorithm, --zone) as the service does",
        ),
        (
            &["peek", "export", "alice"],
            "it limits only calls in flight: see `ratelimit-admin in-",
        ),
        (
            &["peek", "plan", "alice", "--policy", "gold"],
            "under the policies report: say one",
        ),
        (&["top", "sned"], "`list RULE --limits …` lists the keys"),
        (
            &["peek", "sned", "alice"],
            " and 1 more (see `ratelimit-admin rules`) to Redis",
        ),
        (
            &["in-flight", "given"],
            "given: it limits no calls in flight",
        ),
    ] {
        let words = desk.fails(args);
        assert!(words.contains(said), "{args:?}: {words}");
    }
    assert_eq!(desk.json(&["peek", "plan", "alice"])["limit"], 10);
    for secret in [&[][..], &["--secret", "of another service"]] {
        let in_flight = desk.json(&[&["in-flight", "copy"], secret].concat());
        assert_eq!(
            (&in_flight["rule"], &in_flight["keys"][0]["in_flight"]),
            (&json!("shop.copy"), &json!(1))
        );
    }
    desk.set(
        "plan:gold",
        r#"{"line":1,"limits":["99/1h"],"algorithm":"sliding_window","policy":"gold",
            "version":"0","day":99999}"#,
    );
    desk.set(
        "each",
        r#"{"line":1,"limits":["5/1h"],"algorithm":"token_bucket","max":"most",
            "version":"0","day":99999}"#,
    );
    let words = desk.fails(&["peek", "each", "alice"]);
    assert!(words.contains("each call says its `max`"), "{words}");
    let words = desk.fails(&["peek", "plan", "alice"]);
    assert!(
        words.contains("under the policies gold, report: say one"),
        "{words}"
    );
    let peek = ["peek", "plan", "alice", "--policy", "gold"];
    assert_eq!(desk.json(&peek)["limit"], 99);
    contains_all(
        &desk.says(&["top"]),
        &["  plan (policy gold): each call says its policy\n"],
    );
    contains_all(
        &desk.says(&["find", "alice"]),
        &[
            "given <alice>: 1 used, 4 of 5 left",
            "  bucket: its key is not known: give the rule `with_template`\n",
        ],
    );
    // Redis knows the rule: nothing is spelt wrongly.
    let idle = desk.says(&["in-flight", "export"]);
    assert_eq!(idle.trim_end(), "no calls of export are in flight");
    let nothing = json(&["find", "alice", "--url", &desk.url, "--prefix", "other"]);
    assert_eq!(nothing["rules"], json!([]));
}

/// A block under the key in clear would refuse no call, and leave the customer's address on Redis.
#[test]
fn a_hashed_key_is_not_looked_for_in_clear() {
    let desk = Desk::of(strict().hash_keys("pepper"), async |limiter| {
        for _ in 0..4 {
            let _ = send(limiter, "alice@example.com").await;
        }
        ping(limiter).await.unwrap();
        export(limiter, "alice@example.com").await.unwrap();
    });
    let words = desk.says(&["rules"]);
    contains_all(&words, &["    3/1m, block 10m, key <to>, hashed; written"]);
    let stored = || desk.server.cli(&["KEYS", "*"]).lines().count();
    let before = stored();
    for args in [
        &["block", "send", "bob@example.com", "--for", "1m"][..],
        &["block", "send", "bob@example.com", "--for", "1m", "--new"],
        &[
            "block",
            "send",
            "bob@example.com",
            "--for",
            "1m",
            "--limits",
            "3/1m",
        ],
        &["peek", "send", "alice@example.com"],
        &["reset", "send", "<alice@example.com>"],
        // As long as a digest.
        &["reset", "send", "#a-channel-of-thirty-three-letter"],
    ] {
        let words = desk.fails(args);
        let said = "shop.Mailer.send: its keys are hashed: say the --secret of the service, or the \
                    key as `list` prints it";
        assert!(words.contains(said), "{args:?}: {words}");
    }
    assert_eq!(stored(), before);
    contains_all(
        &desk.says(&["find", "alice@example.com"]),
        &[
            "  export: its keys are hashed: say the --secret of the service\n",
            "  shop.Mailer.send: its keys are hashed: say the --secret of the service",
        ],
    );
    // Without a key there is nothing to hash.
    assert_eq!(desk.json(&["peek", "ping", "--global"])["remaining"], 4);
    let listed = desk.json(&["list", "send"]);
    let digest = listed["keys"][0]["key"].as_str().unwrap();
    let secret = ["--secret", "pepper"];
    for args in [
        &["peek", "send", digest][..],
        &[&["peek", "send", "alice@example.com"][..], &secret].concat(),
    ] {
        assert_eq!(desk.json(args)["state"], "blocked", "{args:?}");
    }
}

/// Whoever may write to Redis may write there what it likes.
#[test]
fn a_line_that_cannot_be_read_is_named_and_steers_no_terminal() {
    let desk = Desk::new(async |limiter| send(limiter, "alice").await.unwrap());
    let day = desk.json(&["rules"])["rules"][0]["in_force"][0]["day"]
        .as_u64()
        .unwrap();
    let line = |name: &str, more: &str, day: u64| {
        let limits = r#"{"line":1,"limits":["5/1h"],"algorithm":"sliding_window","version":"0.9""#;
        let line = format!("{limits},{more}\"day\":{day}}}");
        desk.set(name, &line);
    };
    desk.set("broken", "{\"line\":1,");
    desk.set("newer\u{1b}[2J", "{\"line\":2}");
    let long = "x".repeat(70_000);
    line(&long, "", day);
    let other = format!("shop:prod:rl1:sw-3600s:{long}:<a>");
    desk.server.cli(&["SET", &other, "1"]);
    line(
        "evil",
        "\"key\":\"<\\u001b[2J>\",\"kinds\":[\"text\"],",
        day,
    );
    line(
        "future",
        "\"of_a_later_release\":[1],\"prefetch\":\"100ms\",",
        day,
    );
    line("old", "", day - 36);
    line("aged", "", day - 35);
    desk.server.cli(&["SET", "shop:rl1:rules", "1"]);
    let all = says_in_part(&["rules", "--url", &desk.url]);
    contains_all(
        &all,
        &[
            "under the prefix \"shop\" is left out: ",
            "the rule broken is left out",
            "3/1m, block 10m",
        ],
    );
    let of_shop = says_in_part(&["rules", "--url", &desk.url, "--prefix", "shop"]);
    assert!(!of_shop.contains("Mailer"), "of shop:prod: {of_shop}");
    for args in [&["rules"][..], &["find", "alice"], &["top"]] {
        let printed = says_in_part(&desk.with(args));
        contains_all(
            &printed,
            &[
                "the rule broken is left out: its line is damaged",
                r"the rule newer\u{1b}[2J is left out: a later release wrote it",
            ],
        );
        assert!(
            !printed.contains('\u{1b}') && !printed.contains("old"),
            "{printed}"
        );
    }
    let printed = says_in_part(&desk.with(&["rules"]));
    contains_all(
        &printed,
        &["prefetch 100ms", "35 days ago by 0.9", r"key <\u{1b}[2J>"],
    );
    contains_all(
        &desk.fails(&["peek", "broken", "alice"]),
        &["the rule broken is left out"],
    );
    line(
        "forged",
        "\"key\":\"<x>\\nerror: no\",\"kinds\":[\"text\"],",
        day,
    );
    let words = desk.fails(&["peek", "forged", "--global"]);
    assert_eq!(words.lines().count(), 1, "{words}");
}

#[tokio::test]
async fn what_the_other_masters_have_is_shown_while_one_is_away() {
    super::admin_program();
    let each_for_itself = ["--cluster-require-full-coverage", "no"];
    let mut cluster = RedisCluster::start_with(3, 0, &each_for_itself);
    let url = cluster.url();
    let limiter = strict().redis(&url).build().unwrap();
    let address = |number: u8| std::net::IpAddr::from([192, 0, 2, number]);
    for number in 0..12 {
        log_in(&limiter, address(number)).await.unwrap();
        send(&limiter, &address(number).to_string()).await.unwrap();
    }
    let hash = cluster.owner_of_key(b"rl1:rules");
    written(|| cluster.node(hash).cli(&["HLEN", "rl1:rules"]) == "2").await;
    let away = (hash + 1) % 3;
    let is_lost = |rule: &str, number: u8| {
        let stored = format!("rl1:sw-{rule}<{}>", address(number));
        cluster.owner_of_key(stored.as_bytes()) == away
    };
    let (lost, seen): (Vec<u8>, Vec<u8>) =
        (0..12).partition(|&number| is_lost("3600s:log in:ip:", number));
    let sent = |number: &&u8| !is_lost("60s:shop.Mailer.send:", **number);
    let in_part = address(*lost.iter().find(sent).unwrap()).to_string();
    let blocked = address(seen[0]).to_string();
    let block = ["block", "log in", &blocked, "--for", "1h"];
    assert!(
        admin(&[&block[..], &["--url", &url]].concat())
            .status
            .success()
    );
    let gone = cluster.node(away).address();
    cluster.kill(away);

    let shows = |args: &[&str]| {
        let output = admin(&[args, &["--url", &url, "--timeout", "1s"]].concat());
        let (printed, said) = (output.stdout, String::from_utf8(output.stderr).unwrap());
        assert_eq!(output.status.code(), Some(2), "{args:?}: {said}");
        contains_all(&said, &["master", &gone, "does not answer"]);
        String::from_utf8(printed).unwrap()
    };
    let keys = seen.len();
    contains_all(
        &shows(&["rules"]),
        &[&format!("  {keys} keys"), "key ip:<ip>; written today"],
    );
    contains_all(
        &shows(&["list", "log in"]),
        &[&format!("{keys} keys of log in")],
    );
    contains_all(
        &shows(&["top", "log in"]),
        &["log in ip:<", &format!("1 of {keys} keys are")],
    );
    contains_all(
        &shows(&["find", &in_part]),
        &["shop.Mailer.send <", "left out:", "log in: "],
    );
    let listed: Value = serde_json::from_str(&shows(&["list", "log in", "--json"])).unwrap();
    assert_eq!(listed["complete"], json!(false));
    assert!(
        listed["missing"][0].as_str().unwrap().contains(&gone),
        "{listed}"
    );
}
