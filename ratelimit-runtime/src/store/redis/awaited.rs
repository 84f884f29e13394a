//! [`Awaited`]: a call that is sent beside the batcher, and late replies to it.

use std::time::Instant;

use super::link::Connection;

/// A call whose reply has not come. If it is dropped after its caller's time was over, it tells the
/// link that the server is late.
pub(super) struct Awaited<'a> {
    /// The connection by which the server is measured.
    connection: &'a Connection,
    sent: Instant,
    until: Option<Instant>,
}

impl<'a> Awaited<'a> {
    /// A call that is sent now, for a caller that waits until then.
    pub(super) fn new(connection: &'a Connection, until: Option<Instant>) -> Self {
        Self { connection, sent: Instant::now(), until }
    }

    /// The reply, once it has come.
    pub(super) async fn reply<T>(mut self, reply: impl Future<Output = T>) -> T {
        let reply = reply.await;
        self.until = None;
        reply
    }
}

impl Drop for Awaited<'_> {
    fn drop(&mut self) {
        if self.until.is_some_and(|until| until <= Instant::now()) {
            self.connection.late(self.sent);
        }
    }
}
