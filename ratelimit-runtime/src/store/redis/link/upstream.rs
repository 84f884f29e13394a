//! [`Upstream`]: what leads a link to its server.

use std::fmt;
use std::future::{Future, pending};
use std::pin::Pin;
use std::sync::Arc;

use super::connect::{Connected, Connector};
use crate::error::StoreError;
use crate::store::redis::settings::server::Server;

pub(crate) type BoxFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// Leads a link to its server: always the same one, or the master of the moment.
///
/// Shown, it is the address or the addresses to ask: nothing secret.
pub(crate) trait Upstream: fmt::Display + fmt::Debug + Send + Sync {
    /// The name in metrics, which does not change.
    fn name(&self) -> String {
        self.to_string()
    }

    /// The name of a server that this has led to, in the log: nothing secret.
    fn describe(&self, server: &Server) -> String {
        server.to_string()
    }

    /// Connects to the server.
    fn connect(self: Arc<Self>, connector: Connector) -> BoxFuture<Result<Connected, StoreError>>;

    /// Completes when this leads to another server than the given one.
    fn moved_from(self: Arc<Self>, server: Arc<Server>) -> BoxFuture<()>;
}

impl Upstream for Server {
    fn connect(self: Arc<Self>, connector: Connector) -> BoxFuture<Result<Connected, StoreError>> {
        Box::pin(async move { connector.connect(&self).await })
    }

    fn moved_from(self: Arc<Self>, _: Arc<Server>) -> BoxFuture<()> {
        Box::pin(pending())
    }
}
