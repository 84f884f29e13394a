//! [`Recording`]: the recorder of the facade `metrics`, chosen when the program starts.

use metrics::Recorder;
use metrics_exporter_prometheus::PrometheusBuilder;
use metrics_util::debugging::DebuggingRecorder;

/// A recorder. Decisions reach it where the feature `metrics` is on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Recording {
    /// There is no recorder.
    None,
    /// Plain counters in a registry.
    Debugging,
    /// An exporter that forgets idle series, which it notices by handles of its own.
    Prometheus,
}

impl Recording {
    pub const ALL: [Self; 3] = [Self::None, Self::Debugging, Self::Prometheus];

    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|recording| format!("{recording:?}") == name)
    }

    /// Installs the recorder for the rest of the process.
    pub fn install(self) {
        let recorder: Box<dyn Recorder + Sync> = match self {
            Self::None => return,
            Self::Debugging => Box::new(DebuggingRecorder::new()),
            Self::Prometheus => Box::new(PrometheusBuilder::new().build_recorder()),
        };
        assert!(
            metrics::set_global_recorder(recorder).is_ok(),
            "there is a recorder"
        );
    }
}
