//! Decisions on a redis-server: what they cost this process, and what they cost the server.

mod client;
mod decisions;
mod growth;
mod lowered;
mod peer;
mod runtimes;
mod server;
mod stacked;
mod table;

pub use self::client::{Load, OnRedis};
pub use self::growth::{Adding, Growth};
pub use self::lowered::Lowered;
pub use self::peer::Peer;
pub use self::runtimes::Spread;
pub use self::server::CountedServer;
pub use self::stacked::{STACKED_COLUMNS, Stacked};
pub use self::table::{COLUMNS, Figures, Side, Table};
