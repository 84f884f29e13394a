//! [`Target`]: what a supervisor connects to: one server, or whichever server is the master.

use std::fmt;
use std::sync::Arc;

use super::sentinel::Sentinels;
use super::server::Server;
use super::stream::Stream;
use crate::error::StoreError;

#[derive(Clone)]
pub(super) enum Target {
    Server(Arc<Server>),
    Master(Arc<Sentinels>),
}

/// A connection that is ready for use.
pub(super) struct Connection {
    pub(super) stream: Stream,
    /// Whom it leads to.
    pub(super) server: Arc<Server>,
    /// What the server says if it does not serve.
    pub(super) says: Option<StoreError>,
}

impl Target {
    pub(super) async fn connect(&self) -> Result<Connection, StoreError> {
        let server = match self {
            Self::Server(server) => Arc::clone(server),
            Self::Master(_) => return Err(StoreError::misconfigured("not yet")),
        };
        let (stream, says) = server.connect().await?;
        Ok(Connection { stream, server, says })
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Server(server) => server.fmt(f),
            Self::Master(sentinels) => sentinels.fmt(f),
        }
    }
}
