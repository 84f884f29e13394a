//! Users and passwords that are wrong, or become so. A mistake is told as one, whatever the policy.

use std::io;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use ratelimit_runtime::{Key, Limit, OnUnavailable, RateLimitError, RateLimiter, RedisCredentials, RedisStore, Rule};
use tokio::time::sleep;

use crate::harness::{Account, Answered, CALLERS, Load, POLICIES, Row, nothing_is_left_on};
use crate::support::proxy::Proxy;
use crate::support::redis::RedisServer;

/// Attempts to log in go on, with pauses of up to a second.
const RECOVERY: Duration = Duration::from_secs(2);

fn set_user(server: &RedisServer, rules: &[&str]) {
    assert_eq!(server.cli(&[&["ACL", "SETUSER", "limiter", "on"], rules].concat()), "OK");
}

fn server_with_user() -> RedisServer {
    let server = RedisServer::start();
    set_user(&server, &[">right", "~*", "&*", "+@all"]);
    server
}

fn url(server: &RedisServer, password: &str) -> String {
    format!("redis://limiter:{password}@127.0.0.1:{}/", server.port())
}

fn kill_connections(server: &RedisServer) {
    server.cli(&["CLIENT", "KILL", "USER", "limiter"]);
}

fn assert_told(account: &Account) {
    for policy in POLICIES {
        assert!(account.during(policy, Answered::Misconfigured) > 0, "under `{policy}` nobody is told of the mistake");
        // But for those who were on their way when the connection ended.
        let unchecked = account.during(policy, Answered::Nobody);
        assert!(unchecked <= CALLERS, "under `{policy}` a mistake lets {unchecked} calls through");
    }
}

/// From the start. Every call says so in time, whatever the policy, and once the password is right,
/// limits hold.
pub(crate) async fn wrong_password() -> Row {
    const TIMEOUT: Duration = Duration::from_millis(100);
    let server = server_with_user();
    let rule = Rule::new("wrong", Limit::per_hour(3));
    let (mut calls, mut slowest, mut recovery) = (0, Duration::ZERO, Duration::ZERO);
    let limiters = POLICIES.map(|policy| {
        let builder = RateLimiter::builder().redis(&url(&server, "wrong")).timeout(TIMEOUT);
        builder.prefix(policy.to_string()).on_unavailable(policy).build().unwrap()
    });
    for limiter in &limiters {
        for _ in 0..30 {
            let start = Instant::now();
            let answer = limiter.acquire(&rule, &Key::global()).await;
            slowest = slowest.max(start.elapsed());
            calls += 1;
            assert!(matches!(answer, Err(RateLimitError::Misconfigured(_))), "{answer:?}");
            sleep(Duration::from_millis(10)).await;
        }
    }
    set_user(&server, &["resetpass", ">wrong"]);
    let healed = Instant::now();
    for limiter in &limiters {
        let mut admitted = 0;
        loop {
            match limiter.acquire(&rule, &Key::global()).await {
                Ok(decision) => admitted += usize::from(!decision.is_degraded()),
                Err(RateLimitError::Exceeded(decision)) if decision.is_degraded() => {}
                Err(RateLimitError::Exceeded(_)) => break,
                Err(error) => assert!(healed.elapsed() < RECOVERY, "{error:?}"),
            }
            sleep(Duration::from_millis(2)).await;
        }
        assert!(admitted <= 3, "{admitted} of 3");
        recovery = recovery.max(healed.elapsed());
    }
    drop(limiters);
    Row::new("a wrong password from the start, made right on the server")
        .calls(calls)
        .slowest(slowest, TIMEOUT)
        .admitted("0, then 3 of 3")
        .seen(format!("misconfigured {calls}, under each policy"))
        .recovery(format!("{} ms", recovery.as_millis()))
}

/// Who is logged in stays so. New connections are refused until the password is right again.
pub(crate) async fn password_changed() -> Row {
    let server = server_with_user();
    let mut load = Load::on(&url(&server, "right")).await;
    set_user(&server, &["resetpass", ">other"]);
    load.go_on(Duration::from_millis(300)).await;
    load.fault();
    kill_connections(&server);
    load.go_on(Duration::from_secs(1)).await;
    set_user(&server, &["resetpass", ">right"]);
    load.healed();
    load.recover(RECOVERY).await;
    let account = load.end_with(Account::expect_misconfigured).await;
    assert_told(&account);
    nothing_is_left_on(&server);
    account.row("the password changed and the connections killed, and changed back 1 s later")
}

/// The provider knows the new one: it costs one connection.
pub(crate) async fn password_renewed() -> Row {
    let server = server_with_user();
    let password = Arc::new(Mutex::new("right"));
    let store = || {
        let password = Arc::clone(&password);
        RedisStore::new(&server.url()).unwrap().credentials(move || {
            let password = *password.lock().unwrap();
            async move { Ok::<_, io::Error>(RedisCredentials::new("limiter", password)) }
        })
    };
    let mut load = Load::with(|builder| builder.store(store())).await;
    load.fault();
    *password.lock().unwrap() = "renewed";
    set_user(&server, &["resetpass", ">renewed"]);
    kill_connections(&server);
    load.healed();
    load.recover(Duration::from_secs(1)).await;
    let account = load.end().await;
    nothing_is_left_on(&server);
    account.row("the password changed and the connections killed, where a provider knows the new one")
}

/// An `AUTH` that gets no reply, as servers from Redis 7.2 on may leave one that fails behind
/// another command: here each that is sent from some time on.
pub(crate) async fn renewed_without_a_reply() -> Row {
    let server = server_with_user();
    let proxy = Proxy::start(server.port()).await;
    proxy.leave_unanswered(None);
    let url = format!("{}?protocol=resp2", proxy.url());
    let store = || {
        RedisStore::new(&url).unwrap().credentials(|| async {
            Ok::<_, io::Error>(RedisCredentials::new("limiter", "right").renew_after(Duration::from_secs(2)))
        })
    };
    let mut load = Load::with(|builder| builder.store(store())).await;
    load.fault();
    proxy.leave_unanswered(Some("AUTH"));
    load.go_on(Duration::from_secs(3)).await;
    assert!(proxy.mistreated() > 0, "there were renewals");
    proxy.leave_unanswered(None);
    load.healed();
    load.recover(Duration::from_secs(1)).await;
    let account = load.end().await;
    for policy in POLICIES {
        let unchecked = [Answered::Nobody, Answered::Fallback, Answered::Unavailable, Answered::Misconfigured];
        let answered = unchecked.map(|by| account.during(policy, by)).iter().sum::<usize>();
        assert!(answered <= CALLERS, "under `{policy}`, the store did not answer {answered} calls");
    }
    drop(proxy);
    nothing_is_left_on(&server);
    account.row("credentials renewed 2 s after connecting, and the reply to `AUTH` does not come (RESP2)")
}

async fn forbidden(rules: &[&str], fault: &str, expected: &str) -> Row {
    let server = server_with_user();
    let mut load = Load::on(&url(&server, "right")).await;
    load.fault();
    set_user(&server, rules);
    load.go_on(Duration::from_millis(500)).await;
    set_user(&server, &["~*", "+@all"]);
    load.healed();
    load.recover(Duration::from_secs(1)).await;
    let account = load.end_with(Account::expect_misconfigured).await;
    assert_told(&account);
    let said: Vec<_> = account.of(OnUnavailable::Local).filter_map(|call| call.error.as_deref()).collect();
    assert!(!said.is_empty() && said.iter().all(|error| error.contains(expected)), "{:?}", said.first());
    nothing_is_left_on(&server);
    account.row(fault)
}

pub(crate) async fn scripts_forbidden() -> Row {
    forbidden(&["-evalsha", "-eval"], "an ACL without EVALSHA, for 500 ms", "evalsha").await
}

pub(crate) async fn keys_forbidden() -> Row {
    forbidden(&["resetkeys", "~other:*"], "an ACL without the pattern of the keys, for 500 ms", "pattern").await
}
