//! Servers that die, and come back with or without their data.

use std::time::Duration;

use super::Disk;
use crate::harness::{Load, Logged, Row, nothing_is_left_on};
use crate::support::redis::RedisServer;

pub(crate) async fn killed_and_back_empty() -> Row {
    let mut server = RedisServer::start();
    let mut load = Load::on(&server.url()).await;
    load.fault();
    server.stop();
    load.go_on(Duration::from_secs(1)).await;
    load.store_forgets();
    server.restart();
    load.healed();
    load.recover(Duration::from_secs(3)).await;
    let account = load.end().await;
    account.assert_felt();
    account.assert_logged_once(&server.address());
    nothing_is_left_on(&server);
    account.row("killed, and started again empty")
}

/// What was admitted before counts after.
pub(crate) async fn killed_and_back_with_its_data() -> Row {
    let disk = Disk::new();
    let mut server = RedisServer::start_with(&["--dir", disk.path(), "--appendonly", "yes"]);
    let mut load = Load::on(&server.url()).await;
    load.fault();
    server.restart();
    load.healed();
    load.recover(Duration::from_secs(3)).await;
    let account = load.end().await;
    account.assert_felt();
    nothing_is_left_on(&server);
    account.row("killed, and started again at once with its data (`appendonly yes`)")
}

/// It answers LOADING, and takes connections meanwhile.
pub(crate) async fn loading() -> Row {
    const LOADS_SLOWLY: [&str; 4] = ["--key-load-delay", "300", "--loading-process-events-interval-bytes", "1024"];
    const MANY_KEYS: &str = "for key = 1, 5000 do redis.call('SET', 'key' .. key, 'value', 'EX', 600) end";
    let disk = Disk::new();
    let mut server =
        RedisServer::start_with(&[&["--dir", disk.path(), "--dbfilename", "rdb"], &LOADS_SLOWLY[..]].concat());
    server.cli(&["EVAL", MANY_KEYS, "0"]);
    let mut load = Load::on(&server.url()).await;
    server.cli(&["SAVE"]);
    load.fault();
    // What was logged since is lost.
    load.store_forgets();
    server.restart();
    load.healed();
    load.recover(Duration::from_secs(2)).await;
    let account = load.end().await;
    account.assert_felt();
    assert!(Logged::about(&server.address()).with("Redis does not serve") > 0);
    nothing_is_left_on(&server);
    account.row("started again, and LOADING for seconds")
}
