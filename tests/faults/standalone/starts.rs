//! Services that start while their server is not well. Building a limiter is not connecting.

use std::time::Duration;

use tokio::time::timeout;

use crate::harness::{Load, POLICIES, Row, nothing_is_left_on};
use crate::support::eventually;
use crate::support::proxy::Proxy;
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

/// What is refused at once must not be tried again at once.
pub(crate) async fn one_attempt_hangs_and_others_are_refused() -> Row {
    let server = RedisServer::start();
    let proxy = Proxy::start(server.port()).await;
    let limiters = u64::try_from(POLICIES.len()).unwrap();
    proxy.swallow(true);
    let url = proxy.url();
    let mut load = Load::during_a_fault(|builder| builder.redis(&url));
    assert!(eventually(|| proxy.accepted() == limiters));
    proxy.refuse(true);
    load.go_on(Duration::from_millis(3_500)).await;
    let connects = proxy.accepted() / limiters;
    // The one that hangs is given up after two seconds; pauses double from 25 ms on.
    assert!(connects <= 9, "each limiter connected {connects} times");
    proxy.refuse(false);
    proxy.swallow(false);
    load.healed();
    load.recover(Duration::from_millis(1_500)).await;
    let account = load.end().await;
    account.assert_felt();
    nothing_is_left_on(&server);
    account.row("one attempt to connect that hangs, and all others refused, for 3.5 s")
}

/// The packets are dropped, and connecting takes minutes.
pub(crate) async fn an_address_without_a_host() -> Row {
    let load = Load::during_a_fault(|builder| builder.redis("redis://192.0.2.1:6379/"));
    load.go_on(Duration::from_millis(2_500)).await;
    let account = load.end().await;
    account.assert_felt();
    account.row("an address without a host, for 2.5 s")
}
