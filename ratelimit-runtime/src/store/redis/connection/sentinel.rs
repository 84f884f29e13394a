//! [`Sentinels`]: servers that know which server is the master.

use std::fmt;

use super::server::Server;

/// Who knows where the master of a name is.
pub(in super::super) struct Sentinels {
    name: String,
    /// Login, TLS and settings of the master, wherever it is.
    master: Server,
    /// At least one.
    seeds: Vec<Server>,
}

impl Sentinels {
    pub(super) fn new(name: String, master: Server, seeds: Vec<Server>) -> Self {
        Self { name, master, seeds }
    }

    pub(in super::super) fn master(&self) -> &Server {
        &self.master
    }
}

/// The master's name and where the sentinels are: nothing secret.
impl fmt::Display for Sentinels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} by Sentinel at ", self.name)?;
        let seeds: Vec<_> = self.seeds.iter().map(ToString::to_string).collect();
        f.write_str(&seeds.join(","))
    }
}
