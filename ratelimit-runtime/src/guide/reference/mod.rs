//! What is looked up rather than read: tables, bounds, formats.
//!
//! - [The attribute](attribute): its arguments, their defaults and bounds, the grammar of keys.
//! - [The algorithms](algorithms): what each counts, promises and takes; what works where.
//! - [Redis](redis): URLs, settings, permissions. [What is stored](redis_format), and [what faults
//!   make of it](redis_format_faults). [When it is full](memory_pressure). [When it
//!   fails](failures).
//! - [Observability](observability): metrics, alerts, events.
//! - [Performance](performance): what a check costs, beside what else people use.
//! - [The expansions](expansion): what the attribute makes of a function.

#[doc = include_str!("algorithms.md")]
pub mod algorithms {}

#[doc = include_str!("attribute.md")]
pub mod attribute {}

#[doc = include_str!("expansion.md")]
pub mod expansion {}

#[doc = include_str!("failures.md")]
pub mod failures {}

#[doc = include_str!("memory_pressure.md")]
pub mod memory_pressure {}

#[cfg_attr(any(not(doctest), feature = "metrics"), doc = include_str!("observability.md"))]
#[doc = repository!("dashboard" => "blob/HEAD/docs/grafana-dashboard.json")]
pub mod observability {}

#[doc = include_str!("performance.md")]
#[doc = repository!("chart" => "raw/HEAD/docs/performance.svg")]
pub mod performance {}

#[doc = include_str!("redis.md")]
pub mod redis {}

#[doc = include_str!("redis_format.md")]
pub mod redis_format {}

#[doc = include_str!("redis_format_faults.md")]
pub mod redis_format_faults {}
