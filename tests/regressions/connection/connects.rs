//! How often a server that does not let a client in is connected to.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use ratelimit_runtime::{Key, Limit, OnUnavailable, RateLimiter, Rule};
use tokio::io::AsyncReadExt as _;
use tokio::net::TcpListener;
use tokio::time::sleep;

static RULE: Rule = Rule::new("connects", Limit::per_hour(10));

/// Accepts connections and says nothing: on the first so many it waits, the others it resets.
struct Mute {
    port: u16,
    accepted: Arc<AtomicUsize>,
    open: Arc<AtomicUsize>,
}

impl Mute {
    async fn start(hanging: usize) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (accepted, open) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let (count, waiting) = (Arc::clone(&accepted), Arc::clone(&open));
        tokio::spawn(async move {
            while let Ok((mut client, _)) = listener.accept().await {
                if count.fetch_add(1, Ordering::Relaxed) >= hanging {
                    let _ = client.set_zero_linger();
                    continue;
                }
                let waiting = Arc::clone(&waiting);
                waiting.fetch_add(1, Ordering::Relaxed);
                tokio::spawn(async move {
                    let mut said = [0; 256];
                    while matches!(client.read(&mut said).await, Ok(1..)) {}
                    waiting.fetch_sub(1, Ordering::Relaxed);
                });
            }
        });
        Self { port, accepted, open }
    }

    /// A limiter that has begun to connect to it.
    async fn limiter(&self) -> RateLimiter {
        let url = format!("redis://127.0.0.1:{}/", self.port);
        let limiter = RateLimiter::builder().redis(&url).on_unavailable(OnUnavailable::Allow).build().unwrap();
        assert!(limiter.acquire(&RULE, &Key::global()).await.unwrap().is_degraded());
        limiter
    }

    fn accepted(&self) -> usize {
        self.accepted.load(Ordering::Relaxed)
    }

    fn open(&self) -> usize {
        self.open.load(Ordering::Relaxed)
    }
}

/// Nothing is connected to, and nothing is kept open, once the limiter is dropped.
async fn ends_with(limiter: RateLimiter, server: &Mute) {
    drop(limiter);
    sleep(Duration::from_millis(500)).await;
    let accepted = server.accepted();
    sleep(Duration::from_millis(1_500)).await;
    assert_eq!((server.accepted(), server.open()), (accepted, 0));
}

/// A server that says nothing has 2 s, and the next attempt begins within a second of its end.
#[tokio::test]
async fn an_attempt_that_hangs_is_the_only_one_and_is_given_up() {
    let server = Mute::start(usize::MAX).await;
    let start = Instant::now();
    let limiter = server.limiter().await;
    while start.elapsed() < Duration::from_millis(1_900) {
        assert_eq!(server.accepted(), 1, "after {:?}", start.elapsed());
        sleep(Duration::from_millis(10)).await;
    }
    while server.accepted() == 1 {
        assert!(start.elapsed() < Duration::from_secs(4), "it is not given up");
        sleep(Duration::from_millis(10)).await;
    }
    sleep(Duration::from_millis(100)).await;
    assert_eq!((server.accepted(), server.open()), (2, 1));
    ends_with(limiter, &server).await;
}

#[tokio::test]
async fn refused_attempts_pause_and_end_with_the_limiter() {
    let server = Mute::start(0).await;
    let limiter = server.limiter().await;
    let start = Instant::now();
    sleep(Duration::from_secs(2)).await;
    // With pauses of 25 to 50 ms, and so on up to a second.
    let (accepted, most) = (server.accepted(), 10 + 2 * start.elapsed().as_secs());
    assert!((3..=most).contains(&u64::try_from(accepted).unwrap()), "connected {accepted} times");
    ends_with(limiter, &server).await;
}
