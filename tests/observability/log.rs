//! [`Log`]: what is logged on a thread.

use std::collections::BTreeSet;
use std::fmt::{Debug, Write as _};
use std::sync::{Arc, LazyLock, Mutex};

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::DefaultGuard;
use tracing::{Dispatch, Event, Metadata, Subscriber};

/// The kind of an event: what documents and filters know it by.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Kind {
    pub(crate) target: String,
    pub(crate) name: String,
    pub(crate) level: String,
    pub(crate) fields: BTreeSet<String>,
}

/// The events of the library on this thread.
#[derive(Clone, Default)]
pub(crate) struct Log(Arc<Mutex<Vec<(Kind, Values)>>>);

#[derive(Default)]
struct Values(String);

impl Log {
    /// Of this thread, until the guard is dropped.
    pub(crate) fn listen() -> (Self, DefaultGuard) {
        // Where just one is alive, tracing takes an event that another thread meets first for one
        // that nobody listens to.
        static ALIVE: LazyLock<[Dispatch; 2]> =
            LazyLock::new(|| [(); 2].map(|()| Dispatch::new(Log::default())));
        LazyLock::force(&ALIVE);
        let log = Self::default();
        (log.clone(), tracing::subscriber::set_default(log))
    }

    pub(crate) fn kinds(&self) -> BTreeSet<Kind> {
        self.0
            .lock()
            .unwrap()
            .iter()
            .map(|(kind, _)| kind.clone())
            .collect()
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.0
            .lock()
            .unwrap()
            .iter()
            .any(|(kind, _)| kind.name == name)
    }

    /// How often an event of this name was logged.
    pub(crate) fn count(&self, name: &str) -> usize {
        self.0
            .lock()
            .unwrap()
            .iter()
            .filter(|(kind, _)| kind.name == name)
            .count()
    }

    /// All values of all fields.
    pub(crate) fn text(&self) -> String {
        self.0
            .lock()
            .unwrap()
            .iter()
            .map(|(_, values)| values.0.as_str())
            .collect()
    }
}

impl Subscriber for Log {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata
            .module_path()
            .is_some_and(|path| path.starts_with("ratelimit_runtime"))
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let metadata = event.metadata();
        let fields = metadata
            .fields()
            .iter()
            .map(|field| field.name().to_owned());
        let kind = Kind {
            target: metadata.target().to_owned(),
            name: metadata.name().to_owned(),
            level: metadata.level().to_string(),
            fields: fields.filter(|field| field != "message").collect(),
        };
        let mut values = Values::default();
        event.record(&mut values);
        self.0.lock().unwrap().push((kind, values));
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

impl Visit for Values {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        writeln!(self.0, "{}={value:?}", field.name()).unwrap();
    }
}
