//! Decisions on a redis-server: what they cost this process, and what they cost the server.

mod client;
mod decisions;
mod lowered;
mod peer;
mod server;
mod stacked;
mod table;

use std::time::Duration;

pub use self::client::{Load, OnRedis};
pub use self::lowered::Lowered;
pub use self::peer::Peer;
pub use self::server::CountedServer;
pub use self::stacked::{STACKED_COLUMNS, Stacked};
pub use self::table::{COLUMNS, Figures, Side, Table};

/// How long a call may wait on a server whose instructions are counted, which is slow.
const COUNTED: Duration = Duration::from_secs(60);
