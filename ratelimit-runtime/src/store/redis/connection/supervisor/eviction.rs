//! Whether a server evicts keys when its memory is full. Every key of a limit has a time to live,
//! so each policy but `noeviction` may pick limits; `volatile-*` picks them before keys that are to
//! stay.

use std::fmt::Display;
use std::sync::Weak;
use std::time::Duration;

use redis::cmd;

use super::info::{field, text};
use crate::store::redis::connection::exchange::Exchange;
use crate::store::redis::connection::node::registry::NodeRegistry;
use crate::store::redis::wire::commands::Commands;
use crate::{observe, real_time};

/// No call waits for this, and a connection that is soon over need not be asked.
const LATER: Duration = Duration::from_secs(1);

/// Asks once, and warns once for each server. One that does not answer is not asked again.
pub(super) async fn warn_if_evicting(exchange: Exchange, server: impl Display, registry: Weak<NodeRegistry>) {
    real_time::sleep(LATER).await;
    // Allowed more often than CONFIG, and enough.
    let commands = Commands::one(cmd("INFO").arg("memory"), |reply| text(reply).is_some());
    let Ok(reply) = exchange.send_upkeep(commands).await else { return };
    if let Some(policy) = text(&reply).and_then(evicting)
        && registry.upgrade().is_some_and(|registry| registry.is_first_to_warn())
    {
        observe::log::evicts(&server, policy);
    }
}

/// The policy by which a server with this `INFO memory` evicts, if it has a limit of memory to
/// evict at.
fn evicting(info: &str) -> Option<&str> {
    let policy = field(info, "maxmemory_policy").filter(|policy| *policy != "noeviction")?;
    field(info, "maxmemory").filter(|bytes| *bytes != "0").map(|_| policy)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_evicts_if_it_has_a_limit_and_a_policy() {
        let info = |limit: &str, policy: &str| {
            format!("# Memory\r\nmaxmemory:{limit}\r\nmaxmemory_human:1M\r\nmaxmemory_policy:{policy}\r\n")
        };
        assert_eq!(evicting(&info("1048576", "allkeys-lru")), Some("allkeys-lru"));
        assert_eq!(evicting(&info("1048576", "volatile-ttl")), Some("volatile-ttl"));
        assert_eq!(evicting(&info("1048576", "noeviction")), None);
        assert_eq!(evicting(&info("0", "allkeys-lru")), None);
        assert_eq!(evicting("# Memory\r\nused_memory:1\r\n"), None);
    }
}
