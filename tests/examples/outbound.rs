//! `outbound`: processes that share the limit of a remote API.

use std::process::{Command, Output};

use super::example;
use super::support::redis::RedisServer;

fn outbound(redis_url: Option<&str>) -> Output {
    let mut command = Command::new(example("outbound"));
    command.env_remove("RATELIMIT_URL").env_remove("REDIS_URL");
    command.envs(redis_url.map(|url| ("REDIS_URL", url))).output().expect("outbound can be started")
}

/// How many calls were answered and refused, and the most that came within a window: as the API has
/// counted them.
fn counted(output: &Output) -> [usize; 3] {
    let printed = String::from_utf8_lossy(&output.stdout);
    let line = printed.lines().last().unwrap_or_default();
    let numbers = line.split(|c: char| !c.is_ascii_digit()).filter_map(|word| word.parse().ok());
    match numbers.collect::<Vec<usize>>()[..] {
        [answered, refused, most, 20] => [answered, refused, most],
        _ => panic!("{output:?}"),
    }
}

#[test]
fn four_processes_stay_below_the_limit_of_an_api() {
    let server = RedisServer::start();
    let output = outbound(Some(&server.url()));
    let [answered, refused, most] = counted(&output);
    assert!(output.status.success(), "{output:?}");
    assert_eq!((answered, refused), (60, 0), "{output:?}");
    assert!(most <= 20, "{output:?}");
}

#[test]
fn without_redis_outbound_prints_the_command_to_run() {
    let output = outbound(None);
    assert_eq!(output.status.code(), Some(2));
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(
        stderr.contains("REDIS_URL=redis://127.0.0.1/ cargo run --example outbound --features outbound"),
        "{stderr}"
    );
}
