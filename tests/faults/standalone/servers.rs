//! Servers that are not there yet, die, or do not serve.

use std::thread;

use ratelimit_runtime::{OnUnavailable, RedisMode};

use crate::harness::{Account, Answered, Fault, Logged, POLICIES};
use crate::one::{One, Setup};
use crate::support::eventually;

const PLAIN: Setup = Setup::NEW;
const PROXY: Setup = Setup {
    proxy: true,
    ..PLAIN
};
const DISK: Setup = Setup {
    disk: true,
    ..PLAIN
};

/// It is slow to load what it has saved.
const LOADS_SLOWLY: &[&str] = &[
    "--dbfilename",
    "rdb",
    "--key-load-delay",
    "300",
    "--loading-process-events-interval-bytes",
    "1024",
];
const MANY_KEYS: &str =
    "for key = 1, 5000 do redis.call('SET', 'key' .. key, 'value', 'EX', 600) end";

/// One line for the outage, and one for the recovery.
fn is_logged_once(one: &One, account: &Account) {
    account.assert_logged_once(&one.server().address());
}

/// An attacker who fills a server must not switch limits off.
fn nothing_goes_unchecked(_: &One, account: &Account) {
    assert_eq!(account.during(OnUnavailable::Allow, Answered::Nobody), 0);
    assert!(account.during(OnUnavailable::Allow, Answered::Fallback) > 0);
}

#[allow(clippy::too_many_lines, reason = "a table")]
pub(super) fn rows() -> Vec<Fault<One>> {
    let fault = Fault::<One>::new;
    vec![
        fault(
            "standalone::started_before_the_server",
            "the service starts 1 s before its server",
            PLAIN,
        )
        .at_the_start()
        .begins(|one| one.server_mut().stop())
        .ends(1_000, |one| one.server_mut().restart())
        .within(1_500),
        fault(
            "standalone::started_beside_a_frozen_server",
            "the service starts beside a server that accepts connections and says nothing, for 2.5 \
             s",
            PLAIN,
        )
        .at_the_start()
        .begins(|one| one.server().freeze())
        .ends(2_500, |one| one.server().thaw())
        .within(1_500),
        // What is refused at once must not be tried again at once: the attempt that hangs is given
        // up after two seconds; pauses double from 25 ms on.
        fault(
            "standalone::one_attempt_hangs_and_others_are_refused",
            "one attempt to connect that hangs, and all others refused, for 3.5 s",
            PROXY,
        )
        .at_the_start()
        .begins(|one| one.proxy().swallow(true))
        .again(50, |one| one.proxy().refuse(limiters_connected(one) >= 1))
        .ends(3_500, |one| {
            let connects = limiters_connected(one);
            assert!(connects <= 9, "each limiter connected {connects} times");
            one.proxy().refuse(false);
            one.proxy().swallow(false);
        })
        .within(1_500),
        fault(
            "standalone::killed_and_back_empty",
            "killed, and started again empty",
            PLAIN,
        )
        .forgets()
        .begins(|one| one.server_mut().stop())
        .ends(1_000, |one| one.server_mut().restart())
        .within(3_000)
        .then(is_logged_once),
        fault(
            "standalone::killed_and_back_empty_without_scripts",
            "killed, and started again empty, where callers use no scripts",
            Setup {
                mode: RedisMode::Transactions,
                ..PLAIN
            },
        )
        .forgets()
        .begins(|one| one.server_mut().stop())
        .ends(1_000, |one| one.server_mut().restart())
        .within(3_000),
        // What was admitted before counts after.
        fault(
            "standalone::killed_and_back_with_its_data",
            "killed, and started again at once with its data (`appendonly yes`)",
            Setup {
                args: &["--appendonly", "yes"],
                ..DISK
            },
        )
        .begins(|one| one.server_mut().restart())
        .within(3_000),
        // It answers LOADING, and takes connections meanwhile.
        fault(
            "standalone::loading",
            "started again, and LOADING for seconds",
            Setup {
                args: LOADS_SLOWLY,
                ..DISK
            },
        )
        .forgets()
        .begins(|one| {
            one.cli(&["EVAL", MANY_KEYS, "0"]);
            one.cli(&["SAVE"]);
            one.server_mut().restart();
        })
        .then(|one, _| {
            assert!(Logged::about(&one.server().address()).with("Redis does not serve") > 0);
        }),
        // Shorter than it takes to give the connection up: it is kept.
        fault(
            "standalone::frozen_briefly",
            "frozen (SIGSTOP) for 1 s",
            PROXY,
        )
        .begins(|one| one.server().freeze())
        .ends(1_000, |one| one.server().thaw())
        .within(500)
        .then(|one, account| {
            assert_eq!(limiters_connected(one), 1, "connections are kept");
            account.assert_logged_once(&one.proxy().address());
        }),
        fault(
            "standalone::frozen_for_seconds",
            "frozen (SIGSTOP) for 4 s",
            PLAIN,
        )
        .begins(|one| one.server().freeze())
        .ends(4_000, |one| one.server().thaw())
        .then(|one, account| {
            account.assert_answered_at_once();
            is_logged_once(one, account);
        }),
        fault(
            "standalone::busy_with_an_endless_script",
            "BUSY with another client's endless script for 1 s",
            Setup {
                args: &["--busy-reply-threshold", "50"],
                ..PLAIN
            },
        )
        .begins(|one| {
            let mut other = one.server().connect();
            thread::spawn(move || other.send(&["EVAL", "while true do end", "0"]));
        })
        .ends(1_000, |one| {
            assert_eq!(one.server().cli(&["SCRIPT", "KILL"]), "OK");
        })
        .then(is_logged_once),
        // It answers every write, and PING, with MISCONF.
        fault(
            "standalone::cannot_save",
            "MISCONF: it cannot save to its disk, for 1 s",
            Setup {
                args: &["--save", "3600 1"],
                ..DISK
            },
        )
        .begins(|one| {
            one.disk = None;
            one.cli(&["BGSAVE"]);
            assert!(eventually(|| one
                .server()
                .info("persistence", "rdb_last_bgsave_status")
                == "err"));
        })
        .ends(1_000, |one| one.config("stop-writes-on-bgsave-error", "no"))
        .then(nothing_goes_unchecked),
        fault(
            "standalone::too_few_replicas",
            "NOREPLICAS: too few replicas to write, for 1 s",
            PLAIN,
        )
        .begins(|one| one.config("min-replicas-to-write", "1"))
        .ends(1_000, |one| one.config("min-replicas-to-write", "0"))
        .within(500)
        .then(nothing_goes_unchecked),
        fault(
            "standalone::out_of_memory",
            "out of memory (OOM, `noeviction`) for 1 s",
            Setup {
                args: &["--maxmemory-policy", "noeviction"],
                ..PLAIN
            },
        )
        .begins(|one| one.config("maxmemory", "1"))
        .ends(1_000, |one| one.config("maxmemory", "0"))
        .within(500)
        .then(nothing_goes_unchecked),
    ]
}

/// How often each limiter has connected, rounded down.
fn limiters_connected(one: &One) -> u64 {
    one.proxy().accepted() / u64::try_from(POLICIES.len()).unwrap()
}
