//! Masters and replicas that die, or are frozen.

use std::time::Duration;

use super::beside::{Beside, Calls, assert_first_alone_is_sick};
use super::{EACH_FOR_ITSELF, assert_unnoticed, nothing_is_left_on_any};
use crate::harness::{Load, Row};
use crate::support::cluster::RedisCluster;

/// What the nodes need to elect another master, and the store to find it.
const FAIL_OVER: Duration = Duration::from_secs(6);

/// A replica takes over, perhaps without the last writes.
pub(crate) async fn master_killed() -> Row {
    let mut cluster = RedisCluster::start_with(3, 1, &EACH_FOR_ITSELF);
    let mut load = Load::on(&cluster.url()).await;
    let beside = Beside::on(&cluster, &[0, 1, 2]).await;
    load.fault();
    load.store_forgets();
    cluster.kill(0);
    load.healed();
    load.recover(FAIL_OVER).await;
    let beside = beside.end().await;
    let account = load.end().await;
    account.assert_felt();
    assert_first_alone_is_sick(&beside);
    nothing_is_left_on_any(&cluster);
    account.row("cluster: a master killed, and its replica takes over")
}

/// Its slots are answered by policy until it is back; all others go on.
pub(crate) async fn master_killed_without_a_replica() -> Row {
    let mut cluster = RedisCluster::start_with(3, 0, &EACH_FOR_ITSELF);
    let mut load = Load::on(&cluster.url()).await;
    let beside = Beside::on(&cluster, &[0, 1, 2]).await;
    load.fault();
    cluster.kill(0);
    load.go_on(Duration::from_secs(3)).await;
    load.store_forgets();
    cluster.restart(0);
    load.healed();
    load.recover(FAIL_OVER).await;
    let beside = beside.end().await;
    let account = load.end().await;
    account.assert_felt();
    assert_first_alone_is_sick(&beside);
    nothing_is_left_on_any(&cluster);
    account.row("cluster: a master without a replica killed for 3 s, and started again empty")
}

/// Nobody talks to replicas.
pub(crate) async fn frozen_replica() -> Row {
    let cluster = RedisCluster::start(3, 1);
    let mut load = Load::on(&cluster.url()).await;
    load.fault();
    cluster.freeze(3);
    for node in 0..3 {
        cluster.node(node).cli(&["SCRIPT", "FLUSH"]);
    }
    load.go_on(Duration::from_secs(3)).await;
    cluster.thaw(3);
    load.healed();
    load.recover(Duration::from_millis(500)).await;
    let account = load.end().await;
    assert_unnoticed(&account);
    nothing_is_left_on_any(&cluster);
    account.row("cluster: a replica frozen (SIGSTOP) for 3 s, scripts flushed")
}

/// It is found to be slow, a replica takes over, and it returns as a replica.
pub(crate) async fn frozen_master() -> Row {
    let cluster = RedisCluster::start_with(3, 1, &EACH_FOR_ITSELF);
    let mut load = Load::on(&cluster.url()).await;
    let beside = Beside::on(&cluster, &[0, 1, 2]).await;
    load.fault();
    load.store_forgets();
    cluster.freeze(0);
    load.healed();
    load.recover(FAIL_OVER).await;
    cluster.thaw(0);
    load.go_on(Duration::from_secs(1)).await;
    let beside = beside.end().await;
    let account = load.end().await;
    account.assert_felt();
    assert_first_alone_is_sick(&beside);
    nothing_is_left_on_any(&cluster);
    account.row("cluster: a master frozen (SIGSTOP), its replica takes over, and it returns")
}

/// Two of three masters cannot be reached: the third one refuses as well.
pub(crate) async fn lost_majority() -> Row {
    let cluster = RedisCluster::start_with(3, 0, &EACH_FOR_ITSELF);
    let mut load = Load::on(&cluster.url()).await;
    let beside = Beside::on(&cluster, &[0, 1, 2]).await;
    load.fault();
    cluster.freeze(0);
    cluster.freeze(1);
    load.go_on(Duration::from_secs(4)).await;
    cluster.thaw(0);
    cluster.thaw(1);
    load.healed();
    load.recover(FAIL_OVER).await;
    let beside = beside.end().await;
    let account = load.end().await;
    account.assert_felt();
    beside.iter().for_each(Calls::assert_sick);
    nothing_is_left_on_any(&cluster);
    account.row("cluster: two of three masters frozen for 4 s (CLUSTERDOWN)")
}
