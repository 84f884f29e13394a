//! A process that calls without end on one key, without scripts, until it is killed. Prints
//! a dot for every admission. For tests/redis/scriptfree.rs.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test's helper")]

use std::io::Write as _;
use std::sync::Arc;

use ratelimit_runtime::store::Request;
use ratelimit_runtime::{Algorithm, Limit, RedisMode, RedisStore, Store};
use tokio::task::JoinSet;

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let [url, algorithm, key, max] = args.as_slice() else {
        panic!("plain_worker URL log|counter KEY MAX");
    };
    let store = RedisStore::new(url).unwrap().mode(RedisMode::Transactions);
    let algorithm = if *algorithm == "log" { Algorithm::SlidingWindow } else { Algorithm::FixedWindow };
    let (store, key, max) = (Arc::new(store), Arc::<str>::from(*key), max.parse().unwrap());
    let mut running = JoinSet::new();
    for task in 0..8 {
        let (store, key) = (Arc::clone(&store), Arc::clone(&key));
        running.spawn(async move {
            let limits = [Limit::per_hour(max)];
            for call in 0_u64.. {
                let shared = Request::new(key.as_bytes(), algorithm, &limits);
                if store.acquire(shared).await.unwrap().allowed {
                    let mut out = std::io::stdout();
                    out.write_all(b".").unwrap();
                    out.flush().unwrap();
                }
                let own = format!("{key}:{}:{task}:{}", std::process::id(), call % 16);
                let own = Request::new(own.as_bytes(), algorithm, &limits);
                let _ = store.acquire(own).await.unwrap();
            }
        });
    }
    running.join_all().await;
}
