//! The rules that limiters write for operators: where, when, and what else they leave alone.

use std::time::Duration;

use super::PATIENCE;
use crate::support::cluster::RedisCluster;
use crate::support::redis::RedisServer;
use crate::support::sentinel::Sentinels;
use crate::support::{strict, until};
use ratelimit_runtime::{
    Key, KeyKind, Limit, Policy, RateLimitError, RateLimiter, RedisMode, Rule, rate_limit,
};
use serde_json::{Value, json};

static LOGIN: Rule = Rule::new("log in:1", Limit::per_minute(5))
    .and(Limit::per_day(50))
    .with_growing_block(Duration::from_secs(60), Duration::from_secs(3600))
    .with_template("<email>", &[KeyKind::Text]);

fn on(url: &str) -> RateLimiter {
    strict().redis(url).prefix("shop").build().unwrap()
}

async fn acquire(limiter: &RateLimiter, rule: &Rule) {
    let _ = limiter.acquire(rule, &Key::of("alice")).await.unwrap();
}

/// The line of a rule, once it is written.
async fn line(server: &RedisServer, field: &str) -> Value {
    let get = || server.cli(&["HGET", "shop:rl1:rules", field]);
    until("it is written", PATIENCE, async || !get().is_empty()).await;
    serde_json::from_str(&get()).unwrap()
}

fn commands(server: &RedisServer, name: &str) -> u64 {
    let stats = server.info("commandstats", &format!("cmdstat_{name}"));
    let calls = stats
        .split(',')
        .find_map(|field| field.strip_prefix("calls="));
    let rejected = stats
        .split(',')
        .find_map(|field| field.strip_prefix("rejected_calls="));
    let number = |text: Option<&str>| text.and_then(|text| text.parse::<u64>().ok()).unwrap_or(0);
    number(calls) + number(rejected)
}

#[tokio::test]
async fn a_rule_is_written_with_all_that_an_operator_asks_for() {
    let server = RedisServer::start();
    let limiter = on(&server.url());
    acquire(&limiter, &LOGIN).await;
    let mut written = line(&server, "log in%3A1").await;
    let day = written["day"].take().as_u64().unwrap();
    assert!(day > 20_000, "{day}");
    assert_eq!(
        written,
        json!({
            "line": 1, "limits": ["5/1m", "50/1d"], "algorithm": "sliding_window",
            "block": "1m..1h", "key": "<email>", "kinds": ["text"],
            "version": env!("CARGO_PKG_VERSION"), "day": null,
        })
    );
    until("it expires", PATIENCE, async || {
        (3_023_000..=3_024_000).contains(&server.number(&["TTL", "shop:rl1:rules"]))
    })
    .await;
    let listed = limiter.keys(&LOGIN).next_page().await.unwrap().unwrap();
    assert_eq!(listed, [Key::of("alice")], "it is no key of the rule");
    assert!(!server.cli(&["HGETALL", "shop:rl1:rules"]).contains("alice"));
}

#[rate_limit(
    name = "send",
    key = "mail/<to>/<tenant.0>",
    window = "1m",
    max = quota,
    limiter = limiter
)]
async fn send(
    limiter: &RateLimiter,
    to: &str,
    tenant: (u64, ()),
    quota: u64,
) -> Result<(), RateLimitError> {
    let _ = (to, tenant);
    Ok(())
}

#[rate_limit(name = "ping", policy = plan, limiter = limiter)]
async fn ping(limiter: &RateLimiter, plan: &str) -> Result<(), RateLimitError> {
    Ok(())
}

#[tokio::test]
async fn an_attribute_says_its_template_and_whether_calls_say_max_or_policy() {
    let server = RedisServer::start();
    let export = Policy::new(Limit::per_hour(10).with_burst(20));
    let export = export.with_algorithm(ratelimit_runtime::Algorithm::TokenBucket);
    let limiter = strict().redis(&server.url()).prefix("shop");
    let limiter = limiter.policy("gold", export).build().unwrap();
    send(&limiter, "alice", (7, ()), 9).await.unwrap();
    ping(&limiter, "gold").await.unwrap();
    let written = line(&server, "send").await;
    assert_eq!(written["key"], "mail/<to>/<tenant.0>");
    assert_eq!(written["kinds"], json!(["text", "number"]));
    assert_eq!(written["max"], "call");
    let written = line(&server, "ping:gold").await;
    for (field, value) in [
        ("limits", json!(["10/1h"])),
        ("burst", json!(20)),
        ("algorithm", json!("token_bucket")),
        ("policy", json!("gold")),
        ("key", json!("")),
    ] {
        assert_eq!(written[field], value, "{field}");
    }
    let rules = limiter.rules();
    let names: Vec<_> = rules.iter().map(|rule| &*rule.name).collect();
    assert_eq!(names, ["ping", "send"]);
    assert!(rules[1].is_max_per_call && rules[0].is_policy_per_call);
}

#[tokio::test]
async fn whether_keys_are_hashed_is_written() {
    let server = RedisServer::start();
    let limiter = strict().redis(&server.url()).prefix("shop");
    let limiter = limiter.hash_keys("pepper").build().unwrap();
    acquire(&limiter, &LOGIN).await;
    assert_eq!(line(&server, "log in%3A1").await["keys"], "hashed");
    assert!(limiter.rules()[0].is_hashed);
}

#[rate_limit(name = "watched", window = "1m", max = 5, limiter = limiter, shadow)]
async fn watched(limiter: &RateLimiter) -> Result<(), RateLimitError> {
    Ok(())
}

#[rate_limit(name = "tried", window = "1m", max = 5, limiter = limiter, shadow = on)]
async fn tried(limiter: &RateLimiter, on: bool) -> Result<(), RateLimitError> {
    Ok(())
}

#[rate_limit(name = "live", policy = "live", limiter = limiter, shadow = on)]
async fn live(limiter: &RateLimiter, on: bool) -> Result<(), RateLimitError> {
    Ok(())
}

/// A policy replaces what each call says.
#[tokio::test]
async fn it_is_written_whether_the_rule_is_in_shadow_mode() {
    let server = RedisServer::start();
    let policy = |on| [("live", Policy::new(Limit::per_minute(5)).with_shadow(on))];
    let [(name, live_policy)] = policy(false);
    let limiter = strict().redis(&server.url()).prefix("shop");
    let limiter = limiter.policy(name, live_policy).build().unwrap();
    watched(&limiter).await.unwrap();
    tried(&limiter, false).await.unwrap();
    live(&limiter, true).await.unwrap();
    let by_hand = Rule::new("hand", Limit::per_minute(5)).with_shadow(true);
    acquire(&limiter, &by_hand).await;
    for (rule, shadow) in [
        ("watched", json!("on")),
        ("tried", json!("call")),
        ("hand", json!("on")),
        ("live", json!(null)),
    ] {
        assert_eq!(line(&server, rule).await["shadow"], shadow, "{rule}");
    }
    limiter.set_policies(policy(true)).unwrap();
    live(&limiter, false).await.unwrap();
    until("it is written anew", PATIENCE, async || {
        line(&server, "live").await["shadow"] == json!("on")
    })
    .await;
    let rules = limiter.rules();
    let shadow = rules.iter().map(|rule| rule.shadow);
    let expected = [Some(true), Some(true), None, Some(true)];
    assert_eq!(shadow.collect::<Vec<_>>(), expected);
}

#[tokio::test]
async fn a_changed_policy_is_written_anew() {
    let server = RedisServer::start();
    let limiter = strict().redis(&server.url()).prefix("shop");
    let limiter = limiter.policy("plan", Policy::new(Limit::per_minute(1)));
    let limiter = limiter.build().unwrap();
    let rule = Rule::new("api", Limit::per_second(1)).with_policy("plan");
    acquire(&limiter, &rule).await;
    assert_eq!(line(&server, "api").await["limits"], json!(["1/1m"]));
    let policy = Policy::new(Limit::per_minute(7)).with_prefetch(Duration::from_millis(100));
    limiter.set_policies([("plan", policy)]).unwrap();
    acquire(&limiter, &rule).await;
    until("it is written anew", PATIENCE, async || {
        line(&server, "api").await["limits"] == json!(["7/1m"])
    })
    .await;
    assert_eq!(line(&server, "api").await["prefetch"], json!("100ms"));
}

#[tokio::test]
async fn it_is_written_by_every_deployment_and_without_scripts() {
    // A growing block takes scripts.
    let rule = Rule::new("api", Limit::per_minute(5));
    let cluster = RedisCluster::start(3, 0);
    let sentinels = Sentinels::start(1);
    let limiter = on(&sentinels.url());
    acquire(&limiter, &rule).await;
    let server = RedisServer::start();
    let store = server.store();
    let store = store.mode(RedisMode::Transactions);
    let without_scripts = strict().store(store).prefix("shop").build().unwrap();
    acquire(&without_scripts, &rule).await;
    let limiter = on(&cluster.url());
    acquire(&limiter, &rule).await;
    let node = cluster.node(cluster.owner_of_key(b"shop:rl1:rules"));
    for server in [node, &sentinels.servers[0], &server] {
        assert_eq!(line(server, "api").await["limits"][0], "5/1m");
    }
}

#[tokio::test]
async fn a_server_that_has_lost_it_is_told_again() {
    let mut server = RedisServer::start();
    let limiter = on(&server.url());
    acquire(&limiter, &LOGIN).await;
    line(&server, "log in%3A1").await;
    server.restart();
    let third = Rule::new("third", Limit::per_hour(5));
    until("it is there again", PATIENCE, async || {
        limiter.acquire(&third, &Key::of("bob")).await.is_ok()
    })
    .await;
    assert_eq!(line(&server, "log in%3A1").await["limits"][0], "5/1m");
}

/// The user may not write it. That costs no call anything, and is tried once a connection.
#[tokio::test]
async fn a_refusal_is_not_repeated_and_does_no_harm() {
    let server = RedisServer::start();
    let limiter = on(&server.url());
    server.cli(&["ACL", "SETUSER", "default", "-hset"]);
    acquire(&limiter, &LOGIN).await;
    until("it is tried", PATIENCE, async || {
        commands(&server, "hset") == 1
    })
    .await;
    // Another change does not make it try again.
    acquire(&limiter, &Rule::new("other", Limit::per_hour(5))).await;
    tokio::time::sleep(Duration::from_millis(2_500)).await;
    assert_eq!(commands(&server, "hset"), 1);
    limiter
        .settled_within(Duration::from_secs(1))
        .await
        .unwrap();
    assert!(limiter.ready().await.is_ok());
    server.cli(&["ACL", "SETUSER", "default", "+hset"]);
    server.cli(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]);
    until("it is there again", PATIENCE, async || {
        limiter.acquire(&LOGIN, &Key::of("bob")).await.is_ok()
    })
    .await;
    acquire(&limiter, &Rule::new("third", Limit::per_hour(5))).await;
    assert_eq!(line(&server, "log in%3A1").await["limits"][0], "5/1m");
}

/// Nor at the death of the process: the two commands are one transaction.
#[tokio::test]
async fn the_hash_is_never_there_without_its_expiry() {
    let server = RedisServer::start();
    let limiter = on(&server.url());
    server.cli(&["ACL", "SETUSER", "default", "-expire"]);
    acquire(&limiter, &LOGIN).await;
    until("it is tried", PATIENCE, async || {
        commands(&server, "expire") == 1
    })
    .await;
    assert_eq!(server.number(&["EXISTS", "shop:rl1:rules"]), 0);
}

#[tokio::test]
async fn a_store_that_is_told_not_to_writes_nothing() {
    let server = RedisServer::start();
    let store = server.store().write_rules(false);
    let limiter = strict().store(store).build().unwrap();
    acquire(&limiter, &LOGIN).await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(server.cli(&["EXISTS", "rl1:rules"]), "0");
    assert_eq!(limiter.rules().len(), 1);
}

/// Names made at run time fill neither the memory nor the server.
#[tokio::test]
async fn there_are_a_thousand_at_most() {
    let limiter = RateLimiter::memory();
    for number in 0..1_100 {
        acquire(
            &limiter,
            &Rule::named(format!("rule {number}"), Limit::per_hour(5)),
        )
        .await;
    }
    assert_eq!(limiter.rules().len(), 1_000);
}

/// The last to begin is shown, and each writes again on the next day.
#[tokio::test]
async fn two_releases_side_by_side_do_not_write_against_each_other() {
    let server = RedisServer::start();
    let (old, new) = (on(&server.url()), on(&server.url()));
    acquire(&old, &Rule::new("api", Limit::per_minute(5))).await;
    assert_eq!(line(&server, "api").await["limits"], json!(["5/1m"]));
    let rule = Rule::new("api", Limit::per_minute(7));
    acquire(&new, &rule).await;
    until("the new one writes", PATIENCE, async || {
        line(&server, "api").await["limits"] == json!(["7/1m"])
    })
    .await;
    acquire(&old, &Rule::new("other", Limit::per_minute(5))).await;
    line(&server, "other").await;
    assert_eq!(line(&server, "api").await["limits"], json!(["7/1m"]));
    assert_eq!(commands(&server, "hset"), 3);
}

#[tokio::test]
async fn a_hash_that_names_made_at_run_time_fill_is_begun_anew() {
    let server = RedisServer::start();
    let fill = "for i = 1, 10001 do redis.call('HSET', KEYS[1], 'rule ' .. i, '{}') end";
    server.cli(&["EVAL", fill, "1", "shop:rl1:rules"]);
    let limiter = on(&server.url());
    acquire(&limiter, &LOGIN).await;
    line(&server, "log in%3A1").await;
    assert_eq!(server.number(&["HLEN", "shop:rl1:rules"]), 1);
}
