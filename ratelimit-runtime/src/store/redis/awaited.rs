//! [`awaited`]: a call that is sent beside the batcher, whose reply may be late.

use std::time::Instant;

use super::link::{Connection, Link};

/// Waits for a reply to a command that is sent now. If the caller gives up after half of a
/// limiter's timeout or later, the link is told that the server is late; it is measured by this
/// connection.
pub(super) async fn awaited<T>(link: &Link, connection: &Connection, reply: impl Future<Output = T>) -> T {
    let mut waits = Waits { link, connection, sent: Instant::now(), is_answered: false };
    let reply = reply.await;
    waits.is_answered = true;
    reply
}

struct Waits<'a> {
    link: &'a Link,
    connection: &'a Connection,
    sent: Instant,
    is_answered: bool,
}

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        if !self.is_answered && self.sent.elapsed() >= self.link.timeout() / 2 {
            self.connection.late(self.sent);
        }
    }
}
