//! Connections that break, and replies that are not what they should be.

use std::time::Duration;

use ratelimit_runtime::OnUnavailable;

use crate::harness::{Answered, Fault, POLICIES};
use crate::one::{One, Setup};
use crate::support::proxy::Mischief;

const PLAIN: Setup = Setup::NEW;
const PROXY: Setup = Setup {
    proxy: true,
    ..PLAIN
};

/// Of replies, some come otherwise. A caller is answered by the reply to its own call, or by
/// policy: the connection ends as soon as a reply is not that.
fn mistreated(name: &'static str, says: &'static str, begins: fn(&mut One)) -> Fault<One> {
    let fault = Fault::<One>::new(name, says, PROXY)
        .hardly_noticed()
        .begins(begins);
    let fault = fault
        .ends(2_000, |one| one.proxy().mistreat(None))
        .within(3_000);
    fault
        .then(|one, _| assert!(one.proxy().mistreated() > 0 && one.proxy().accepted() > limiters()))
}

fn limiters() -> u64 {
    u64::try_from(POLICIES.len()).unwrap()
}

#[allow(clippy::too_many_lines, reason = "a table")]
pub(super) fn rows() -> Vec<Fault<One>> {
    let fault = Fault::<One>::new;
    vec![
        fault(
            "standalone::killed_now_and_then",
            "CLIENT KILL of all connections, every 250 ms for 1.25 s",
            PLAIN,
        )
        .unnoticed()
        .again(250, |one| one.kill_connections())
        .ends(1_250, |_| {}),
        // Connections that end as soon as they are made are made less and less often.
        fault(
            "standalone::flapping",
            "CLIENT KILL of all connections, every 20 ms for 1.5 s",
            PLAIN,
        )
        .again(20, |one| one.kill_connections())
        .ends(1_500, |_| {})
        .within(1_500),
        fault(
            "standalone::scripts_flushed",
            "SCRIPT FLUSH fifty times in a second",
            PLAIN,
        )
        .unnoticed()
        .again(20, |one| one.cli(&["SCRIPT", "FLUSH"]))
        .ends(1_000, |_| {})
        .within(500),
        // No further client is let in, and those there were are gone.
        fault(
            "standalone::too_many_clients",
            "`maxclients` reached, and connections lost, for 1 s",
            PLAIN,
        )
        .begins(|one| {
            let mut admin = one.server().connect();
            admin.send(&["CONFIG", "SET", "maxclients", "1"]).unwrap();
            admin
                .send(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"])
                .unwrap();
            one.admin = Some(admin);
        })
        .ends(1_000, |one| {
            let mut admin = one.admin.take().unwrap();
            admin.send(&["CONFIG", "SET", "maxclients", "100"]).unwrap();
        })
        .within(3_000),
        fault(
            "standalone::cut_in_the_middle_of_replies",
            "connections cut in the middle of replies, twenty times in a second",
            PROXY,
        )
        .again(100, |one| one.proxy().cut_replies(2))
        .ends(1_000, |one| one.proxy().cut_replies(0)),
        // As a restarted firewall does; and for a while it lets no connection in.
        fault(
            "standalone::all_connections_reset",
            "all connections reset, and new ones too, for 1 s",
            PROXY,
        )
        .begins(|one| {
            one.proxy().refuse(true);
            one.proxy().reset_all();
        })
        .ends(1_000, |one| one.proxy().refuse(false))
        .within(3_000)
        .then(|_, account| assert!(account.during(OnUnavailable::Allow, Answered::Nobody) > 0)),
        fault(
            "standalone::swallowed",
            "a network that swallows every byte, and accepts, for 4 s",
            PROXY,
        )
        .begins(|one| one.proxy().swallow(true))
        .ends(4_000, |one| one.proxy().swallow(false))
        .within(3_000)
        .then(|_, account| account.assert_answered_at_once()),
        // They are given up after two seconds without a byte.
        fault(
            "standalone::connections_forgotten",
            "a firewall that forgets all connections, and says nothing",
            PROXY,
        )
        .begins(|one| one.proxy().forget_all())
        .within(4_000),
        fault(
            "standalone::garbled",
            "replies that are garbage, for 1 s",
            PROXY,
        )
        .begins(|one| one.proxy().garble(true))
        .ends(1_000, |one| one.proxy().garble(false))
        .within(3_000),
        mistreated(
            "standalone::doubled",
            "replies that come twice, now and then for 2 s",
            |one| {
                one.proxy().mistreat(Some(Mischief::Double));
            },
        ),
        mistreated(
            "standalone::lost",
            "replies that do not come, and others that do, now and then for 2 s",
            |one| one.proxy().mistreat(Some(Mischief::Lose)),
        ),
        mistreated(
            "standalone::swapped",
            "replies that come in another order, now and then for 2 s",
            |one| {
                one.proxy().mistreat(Some(Mischief::Swap));
            },
        ),
        // A way that is longer than the timeout stays slow for as long as it is.
        fault(
            "standalone::far_away",
            "300 ms further away than before, for 3 s",
            PROXY,
        )
        .begins(|one| one.proxy().delay(Duration::from_millis(150)))
        .ends(3_000, |one| one.proxy().delay(Duration::ZERO))
        .within(1_000)
        .then(|one, _| assert_eq!(one.proxy().accepted(), limiters(), "connections are kept")),
    ]
}
