//! [`Target`]: what a supervisor connects to: one server, or whichever server is the master.

use std::fmt;
use std::sync::Arc;

use super::sentinel::Sentinels;
use crate::error::StoreError;
use crate::store::redis::wire::login::Role;
use crate::store::redis::wire::server::{Connection, Server};

#[derive(Clone)]
pub(crate) enum Target {
    Server(Arc<Server>),
    Master(Arc<Sentinels>),
}

impl Target {
    pub(crate) async fn connect(&self) -> Result<Connection, StoreError> {
        match self {
            Self::Server(server) => Arc::clone(server).connect(Role::Any).await,
            Self::Master(sentinels) => sentinels.connect().await,
        }
    }

    /// Waits until one should be connected to another server than this.
    pub(crate) async fn moved_from(&self, server: &Server) {
        match self {
            Self::Server(_) => std::future::pending().await,
            Self::Master(sentinels) => sentinels.moved_from(server).await,
        }
    }
}

impl Target {
    /// What it is called where few words are wanted: it does not change.
    pub(crate) fn name(&self) -> String {
        match self {
            Self::Server(server) => server.to_string(),
            Self::Master(sentinels) => sentinels.name().to_owned(),
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
