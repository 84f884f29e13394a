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
        let (server, (stream, says)) = match self {
            Self::Server(server) => (Arc::clone(server), server.connect().await?),
            Self::Master(sentinels) => {
                let server = sentinels.find().await?;
                let connected = server.connect_to_master().await?;
                (server, connected)
            }
        };
        Ok(Connection { stream, server, says })
    }

    /// Waits until one should be connected to another server than this.
    pub(super) async fn moved_from(&self, server: &Server) {
        match self {
            Self::Server(_) => std::future::pending().await,
            Self::Master(sentinels) => sentinels.moved_from(server).await,
        }
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
