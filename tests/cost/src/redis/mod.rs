//! Decisions on a redis-server: what they cost this process, and what they cost the server.

mod client;
mod decisions;
mod large;
mod lowered;
mod server;
mod stacked;
mod table;

use std::fmt;
use std::time::Duration;

pub use self::client::{Load, OnRedis};
pub use self::large::{LARGE_COLUMNS, Large};
pub use self::lowered::lowered;
pub use self::server::CountedServer;
pub use self::stacked::{STACKED_COLUMNS, Stacked};
pub use self::table::{COLUMNS, Table};

/// How long a call may wait on a server whose instructions are counted, which is slow.
const COUNTED: Duration = Duration::from_secs(60);

/// A table, with a name before each row: an algorithm.
fn rows<const N: usize>(
    f: &mut fmt::Formatter<'_>,
    title: &str,
    columns: [&str; N],
    rows: &[(impl ToString, [u64; N])],
) -> fmt::Result {
    write!(f, "{title:<28}")?;
    columns
        .iter()
        .try_for_each(|column| write!(f, " {column:>11}"))?;
    rows.iter().try_for_each(|(name, counts)| {
        write!(f, "\n{:<28}", name.to_string())?;
        counts
            .iter()
            .try_for_each(|count| write!(f, " {count:>11}"))
    })
}
