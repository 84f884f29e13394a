//! [`Logged`]: what the library said to the log about one server.

use std::fmt::Debug;
use std::sync::{Mutex, PoisonError};

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

/// Everything the library has logged, of all cases; the server tells them apart.
static LINES: Mutex<Vec<Line>> = Mutex::new(Vec::new());

#[derive(Debug, Clone, Default)]
struct Line {
    server: String,
    message: String,
}

/// The lines about one server.
#[derive(Debug)]
pub(crate) struct Logged {
    lines: Vec<Line>,
}

impl Logged {
    /// What was said about the server at this address, `127.0.0.1:6379`.
    pub(crate) fn about(address: &str) -> Self {
        let lines = LINES.lock().unwrap_or_else(PoisonError::into_inner);
        Self {
            lines: lines
                .iter()
                .filter(|line| line.server == address)
                .cloned()
                .collect(),
        }
    }

    /// Forgets what was said about the server of another case that had this address.
    pub(super) fn forget(address: &str) {
        let mut lines = LINES.lock().unwrap_or_else(PoisonError::into_inner);
        lines.retain(|line| line.server != address);
    }

    /// How many lines hold this text.
    pub(crate) fn with(&self, text: &str) -> usize {
        self.lines
            .iter()
            .filter(|line| line.message.contains(text))
            .count()
    }
}

/// Listens from now on.
pub(super) fn listen() {
    tracing::subscriber::set_global_default(Listener).expect("no other subscriber is set");
}

struct Listener;

impl Subscriber for Listener {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= Level::INFO && metadata.target().starts_with("ratelimit_runtime")
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut line = Line::default();
        event.record(&mut line);
        LINES
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(line);
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        match field.name() {
            "server" => self.server = format!("{value:?}"),
            "message" => self.message = format!("{value:?}"),
            _ => {}
        }
    }
}
