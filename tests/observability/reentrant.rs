//! A subscriber of the application that calls limited functions itself, such as one that bounds
//! what it sends on.

use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::Duration;

use ratelimit_runtime::{RateLimitError, RateLimiter, rate_limit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

/// Far longer than a call in memory takes.
const PATIENCE: Duration = Duration::from_secs(20);

/// Calls a limited function at each event of this name.
struct Limited {
    name: &'static str,
    calls: &'static AtomicUsize,
}

#[rate_limit(window = "60s", max = 10)]
async fn send_on() -> Result<(), RateLimitError> {
    Ok(())
}

/// The output of a call in memory, which is decided when it is first polled.
fn now<T>(call: impl Future<Output = T>) -> T {
    let mut call = Box::pin(call);
    match call.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => output,
        Poll::Pending => panic!("a call in memory waits for nothing"),
    }
}

impl Subscriber for Limited {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("ratelimit_runtime")
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        if event.metadata().name() == self.name {
            now(send_on()).unwrap();
            self.calls.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

/// Runs `calls` while the subscriber calls a limited function at each event of this name. Returns
/// how often it did; a call that waits for itself would never end.
fn heard(name: &'static str, calls: impl FnOnce() + Send + 'static) -> usize {
    static CALLS: AtomicUsize = AtomicUsize::new(0);
    let subscriber = Limited {
        name,
        calls: &CALLS,
    };
    let before = CALLS.load(Ordering::Relaxed);
    let (tell, told) = mpsc::channel();
    thread::spawn(move || {
        tracing::subscriber::with_default(subscriber, calls);
        let _ = tell.send(());
    });
    told.recv_timeout(PATIENCE)
        .unwrap_or_else(|_| panic!("{name}: a subscriber that calls a limited function returns"));
    CALLS.load(Ordering::Relaxed) - before
}

mod twins {
    use super::*;

    pub(super) fn call_both() {
        {
            #[rate_limit(window = "60s", max = 10)]
            async fn twin() -> Result<(), RateLimitError> {
                Ok(())
            }
            now(twin()).unwrap();
        }
        {
            #[rate_limit(window = "60s", max = 10)]
            async fn twin() -> Result<(), RateLimitError> {
                Ok(())
            }
            now(twin()).unwrap();
        }
    }
}

/// In processes of their own: only there no limiter has been found, and no function been called.
#[test]
fn a_subscriber_that_calls_a_limited_function_is_answered() {
    const CHILD: &str = "RATELIMIT_TEST_REENTRANT";
    match std::env::var(CHILD).as_deref() {
        Ok("no_limiter") => {
            let calls = || assert!(now(send_on()).is_ok());
            assert_eq!(heard("no_limiter", calls), 1);
            return;
        }
        Ok(_) => {
            let calls = || {
                let _guard = RateLimiter::memory().set_default();
                twins::call_both();
            };
            assert_eq!(heard("same_path", calls), 1);
            return;
        }
        Err(_) => {}
    }
    for event in ["no_limiter", "same_path"] {
        let name = "reentrant::a_subscriber_that_calls_a_limited_function_is_answered";
        let mut child = Command::new(std::env::current_exe().unwrap());
        let output = child
            .args(["--exact", name, "--nocapture"])
            .env(CHILD, event)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{event}: {said}");
    }
}
