//! What must not be left behind on a server.

use crate::support::eventually;
use crate::support::redis::RedisServer;

/// Counts keys that never expire.
const LASTING_KEYS: &str = "local n = 0 for _, k in ipairs(redis.call('KEYS', '*')) do \
                            if redis.call('PTTL', k) == -1 then n = n + 1 end end return n";

/// Once its limiters are dropped, a server has no connection of theirs, and never a key without a time to live.
pub(crate) fn nothing_is_left_on(server: &RedisServer) {
    assert_eq!(server.cli(&["EVAL", LASTING_KEYS, "0"]), "0", "keys that never expire");
    let clients = || {
        let list = server.cli(&["CLIENT", "LIST", "TYPE", "normal"]);
        let others = ["cmd=client", "name=sentinel-", "user=watcher"];
        list.lines().filter(|line| !line.is_empty() && !others.iter().any(|other| line.contains(other))).count()
    };
    assert!(eventually(|| clients() == 0), "{} connections are left", clients());
}
