//! What is asked of a bucket.

use std::time::Duration;

use crate::store::Request;

#[derive(Debug, Clone, Copy)]
pub(super) enum Operation {
    Acquire,
    Reserve,
    Peek,
    Refund(u64),
    Release(u64),
    Commit(u64),
    Block(Duration),
    Unblock,
}

impl Operation {
    /// What charges the request.
    pub(super) fn charging(request: &Request<'_>) -> Self {
        if request.is_reservation() { Self::Reserve } else { Self::Acquire }
    }

    /// The admission that it is about; 0 if it is about none.
    pub(super) fn ticket(self) -> u64 {
        match self {
            Self::Refund(ticket) | Self::Release(ticket) | Self::Commit(ticket) => ticket,
            _ => 0,
        }
    }
}
