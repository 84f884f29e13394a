//! [`Resolve`]: what leads to the server that a connection is for.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use crate::error::StoreError;
use crate::store::redis::wire::login::Role;
use crate::store::redis::wire::server::{Server, Session};

type BoxFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// Leads to a server: always the same one, or whichever is the master.
///
/// Shown, it is the address or the addresses to ask: nothing secret.
pub(crate) trait Resolve: fmt::Display + Send + Sync {
    /// Its name in metrics, which does not change.
    fn name(&self) -> String;

    /// Connects to the server, and logs in. There is no timeout.
    fn connect(self: Arc<Self>) -> BoxFuture<Result<Session, StoreError>>;

    /// Waits until this leads to another server than the one given.
    fn moved_from(self: Arc<Self>, server: Arc<Server>) -> BoxFuture<()>;
}

pub(crate) type Resolver = Arc<dyn Resolve>;

/// A server at a fixed address never moves.
impl Resolve for Server {
    fn name(&self) -> String {
        self.to_string()
    }

    fn connect(self: Arc<Self>) -> BoxFuture<Result<Session, StoreError>> {
        Box::pin(Self::connect(self, Role::Any))
    }

    fn moved_from(self: Arc<Self>, _server: Arc<Server>) -> BoxFuture<()> {
        Box::pin(std::future::pending())
    }
}
