//! 20,000 calls in flight: what renewing their leases costs the server.

#![allow(clippy::print_stdout, reason = "figures for the reader of the log")]

use std::sync::Arc;
use std::time::{Duration, Instant};

use ratelimit_runtime::__private::BuiltInStore as _;
use ratelimit_runtime::RedisStore;
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::{LEASE, place};
use crate::support::redis::RedisServer;

const CALLS: u64 = 20_000;
/// A permit is renewed by the end of a third of its lease, so all of them are in so many spans.
const KEYS: u64 = 2_000;

/// How often scripts were called, and how many bytes the server has read.
fn traffic(server: &RedisServer) -> (f64, f64) {
    let calls = |command: &str| {
        let stats = server.info("commandstats", &format!("cmdstat_{command}"));
        let calls = stats.strip_prefix("calls=").and_then(|stats| stats.split(',').next());
        calls.map_or(0.0, |calls| calls.parse::<f64>().unwrap())
    };
    (calls("evalsha") + calls("eval"), server.info("stats", "total_net_input_bytes").parse().unwrap())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn leases_of_20_000_calls_are_renewed_by_few_commands_spread_over_time() {
    let server = RedisServer::start();
    let store = Arc::new(RedisStore::new(&server.url()).unwrap());
    store.ready().await.unwrap();
    let mut entering = JoinSet::new();
    for call in 0..CALLS {
        let store = Arc::clone(&store);
        entering.spawn(async move {
            let key = format!("many:{}", call % KEYS);
            let place = place(&key, CALLS);
            assert!(store.enter(place, &[]).await.unwrap().is_entered());
            place.permit()
        });
    }
    let permits = entering.join_all().await;
    let all = || (0..KEYS).map(|key| server.number(&["ZCARD", &format!("many:{key}")])).sum::<i64>();
    assert_eq!(all(), 20_000);
    // The first renewals are spread; from then on each comes a third of a lease after the last.
    let (start, before) = (Instant::now(), traffic(&server));
    sleep(LEASE + LEASE / 2).await;
    let (seconds, after) = (start.elapsed().as_secs_f64(), traffic(&server));
    let (calls, bytes) = ((after.0 - before.0) / seconds, (after.1 - before.1) / seconds);
    println!("renewing {CALLS} leases of {LEASE:?}: {calls:.0} calls/s, {bytes:.0} bytes/s");
    assert_eq!(all(), 20_000, "none has lapsed");
    // 12,000 renewals a second, of which a call carries up to 64.
    assert!(calls < 600.0, "{calls} calls/s");
    assert!(bytes < 4e6, "{bytes} bytes/s");
    let leaving = Instant::now();
    for (call, permit) in permits.into_iter().enumerate() {
        let key = format!("many:{}", call as u64 % KEYS);
        // Answers come in the order in which tasks end: a permit may be of another key.
        store.leave(place(&key, CALLS).with_permit(permit));
    }
    while all() > 0 {
        assert!(leaving.elapsed() < LEASE / 2, "{} have not left", all());
        sleep(Duration::from_millis(20)).await;
    }
}
