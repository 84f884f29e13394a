//! How a bucket is kept on the server.

use std::borrow::Cow;

use crate::rule::Algorithm;
use crate::store::Request;

/// How Redis keeps the log of a sliding window.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LogLayout {
    /// A sorted set with a member for each unit of cost, which anyone can read with `ZRANGE`: about 21 bytes a member
    /// up to 128 of them, 130 beyond. A call may cost at most 1,000, and nothing can be reserved.
    Zset,
    /// One string with 12 bytes a call, whatever it costs.
    Ring,
}

/// How a script keeps a bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Layout {
    Zset,
    Ring,
    FixedWindow,
    SlidingCounter,
    TokenBucket,
    LeakyBucket,
}

impl Layout {
    /// `log` is that of all sliding windows; `None` chooses by the rule.
    pub(super) fn of(request: &Request<'_>, log: Option<LogLayout>) -> Self {
        match request.algorithm() {
            Algorithm::SlidingWindow => match log {
                Some(LogLayout::Zset) => Self::Zset,
                None if request.is_unit_log() => Self::Zset,
                _ => Self::Ring,
            },
            Algorithm::FixedWindow => Self::FixedWindow,
            Algorithm::SlidingCounter => Self::SlidingCounter,
            Algorithm::TokenBucket => Self::TokenBucket,
            Algorithm::LeakyBucket => Self::LeakyBucket,
        }
    }

    /// The key as stored. The layout of a log is part of it; `%` starts an escape everywhere else, so nothing else
    /// ends like this.
    pub(super) fn key<'a>(self, request: &Request<'a>) -> Cow<'a, [u8]> {
        match self {
            Self::Ring => Cow::Owned([request.key(), b"%ring"].concat()),
            _ => Cow::Borrowed(request.key()),
        }
    }
}
