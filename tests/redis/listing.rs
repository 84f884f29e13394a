//! Lists of keys: bounded pages of a server of any size, also across lost connections.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use ratelimit_runtime::store::{Request, StoreErrorKind};
use ratelimit_runtime::{Algorithm, Key, Limit, MemoryStore, RateLimitError, Rule, Store};

use crate::support::listing::{charge, rest};
use crate::support::proxy::Proxy;
use crate::support::redis::RedisServer;
use crate::support::strict;

static RULE: Rule = Rule::new("login", Limit::per_hour(5));

#[tokio::test]
async fn a_page_is_a_bounded_part_of_the_server() {
    let server = RedisServer::start();
    let with = |prefix| {
        strict()
            .redis(&server.url())
            .prefix(prefix)
            .build()
            .unwrap()
    };
    let limiter = with(r"a*[b?]\c");
    let expected = charge(&limiter, &RULE, 3_000).await;
    charge(&with("a+(b-)/c"), &RULE, 3_001).await;
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
    assert!(
        calls("scan").starts_with(&format!("calls={pages},")),
        "{}",
        calls("scan")
    );
    assert_eq!(calls("keys"), "");
}

#[tokio::test]
async fn a_list_goes_on_where_its_connection_was_lost() {
    let server = RedisServer::start();
    let proxy = Proxy::start(server.port()).await;
    let limiter = strict().redis(&proxy.url()).build().unwrap();
    let expected = charge(&limiter, &RULE, 1_000).await;
    let mut keys = limiter.keys(&RULE);
    let mut listed: BTreeSet<Key> = keys
        .next_page()
        .await
        .unwrap()
        .unwrap()
        .into_iter()
        .collect();
    proxy.cut_replies(1);
    let error = keys.next_page().await.unwrap_err();
    assert!(matches!(error, RateLimitError::Unavailable(_)), "{error}");
    listed.extend(rest(&mut keys).await);
    assert!(listed == expected, "{} of {}", listed.len(), expected.len());
}

#[tokio::test]
async fn a_cursor_that_no_list_gave_is_an_error() {
    let (server, memory) = (RedisServer::start(), MemoryStore::new());
    let redis = server.store();
    let (redis, memory): (&dyn Store, &dyn Store) = (&redis, &memory);
    let limits = [Limit::per_hour(5)];
    let request = Request::new(b"rl1:", Algorithm::SlidingWindow, &limits);
    for (store, cursor) in [
        (redis, &b"seven"[..]),
        (redis, b""),
        (redis, b"7|6379 of_a_cluster"),
        (memory, b"seven"),
        (memory, b"1000000"),
    ] {
        let error = store
            .keys(request, Some(cursor.to_vec()))
            .await
            .unwrap_err();
        assert_eq!(error.kind(), StoreErrorKind::Misconfigured, "{error}");
        assert!(
            error.to_string().contains("begin with the first page"),
            "{error}"
        );
    }
}

/// Keys of other programs beside those of a rule are not listed.
#[tokio::test]
async fn what_no_key_can_be_is_left_out() {
    let server = RedisServer::start();
    let limiter = strict().redis(&server.url()).build().unwrap();
    let _ = limiter.acquire(&RULE, &Key::of("alice")).await.unwrap();
    for foreign in [&b"{tag}"[..], b"<open", b"\xff", b"<a>%plain", b"<a>\n"] {
        server.cli(&[
            b"SET",
            &[b"rl1:sw-3600s:login:", foreign].concat()[..],
            b"x",
        ]);
    }
    assert_eq!(
        rest(&mut limiter.keys(&RULE)).await,
        BTreeSet::from([Key::of("alice")])
    );
}

#[tokio::test]
async fn a_user_without_scan_and_a_silent_server_are_errors() {
    let server = RedisServer::start_with(&["--user", "shop", "on", ">pw", "~*", "+@all", "-scan"]);
    let url = format!("redis://shop:pw@{}/", server.address());
    let limiter = strict()
        .timeout(Duration::from_millis(200))
        .redis(&url)
        .build()
        .unwrap();
    limiter.ready().await.unwrap();
    let error = limiter.keys(&RULE).next_page().await.unwrap_err();
    assert!(
        matches!(&error, RateLimitError::Misconfigured(_)) && error.to_string().contains("'scan'"),
        "{error}"
    );

    server.cli(&["ACL", "SETUSER", "shop", "+scan"]);
    assert_eq!(
        limiter.keys(&RULE).next_page().await.unwrap(),
        Some(Vec::new())
    );
    server.freeze();
    let asked = Instant::now();
    let error = limiter.keys(&RULE).next_page().await.unwrap_err();
    assert!(matches!(&error, RateLimitError::Unavailable(_)), "{error}");
    assert!(
        asked.elapsed() < Duration::from_secs(2),
        "{:?}",
        asked.elapsed()
    );
    server.thaw();
}
