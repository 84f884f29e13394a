//! Faults of masters and of the sentinels that watch over them.

use std::time::Duration;

use crate::harness::{Load, Row, nothing_is_left_on};
use crate::support::sentinel::Sentinels;

/// A fail-over is followed within this time after the sentinels say where the master is.
const FOLLOWED: Duration = Duration::from_secs(2);

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
