//! A reply too many must not answer somebody else's question.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use ratelimit_runtime::__private::Health;
use ratelimit_runtime::store::Request;
use ratelimit_runtime::{Algorithm, Limit, Store as _};

use super::asking::{become_like, connected};
use crate::support::proxy::Proxy;
use crate::support::redis::RedisServer;

/// Keys with a quota each that tells them apart. How many of the answers were right, and how many
/// those of another key, while this was said in between.
async fn wrong_answers(stray: &'static str) -> (u64, u64) {
    let server = RedisServer::start();
    let proxy = Proxy::start(server.port()).await;
    let store = Arc::new(connected(&proxy.url()).await);
    let (right, wrong) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let start = Instant::now();
    let callers = (0..64_u64).map(|caller| {
        let (store, right, wrong) = (Arc::clone(&store), Arc::clone(&right), Arc::clone(&wrong));
        tokio::spawn(async move {
            let key = format!("key {caller}");
            let limits = [Limit::per_hour(1_000 + caller)];
            while start.elapsed() < Duration::from_secs(4) {
                let request = Request::new(key.as_bytes(), Algorithm::SlidingWindow, &limits);
                match store.peek(request).await {
                    Ok(verdict) if verdict.remaining == 1_000 + caller => {
                        right.fetch_add(1, Ordering::Relaxed);
                    }
                    Ok(_) => {
                        wrong.fetch_add(1, Ordering::Relaxed);
                    }
                    Err(_) => tokio::time::sleep(Duration::from_millis(5)).await,
                }
            }
        })
    });
    let callers: Vec<_> = callers.collect();
    tokio::time::sleep(Duration::from_secs(1)).await;
    proxy.say(stray.as_bytes());
    for caller in callers {
        caller.await.unwrap();
    }
    assert!(proxy.has_said());
    assert_eq!(proxy.accepted(), 2, "that connection was ended, and one was made in its place");
    become_like(&store, Health::Up, Duration::from_secs(1)).await;
    (right.load(Ordering::Relaxed), wrong.load(Ordering::Relaxed))
}

#[tokio::test]
async fn what_is_not_a_decision_answers_nobody() {
    for stray in ["+OK\r\n", ":1\r\n", "$-1\r\n", "*2\r\n:1\r\n:2\r\n"] {
        let (right, wrong) = wrong_answers(stray).await;
        assert_eq!(wrong, 0, "{stray:?}");
        assert!(right > 1_000);
    }
}

/// A lone caller is admitted, with 7 left: the call's number, its time, and 7.0.
const LONE: &str = "$20\r\n1234\0\0\0\0\0\0\x1c\x40\0\0\0\0\0\0\x1c\x40\r\n";
/// The same as a table.
const DECISIONS: &str = "*3\r\n:7\r\n:1790000000000000\r\n:7\r\n";

/// It has the number of another call.
#[tokio::test]
async fn a_decision_too_many_answers_nobody() {
    for stray in [LONE, DECISIONS] {
        let (right, wrong) = wrong_answers(stray).await;
        assert_eq!(wrong, 0, "{stray:?}");
        assert!(right > 1_000);
    }
}
