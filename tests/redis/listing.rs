//! Lists of keys: bounded pages of a server of any size, also across lost connections and fail-overs.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test that cannot go on fails")]

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use ratelimit_runtime::{Algorithm, Key, Keys, Limit, RateLimitError, RateLimiter, RedisStore, Rule};

use super::PATIENCE;
use crate::support::proxy::Proxy;
use crate::support::redis::RedisServer;
use crate::support::sentinel::Sentinels;
use crate::support::strict;

static RULE: Rule = Rule::new("login", Limit::per_hour(5));

/// Charges so many keys to the rule.
async fn charge(limiter: &RateLimiter, rule: &Rule, keys: u32) -> BTreeSet<Key> {
    let keys: BTreeSet<Key> = (0..keys).map(|user| Key::of(&user)).collect();
    for key in &keys {
        let _ = limiter.acquire(rule, key).await.unwrap();
    }
    keys
}

/// The rest of a list, whatever happens meanwhile.
async fn rest(keys: &mut Keys) -> BTreeSet<Key> {
    let (start, mut all) = (Instant::now(), BTreeSet::new());
    loop {
        match keys.next_page().await {
            Ok(Some(page)) => all.extend(page),
            Ok(None) => return all,
            Err(RateLimitError::Unavailable(_)) if start.elapsed() < PATIENCE => {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            Err(error) => panic!("{error}: {:?}", start.elapsed()),
        }
    }
}

#[tokio::test]
async fn a_page_is_a_bounded_part_of_the_server() {
    let server = RedisServer::start();
    let limiter = strict().redis(&server.url()).build().unwrap();
    let expected = charge(&limiter, &RULE, 3_000).await;
    charge(&limiter, &Rule::new("login2", Limit::per_hour(5)), 3_000).await;
    let mut keys = limiter.keys(&RULE);
    let (mut listed, mut pages) = (BTreeSet::new(), 0);
    while let Some(page) = keys.next_page().await.unwrap() {
        assert!(page.len() < 400, "{} keys on one page", page.len());
        pages += 1;
        listed.extend(page);
    }
    assert_eq!(listed, expected);
    assert!((18..=26).contains(&pages), "{pages} pages for 6,000 keys");
    let calls = |command| server.info("commandstats", &format!("cmdstat_{command}"));
    assert!(calls("scan").starts_with(&format!("calls={pages},")), "{}", calls("scan"));
    assert_eq!(calls("keys"), "");
}

#[tokio::test]
async fn a_lost_connection_loses_no_key() {
    let server = RedisServer::start();
    let proxy = Proxy::start(server.port()).await;
    let limiter = strict().redis(&proxy.url()).build().unwrap();
    let expected = charge(&limiter, &RULE, 3_000).await;
    let mut keys = limiter.keys(&RULE);
    let mut listed: BTreeSet<Key> = keys.next_page().await.unwrap().unwrap().into_iter().collect();
    proxy.reset_all();
    listed.extend(rest(&mut keys).await);
    assert_eq!(listed, expected);
}

/// The new master has another order of keys than the old one.
#[tokio::test]
async fn a_fail_over_loses_no_key() {
    let sentinels = Sentinels::start(1);
    let limiter = strict().redis(&sentinels.url()).build().unwrap();
    let expected = charge(&limiter, &RULE, 2_000).await;
    let replicated = || sentinels.servers.iter().all(|server| server.number(&["DBSIZE"]) == 2_000);
    assert!(crate::support::eventually(replicated));
    let mut keys = limiter.keys(&RULE);
    let mut listed: BTreeSet<Key> = keys.next_page().await.unwrap().unwrap().into_iter().collect();
    sentinels.sentinels[0].cli(&["SENTINEL", "FAILOVER", crate::support::sentinel::NAME]);
    sentinels.until_master_is(1);
    let other = Rule::new("other", Limit::per_hour(1_000_000));
    while sentinels.servers[1].number(&["DBSIZE"]) == 2_000 {
        let _ = limiter.acquire(&other, &Key::global()).await;
    }
    listed.extend(rest(&mut keys).await);
    assert_eq!(listed, expected);
    assert_eq!(rest(&mut limiter.keys(&RULE)).await, expected);
}

#[tokio::test]
async fn what_scripts_keep_and_what_plain_commands_keep_are_listed_apart() {
    let server = RedisServer::start();
    let on = |scripts| strict().store(RedisStore::new(&server.url()).unwrap().scripts(scripts)).build().unwrap();
    let (scripts, plain) = (on(true), on(false));
    let window = RULE.clone().with_algorithm(Algorithm::FixedWindow);
    let _ = scripts.acquire(&window, &Key::of("by a script")).await.unwrap();
    let _ = plain.acquire(&window, &Key::of("by commands")).await.unwrap();
    assert_eq!(server.number(&["DBSIZE"]), 2);
    for (limiter, key) in [(&scripts, Key::of("by a script")), (&plain, Key::of("by commands"))] {
        assert_eq!(rest(&mut limiter.keys(&window)).await, BTreeSet::from([key.clone()]));
        assert!(limiter.reset(&window, &key).await.unwrap());
    }
}

/// What others have put beside the keys of a rule is nobody's key.
#[tokio::test]
async fn what_no_key_can_be_is_left_out() {
    let server = RedisServer::start();
    let limiter = strict().redis(&server.url()).build().unwrap();
    let _ = limiter.acquire(&RULE, &Key::of("alice")).await.unwrap();
    for foreign in [&b"{tag}"[..], b"<open", b"\xff", b"<a>%plain", b"<a>\n"] {
        server.cli(&[b"SET", &[b"rl1:sw-3600s:login:", foreign].concat()[..], b"x"]);
    }
    assert_eq!(rest(&mut limiter.keys(&RULE)).await, BTreeSet::from([Key::of("alice")]));
}

#[tokio::test]
async fn who_may_not_scan_and_who_is_not_answered_are_told() {
    let server = RedisServer::start_with(&["--user", "shop", "on", ">pw", "~*", "+@all", "-scan"]);
    let url = format!("redis://shop:pw@{}/", server.address());
    let limiter = strict().timeout(Duration::from_millis(200)).redis(&url).build().unwrap();
    limiter.ready().await.unwrap();
    let error = limiter.keys(&RULE).next_page().await.unwrap_err();
    assert!(matches!(&error, RateLimitError::Misconfigured(_)) && error.to_string().contains("'scan'"), "{error}");

    server.cli(&["ACL", "SETUSER", "shop", "+scan"]);
    assert_eq!(limiter.keys(&RULE).next_page().await.unwrap(), Some(Vec::new()));
    server.freeze();
    let asked = Instant::now();
    let error = limiter.keys(&RULE).next_page().await.unwrap_err();
    assert!(matches!(&error, RateLimitError::Unavailable(_)), "{error}");
    assert!(asked.elapsed() < Duration::from_secs(2), "{:?}", asked.elapsed());
    server.thaw();
}
