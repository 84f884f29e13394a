//! Floods: of keys, of threads.

use std::thread;
use std::time::Instant;

use super::*;

/// Makes the store refuse this key, and the cache keep that if it has room.
async fn refuse(cache: &DenyCache<Far>, key: &str) {
    assert!(ask(cache, request(key)).await.allowed);
    assert!(!ask(cache, request(key)).await.allowed);
}

#[tokio::test(start_paused = true)]
async fn a_client_that_mints_keys_gets_the_room_and_no_more() {
    let far = Far::new();
    let cache = DenyCache::new(far.clone()).with_capacity(64);
    for nth in 0..5_000 {
        refuse(&cache, &format!("minted:{nth}")).await;
    }
    let asked = far.asked();
    let is_kept = |nth: &u32| at_once(&cache, request(&format!("minted:{nth}"))).is_some();
    assert_eq!((0..5_000).filter(is_kept).count(), 64);
    assert_eq!(far.asked(), asked);
}

/// A set has room for eight: for all four hot keys, and as many that are minted in between.
#[tokio::test(start_paused = true)]
async fn a_client_that_mints_keys_drives_no_hot_refusal_out() {
    let cache = DenyCache::new(Far::new()).with_capacity(64);
    let hot = ["hot:0", "hot:1", "hot:2", "hot:3"];
    for key in hot {
        refuse(&cache, key).await;
    }
    for nth in 0..5_000 {
        if nth % 4 == 0 {
            for key in hot {
                assert!(
                    ask(&cache, request(key)).await.cached,
                    "{key}, {nth} minted"
                );
            }
        }
        refuse(&cache, &format!("minted:{nth}")).await;
        tokio::time::advance(MICROSECOND).await;
    }
}

/// A key without a reset would stay refused for a second: here it is free at once, each
/// time.
#[test]
fn a_reset_is_seen_by_all_threads() {
    const RESETS: u64 = 200;
    let cache = Arc::new(DenyCache::new(MemoryStore::new()));
    let admitted = AtomicU64::new(0);
    let start = Instant::now();
    let in_time = || start.elapsed() < SECOND * 20;
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let runtime = tokio::runtime::Builder::new_current_thread()
                    .build()
                    .unwrap();
                while admitted.load(Ordering::SeqCst) <= RESETS && in_time() {
                    let verdict = runtime.block_on(ask(&*cache, request("key")));
                    admitted.fetch_add(u64::from(verdict.allowed), Ordering::SeqCst);
                }
            });
        }
        for resets in 0..RESETS {
            while admitted.load(Ordering::SeqCst) == resets && in_time() {
                thread::yield_now();
            }
            assert!(!waits(&mut cache.reset(request("key"))));
        }
    });
    assert_eq!(
        admitted.load(Ordering::SeqCst),
        RESETS + 1,
        "each reset admits one, at once"
    );
}
