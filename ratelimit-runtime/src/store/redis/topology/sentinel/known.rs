//! [`Known`]: which sentinels there are, and the latest that they have said.

use std::cmp::Reverse;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::store::redis::wire::server::Server;

/// How many are known at most, those of the URL aside.
const MOST: usize = 16;
/// How long one is known that neither answers nor is named by another.
const FORGOTTEN: Duration = Duration::from_secs(10);

#[derive(Clone)]
pub(crate) struct Known {
    /// Those of the URL, of which there is at least one. They are never forgotten.
    seeds: Vec<Server>,
    /// Those that others have named.
    learned: Vec<Learned>,
    /// The last master that was found.
    pub(crate) master: Option<Arc<Server>>,
    /// The highest that was heard of.
    pub(super) epoch: u64,
}

#[derive(Clone)]
struct Learned {
    server: Server,
    /// When it last answered, or was named.
    heard_of: Instant,
}

impl Known {
    pub(crate) fn new(seeds: Vec<Server>) -> Self {
        Self { seeds, learned: Vec::new(), master: None, epoch: 0 }
    }

    pub(super) fn sentinels(&self) -> impl Iterator<Item = &Server> {
        self.seeds.iter().chain(self.learned.iter().map(|learned| &learned.server))
    }

    #[cfg(feature = "redis-tls")]
    pub(crate) fn configure(&mut self, change: impl Fn(&mut Server)) {
        self.seeds.iter_mut().chain(self.learned.iter_mut().map(|learned| &mut learned.server)).for_each(change);
    }

    /// From now on what is of an earlier epoch is out of date.
    pub(crate) fn believe(&mut self, epoch: u64, master: &Arc<Server>) {
        self.epoch = epoch;
        self.master = Some(Arc::clone(master));
    }

    /// A sentinel has answered, and names others that are alive. Unless it is out of date, those
    /// that have not been heard of for long are forgotten; where there are too many, those that
    /// were not heard of for longest.
    pub(super) fn hear(&mut self, by: &Server, others: &[(String, u16)], is_outdated: bool, now: Instant) {
        for learned in &mut self.learned {
            if learned.server.is_where(by) {
                learned.heard_of = now;
            }
        }
        for (host, port) in others {
            if self.seeds.iter().any(|seed| seed.is_at(host, *port)) {
                continue;
            }
            if let Some(known) = self.learned.iter_mut().find(|learned| learned.server.is_at(host, *port)) {
                known.heard_of = now;
            } else {
                // All of them have the login, TLS and settings of the first.
                let server = self.seeds.first().map(|first| first.at(host, *port));
                self.learned.extend(server.map(|server| Learned { server, heard_of: now }));
            }
        }
        if !is_outdated {
            self.learned.retain(|learned| now.saturating_duration_since(learned.heard_of) < FORGOTTEN);
        }
        self.learned.sort_by_key(|learned| Reverse(learned.heard_of));
        self.learned.truncate(MOST);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test")]

    use super::*;
    use crate::store::redis::topology::url;

    const SECOND: Duration = Duration::from_secs(1);

    fn server(port: u16) -> Server {
        url::server("redis://seed:1").unwrap().at("10.0.0.1", port)
    }

    fn at(ports: impl IntoIterator<Item = u16>) -> Vec<(String, u16)> {
        ports.into_iter().map(|port| ("10.0.0.1".to_owned(), port)).collect()
    }

    fn ports(known: &Known) -> Vec<String> {
        let mut all: Vec<_> = known.sentinels().map(ToString::to_string).collect();
        all.sort();
        all
    }

    #[test]
    fn one_that_neither_answers_nor_is_named_is_forgotten() {
        let mut now = Instant::now();
        let mut known = Known::new(vec![server(1)]);
        known.hear(&server(1), &at([2, 3]), false, now);
        assert_eq!(ports(&known), ["10.0.0.1:1", "10.0.0.1:2", "10.0.0.1:3"]);
        for _ in 0..20 {
            now += SECOND;
            known.hear(&server(1), &at([2]), false, now);
            known.hear(&server(2), &at([]), false, now);
        }
        assert_eq!(ports(&known), ["10.0.0.1:1", "10.0.0.1:2"]);
        // One that answers is known, whatever the others say of it.
        for _ in 0..20 {
            now += SECOND;
            known.hear(&server(2), &at([]), false, now);
        }
        assert_eq!(ports(&known), ["10.0.0.1:1", "10.0.0.1:2"]);
        // Who says what is out of date takes away none.
        known.hear(&server(1), &at([]), true, now + 20 * SECOND);
        assert_eq!(ports(&known), ["10.0.0.1:1", "10.0.0.1:2"]);
        known.hear(&server(1), &at([]), false, now + 20 * SECOND);
        assert_eq!(ports(&known), ["10.0.0.1:1"], "those of the URL stay");
    }

    #[test]
    fn dead_ones_leave_room_for_those_that_are_alive() {
        let now = Instant::now();
        let mut known = Known::new(vec![server(1)]);
        known.hear(&server(1), &at(2..50), false, now);
        assert_eq!(known.sentinels().count(), 1 + MOST);
        known.hear(&server(1), &at([90]), false, now + SECOND);
        assert_eq!(known.sentinels().count(), 1 + MOST);
        assert!(ports(&known).contains(&"10.0.0.1:90".to_owned()), "{:?}", ports(&known));
    }
}
