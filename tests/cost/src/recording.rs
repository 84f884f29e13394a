//! [`Recording`]: who counts what the facade `metrics` is told.

use metrics::Recorder;
use metrics_exporter_prometheus::PrometheusBuilder;
use metrics_util::debugging::DebuggingRecorder;

/// Who counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Recording {
    /// There is no recorder.
    Nobody,
    /// Plain counters in a registry.
    Debugging,
    /// An exporter that forgets what is idle, which it finds out by handles of its own.
    Prometheus,
}

impl Recording {
    pub const ALL: [Self; 3] = [Self::Nobody, Self::Debugging, Self::Prometheus];

    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|recording| format!("{recording:?}") == name)
    }

    /// Installs the recorder for the rest of the process.
    ///
    /// # Panics
    ///
    /// If there is one already.
    pub fn install(self) {
        if let Some(recorder) = self.recorder() {
            assert!(metrics::set_global_recorder(recorder).is_ok(), "there is a recorder");
        }
    }

    /// The recorder.
    #[must_use]
    pub fn recorder(self) -> Option<Box<dyn Recorder + Sync>> {
        match self {
            Self::Nobody => None,
            Self::Debugging => Some(Box::new(DebuggingRecorder::new())),
            Self::Prometheus => Some(Box::new(PrometheusBuilder::new().build_recorder())),
        }
    }
}
