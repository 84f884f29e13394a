//! [`Upstream`]: the way from a link to its server.

use std::fmt;
use std::sync::Arc;

use redis::Pipeline;

use super::connect::{Connected, connect};
use super::sentinel::Sentinels;
use crate::error::StoreError;
use crate::store::redis::settings::server::Server;

/// The way from a link to its server: always the same one, or the current master.
#[derive(Clone)]
pub(crate) enum Upstream {
    Server(Arc<Server>),
    Sentinels(Arc<Sentinels>),
}

impl Upstream {
    /// The name in metrics, which does not change.
    pub(super) fn name(&self) -> String {
        match self {
            Self::Server(server) => server.to_string(),
            Self::Sentinels(sentinels) => sentinels.names.name.clone(),
        }
    }

    /// The name of a server reached by this, for the log, without secrets.
    pub(super) fn describe(&self, server: &Server) -> String {
        match self {
            Self::Server(_) => server.to_string(),
            Self::Sentinels(_) => format!("{server} ({self})"),
        }
    }

    pub(super) async fn connect(&self, greeting: &Pipeline) -> Result<Connected, StoreError> {
        match self {
            Self::Server(server) => connect(server, greeting).await,
            Self::Sentinels(sentinels) => sentinels.connect_to_master(greeting).await,
        }
    }
}

/// The address or the addresses to ask, without secrets.
impl fmt::Display for Upstream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Server(server) => server.fmt(f),
            Self::Sentinels(sentinels) => sentinels.names.fmt(f),
        }
    }
}
