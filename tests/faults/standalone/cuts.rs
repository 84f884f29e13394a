//! Connections that break, and scripts that are gone.

use std::time::Duration;

use ratelimit_runtime::OnUnavailable;

use crate::harness::{Answered, Load, Row, nothing_is_left_on};
use crate::support::proxy::Proxy;
use crate::support::redis::RedisServer;

/// Connections that end as soon as they are made are made less and less often, and limits hold.
pub(crate) async fn flapping() -> Row {
    let server = RedisServer::start();
    let mut load = Load::on(&server.url()).await;
    load.fault();
    for _ in 0..75 {
        server.cli(&["CLIENT", "KILL", "TYPE", "normal"]);
        load.go_on(Duration::from_millis(20)).await;
    }
    load.healed();
    load.recover(Duration::from_millis(1_500)).await;
    let account = load.end().await;
    account.assert_felt();
    nothing_is_left_on(&server);
    account.row("CLIENT KILL of all connections, every 20 ms for 1.5 s")
}

/// No further client is let in, and those there were are gone.
pub(crate) async fn too_many_clients() -> Row {
    let server = RedisServer::start();
    let mut load = Load::on(&server.url()).await;
    let mut admin = server.connect();
    load.fault();
    admin.send(&["CONFIG", "SET", "maxclients", "1"]).unwrap();
    admin.send(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]).unwrap();
    load.go_on(Duration::from_secs(1)).await;
    admin.send(&["CONFIG", "SET", "maxclients", "100"]).unwrap();
    load.healed();
    drop(admin);
    load.recover(Duration::from_secs(3)).await;
    let account = load.end().await;
    account.assert_felt();
    nothing_is_left_on(&server);
    account.row("`maxclients` reached, and connections lost, for 1 s")
}

/// Twenty replies end in the middle, and their connections with them.
pub(crate) async fn cut_in_the_middle_of_replies() -> Row {
    let server = RedisServer::start();
    let proxy = Proxy::start(server.port()).await;
    let mut load = Load::on(&proxy.url()).await;
    load.fault();
    for _ in 0..10 {
        proxy.cut_replies(2);
        load.go_on(Duration::from_millis(100)).await;
    }
    proxy.cut_replies(0);
    load.healed();
    load.recover(Duration::from_secs(2)).await;
    let account = load.end().await;
    account.assert_felt();
    nothing_is_left_on(&server);
    account.row("connections cut in the middle of replies, twenty times in a second")
}

/// As a restarted firewall does; and for a while it lets no connection in.
pub(crate) async fn all_connections_reset() -> Row {
    let server = RedisServer::start();
    let proxy = Proxy::start(server.port()).await;
    let mut load = Load::on(&proxy.url()).await;
    load.fault();
    proxy.refuse(true);
    proxy.reset_all();
    load.go_on(Duration::from_secs(1)).await;
    proxy.refuse(false);
    load.healed();
    load.recover(Duration::from_secs(3)).await;
    let account = load.end().await;
    account.assert_felt();
    assert!(account.during(OnUnavailable::Allow, Answered::Nobody) > 0);
    nothing_is_left_on(&server);
    account.row("all connections reset, and new ones too, for 1 s")
}

/// Nothing arrives, without an error; new connections are accepted and hear nothing.
pub(crate) async fn swallowed() -> Row {
    let server = RedisServer::start();
    let proxy = Proxy::start(server.port()).await;
    let mut load = Load::on(&proxy.url()).await;
    load.fault();
    proxy.swallow(true);
    load.go_on(Duration::from_secs(4)).await;
    proxy.swallow(false);
    load.healed();
    load.recover(Duration::from_secs(3)).await;
    let account = load.end().await;
    account.assert_felt();
    drop(proxy);
    nothing_is_left_on(&server);
    account.row("a network that swallows every byte, and accepts, for 4 s")
}

/// A firewall has forgotten the connections, without an error. They are given up after two
/// seconds without a byte.
pub(crate) async fn connections_forgotten() -> Row {
    let server = RedisServer::start();
    let proxy = Proxy::start(server.port()).await;
    let mut load = Load::on(&proxy.url()).await;
    load.fault();
    proxy.forget_all();
    load.healed();
    load.recover(Duration::from_secs(4)).await;
    let account = load.end().await;
    account.assert_felt();
    drop(proxy);
    nothing_is_left_on(&server);
    account.row("a firewall that forgets all connections, and says nothing")
}

/// Replies that are none.
pub(crate) async fn garbled() -> Row {
    let server = RedisServer::start();
    let proxy = Proxy::start(server.port()).await;
    let mut load = Load::on(&proxy.url()).await;
    load.fault();
    proxy.garble(true);
    load.go_on(Duration::from_secs(1)).await;
    proxy.garble(false);
    load.healed();
    load.recover(Duration::from_secs(3)).await;
    let account = load.end().await;
    account.assert_felt();
    nothing_is_left_on(&server);
    account.row("replies that are garbage, for 1 s")
}

/// A way that is longer than the timeout stays slow for as long as it is.
pub(crate) async fn far_away() -> Row {
    let server = RedisServer::start();
    let proxy = Proxy::start(server.port()).await;
    let mut load = Load::on(&proxy.url()).await;
    load.fault();
    proxy.delay(Duration::from_millis(150));
    load.go_on(Duration::from_secs(3)).await;
    proxy.delay(Duration::ZERO);
    load.healed();
    load.recover(Duration::from_secs(1)).await;
    let account = load.end().await;
    account.assert_felt();
    assert_eq!(proxy.accepted(), 3, "the connections were kept");
    nothing_is_left_on(&server);
    account.row("300 ms further away than before, for 3 s")
}
