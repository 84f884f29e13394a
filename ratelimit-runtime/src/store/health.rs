//! [`Health`]: whether a store, or the part of it that a request goes to, can serve.

/// How well a store serves. It decides what a limiter makes of a request that was not answered in
/// time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Health {
    /// It serves. A request without an answer was one too many, or met an accident of its own: that
    /// is never a reason to let a call through unchecked.
    Up,
    /// It is connected, and does not serve: it does not answer, or says that it is busy or loading.
    Slow,
    /// It is not connected, or not yet.
    Down,
}
