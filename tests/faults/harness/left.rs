//! What must not be left behind on a server.

use crate::support::eventually;
use crate::support::redis::RedisServer;

/// Once its limiters are dropped, a server has no connection of theirs, and never a key without a
/// time to live.
pub(crate) fn nothing_is_left_on(server: &RedisServer) {
    // db0:keys=65,expires=65,avg_ttl=…
    let keyspace = server.cli(&["INFO", "keyspace"]);
    let count = |name: &str| {
        Some(
            keyspace
                .split_once(name)?
                .1
                .split(',')
                .next()
                .unwrap_or_default(),
        )
    };
    assert_eq!(count("keys="), count("expires="), "keys that never expire");
    let clients = || {
        let list = server.cli(&["CLIENT", "LIST", "TYPE", "normal"]);
        // The test itself, sentinels, and nodes of a cluster that have moved keys here.
        let others = [
            "cmd=client",
            "name=sentinel-",
            "user=watcher",
            "cmd=restore",
        ];
        list.lines()
            .filter(|line| !line.is_empty() && !others.iter().any(|other| line.contains(other)))
            .count()
    };
    assert!(
        eventually(|| clients() == 0),
        "{} connections are left",
        clients()
    );
}
