//! Masters that are replaced.

use super::*;

/// Once the nodes agree on the new master, so does the store, within half a second; keys of other
/// masters never notice.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fail_over_is_followed() {
    let mut cluster = RedisCluster::start_with(3, 1, &["--cluster-require-full-coverage", "no"]);
    let store = std::sync::Arc::new(on(&cluster).await);
    let (sick, well) = (key_on(&cluster, 0), key_on(&cluster, 1));
    let slot = cluster.slot(sick.as_bytes());
    let limit = Limit::per_hour(1_000_000);
    assert!(acquire(&store, &sick, limit).await.unwrap().allowed);
    // The replica has heard of it.
    assert!(support::eventually(|| cluster.node(3).number(&["DBSIZE"]) == 1));
    let callers = {
        let (store, sick, well) = (std::sync::Arc::clone(&store), sick.clone(), well.clone());
        tokio::spawn(async move {
            let mut late = 0;
            loop {
                late += u32::from(acquire_in_time(&store, &well, limit).await.is_err());
                if acquire_in_time(&store, &sick, limit).await.is_err() {
                    sleep(Duration::from_millis(5)).await;
                } else if store.acquire(request(&sick, &[limit])).await.unwrap().remaining < 999_997 {
                    return (late, Instant::now());
                }
            }
        })
    };
    cluster.kill(0);
    let new = tokio::task::block_in_place(|| cluster.wait_for_fail_over(slot, 0));
    let agreed = Instant::now();
    assert_eq!(new, 3);
    let (late, followed) = timeout(PATIENCE, callers).await.unwrap().unwrap();
    let took = followed.saturating_duration_since(agreed);
    println!("followed {took:?} after the nodes had agreed");
    assert!(took < Duration::from_millis(1_500), "{took:?}");
    assert!(late <= 2, "{late} calls for another master were late");
    cluster.restart(0);
    cluster.wait_until_whole();
    let took = recovered(&store, &sick).await;
    assert!(took < Duration::from_millis(1_500), "the old master returns as a replica: {took:?}");
}
