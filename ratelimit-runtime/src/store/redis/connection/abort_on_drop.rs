//! [`AbortOnDrop`]: a task that ends with what it is for.

use tokio::task::AbortHandle;

/// Aborts a task when it is dropped.
pub(super) struct AbortOnDrop(AbortHandle);

impl AbortOnDrop {
    pub(super) fn new(task: AbortHandle) -> Self {
        Self(task)
    }

    /// Spawns the task.
    pub(super) fn spawn(task: impl Future<Output = ()> + Send + 'static) -> Self {
        Self(tokio::spawn(task).abort_handle())
    }
}

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}
