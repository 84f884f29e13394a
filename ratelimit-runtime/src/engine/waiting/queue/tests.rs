#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test")]

use super::*;

const ATTEMPT: Duration = Duration::from_millis(100);

fn join(queues: &WaitQueues) -> QueuePlace<'_> {
    queues.join(b"key", ATTEMPT, None).unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_place_that_lapsed_is_no_place_in_a_later_queue_of_the_key() {
    let queues = WaitQueues::default();
    let mut lapsed = join(&queues);
    let mut second = join(&queues);
    assert!(matches!(second.stand(), Stand::Behind(_)));
    tokio::time::advance(ATTEMPT + LATE).await;
    assert!(matches!(second.stand(), Stand::First));
    drop(second);
    assert!(!queues.has(b"key"));
    let mut newcomer = join(&queues);
    assert!(matches!(newcomer.stand(), Stand::First));
    assert!(matches!(lapsed.stand(), Stand::Behind(_)), "the turn is the newcomer's");
    drop(lapsed);
    assert!(queues.has(b"key"), "the newcomer keeps its place");
    assert!(matches!(newcomer.stand(), Stand::First));
}

#[tokio::test(start_paused = true)]
async fn all_waiters_of_a_runtime_that_is_not_driven_lapse_together() {
    let queues = WaitQueues::default();
    let other = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let mut others: Vec<_> = {
        let _other = other.enter();
        (0..3).map(|_| join(&queues)).collect()
    };
    let [mut ours, mut next] = [(); 2].map(|()| join(&queues));
    assert!(matches!(ours.stand(), Stand::Behind(_)));
    tokio::time::advance(ATTEMPT + LATE * 2).await;
    assert!(matches!(ours.stand(), Stand::First));
    // One of the same runtime that is late takes none of the others along.
    tokio::time::advance(ATTEMPT + LATE * 2).await;
    assert!(matches!(next.stand(), Stand::First));
    assert!(matches!(ours.stand(), Stand::Behind(_)));
    for other in &mut others {
        assert!(matches!(other.stand(), Stand::Behind(_)), "behind, once it is driven again");
    }
    drop((ours, next));
    assert!(matches!(others[0].stand(), Stand::First));
    drop(others);
    assert!(!queues.has(b"key"));
    tokio::task::spawn_blocking(|| drop(other)).await.unwrap();
}
