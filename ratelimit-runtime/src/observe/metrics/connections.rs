//! Connections, by server and state.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use ::metrics::{Key, Label, with_recorder};

use super::super::connection::ConnectionState;
use super::{CONNECTIONS, CONNECTS, LOSSES, METADATA, OUTAGES};

/// How many connections of this process are in each state, by server. Those that there are no more
/// leave nothing behind.
static CONNECTIONS_NOW: Mutex<BTreeMap<Box<str>, Counts>> = Mutex::new(BTreeMap::new());

#[derive(Default)]
struct Counts {
    connecting: u32,
    up: u32,
    slow: u32,
    down: u32,
}

impl Counts {
    fn of(&mut self, state: ConnectionState) -> &mut u32 {
        match state {
            ConnectionState::Connecting => &mut self.connecting,
            ConnectionState::Up => &mut self.up,
            ConnectionState::Slow => &mut self.slow,
            ConnectionState::Down => &mut self.down,
        }
    }

    fn by_state(&self) -> [(&'static str, u32); 4] {
        [("connecting", self.connecting), ("up", self.up), ("slow", self.slow), ("down", self.down)]
    }
}

/// A connection is not in this state any more, but in that one.
pub(crate) fn moved(server: &str, from: Option<ConnectionState>, to: Option<ConnectionState>) {
    // Kept until all is told, so that what is told last is how it is.
    let mut now = CONNECTIONS_NOW.lock().unwrap_or_else(PoisonError::into_inner);
    let counts = now.entry(server.into()).or_default();
    if let Some(from) = from {
        let count = counts.of(from);
        *count = count.saturating_sub(1);
    }
    if let Some(to) = to {
        *counts.of(to) += 1;
    }
    let counts = counts.by_state();
    for (state, count) in counts {
        let labels = vec![label("server", server), Label::from_static_parts("state", state)];
        let key = Key::from_parts(CONNECTIONS, labels);
        with_recorder(|recorder| recorder.register_gauge(&key, &METADATA).set(count));
    }
    if counts.iter().all(|(_, count)| *count == 0) {
        now.remove(server);
    }
}

pub(crate) fn connected(server: &str) {
    add(CONNECTS, server);
}

pub(crate) fn lost(server: &str) {
    add(LOSSES, server);
}

pub(crate) fn outage(server: &str) {
    add(OUTAGES, server);
}

fn add(name: &'static str, server: &str) {
    let key = Key::from_parts(name, vec![label("server", server)]);
    with_recorder(|recorder| recorder.register_counter(&key, &METADATA).increment(1));
}

fn label(name: &'static str, value: &str) -> Label {
    Label::new(name, value.to_owned())
}
