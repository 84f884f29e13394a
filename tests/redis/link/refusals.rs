//! What a server says when it does not let a client in is sorted by what would cure it.

use std::time::Duration;

use ratelimit_runtime::store::StoreErrorKind;
use ratelimit_runtime::{Key, Limit, OnUnavailable, RateLimitError, RateLimiter, RedisStore, Rule, Store as _};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

static RULE: Rule = Rule::new("refused", Limit::per_hour(10));

/// A server that says the same to every client, and hangs up.
async fn grumpy(says: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("redis://127.0.0.1:{}/", listener.local_addr().unwrap().port());
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
    for says in ["-DENIED Redis is running in protected mode because\r\n", "-NOVEL what is this\r\n"] {
        let url = grumpy(says).await;
        let limiter = RateLimiter::builder().redis(&url).on_unavailable(OnUnavailable::Allow).build().unwrap();
        let answer = limiter.acquire(&RULE, &Key::global()).await;
        assert!(matches!(answer, Err(RateLimitError::Misconfigured(_))), "{answer:?}");
    }
}

#[tokio::test]
async fn a_server_that_is_full_is_away() {
    let url = grumpy("-ERR max number of clients reached\r\n").await;
    let limiter = RateLimiter::builder().redis(&url).on_unavailable(OnUnavailable::Allow).build().unwrap();
    assert!(limiter.acquire(&RULE, &Key::global()).await.unwrap().is_degraded());
}

/// Nor is something else at that port a reason to wait for long, or to fall over.
#[tokio::test]
async fn what_does_not_speak_redis_is_unavailable() {
    for says in ["HTTP/1.1 400 Bad Request\r\n\r\n", "", "*99999999999\r\n", ">1\r\n+hello\r\n"] {
        let store = RedisStore::new(&grumpy(says).await).unwrap();
        let limits = [Limit::per_hour(1)];
        let request =
            ratelimit_runtime::store::Request::new(b"k", ratelimit_runtime::Algorithm::SlidingWindow, &limits);
        let answer = tokio::time::timeout(Duration::from_secs(2), store.acquire(request)).await.unwrap();
        assert_eq!(answer.unwrap_err().kind(), StoreErrorKind::Unavailable, "{says:?}");
    }
}
