//! Replies that come after the time of a call.

use futures_util::future::join_all;

use super::*;
use crate::support::proxy::Proxy;
use crate::support::until;
use ratelimit_runtime::OnUnavailable;

const TIMEOUT: Duration = Duration::from_millis(40);
const MAX: u64 = 1_000;

/// The second part is on a server that is far away; the time of a call ends in one of its steps.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_charge_after_the_timeout_is_released() {
    let proxy = Proxy::start(redis::shared().port()).await;
    for policy in [OnUnavailable::Deny, OnUnavailable::Local] {
        let prefix = unique("late");
        let limiter = |url: &str, timeout| {
            let store = RedisStore::new(url).unwrap().deny_cache(false);
            let builder = strict()
                .prefix(prefix.as_str())
                .timeout(timeout)
                .store(store);
            builder.on_unavailable(policy).build().unwrap()
        };
        let near = redis::shared().url();
        let limiters = [limiter(&near, MINUTE), limiter(&proxy.url(), TIMEOUT)];
        let site = Site {
            kind: Kind::TwoLimiters,
            prefix: prefix.clone(),
            limiters: limiters.clone(),
        };
        for limiter in &limiters {
            limiter.ready().await.unwrap();
        }
        let rules = ["near", "far"].map(|name| Rule::new(name, Limit::per_hour(MAX)));
        let stack = site.stack(&[(&rules[0], 0), (&rules[1], 0)]);
        let (mut admitted, mut failed) = (0, 0);
        for each_way in (0..24).step_by(2) {
            proxy.delay(Duration::from_millis(each_way));
            let calls = join_all((0..8).map(|_| stack.clone().call())).await;
            let count = calls.iter().filter(|call| call.is_ok()).count() as u64;
            admitted += count;
            failed += 8 - count;
            drop(calls);
            proxy.delay(Duration::ZERO);
            site.settled().await;
            // It was found to be slow, perhaps.
            until("it serves again", super::super::PATIENCE, async || {
                limiters[1].reset(&rules[1], &Key::of(&1_u64)).await.is_ok()
            })
            .await;
        }
        let near = limiters[0].peek(&rules[0], &Key::of(&0_u64)).await.unwrap();
        let far = limiters[0].peek(&rules[1], &Key::of(&0_u64)).await.unwrap();
        let [near, far] = [near, far].map(|seen| MAX - seen.remaining());
        println!("{policy:?}: {admitted} admitted, {failed} failed, charged {near} and {far}");
        match policy {
            OnUnavailable::Deny => assert!(near == admitted && far == admitted && failed > 0),
            // The fallback of this process was charged the others: what was not over in time.
            _ => assert!(far <= near && near < admitted && failed == 0),
        }
    }
}
