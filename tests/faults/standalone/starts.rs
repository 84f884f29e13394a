//! Services that start while their server is not well. Building a limiter is not connecting.

use std::time::Duration;

use tokio::time::timeout;

use crate::harness::{Load, POLICIES, Row, nothing_is_left_on};
use crate::support::redis::RedisServer;

pub(crate) async fn started_before_the_server() -> Row {
    let mut server = RedisServer::start();
    server.stop();
    let url = server.url();
    let mut load = Load::during_a_fault(|builder| builder.redis(&url));
    load.go_on(Duration::from_secs(1)).await;
    let waits = timeout(Duration::ZERO, load.limiter(POLICIES[0]).ready()).await;
    assert!(waits.is_err(), "`ready` waits for the server");
    server.restart();
    load.healed();
    load.recover(Duration::from_millis(1_500)).await;
    load.limiter(POLICIES[0]).ready().await.unwrap();
    let account = load.end().await;
    account.assert_felt();
    nothing_is_left_on(&server);
    account.row("the service starts 1 s before its server")
}

/// It accepts connections, and never says a word on them.
pub(crate) async fn started_beside_a_frozen_server() -> Row {
    let server = RedisServer::start();
    server.freeze();
    let url = server.url();
    let mut load = Load::during_a_fault(|builder| builder.redis(&url));
    load.go_on(Duration::from_millis(2_500)).await;
    server.thaw();
    load.healed();
    load.recover(Duration::from_millis(1_500)).await;
    let account = load.end().await;
    account.assert_felt();
    nothing_is_left_on(&server);
    account.row("the service starts beside a server that accepts connections and says nothing, for 2.5 s")
}

/// The packets are dropped, and connecting takes minutes.
pub(crate) async fn an_address_where_nobody_is() -> Row {
    let load = Load::during_a_fault(|builder| builder.redis("redis://192.0.2.1:6379/"));
    load.go_on(Duration::from_millis(2_500)).await;
    let account = load.end().await;
    account.assert_felt();
    account.row("an address where nobody is, for 2.5 s")
}
