//! What a server says when it does not let a client in is sorted by what would cure it.

use std::time::Duration;

use ratelimit_runtime::store::{Request, StoreErrorKind};
use ratelimit_runtime::{
    Algorithm, Key, Limit, OnUnavailable, RateLimitError, RateLimiter, RedisMode, RedisStore, Rule,
    Store as _,
};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::time::timeout;

use crate::support::cluster::{RedisCluster, lone_node, serve_all_slots};
use crate::support::redis::RedisServer;
use crate::support::sentinel::Sentinels;
use crate::support::until;
use crate::{PATIENCE, acquire};
use ratelimit_runtime::testkit::FakeClock;

static RULE: Rule = Rule::new("refused", Limit::per_hour(10));

/// A server that says the same to every client, and hangs up.
async fn grumpy(says: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!(
        "redis://127.0.0.1:{}/",
        listener.local_addr().unwrap().port()
    );
    tokio::spawn(async move {
        while let Ok((mut client, _)) = listener.accept().await {
            let mut asked = [0; 256];
            let _ = client.read(&mut asked).await;
            let _ = client.write_all(says.as_bytes()).await;
        }
    });
    url
}

/// An unknown error code must not switch limits off.
#[tokio::test]
async fn a_server_in_protected_mode_and_unknown_codes_are_not_answered_by_allow() {
    for says in [
        "-DENIED Redis is running in protected mode because\r\n",
        "-NOVEL what is this\r\n",
    ] {
        let url = grumpy(says).await;
        let limiter = RateLimiter::builder()
            .redis(&url)
            .on_unavailable(OnUnavailable::Allow)
            .build()
            .unwrap();
        let answer = limiter.acquire(&RULE, &Key::global()).await;
        assert!(
            matches!(answer, Err(RateLimitError::Misconfigured(_))),
            "{answer:?}"
        );
    }
}

#[tokio::test]
async fn a_server_that_is_full_is_away() {
    let url = grumpy("-ERR max number of clients reached\r\n").await;
    let limiter = RateLimiter::builder()
        .redis(&url)
        .on_unavailable(OnUnavailable::Allow)
        .build()
        .unwrap();
    assert!(
        limiter
            .acquire(&RULE, &Key::global())
            .await
            .unwrap()
            .is_degraded()
    );
}

/// As Redis 6.2 and 7.0 write them.
const ERRORS: [(StoreErrorKind, &str, &str); 18] = [
    (
        StoreErrorKind::Full,
        "OOM",
        "OOM command not allowed when used memory > 'maxmemory'.",
    ),
    (
        StoreErrorKind::Full,
        "OOM",
        "{script} -OOM command not allowed. ",
    ),
    (
        StoreErrorKind::Unavailable,
        "READONLY",
        "{script} -READONLY You can't write against a replica. ",
    ),
    (
        StoreErrorKind::Full,
        "MISCONF",
        "{script} -MISCONF Redis is configured to save RDB snapshots",
    ),
    (
        StoreErrorKind::Misconfigured,
        "WRONGTYPE",
        "{script} WRONGTYPE Operation against a key ",
    ),
    (
        StoreErrorKind::Misconfigured,
        "the ACL",
        "ERR The user executing the script can't run this command script: 6b",
    ),
    (
        StoreErrorKind::Misconfigured,
        "the ACL",
        "ERR ACL failure in script: User x can't run the 'zadd' command",
    ),
    (
        StoreErrorKind::Misconfigured,
        "lacks",
        "ERR unknown command 'EVALSHA', with args beginning with: 'OOM' 'alice' ",
    ),
    (
        StoreErrorKind::Misconfigured,
        "with_clock",
        "ERR Unknown Redis command called from script script: 6b, on @user_script:36.",
    ),
    (
        StoreErrorKind::Full,
        "NOREPLICAS",
        "NOREPLICAS Not enough good replicas to write.",
    ),
    (
        StoreErrorKind::Unavailable,
        "CLUSTERDOWN",
        "CLUSTERDOWN The cluster is down",
    ),
    (
        StoreErrorKind::Unavailable,
        "BUSY",
        "BUSY Redis is busy running a script. ",
    ),
    (
        StoreErrorKind::Unavailable,
        "LOADING",
        "LOADING Redis is loading the dataset in memory",
    ),
    (
        StoreErrorKind::Unavailable,
        "MASTERDOWN",
        "{script} -MASTERDOWN Link with MASTER is down ",
    ),
    (
        StoreErrorKind::Unavailable,
        "TRYAGAIN",
        "TRYAGAIN Multiple keys request during rehashing of slot",
    ),
    (
        StoreErrorKind::Misconfigured,
        "is no sentinel",
        "ERR unknown command 'SENTINEL', with args: 'alice' ",
    ),
    (
        StoreErrorKind::Misconfigured,
        "is no sentinel",
        "ERR unknown command `SENTINEL`, with args: `alice`, ",
    ),
    (
        StoreErrorKind::Misconfigured,
        "redis-cell",
        "ERR unknown command 'CL.THROTTLE', with args: 'alice' ",
    ),
];

/// What Redis quotes of a command is not repeated.
#[tokio::test]
async fn codes_are_found_inside_the_errors_of_scripts_in_every_version() {
    const IN_SCRIPT: &str =
        "ERR Error running script (call to f_6b1b): @user_script:9: @user_script: 9:";
    for (kind, told, error) in ERRORS {
        let error = error.replace("{script}", IN_SCRIPT);
        // In reply to the login.
        let url = grumpy(format!("-{error}\r\n").leak())
            .await
            .replace("redis://", "redis://:password@");
        let (store, limits) = (RedisStore::new(&url).unwrap(), [Limit::per_hour(1)]);
        let answer = store
            .acquire(Request::new(b"k", Algorithm::SlidingWindow, &limits))
            .await
            .unwrap_err();
        assert!(
            answer.kind() == kind && answer.message().contains(told),
            "{error}: {answer:?}"
        );
        assert!(!format!("{answer:?}").contains("alice"), "{error}");
    }
}

/// What a limiter says that is started on a store, if waiting for it is in vain.
async fn ready(limiter: &RateLimiter) -> Result<(), String> {
    let ready = timeout(PATIENCE, limiter.ready()).await.unwrap();
    ready.map_err(|error| {
        let is_mistake = matches!(error, RateLimitError::Misconfigured(_));
        assert!(is_mistake, "{error:?}");
        error.to_string()
    })
}

fn of_a_shop(url: &str, mode: RedisMode) -> RateLimiter {
    let store = RedisStore::new(url).unwrap().mode(mode);
    let builder = RateLimiter::builder().store(store).prefix("shop");
    builder.build().unwrap()
}

/// A call meets it later, and perhaps on a rare road only.
#[tokio::test]
async fn ready_names_all_that_the_acl_of_the_user_forbids_calls() {
    use RedisMode::{RedisCell, Scripts, Transactions};
    let (server, cluster) = (RedisServer::start(), RedisCluster::start(2, 0));
    let other = ["resetkeys", "~other:*", "~rl1:*"].as_slice();
    let (one, both) = (server.url(), cluster.url());
    for (node, url, mode, rules, told) in [
        (&server, &one, Scripts, other, "~shop:rl1:*: the ACL"),
        (&server, &one, Scripts, &["-evalsha"], "EVALSHA: the ACL"),
        (&server, &one, Scripts, &["-zcard", "-mget"], "MGET ZCARD: "),
        (&server, &one, Scripts, &["-pexpire"], ""),
        (&server, &one, RedisCell, &[], "redis-cell"),
        (&server, &one, Transactions, other, "~shop:rl1:*: the ACL"),
        (&server, &one, Transactions, &["-multi"], "MULTI: the ACL"),
        (
            &server,
            &one,
            Transactions,
            &["-zadd", "-exec"],
            "ZADD EXEC: ",
        ),
        // Each is asked, also about a key of another's slot.
        (
            cluster.node(0),
            &both,
            Scripts,
            other,
            "~shop:rl1:*: the ACL",
        ),
        (
            cluster.node(1),
            &both,
            Scripts,
            other,
            "~shop:rl1:*: the ACL",
        ),
        (
            cluster.node(1),
            &both,
            Transactions,
            &["-bitfield"],
            "BITFIELD",
        ),
    ] {
        let may = |rules: &[&str]| {
            let user = [&["ACL", "SETUSER", "default"], rules].concat();
            assert_eq!(node.cli(&user), "OK");
        };
        may(rules);
        let limiter = of_a_shop(url, mode);
        let said = ready(&limiter).await.err().unwrap_or_default();
        assert!(
            said.contains(told) && said.is_empty() == told.is_empty(),
            "{rules:?}: {said}"
        );
        may(&["~*", "+@all"]);
        if mode != RedisCell {
            until("it is ready", PATIENCE, async || {
                ready(&limiter).await.is_ok()
            })
            .await;
        }
        assert_eq!(node.cli(&["KEYS", "*"]), "");
    }
}

/// What never answers is told at once, and not waited for.
#[tokio::test]
async fn ready_says_that_something_else_is_at_the_address() {
    let html = grumpy("HTTP/1.1 400 Bad Request\r\n\r\n").await;
    let (_, at) = html.split_once("://").unwrap();
    let sentinels = Sentinels::start(1);
    let sentinel = format!("redis://{}", sentinels.hosts());
    let behind = |scheme: &str, name: &str| format!("{scheme}://{at}{name}");
    let long = format!("unix:///tmp/{}", "long".repeat(99));
    let node = lone_node(&[]);
    serve_all_slots(&node);
    for (url, told) in [
        (html.clone(), "does not speak"),
        (behind("redis+cluster", ""), "does not speak"),
        (behind("redis+sentinel", "main"), "does not speak"),
        (long, "SUN_LEN"),
        (sentinel, "redis+sentinel://"),
        (node.url(), "redis+cluster://"),
    ] {
        for mode in [RedisMode::Scripts, RedisMode::Transactions] {
            let said = ready(&of_a_shop(&url, mode)).await.unwrap_err();
            assert!(said.contains(told), "{url}: {said}");
        }
    }
}

/// Nor is something else at that port a reason to wait for long, or to fall over.
#[tokio::test]
async fn what_does_not_speak_redis_is_unavailable() {
    for says in [
        "HTTP/1.1 400 Bad Request\r\n\r\n",
        "",
        "*99999999999\r\n",
        ">1\r\n+hello\r\n",
    ] {
        let store = RedisStore::new(&grumpy(says).await).unwrap();
        let limits = [Limit::per_hour(1)];
        let request = Request::new(b"k", Algorithm::SlidingWindow, &limits);
        let answer = timeout(Duration::from_secs(2), store.acquire(request))
            .await
            .unwrap();
        assert_eq!(
            answer.unwrap_err().kind(),
            StoreErrorKind::Unavailable,
            "{says:?}"
        );
    }
}

/// What a script has written before it may not go on stays. On a connection in use, no more than
/// until the server is asked.
#[tokio::test]
async fn a_user_without_the_command_that_sets_expiries_leaves_no_key() {
    let (server, node) = (RedisServer::start(), lone_node(&[]));
    serve_all_slots(&node);
    let limit = Limit::per_hour(1);
    let misconfigured = async |store: &RedisStore, key: &str| {
        let error = acquire(store, key, limit).await.unwrap_err();
        assert_eq!(error.kind(), StoreErrorKind::Misconfigured, "{error}");
    };
    for (server, scheme, command, own_clock) in [
        (&server, "redis", "pexpireat", false),
        (&server, "redis", "pexpire", true),
        (&node, "redis+cluster", "pexpireat", false),
    ] {
        let may = |words: &[&str]| {
            let user = [&["ACL", "SETUSER", "default"], words].concat();
            assert_eq!(server.cli(&user), "OK");
        };
        let without = format!("-{command}");
        may(&[&without]);
        let mut store = RedisStore::new(&format!("{scheme}://{}/", server.address())).unwrap();
        if own_clock {
            store = store.with_clock(FakeClock::new());
        }
        misconfigured(&store, "key").await;
        assert_eq!(server.cli(&["KEYS", "*"]), "", "{without}, {scheme}");
        // It is corrected without a restart. The user has no other keys.
        may(&["+@all", "resetkeys", "~key"]);
        until("it may", PATIENCE, async || {
            acquire(&store, "key", limit).await.is_ok()
        })
        .await;
        may(&["~*", &without]);
        until("it is asked", PATIENCE, async || {
            misconfigured(&store, "next").await;
            server.cli(&["UNLINK", "next"]) == "0"
        })
        .await;
        may(&["+@all"]);
        assert_eq!(server.cli(&["UNLINK", "key"]), "1");
    }
}
