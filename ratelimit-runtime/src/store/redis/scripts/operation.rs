//! [`Operation`]: what is to be done to a bucket: a charge, a refund, a block and so on.

use std::time::Duration;

use crate::store::Request;

#[derive(Debug, Clone, Copy)]
pub(crate) enum Operation {
    Acquire,
    Reserve,
    Peek,
    Refund(u64),
    Release(u64),
    Commit(u64),
    /// At what the call did cost, beside the ticket.
    CommitActual(u64, u64),
    Block(Duration),
    Unblock,
}

impl Operation {
    /// What charges the request.
    pub(crate) fn charging(request: &Request<'_>) -> Self {
        if request.is_reservation() { Self::Reserve } else { Self::Acquire }
    }

    /// The ticket of the admission that it concerns; 0 if it concerns none.
    pub(crate) fn ticket(self) -> u64 {
        match self {
            Self::Refund(ticket) | Self::Release(ticket) | Self::Commit(ticket) | Self::CommitActual(ticket, _) => {
                ticket
            }
            _ => 0,
        }
    }
}
