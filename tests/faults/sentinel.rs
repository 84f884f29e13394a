//! Faults of masters and of the sentinels that watch over them.

use std::net::TcpListener;
use std::time::Duration;

use crate::harness::{Account, CALLERS, Load, Row, nothing_is_left_on};
use crate::support::fake_sentinel::FakeSentinel;
use crate::support::redis::RedisServer;
use crate::support::sentinel::{Sentinels, WATCHER, watcher_login};

/// A fail-over is followed within this time after the sentinels say where the master is.
const FOLLOWED: Duration = Duration::from_secs(2);

fn assert_nothing_is_left(all: &Sentinels) {
    all.servers.iter().for_each(nothing_is_left_on);
}

/// The replica takes over; it may have lost the last writes.
pub(crate) async fn master_killed() -> Row {
    let mut all = Sentinels::start(3);
    let mut load = Load::on(&all.url()).await;
    load.fault();
    all.servers[0].stop();
    load.store_forgets();
    all.until_master_is(1);
    load.healed();
    load.recover(FOLLOWED).await;
    let account = load.end().await;
    account.assert_felt();
    nothing_is_left_on(&all.servers[1]);
    account.row("Sentinel of 3: the master killed; from the moment on when they name the new one")
}

/// The old master wakes up believing that it still is one. Nobody has waited for it.
pub(crate) async fn master_frozen() -> Row {
    let all = Sentinels::start(3);
    let mut load = Load::on(&all.url()).await;
    load.fault();
    all.servers[0].freeze();
    load.store_forgets();
    all.until_master_is(1);
    load.healed();
    load.recover(FOLLOWED).await;
    all.servers[0].thaw();
    load.go_on(Duration::from_millis(500)).await;
    let account = load.end().await;
    account.assert_felt();
    assert_nothing_is_left(&all);
    account.row(
        "Sentinel of 3: the master frozen, replaced, and thawed later; from the moment on when they name the new one",
    )
}

/// It goes on as a master for those who can reach it, until they hear of the new one.
pub(crate) async fn master_cut_off_from_its_sentinels() -> Row {
    let all = Sentinels::start_with(3, &WATCHER, &watcher_login());
    let mut load = Load::on(&all.url()).await;
    load.fault();
    all.cut_off_the_first();
    load.healed();
    load.recover(FOLLOWED).await;
    let account = load.end_with(Account::expect_two_masters).await;
    assert!(all.servers[0].cli(&["ROLE"]).starts_with("master"), "the old one is a master still");
    assert_nothing_is_left(&all);
    account.row("Sentinel of 3: a master that callers can reach and sentinels cannot, replaced")
}

/// Nobody notices, and those that are left follow a fail-over.
pub(crate) async fn sentinel_killed() -> Row {
    let mut all = Sentinels::start(3);
    let mut load = Load::on(&all.url()).await;
    load.fault();
    all.sentinels[0].stop();
    load.go_on(Duration::from_millis(1_500)).await;
    all.servers[0].stop();
    load.store_forgets();
    all.until_master_is(1);
    load.healed();
    load.recover(FOLLOWED).await;
    let account = load.end().await;
    account.assert_felt();
    nothing_is_left_on(&all.servers[1]);
    account.row("Sentinel of 3: one sentinel killed, and 1.5 s later the master")
}

/// The connection goes on, and a new one is made to the last master that was known.
pub(crate) async fn all_sentinels_killed() -> Row {
    let mut all = Sentinels::start(3);
    let mut load = Load::on(&all.url()).await;
    load.fault();
    all.sentinels.iter_mut().for_each(RedisServer::stop);
    load.go_on(Duration::from_millis(1_500)).await;
    all.servers[0].cli(&["CLIENT", "KILL", "TYPE", "normal"]);
    load.healed();
    load.recover(Duration::from_secs(1)).await;
    let account = load.end().await;
    let degraded = account.degraded();
    assert!(degraded <= 3 * CALLERS, "{degraded} calls were not answered by the store");
    assert_nothing_is_left(&all);
    account.row("Sentinel of 3: all sentinels killed, and 1.5 s later all connections, the master alive")
}

/// It names the master of before. That of a higher epoch is asked first, and says that it is one.
pub(crate) async fn outdated_sentinel_alone() -> Row {
    let (old, new) = (RedisServer::start(), RedisServer::start());
    let sentinel = FakeSentinel::start(&new, 5).await;
    let mut load = Load::on(&sentinel.url()).await;
    sentinel.say(&old, 4, &[]);
    load.fault();
    for _ in 0..5 {
        new.cli(&["CLIENT", "KILL", "TYPE", "normal"]);
        load.go_on(Duration::from_millis(300)).await;
    }
    load.healed();
    load.recover(Duration::from_secs(1)).await;
    let account = load.end().await;
    assert_eq!(old.number(&["DBSIZE"]), 0, "calls were counted on the master of before");
    [&old, &new].into_iter().for_each(nothing_is_left_on);
    account.row("a sentinel that is out of date alone answers, and all connections are killed five times in 1.5 s")
}

/// Sentinels never stop to name those that were replaced.
pub(crate) async fn dead_sentinels_named() -> Row {
    let (old, new) = (RedisServer::start(), RedisServer::start());
    let (sentinel, other) = (FakeSentinel::start(&old, 1).await, FakeSentinel::start(&new, 2).await);
    let port = || TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let dead: Vec<u16> = (0..20).map(|_| port()).collect();
    let named = |alive| dead.iter().map(|port| (*port, alive)).collect::<Vec<_>>();
    sentinel.say(&old, 1, &named(true));
    let mut load = Load::on(&sentinel.url()).await;
    load.fault();
    load.store_forgets();
    sentinel.say(&old, 1, &[named(false), vec![(other.port(), true)]].concat());
    load.go_on(Duration::from_secs(3)).await;
    sentinel.stop();
    new.cli(&["CLIENT", "KILL", "TYPE", "normal"]);
    load.healed();
    load.recover(Duration::from_secs(1)).await;
    let account = load.end_with(Account::expect_two_masters).await;
    assert!(new.number(&["DBSIZE"]) > 0, "the master is followed that a new sentinel names");
    [&old, &new].into_iter().for_each(nothing_is_left_on);
    account.row("20 dead sentinels are named, then one that is new, which alone knows of a fail-over")
}
