//! A store with scripts and one without work on one log. The player of random steps compares them;
//! here the clock is the server's.

use std::time::Duration;

use ratelimit_runtime::store::Request;
use ratelimit_runtime::{Algorithm, Limit, Store};

use super::{plain, scripted, unique};

/// Where the clock is the server's, too.
#[tokio::test]
async fn what_one_kind_of_store_does_the_other_sees() {
    let (plain, scripted, key) = (plain(), scripted(), unique("both"));
    let limits = [Limit::per_minute(4)];
    let request = Request::new(key.as_bytes(), Algorithm::SlidingWindow, &limits);
    let mine = plain.acquire(request).await.unwrap();
    let theirs = scripted.acquire(request).await.unwrap();
    assert_eq!((mine.remaining, theirs.remaining), (3, 2));
    assert!(theirs.ticket > mine.ticket);
    assert!(scripted.refund(request, mine.ticket).await.unwrap());
    assert!(plain.refund(request, theirs.ticket).await.unwrap());
    assert_eq!(plain.peek(request).await.unwrap().remaining, 4);
    scripted.block(request, Duration::from_secs(60)).await.unwrap();
    assert!(plain.acquire(request).await.unwrap().blocked);
    assert!(plain.unblock(request).await.unwrap());
    plain.block(request, Duration::from_secs(60)).await.unwrap();
    assert!(scripted.acquire(request).await.unwrap().blocked);
    assert!(scripted.unblock(request).await.unwrap());
    for left in [3, 2, 1, 0] {
        let store = if left % 2 == 0 { &plain } else { &scripted };
        assert_eq!(store.acquire(request).await.unwrap().remaining, left);
    }
    for store in [&plain, &scripted] {
        let refused = store.acquire(request).await.unwrap();
        assert!(!refused.allowed && refused.retry_after_us > 59_000_000, "{refused:?}");
    }
}
