//! Permits of processes that share a server: one is killed, one is stopped for longer than a lease.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use crate::support::redis::RedisServer;
use crate::support::unique;
use crate::support::worker::Worker;

use super::{LEASE, members};

const MAX: usize = 6;

/// How many permits of each process are in flight. They are never more than there are permits.
fn by_process(server: &RedisServer, key: &str) -> HashMap<String, usize> {
    let now = server.now_us();
    let mut counts = HashMap::new();
    for (member, ends) in members(server, key) {
        if ends > now {
            let process = member.split('.').next().unwrap();
            *counts.entry(process.to_owned()).or_default() += 1;
        }
    }
    let all: usize = counts.values().sum();
    assert!(all <= MAX, "{all} of {MAX}: {counts:?}");
    counts
}

/// Waits until the condition holds, and gives how long that took.
fn until(what: &str, longest: Duration, mut holds: impl FnMut() -> bool) -> Duration {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < longest, "{what}: not within {longest:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
    start.elapsed()
}

/// A process whose calls never end, two at most.
fn holder(server: &RedisServer, key: &str) -> (Worker, String) {
    let mut worker = Worker::start(&["hold", &server.url(), key, "2", &MAX.to_string()]);
    let process = worker.line();
    assert_eq!(process.len(), 16, "{process}");
    (worker, process)
}

#[test]
fn the_permits_of_a_killed_process_are_free_after_the_lease_and_not_before() {
    let (server, key) = (RedisServer::start(), unique("killed"));
    let (first, first_id) = holder(&server, &key);
    let (_second, second_id) = holder(&server, &key);
    let (_third, _) = holder(&server, &key);
    until("all permits are held", LEASE, || {
        by_process(&server, &key).values().sum::<usize>() == MAX
    });
    // It waits for a permit.
    let (_fourth, fourth_id) = holder(&server, &key);
    std::thread::sleep(LEASE + LEASE / 5);
    assert!(
        !by_process(&server, &key).contains_key(&fourth_id),
        "leases are renewed"
    );
    assert_eq!(first.kill(), "", "none of its permits was lost");
    let freed = until("others hold its permits", LEASE + LEASE / 2, || {
        by_process(&server, &key).get(&fourth_id) == Some(&2)
    });
    assert!(
        freed > LEASE / 2,
        "{freed:?}: a lease was renewed a third of it ago at most"
    );
    let counts = by_process(&server, &key);
    assert!(!counts.contains_key(&first_id), "{counts:?}");
    assert_eq!(
        counts.get(&second_id),
        Some(&2),
        "the others keep theirs: {counts:?}"
    );
}

#[test]
fn a_process_stopped_for_longer_than_a_lease_renews_its_permit_or_reports_its_loss() {
    let (server, key) = (RedisServer::start(), unique("stopped"));
    // Nobody else wants the permits: it takes them again.
    let (mut stopped, id) = holder(&server, &key);
    until("it holds its permits", LEASE, || {
        by_process(&server, &key).get(&id) == Some(&2)
    });
    stopped.signal("STOP");
    until("they lapse", 2 * LEASE, || {
        by_process(&server, &key).is_empty()
    });
    stopped.signal("CONT");
    until("it holds them again", LEASE / 2, || {
        by_process(&server, &key).get(&id) == Some(&2)
    });
    // Others acquire them: it says that it has lost them.
    stopped.signal("STOP");
    until("they lapse", 2 * LEASE, || {
        by_process(&server, &key).is_empty()
    });
    let others: Vec<_> = (0..3).map(|_| holder(&server, &key)).collect();
    until("others hold them", LEASE, || {
        by_process(&server, &key).values().sum::<usize>() == MAX
    });
    stopped.signal("CONT");
    assert_eq!(stopped.line(), "lost");
    assert!(!by_process(&server, &key).contains_key(&id));
    for (_, other) in &others {
        assert_eq!(by_process(&server, &key).get(other), Some(&2));
    }
}
