//! [`LogLayout`]: how Redis keeps the log of a sliding window.

/// How Redis keeps the log of a sliding window.
///
/// The layout belongs to what is stored, not to the key or the rule: whatever asks for a bucket
/// finds it, and a sorted set becomes a ring when an admission needs one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LogLayout {
    /// A sorted set with a member for each unit of cost, which anyone can read with `ZRANGE`: about
    /// 21 bytes a member up to 128 of them, 130 beyond. A call may cost at most 1,000, and nothing
    /// can be reserved. It never becomes a ring.
    Zset,
    /// One string with 12 bytes a call, whatever it costs.
    Ring,
}
