//! [`Callers`]: how this crate is asked for decisions.

use std::sync::Arc;
use std::time::Duration;

use ratelimit_runtime::{OnUnavailable, RateLimitError, RateLimiter, RedisStore, Rule, key};
use tokio::runtime::Runtime;

/// No call is given up, however slow a tool makes either process.
const TIMEOUT: Duration = Duration::from_secs(60);

/// A limiter that is connected, and a runtime of one thread for its callers.
pub(super) struct Callers {
    limiter: RateLimiter,
    runtime: Runtime,
}

impl Callers {
    pub(super) fn on(store: RedisStore) -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        let builder = RateLimiter::builder()
            .store(store)
            .timeout(TIMEOUT)
            .on_unavailable(OnUnavailable::Deny);
        let limiter = builder.build().unwrap();
        runtime.block_on(limiter.ready()).unwrap();
        Self { limiter, runtime }
    }

    /// Makes `calls` calls by so many callers, each of whom makes the next when it is answered; the
    /// key of a call is its number modulo `keys`. Returns how many were admitted.
    pub(super) fn ask(&self, rule: &Rule, callers: u64, calls: u64, keys: u64) -> u64 {
        let rule = Arc::new(rule.clone());
        self.runtime.block_on(async {
            let callers: Vec<_> = (0..callers)
                .map(|caller| {
                    let (limiter, rule) = (self.limiter.clone(), Arc::clone(&rule));
                    let numbers = (caller..calls).step_by(usize::try_from(callers).unwrap());
                    tokio::spawn(call(
                        limiter,
                        rule,
                        numbers.map(move |number| number % keys),
                    ))
                })
                .collect();
            let mut admitted = 0;
            for caller in callers {
                admitted += caller.await.unwrap();
            }
            admitted
        })
    }
}

/// Asks for each of these users in turn. Returns how many calls were admitted.
async fn call(limiter: RateLimiter, rule: Arc<Rule>, users: impl Iterator<Item = u64>) -> u64 {
    let mut admitted = 0;
    for user in users {
        let user = format!("user{user}");
        match limiter.acquire(&rule, &key!("<user>")).await {
            Ok(_) => admitted += 1,
            Err(RateLimitError::Exceeded(_)) => {}
            Err(error) => panic!("{error}"),
        }
    }
    admitted
}
