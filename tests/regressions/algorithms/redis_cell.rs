//! `CL.THROTTLE`: peek and acquire decide alike.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::*;
use crate::support::redis::RedisServer;

/// As in `tests/redis/redis_cell.rs`.
fn server() -> Option<RedisServer> {
    let module = std::env::var_os("RATELIMIT_TEST_REDIS_CELL").map(PathBuf::from).or_else(|| {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scripts/redis-cell.sh");
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("redis-cell");
        let built = Command::new("bash").arg(script).arg(folder).output().ok()?;
        built.status.success().then(|| PathBuf::from(String::from_utf8_lossy(&built.stdout).trim()))
    })?;
    Some(RedisServer::start_with(&["--loadmodule", module.to_str()?]))
}

#[tokio::test]
#[allow(clippy::print_stdout, reason = "says what was not tested")]
async fn peek_and_acquire_decide_alike_where_max_does_not_divide_the_window() {
    let Some(server) = server() else {
        println!("skipped: there is no redis-cell");
        return;
    };
    let store = RedisStore::new(&server.url()).unwrap().mode(RedisMode::RedisCell);
    for max in [1, 2, 3, 7, 11, 13, 17, 60, 97] {
        for window in [60, 61, 3_600, 86_400] {
            for used in [0, max / 2, max - 1] {
                let limits = [per(max, window * SECOND)];
                let key = crate::support::unique("cell");
                let request = |cost| Request::new(key.as_bytes(), Algorithm::LeakyBucket, &limits).with_cost(cost);
                if used > 0 {
                    assert!(store.acquire(request(used)).await.unwrap().allowed);
                }
                let all = request(max - used);
                let (peeked, over) =
                    (store.peek(all).await.unwrap(), store.peek(request((max - used + 1).min(max))).await.unwrap());
                assert_eq!(peeked.remaining, max - used, "{max} per {window} s, {used} used");
                assert_eq!(over.allowed, used == 0, "{max} per {window} s, {used} used: {over:?}");
                assert!(peeked.allowed, "{max} per {window} s, {used} used: {peeked:?}");
                assert!(store.acquire(all).await.unwrap().allowed, "{max} per {window} s, {used} used");
            }
        }
    }
}
