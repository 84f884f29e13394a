//! Servers that are connected and do not serve.

use std::thread;
use std::time::Duration;

use ratelimit_runtime::{Key, OnUnavailable, Rule};

use super::Disk;
use crate::harness::{Answered, LIMIT, Load, Row, nothing_is_left_on};
use crate::support::eventually;
use crate::support::redis::RedisServer;

/// Shorter than it takes to give the connection up: it is kept.
pub(crate) async fn frozen_briefly() -> Row {
    let server = RedisServer::start();
    let mut load = Load::on(&server.url()).await;
    let taken = connections_taken(&server);
    load.fault();
    server.freeze();
    load.go_on(Duration::from_secs(1)).await;
    server.thaw();
    load.healed();
    load.recover(Duration::from_millis(500)).await;
    let account = load.end().await;
    account.assert_felt();
    assert_eq!(connections_taken(&server), taken + 1, "the connections were kept; one is that of the question");
    account.assert_logged_once(&server.address());
    nothing_is_left_on(&server);
    account.row("frozen (SIGSTOP) for 1 s")
}

pub(crate) async fn frozen_for_seconds() -> Row {
    let server = RedisServer::start();
    let mut load = Load::on(&server.url()).await;
    load.fault();
    server.freeze();
    load.go_on(Duration::from_secs(4)).await;
    server.thaw();
    load.healed();
    load.recover(Duration::from_secs(2)).await;
    let account = load.end().await;
    account.assert_felt();
    account.assert_logged_once(&server.address());
    nothing_is_left_on(&server);
    account.row("frozen (SIGSTOP) for 4 s")
}

/// It answers all clients with BUSY, at once.
pub(crate) async fn busy_with_an_endless_script() -> Row {
    let server = RedisServer::start_with(&["--busy-reply-threshold", "50"]);
    let mut load = Load::on(&server.url()).await;
    let mut endless = server.connect();
    load.fault();
    let endless = thread::spawn(move || endless.send(&["EVAL", "while true do end", "0"]));
    load.go_on(Duration::from_secs(1)).await;
    assert_eq!(server.cli(&["SCRIPT", "KILL"]), "OK");
    load.healed();
    endless.join().unwrap().unwrap();
    load.recover(Duration::from_secs(2)).await;
    let account = load.end().await;
    account.assert_felt();
    account.assert_logged_once(&server.address());
    nothing_is_left_on(&server);
    account.row("BUSY with another client's endless script for 1 s")
}

/// It cannot save to its disk, and therefore answers every write, and PING, with MISCONF.
pub(crate) async fn cannot_save() -> Row {
    let disk = Disk::new();
    let server = RedisServer::start_with(&["--dir", disk.path(), "--save", "3600 1"]);
    let mut load = Load::on(&server.url()).await;
    load.fault();
    drop(disk);
    server.cli(&["BGSAVE"]);
    assert!(eventually(|| server.info("persistence", "rdb_last_bgsave_status") == "err"));
    load.go_on(Duration::from_secs(1)).await;
    server.cli(&["CONFIG", "SET", "stop-writes-on-bgsave-error", "no"]);
    load.healed();
    load.recover(Duration::from_secs(2)).await;
    let account = load.end().await;
    account.assert_felt();
    nothing_is_left_on(&server);
    account.row("MISCONF: it cannot save to its disk, for 1 s")
}

/// It is well, and refuses writes for lack of replicas.
pub(crate) async fn too_few_replicas() -> Row {
    let server = RedisServer::start();
    let mut load = Load::on(&server.url()).await;
    load.fault();
    server.cli(&["CONFIG", "SET", "min-replicas-to-write", "1"]);
    load.go_on(Duration::from_secs(1)).await;
    server.cli(&["CONFIG", "SET", "min-replicas-to-write", "0"]);
    load.healed();
    load.recover(Duration::from_millis(500)).await;
    let account = load.end().await;
    account.assert_felt();
    nothing_is_left_on(&server);
    account.row("NOREPLICAS: too few replicas to write, for 1 s")
}

/// An attacker who fills it must not switch limits off.
pub(crate) async fn out_of_memory() -> Row {
    let server = RedisServer::start_with(&["--maxmemory-policy", "noeviction"]);
    let mut load = Load::on(&server.url()).await;
    load.fault();
    server.cli(&["CONFIG", "SET", "maxmemory", "1"]);
    load.go_on(Duration::from_secs(1)).await;
    let looked = load.limiter(OnUnavailable::Deny).peek(&Rule::new("seen", LIMIT), &Key::global()).await;
    assert!(!looked.unwrap().is_degraded(), "looking needs no memory");
    server.cli(&["CONFIG", "SET", "maxmemory", "0"]);
    load.healed();
    load.recover(Duration::from_millis(500)).await;
    let account = load.end().await;
    account.assert_felt();
    assert_eq!(account.during(OnUnavailable::Allow, Answered::Nobody), 0, "nothing goes unchecked");
    assert!(account.during(OnUnavailable::Allow, Answered::Fallback) > 0);
    nothing_is_left_on(&server);
    account.row("out of memory (OOM, `noeviction`) for 1 s")
}

fn connections_taken(server: &RedisServer) -> i64 {
    server.info("stats", "total_connections_received").parse().unwrap()
}
