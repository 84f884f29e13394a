//! Replies that come twice, not at all, or in another order. Each caller gets
//! the reply to its own call; the connection ends as soon as a reply is another.

use std::time::Duration;

use crate::harness::{Load, Row, nothing_is_left_on};
use crate::support::proxy::{Mischief, Proxy};
use crate::support::redis::RedisServer;

pub(crate) async fn doubled() -> Row {
    mistreated(Mischief::Double, "replies that come twice, now and then for 2 s").await
}

pub(crate) async fn lost() -> Row {
    mistreated(Mischief::Lose, "replies that do not come, and others that do, now and then for 2 s").await
}

pub(crate) async fn swapped() -> Row {
    mistreated(Mischief::Swap, "replies that come in another order, now and then for 2 s").await
}

async fn mistreated(mischief: Mischief, fault: &str) -> Row {
    let server = RedisServer::start();
    let proxy = Proxy::start(server.port()).await;
    proxy.mistreat(None);
    let mut load = Load::on(&proxy.url()).await;
    let connections = proxy.accepted();
    load.fault();
    proxy.mistreat(Some(mischief));
    load.go_on(Duration::from_secs(2)).await;
    proxy.mistreat(None);
    load.healed();
    load.recover(Duration::from_secs(3)).await;
    let account = load.end().await;
    assert!(proxy.mistreated() > 0 && proxy.accepted() > connections, "connections end by it");
    nothing_is_left_on(&server);
    account.row(fault)
}
