//! One store, used from several runtimes.

use std::sync::Arc;
use std::thread;

use super::*;
use crate::support::cluster::shared;

/// All runtimes share the map; connections belong to the runtime that uses them, and end with it.
#[test]
fn runtimes_come_and_go() {
    let cluster = shared();
    let store = Arc::new(RedisStore::new(&cluster.url()).unwrap().deny_cache(false));
    let keys: Vec<String> = (0..3).map(|node| key_on(cluster, node)).collect();
    let threads: Vec<_> = (0..4)
        .map(|_| {
            let (store, keys) = (Arc::clone(&store), keys.clone());
            thread::spawn(move || {
                let mut admitted = 0;
                for _ in 0..5 {
                    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
                    for key in &keys {
                        let verdict = runtime.block_on(acquire(&store, key, Limit::per_hour(12))).unwrap();
                        admitted += u32::from(verdict.allowed);
                    }
                    // One that ends in the middle of a call.
                    let (store, key) = (Arc::clone(&store), unique("lost"));
                    runtime.spawn(async move { acquire(&store, &key, Limit::per_hour(1)).await });
                    runtime.block_on(tokio::task::yield_now());
                }
                admitted
            })
        })
        .collect();
    let admitted: u32 = threads.into_iter().map(|thread| thread.join().unwrap()).sum();
    assert_eq!(admitted, 36, "12 on each of three nodes");
}
