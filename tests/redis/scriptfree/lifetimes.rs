//! A set lives for as long as an entry of it counts, and not much longer, with scripts and without.

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use ratelimit_runtime::clock::SystemClock;
use ratelimit_runtime::store::Request;
use ratelimit_runtime::{Algorithm, Limit, RedisMode, RedisStore, Store};

use super::unique;
use crate::support::clock::ServerClock;
use crate::support::random::{Random, seed};
use crate::support::redis::RedisServer;

/// Above the second that a key lives at least by a client's clock.
const WINDOW: Duration = Duration::from_millis(1_200);

/// Stores of one mode use one key in turn; the server's clock is set meanwhile, if it can be.
async fn used_by(
    stores: &[RedisStore],
    server: &RedisServer,
    form: &str,
    clock: Option<&ServerClock>,
) {
    let (mut random, key) = (Random::new(seed()), unique("lifetime"));
    let name = format!("{key}{form}");
    let limits = [Limit::new(12, WINDOW)];
    let request = Request::new(key.as_bytes(), Algorithm::SlidingWindow, &limits);
    let (mut tickets, mut newest, mut admitted) = (Vec::new(), 0, 0);
    for step in 0..200 {
        let which = usize::try_from(random.below(stores.len() as u64)).unwrap();
        let store = &stores[which];
        // The last time and the newest ticket that a key was written by, perhaps ahead of the
        // clock.
        newest = newest.max(server.now_us().unsigned_abs());
        let asked = Instant::now();
        let context = match random.below(16) {
            0 => {
                let ticket = tickets.pop().unwrap_or(1);
                format!("refund: {}", store.refund(request, ticket).await.unwrap())
            }
            1 if form.is_empty() => {
                store.block(request, WINDOW / 8).await.unwrap();
                format!("unblock: {}", store.unblock(request).await.unwrap())
            }
            2 if form.is_empty() => {
                let verdict = store.acquire(request.with_block(WINDOW / 8)).await.unwrap();
                newest = newest.max(verdict.ticket);
                format!("{verdict:?}")
            }
            3 if clock.is_some() => {
                clock
                    .unwrap()
                    .set_ms(i64::try_from(random.below(1_600)).unwrap() - 800);
                "the clock is set".to_owned()
            }
            _ => {
                let cost = 1 + random.below(8) / 6;
                let verdict = store.acquire(request.with_cost(cost)).await.unwrap();
                let context = format!("step {step} by store {which}: {verdict:?}");
                if verdict.allowed {
                    (newest, admitted) = (newest.max(verdict.ticket), admitted + 1);
                    tickets.extend((cost == 1).then_some(verdict.ticket));
                    let left = server.number(&["PTTL", &name]);
                    let passed = i64::try_from(asked.elapsed().as_millis()).unwrap();
                    // The second goes by a clock of its own, which may be coarse. Without scripts
                    // each charge sets the expiry.
                    let is_coarse = which == 1 && !form.is_empty();
                    let longer = if is_coarse { 1_000 } else { 0 };
                    let window = longer + i64::try_from(WINDOW.as_millis()).unwrap();
                    assert!(
                        left + passed + 1 >= window,
                        "{left} ms are left, {passed} after {context}"
                    );
                }
                context
            }
        };
        let left = server.number(&["PTTL", &name]);
        assert_ne!(left, -1, "{context}");
        if !context.starts_with("step") && clock.is_some() {
            // A clock that was set back is noticed by the next decision.
            continue;
        }
        // A millisecond is the unit. Where the clock was set back, the next ticket is ahead of it,
        // and its cell may be a later one. What a store writes by the caller's clock lives a second
        // longer.
        let ahead =
            i64::try_from(newest.saturating_sub(server.now_us().unsigned_abs()) / 1_000).unwrap();
        let longer = if stores.len() > 1 { 1_000 } else { 0 };
        let most = 2 * i64::try_from(WINDOW.as_millis()).unwrap() + 2 + ahead + longer;
        assert!(
            left <= most,
            "{left} ms are left after step {step} by store {which}: {context}"
        );
        if random.below(3) == 0 {
            tokio::time::sleep(Duration::from_millis(random.below(160))).await;
        }
    }
    assert!(admitted > 20, "{admitted}");
}

const MODES: [(RedisMode, &str); 2] = [(RedisMode::Transactions, "%log"), (RedisMode::Scripts, "")];

fn store(server: &RedisServer, mode: RedisMode) -> RedisStore {
    server.store().mode(mode).deny_cache(false)
}

#[tokio::test]
async fn logs_expire_within_two_windows() {
    let server = RedisServer::start();
    let used = MODES.map(async |(mode, form)| {
        let stores = [
            store(&server, mode),
            store(&server, mode).with_clock(SystemClock),
        ];
        used_by(&stores, &server, form, None).await;
    });
    join_all(used).await;
}

#[tokio::test]
#[cfg_attr(
    not(target_os = "linux"),
    ignore = "sets the clock of a server by LD_PRELOAD"
)]
async fn logs_expire_while_the_clock_of_the_server_is_set() {
    let clock = ServerClock::new();
    let server = clock.server(&[]);
    for (mode, form) in MODES {
        used_by(&[store(&server, mode)], &server, form, Some(&clock)).await;
    }
}
