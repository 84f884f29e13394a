//! The program of the guide's page on `prefetch`, which `cargo test --doc` only compiles.

#![allow(dead_code, reason = "`main` is for readers, who have a server")]

use crate::support::redis::RedisServer;

include!("../../ratelimit-runtime/src/guide/prefetch_program.rs");

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_limiters_that_take_ahead_admit_exactly_max() {
    let server = RedisServer::start();
    search_by_two(&server.url()).await.unwrap();
}
