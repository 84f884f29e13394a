//! [`Directory`]: the sentinels that are known, and the latest that they have answered.

use std::cmp::Reverse;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::store::redis::settings::server::Server;

/// How many are known at most, those of the URL aside.
const MAX: usize = 16;
/// How long a sentinel is known that neither answers nor is named by another.
const FORGET_AFTER: Duration = Duration::from_secs(10);

#[derive(Debug)]
pub(super) struct Directory {
    /// Those of the URL, at least one. They are never forgotten.
    seeds: Vec<Server>,
    /// Those that others have named.
    learned: Vec<Learned>,
    /// The last master that was found.
    pub(super) master: Option<Arc<Server>>,
    /// The highest epoch that was heard of.
    pub(super) epoch: u64,
}

#[derive(Debug)]
struct Learned {
    server: Server,
    /// When it last answered, or was named.
    heard_of: Instant,
}

impl Directory {
    pub(super) fn new(seeds: Vec<Server>) -> Self {
        Self { seeds, learned: Vec::new(), master: None, epoch: 0 }
    }

    pub(super) fn sentinels(&self) -> impl Iterator<Item = &Server> {
        self.seeds.iter().chain(self.learned.iter().map(|learned| &learned.server))
    }

    /// Notes the master of an epoch. Answers of earlier epochs are outdated from now on.
    pub(super) fn set_master(&mut self, epoch: u64, master: &Arc<Server>) {
        self.epoch = epoch;
        self.master = Some(Arc::clone(master));
    }

    /// Notes that a sentinel has answered, and which others it says are alive. Unless its answer is
    /// outdated, those that have not been heard of for long are forgotten; where there are too
    /// many, those that were not heard of for longest.
    pub(super) fn note_answer(&mut self, by: &Server, others: &[(String, u16)], is_outdated: bool, now: Instant) {
        for learned in &mut self.learned {
            if learned.server.has_address_of(by) {
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
                // All of them have the login and TLS of the first.
                let server = self.seeds.first().map(|first| first.at(host, *port));
                self.learned.extend(server.map(|server| Learned { server, heard_of: now }));
            }
        }
        if !is_outdated {
            self.learned.retain(|learned| now.saturating_duration_since(learned.heard_of) < FORGET_AFTER);
        }
        self.learned.sort_by_key(|learned| Reverse(learned.heard_of));
        self.learned.truncate(MAX);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test")]

    use super::*;
    use crate::store::redis::settings::url;

    const SECOND: Duration = Duration::from_secs(1);

    fn server(port: u16) -> Server {
        url::server("redis://seed:1").unwrap().at("10.0.0.1", port)
    }

    fn at(ports: impl IntoIterator<Item = u16>) -> Vec<(String, u16)> {
        ports.into_iter().map(|port| ("10.0.0.1".to_owned(), port)).collect()
    }

    fn ports(directory: &Directory) -> Vec<String> {
        let mut all: Vec<_> = directory.sentinels().map(ToString::to_string).collect();
        all.sort();
        all
    }

    #[test]
    fn one_that_neither_answers_nor_is_named_is_forgotten() {
        let mut now = Instant::now();
        let mut directory = Directory::new(vec![server(1)]);
        directory.note_answer(&server(1), &at([2, 3]), false, now);
        assert_eq!(ports(&directory), ["10.0.0.1:1", "10.0.0.1:2", "10.0.0.1:3"]);
        for _ in 0..20 {
            now += SECOND;
            directory.note_answer(&server(1), &at([2]), false, now);
            directory.note_answer(&server(2), &at([]), false, now);
        }
        assert_eq!(ports(&directory), ["10.0.0.1:1", "10.0.0.1:2"]);
        // One that answers stays known, whatever the others answer of it.
        for _ in 0..20 {
            now += SECOND;
            directory.note_answer(&server(2), &at([]), false, now);
        }
        assert_eq!(ports(&directory), ["10.0.0.1:1", "10.0.0.1:2"]);
        // An outdated answer takes none away.
        directory.note_answer(&server(1), &at([]), true, now + 20 * SECOND);
        assert_eq!(ports(&directory), ["10.0.0.1:1", "10.0.0.1:2"]);
        directory.note_answer(&server(1), &at([]), false, now + 20 * SECOND);
        assert_eq!(ports(&directory), ["10.0.0.1:1"], "those of the URL stay");
    }

    #[test]
    fn dead_ones_are_forgotten_before_those_that_are_alive() {
        let now = Instant::now();
        let mut directory = Directory::new(vec![server(1)]);
        directory.note_answer(&server(1), &at(2..50), false, now);
        assert_eq!(directory.sentinels().count(), 1 + MAX);
        directory.note_answer(&server(1), &at([90]), false, now + SECOND);
        assert_eq!(directory.sentinels().count(), 1 + MAX);
        assert!(ports(&directory).contains(&"10.0.0.1:90".to_owned()), "{:?}", ports(&directory));
    }
}
