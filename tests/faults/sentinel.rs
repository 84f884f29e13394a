//! Faults of masters and of the sentinels that watch over them.

use std::thread;
use std::time::{Duration, Instant};

use ratelimit_runtime::RateLimiterBuilder;

use crate::harness::{CALLERS, Case, Fault, Load, Row, World, nothing_is_left_on};
use crate::support::eventually;
use crate::support::fake_sentinel::FakeSentinel;
use crate::support::redis::RedisServer;
use crate::support::sentinel::{Sentinels, WATCHER, watcher_login};

impl World for Sentinels {
    /// Whether they log in as [`WATCHER`].
    type Setup = bool;

    async fn start(watched: bool) -> Self {
        let (args, lines) = if watched {
            (&WATCHER[..], watcher_login())
        } else {
            (&[][..], String::new())
        };
        Self::start_with(3, args, &lines)
    }

    fn store(&self, builder: RateLimiterBuilder) -> RateLimiterBuilder {
        builder.redis(&self.url())
    }

    fn servers(&self) -> Vec<&RedisServer> {
        self.servers.iter().collect()
    }
}

/// A fail-over is followed within two seconds after the sentinels say where the master is.
pub(crate) fn cases() -> impl Iterator<Item = Case> {
    let fault = Fault::<Sentinels>::new;
    let rows = [
        // The replica takes over; it may have lost the last writes.
        fault(
            "sentinel::master_killed",
            "Sentinel of 3: the master killed; from when they name the new one",
            false,
        )
        .forgets()
        .begins(|all| all.servers[0].stop())
        .ends(0, |all| all.until_master_is(1)),
        // The old master wakes up believing that it still is one.
        fault(
            "sentinel::master_frozen",
            "Sentinel of 3: the master frozen, replaced and thawed; from when they name the new one",
            false,
        )
        .forgets()
        .begins(|all| all.servers[0].freeze())
        .ends(0, |all| all.until_master_is(1))
        .afterwards(|all| all.servers[0].thaw()),
        // It goes on as a master for those who can reach it, until they hear of the new one.
        fault(
            "sentinel::master_cut_off",
            "Sentinel of 3: a master that callers can reach and sentinels cannot, replaced",
            true,
        )
        .hardly_noticed()
        .two_masters()
        .begins(|all| all.cut_off_the_first())
        .afterwards(|all| {
            let start = Instant::now();
            assert!(eventually(
                || is_asked(&all.servers[1]) && !is_asked(&all.servers[0])
            ));
            assert!(
                start.elapsed() < Duration::from_secs(3),
                "left after {:?}",
                start.elapsed()
            );
        })
        .then(|all, _| {
            assert!(
                all.servers[0].cli(&["ROLE"]).starts_with("master"),
                "the old one is one still"
            );
        }),
        fault(
            "sentinel::one_killed",
            "Sentinel of 3: one sentinel killed, and 1.5 s later the master",
            false,
        )
        .forgets()
        .begins(|all| all.sentinels[0].stop())
        .ends(1_500, |all| {
            all.servers[0].stop();
            all.until_master_is(1);
        }),
        // The connection goes on, and a new one is made to the last master that was known.
        fault(
            "sentinel::all_killed",
            "Sentinel of 3: all sentinels killed, and 1.5 s later all connections, the master alive",
            false,
        )
        .hardly_noticed()
        .begins(|all| all.sentinels.iter_mut().for_each(RedisServer::stop))
        .ends(1_500, |all| {
            drop(all.servers[0].cli(&["CLIENT", "KILL", "TYPE", "normal"]));
        })
        .within(1_000)
        .then(|_, account| assert!(account.degraded() <= 3 * CALLERS, "{}", account.degraded())),
    ];
    rows.into_iter().map(|row| row.case(Fault::play))
}

/// Whether callers have this server run scripts.
fn is_asked(server: &RedisServer) -> bool {
    let scripts = || server.info("commandstats", "cmdstat_evalsha");
    let before = scripts();
    thread::sleep(Duration::from_millis(100));
    scripts() != before
}

/// It names the master of before. That of a higher epoch is asked first, and says that it is one.
pub(crate) async fn outdated_sentinel_alone() -> Row {
    let (old, new) = (RedisServer::start(), RedisServer::start());
    let sentinel = FakeSentinel::start(&new, 5).await;
    let mut load = Load::on(&sentinel.url()).await;
    sentinel.say(&old, 4);
    load.fault();
    for _ in 0..5 {
        new.cli(&["CLIENT", "KILL", "TYPE", "normal"]);
        load.go_on(Duration::from_millis(300)).await;
    }
    load.healed();
    load.recover(Duration::from_secs(1)).await;
    let account = load.end().await;
    assert_eq!(
        old.number(&["DBSIZE"]),
        0,
        "calls were counted on the master of before"
    );
    [&old, &new].into_iter().for_each(nothing_is_left_on);
    account.row(
        "a sentinel that is out of date alone answers, and all connections are killed five times \
         in 1.5 s",
    )
}
