//! `outbound`: processes that share the limit of a remote API.

use super::command;
use super::support::redis::RedisServer;

#[test]
fn four_processes_stay_below_the_limit_of_an_api() {
    let server = RedisServer::start();
    let output = command("outbound")
        .env("REDIS_URL", server.url())
        .output()
        .expect("outbound can be started");
    assert!(output.status.success(), "{output:?}");
    // As the API has counted them: answered, refused, and the most that came within a window.
    let printed = String::from_utf8_lossy(&output.stdout);
    let line = printed.lines().last().unwrap_or_default();
    let numbers = line
        .split(|c: char| !c.is_ascii_digit())
        .filter_map(|word| word.parse().ok());
    let [60, 0, most, 20] = numbers.collect::<Vec<usize>>()[..] else {
        panic!("{output:?}")
    };
    assert!(most <= 20, "{output:?}");
}
