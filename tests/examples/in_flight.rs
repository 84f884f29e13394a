//! `examples/in_flight.rs`, as clients over HTTP see it: two processes that share a Redis.

use std::thread;
use std::time::{Duration, Instant};

use super::support::redis::RedisServer;
use super::{Reply, Service, command, exchange};

/// How long an export, or a job, takes, and what a busy machine may add.
const WORK: Duration = Duration::from_secs(2);
const SLACK: Duration = Duration::from_secs(2);

fn ask(port: u16, what: &str) -> Reply {
    exchange(port, what, "content-length: 0\r\n", "")
}

fn assert_refused(refused: &Reply) {
    assert_eq!(refused.status, 429, "{}", refused.body);
    assert_eq!(
        refused.header("retry-after"),
        None,
        "when a call ends is not known"
    );
    assert_eq!(refused.json()["message"], "too many calls in flight");
}

#[test]
fn calls_in_flight_are_limited_over_processes_that_share_a_redis() {
    let server = RedisServer::start();
    let services =
        [(); 2].map(|()| Service::started(command("in_flight").env("REDIS_URL", server.url())));
    let [first, second] = services.each_ref().map(|service| service.port);
    thread::scope(|scope| {
        let begun = Instant::now();
        let exporting = scope.spawn(move || ask(first, "GET /export/alice"));
        thread::sleep(WORK / 4);
        assert_refused(&ask(second, "GET /export/alice"));
        assert!(begun.elapsed() < WORK, "while the first one runs");
        let exported = exporting.join().unwrap();
        assert_eq!(
            (exported.status, exported.body.as_str()),
            (200, "all that alice has")
        );
    });
    // The first process tells Redis once it has answered.
    let answered = Instant::now();
    while ask(second, "GET /export/alice").status != 200 {
        assert!(answered.elapsed() < SLACK, "its place is left");
        thread::sleep(Duration::from_millis(5));
    }

    // A request ends at once, and its job goes on.
    assert_eq!(ask(first, "POST /jobs/alice").status, 202);
    assert_eq!(ask(second, "POST /jobs/alice").status, 202);
    assert_eq!(ask(second, "GET /jobs/alice").body, "2 of 2");
    assert_refused(&ask(first, "POST /jobs/alice"));
    let begun = Instant::now();
    while ask(first, "GET /jobs/alice").body != "0 of 2" {
        assert!(
            begun.elapsed() < WORK + SLACK,
            "jobs that have ended keep their places"
        );
        thread::sleep(Duration::from_millis(20));
    }
}
