//! [`Sizes`]: memory and connections, in calm moments.

use std::fs;
use std::time::Duration;

use crate::support::cluster::RedisCluster;

/// By how many megabytes this process, or the largest server, may seem to grow after the first
/// third.
pub(crate) const SLACK_MB: u64 = 16;

#[derive(Default)]
pub(crate) struct Sizes(Vec<Size>);

struct Size {
    at: Duration,
    process_kb: u64,
    largest_server_kb: u64,
    connections: usize,
    keys: i64,
}

impl Sizes {
    /// Looks at what there is; on the servers, every key has a time to live.
    pub(crate) fn look(&mut self, cluster: &RedisCluster, at: Duration) {
        let mut size =
            Size { at, process_kb: resident_kb(std::process::id()), largest_server_kb: 0, connections: 0, keys: 0 };
        for node in (0..cluster.len()).map(|at| cluster.node(at)) {
            let used: u64 = node.info("memory", "used_memory").parse().unwrap();
            size.largest_server_kb = size.largest_server_kb.max(used / 1024);
            size.keys += node.number(&["DBSIZE"]);
            let clients = node.cli(&["CLIENT", "LIST", "TYPE", "normal"]);
            size.connections += clients.lines().filter(|line| !line.contains("cmd=client")).count();
            let keyspace = node.info("keyspace", "db0");
            let count = |name: &str| keyspace.split(',').find_map(|field| field.strip_prefix(name)).map(str::to_owned);
            assert_eq!(count("keys="), count("expires="), "keys that never expire on {}", node.port());
        }
        self.0.push(size);
    }

    fn settled(&self) -> Option<(&Size, &Size)> {
        Some((self.0.get(self.0.len() / 3)?, self.0.last()?))
    }

    pub(crate) fn summary(&self) -> String {
        let Some((settled, last)) = self.settled() else { return String::new() };
        let of = |size: &Size| {
            format!(
                "after {} s: process {} KB, largest server {} KB, {} connections, {} keys\n",
                size.at.as_secs(),
                size.process_kb,
                size.largest_server_kb,
                size.connections,
                size.keys
            )
        };
        of(settled) + &of(last)
    }

    pub(crate) fn assert_flat(&self) {
        let Some((settled, last)) = self.settled() else { return };
        let grown = last.process_kb.saturating_sub(settled.process_kb) / 1024;
        assert!(grown <= SLACK_MB, "the process has grown by {grown} MB");
        let grown = last.largest_server_kb.saturating_sub(settled.largest_server_kb) / 1024;
        assert!(grown <= SLACK_MB, "a server has grown by {grown} MB");
        assert!(
            last.connections <= settled.connections + 6,
            "{} connections, {} before",
            last.connections,
            settled.connections
        );
    }
}

pub(crate) fn resident_kb(process: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}
