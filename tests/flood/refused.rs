//! Floods of callers that are refused: they keep neither the server busy nor their runtime.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use ratelimit_runtime::{Key, Limit, OnUnavailable, RateLimitError, RateLimiter, Rule, Source};
use tokio::task::JoinSet;

use crate::support::redis::RedisServer;
use crate::{ALONE, TRIES};

const CALLERS: usize = 10_000;
const NAP: Duration = Duration::from_millis(2);

/// The outcomes of a flood.
#[derive(Debug, Default)]
struct Outcomes {
    refused: AtomicU64,
    by_fallback: AtomicU64,
    unchecked: AtomicU64,
    failed: AtomicU64,
}

impl Outcomes {
    fn add(&self, outcome: Result<Source, RateLimitError>) {
        let source = match outcome {
            Err(RateLimitError::Exceeded(refusal)) => Ok(refusal.source()),
            outcome => outcome,
        };
        let counter = match source {
            Ok(Source::Fallback) => &self.by_fallback,
            Ok(Source::Nobody) => &self.unchecked,
            Ok(_) => &self.refused,
            Err(_) => &self.failed,
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    fn get(&self) -> [u64; 4] {
        [
            &self.refused,
            &self.by_fallback,
            &self.unchecked,
            &self.failed,
        ]
        .map(|counter| counter.load(Ordering::Relaxed))
    }
}

/// Ten thousand callers that ask again as soon as they are refused. Gives how late sleeps on the
/// same runtime come, of a hundred that of the tenth latest, and the outcomes.
async fn flood(limiter: &RateLimiter, time: Duration) -> (Duration, [u64; 4]) {
    let rule = Rule::new("flood", Limit::per_hour(1));
    let _ = limiter.acquire(&rule, &Key::global()).await.unwrap();
    assert!(limiter.acquire(&rule, &Key::global()).await.is_err());
    let (outcomes, is_over) = (
        Arc::new(Outcomes::default()),
        Arc::new(AtomicBool::new(false)),
    );
    let sleeper = tokio::spawn({
        let is_over = Arc::clone(&is_over);
        async move {
            let mut late = Vec::new();
            while !is_over.load(Ordering::Relaxed) {
                let start = Instant::now();
                tokio::time::sleep(NAP).await;
                late.push(start.elapsed().saturating_sub(NAP));
            }
            late.sort_unstable();
            late
        }
    });
    let mut callers = JoinSet::new();
    for _ in 0..CALLERS {
        let (limiter, rule) = (limiter.clone(), rule.clone());
        let (outcomes, is_over) = (Arc::clone(&outcomes), Arc::clone(&is_over));
        callers.spawn(async move {
            while !is_over.load(Ordering::Relaxed) {
                let outcome = limiter.acquire(&rule, &Key::global()).await;
                outcomes.add(outcome.map(|decision| decision.source()));
            }
        });
    }
    tokio::time::sleep(time).await;
    is_over.store(true, Ordering::Relaxed);
    callers.join_all().await;
    let late = sleeper.await.unwrap();
    let late = late.get(late.len() * 9 / 10).copied();
    (late.unwrap_or(Duration::MAX), outcomes.get())
}

async fn limiter(server: &RedisServer, cached: bool, policy: OnUnavailable) -> RateLimiter {
    let store = server.store().deny_cache(cached);
    let limiter = RateLimiter::builder()
        .store(store)
        .on_unavailable(policy)
        .build()
        .unwrap();
    limiter.ready().await.unwrap();
    limiter
}

/// A refusal that is known costs no round trip, so nothing makes its caller wait. Other tasks,
/// those of the connection among them, have their turns all the same.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn callers_that_are_refused_at_once_leave_the_runtime_to_others() {
    let _alone = ALONE.lock().await;
    let server = RedisServer::start();
    let mut is_calm = false;
    for _ in 0..TRIES {
        let asking = limiter(&server, false, OnUnavailable::Local).await;
        let (without, _) = flood(&asking, Duration::from_secs(2)).await;
        server.cli(&["FLUSHALL"]);
        let mut latest = Duration::ZERO;
        for policy in [
            OnUnavailable::Local,
            OnUnavailable::Deny,
            OnUnavailable::Allow,
        ] {
            let known = limiter(&server, true, policy).await;
            let (late, outcomes) = flood(&known, Duration::from_secs(2)).await;
            server.cli(&["FLUSHALL"]);
            println!("{policy}: {late:?} late, without the deny cache {without:?}; {outcomes:?}");
            let [refused, others @ ..] = outcomes;
            assert!(refused > 10_000, "{refused}");
            assert_eq!(others, [0; 3], "by the fallback, unchecked, failed");
            latest = latest.max(late);
        }
        // The clock of the runtime goes by milliseconds.
        is_calm = latest <= without + NAP;
        if is_calm {
            break;
        }
    }
    assert!(
        is_calm,
        "sleeps come later with the deny cache than without"
    );
}
