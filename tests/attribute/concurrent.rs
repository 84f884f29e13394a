//! `concurrent`: a call is in flight as long as its body runs, however that ends.

#![allow(
    clippy::manual_async_fn,
    clippy::needless_return,
    clippy::items_after_statements,
    reason = "the shapes are the point"
)]

use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::Mutex;
use std::time::Duration;

use futures_util::FutureExt as _;
use ratelimit_runtime::{Key, Limit, RateLimiter, Rule, Source, key, rate_limit};
use tokio::sync::Semaphore;

use crate::{Outcome, alone, is_exceeded};

static EXPORT: Rule = Rule::in_flight("export", 1);

async fn in_flight(rule: &Rule) -> u64 {
    RateLimiter::current()
        .in_flight(rule, &Key::of("alice"))
        .await
        .unwrap()
}

/// How the body of [`export`] ends.
#[derive(Clone, Copy, PartialEq)]
enum End {
    Value,
    Return,
    QuestionMark,
    Panic,
    Never,
}

#[rate_limit(key = "<user>", concurrent = 1, name = "export")]
async fn export(user: &str, end: End) -> Outcome {
    assert_eq!(
        RateLimiter::current()
            .in_flight(&EXPORT, &key!("<user>"))
            .await?,
        1
    );
    tokio::task::yield_now().await;
    match end {
        End::Value => Ok(()),
        End::Return => return Ok(()),
        End::QuestionMark => Err(RateLimiter::current()
            .acquire(&EXPORT, &Key::global())
            .await
            .map(drop)
            .unwrap_err())?,
        End::Panic => panic!("as it is told"),
        End::Never => std::future::pending().await,
    }
}

#[tokio::test]
async fn the_permit_is_released_however_the_body_ends() {
    alone(async {
        for end in [
            End::Value,
            End::Return,
            End::QuestionMark,
            End::Panic,
            End::Never,
        ] {
            let _ = tokio::time::timeout(
                Duration::from_millis(20),
                AssertUnwindSafe(export("alice", end)).catch_unwind(),
            )
            .await;
            assert_eq!(in_flight(&EXPORT).await, 0);
        }
        let mut first = std::pin::pin!(export("alice", End::Never));
        assert!(first.as_mut().now_or_never().is_none());
        let refused = export("alice", End::Value).await;
        assert!(is_exceeded(&refused));
        assert_eq!(refused.unwrap_err().retry_after(), None);
        assert!(export("bob", End::Value).await.is_ok());
    })
    .await;
}

/// Records when it is dropped.
struct Local<'a>(&'a Mutex<Vec<u64>>);

impl Drop for Local<'_> {
    fn drop(&mut self) {
        let here = RateLimiter::current()
            .in_flight(&EXPORT, &Key::of("alice"))
            .now_or_never()
            .unwrap()
            .unwrap();
        self.0.lock().unwrap().push(here);
    }
}

#[tokio::test]
async fn locals_of_the_body_are_dropped_before_the_permit() {
    #[rate_limit(key = "<user>", concurrent = 1, name = "export")]
    async fn with_locals(user: &str, dropped: &Mutex<Vec<u64>>) -> Outcome {
        let _local = Local(dropped);
        tokio::task::yield_now().await;
        Ok(())
    }
    alone(async {
        let dropped = Mutex::default();
        with_locals("alice", &dropped).await.unwrap();
        {
            let mut cancelled = std::pin::pin!(with_locals("alice", &dropped));
            assert!(cancelled.as_mut().now_or_never().is_none());
        }
        assert_eq!(*dropped.lock().unwrap(), [1, 1]);
        assert_eq!(in_flight(&EXPORT).await, 0);
    })
    .await;
}

#[rate_limit(
    key = "<tenant>", concurrent = u8::from(large) + 1, window = "1h", max = 3, name = "computed"
)]
async fn computed(tenant: u8, large: bool, gate: &Semaphore) -> Outcome {
    let _ = gate.acquire().await;
    Ok(())
}

#[tokio::test]
async fn concurrent_may_be_computed_and_stand_beside_limits() {
    alone(async {
        let gate = Semaphore::new(0);
        let mut calls = Vec::new();
        for (large, enters) in [(true, true), (false, false), (true, true), (true, false)] {
            let mut call = Box::pin(computed(1, large, &gate));
            let at_once = call.as_mut().now_or_never();
            assert_eq!(at_once.is_none(), enters, "{at_once:?}");
            calls.push(call);
        }
        gate.add_permits(1);
        calls.truncate(1);
        for call in calls {
            call.await.unwrap();
        }
        assert!(computed(1, true, &gate).await.is_ok());
        assert!(
            computed(1, true, &gate)
                .await
                .unwrap_err()
                .retry_after()
                .is_some(),
            "three an hour"
        );
    })
    .await;
}

struct Service {
    limiter: RateLimiter,
    running: Semaphore,
}

trait Work {
    fn spawned(&self, user: &str) -> impl Future<Output = Outcome>;
}

impl Work for Service {
    #[rate_limit(key = "<user>", concurrent = 1, limiter = self.limiter, name = "work")]
    async fn spawned(&self, user: &str) -> Outcome {
        let _ = self.running.acquire().await;
        Ok(())
    }
}

#[async_trait::async_trait]
trait Boxed {
    async fn boxed(&self, user: &str) -> Outcome;
}

#[async_trait::async_trait]
impl Boxed for Service {
    #[rate_limit(key = "<user>", concurrent = 1, limiter = &self.limiter, name = "work")]
    async fn boxed(&self, user: &str) -> Outcome {
        let _ = self.running.acquire().await;
        Ok(())
    }
}

impl Service {
    #[rate_limit(
        key = "<user>", concurrent = 1, limiter = self.limiter, name = "work", lease = "5s"
    )]
    fn future(&self, user: &str) -> impl Future<Output = Outcome> {
        async move {
            let _ = (user, self.running.acquire().await);
            Ok(())
        }
    }

    #[rate_limit(
        key = "<user>", concurrent = 1, limiter = self.limiter, name = "work",
        when = !user.is_empty()
    )]
    async fn when(&self, user: &str) -> Outcome {
        let _ = self.running.acquire().await;
        Ok(())
    }

    #[rate_limit(
        key = "<user>", concurrent = 1, limiter = self.limiter, name = "counted", window = "1h",
        max = 1, count = "err"
    )]
    async fn counted(&self, user: &str) -> Outcome {
        let _ = (user, self.running.acquire().await);
        Ok(())
    }

    #[rate_limit(key = "<user>", concurrent = 1, limiter = self.limiter, name = "work", shadow)]
    async fn shadowed(&self, user: &str) {
        let _ = (user, self.running.acquire().await);
    }

    #[rate_limit(key = "<user>", window = "1h", max = 2, limiter = self.limiter, name = "per_hour")]
    #[rate_limit(concurrent = 1, limiter = self.limiter, name = "all")]
    async fn stacked(&self, user: &str) -> Outcome {
        let _ = (user, self.running.acquire().await);
        Ok(())
    }
}

fn service() -> Service {
    Service {
        limiter: RateLimiter::memory(),
        running: Semaphore::new(0),
    }
}

#[tokio::test]
async fn every_shape_of_a_function_holds_its_permit_while_it_runs() {
    static WORK: Rule = Rule::in_flight("work", 1);
    let service = service();
    let count = async || {
        service
            .limiter
            .in_flight(&WORK, &Key::of("alice"))
            .await
            .unwrap()
    };
    {
        let mut running = std::pin::pin!(service.spawned("alice"));
        assert!(running.as_mut().now_or_never().is_none());
        assert_eq!(count().await, 1);
        for refused in [
            service.boxed("alice").await,
            service.future("alice").await,
            service.when("alice").await,
        ] {
            assert!(is_exceeded(&refused), "{refused:?}");
        }
        let mut uncounted = std::pin::pin!(service.when(""));
        assert!(uncounted.as_mut().now_or_never().is_none());
        let mut shadowed = std::pin::pin!(service.shadowed("alice"));
        assert!(
            shadowed.as_mut().now_or_never().is_none(),
            "it runs without a permit"
        );
        assert_eq!(count().await, 1);
    }
    assert_eq!(count().await, 0);
    {
        let mut boxed = service.boxed("alice");
        assert!(boxed.as_mut().now_or_never().is_none());
        assert_eq!(count().await, 1);
        drop(boxed);
        let mut future = std::pin::pin!(service.future("alice"));
        assert!(future.as_mut().now_or_never().is_none());
        assert_eq!(count().await, 1);
    }
    assert_eq!(count().await, 0);
}

#[tokio::test]
async fn concurrent_stands_beside_count() {
    static WORK: Rule = Rule::new("counted", Limit::per_hour(1)).with_concurrent(1);
    let service = service();
    {
        let mut counted = std::pin::pin!(service.counted("alice"));
        assert!(counted.as_mut().now_or_never().is_none());
        assert_eq!(
            service
                .limiter
                .in_flight(&WORK, &Key::of("alice"))
                .await
                .unwrap(),
            1
        );
        assert!(is_exceeded(&service.counted("alice").await));
        service.running.add_permits(1);
        counted.await.unwrap();
    }
    for _ in 0..3 {
        service.counted("alice").await.unwrap();
    }
    assert_eq!(
        service
            .limiter
            .in_flight(&WORK, &Key::of("alice"))
            .await
            .unwrap(),
        0
    );
}

#[tokio::test]
async fn stacked_rules_charge_and_take_permits_together() {
    let service = service();
    let per_hour = Rule::new("per_hour", Limit::per_hour(2));
    {
        let mut first = std::pin::pin!(service.stacked("alice"));
        assert!(first.as_mut().now_or_never().is_none());
        let refused = service.stacked("bob").await;
        assert_eq!(refused.unwrap_err().decision().unwrap().rule(), "all");
        assert_eq!(
            service
                .limiter
                .peek(&per_hour, &Key::of("bob"))
                .await
                .unwrap()
                .remaining(),
            2
        );
    }
    service.running.add_permits(9);
    assert!(service.stacked("alice").await.is_ok());
    let refused = service.stacked("alice").await.unwrap_err();
    assert_eq!(refused.decision().unwrap().rule(), "per_hour");
    assert!(
        service.stacked("bob").await.is_ok(),
        "a refused call releases its permit"
    );
    assert_eq!(refused.decision().unwrap().source(), Source::Store);
}
