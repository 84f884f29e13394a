//! [`SentinelAnswer`]: what a sentinel is asked about a master, and what it answers.

use std::collections::HashMap;

use redis::{Pipeline, Value, from_redis_value_ref};

use crate::store::redis::settings::server::TcpAddress;

/// What a sentinel answers about a master.
#[derive(Debug)]
pub(super) struct SentinelAnswer {
    pub(super) master: TcpAddress,
    /// Counts fail-overs: of two sentinels that disagree, the one with the higher epoch is right. 0
    /// if the user may not ask for it.
    pub(super) epoch: u64,
    /// Further sentinels that it does not take to be down.
    pub(super) others: Vec<TcpAddress>,
}

/// The commands that ask about the master of this name: three.
pub(super) fn question(name: &str) -> Pipeline {
    let mut pipeline = redis::pipe();
    for about in ["GET-MASTER-ADDR-BY-NAME", "MASTER", "SENTINELS"] {
        pipeline.cmd("SENTINEL").arg(about).arg(name);
    }
    pipeline
}

/// Reads the replies; `None` if this is no address. The user may be refused all else.
pub(super) fn read(address: &Value, master: &Value, others: &Value) -> Option<SentinelAnswer> {
    let (host, port) = from_redis_value_ref(address).ok()?;
    let fields: HashMap<String, String> = from_redis_value_ref(master).unwrap_or_default();
    let others: Vec<HashMap<String, String>> = from_redis_value_ref(others).unwrap_or_default();
    let is_alive = |other: &&HashMap<_, _>| other.get("flags").is_none_or(|flags: &String| !flags.contains("s_down"));
    let place = |other: &HashMap<String, String>| {
        Some(TcpAddress { host: other.get("ip")?.clone(), port: other.get("port")?.parse().ok()? })
    };
    Some(SentinelAnswer {
        master: TcpAddress { host, port },
        epoch: fields.get("config-epoch").and_then(|epoch| epoch.parse().ok()).unwrap_or_default(),
        others: others.iter().filter(is_alive).filter_map(place).collect(),
    })
}
