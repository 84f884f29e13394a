//! The places of calls in flight: taken by `enter`, before the limits beside them or in one step
//! with them; kept by an [`OpenPermit`], and left when that is dropped.
//!
//! This process counts its own open permits by key: what holds all places of a key refuses without
//! asking, and the count goes on where the store gives no answer.

mod counts;
mod enter;
mod permit;

use std::panic::{RefUnwindSafe, UnwindSafe};

pub(super) use self::counts::PermitCounts;
pub(super) use self::enter::acquire;
pub(crate) use self::enter::{in_flight, no_in_flight_limit, peek};
use self::permit::OpenPermit;
pub(super) use self::permit::StorePermit;

/// The permits of one call, which leave their places when they are dropped.
#[derive(Debug, Default)]
#[must_use = "dropping them ends the call"]
pub struct CallPermits {
    _open: Box<[OpenPermit]>,
}

impl CallPermits {
    fn new(permits: Vec<OpenPermit>) -> Self {
        Self { _open: permits.into_boxed_slice() }
    }
}

/// A panic leaves them to be dropped, and what they share with others is behind locks.
impl UnwindSafe for CallPermits {}
impl RefUnwindSafe for CallPermits {}
