//! [`Callers`]: how this crate is asked for decisions.

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use ratelimit_runtime::{
    OnUnavailable, RateLimitError, RateLimiter, RedisStore, Rule, Source, key,
};
use tokio::runtime::Runtime;

/// No call is given up, however slow a tool makes either process.
const TIMEOUT: Duration = Duration::from_secs(60);

/// How many calls were admitted.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Admitted {
    pub(super) all: u64,
    /// Of them, those by units that were taken ahead.
    pub(super) ahead: u64,
}

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
        self.admitted(rule, callers, calls, keys).all
    }

    /// The same, told apart.
    pub(super) fn admitted(&self, rule: &Rule, callers: u64, calls: u64, keys: u64) -> Admitted {
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
            let mut sum = Admitted::default();
            for caller in callers {
                let admitted = caller.await.unwrap();
                sum.all += admitted.all;
                sum.ahead += admitted.ahead;
            }
            sum
        })
    }

    /// Makes so many calls on one key that wait for nothing, by a caller who gives way to nobody:
    /// how often others do so is a question of time, and so of how slow a tool makes this process.
    pub(super) fn at_once(&self, rule: &Rule, calls: u64) -> Admitted {
        let _runtime = self.runtime.enter();
        let users = std::iter::repeat_n(0, usize::try_from(calls).unwrap());
        let call = call(self.limiter.clone(), Arc::new(rule.clone()), users);
        match pin!(call).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(admitted) => admitted,
            Poll::Pending => panic!("a call had to wait"),
        }
    }

    /// Lets what the client does by itself go on for so long.
    pub(super) fn idle(&self, time: Duration) {
        self.runtime
            .block_on(async { tokio::time::sleep(time).await });
    }
}

/// Asks for each of these users in turn.
async fn call(limiter: RateLimiter, rule: Arc<Rule>, users: impl Iterator<Item = u64>) -> Admitted {
    let mut admitted = Admitted::default();
    for user in users {
        let user = format!("user{user}");
        match limiter.acquire(&rule, &key!("<user>")).await {
            Ok(decision) => {
                admitted.all += 1;
                admitted.ahead += u64::from(decision.source() == Source::Grant);
            }
            Err(RateLimitError::Exceeded(_)) => {}
            Err(error) => panic!("{error}"),
        }
    }
    admitted
}
