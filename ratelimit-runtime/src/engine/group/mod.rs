//! Several checks together: all are charged and take their places, or none.

mod attempt;
mod permit;
mod waiting;

pub(super) use self::attempt::sound;
pub use self::permit::CallPermits;
pub(super) use self::waiting::acquire as acquire_all;
use super::outage::Refused;
use crate::decision::Decision;
use crate::error::RateLimitError;

/// What came of a group that is let through: of each check, in their order. Those with an error are
/// in shadow mode.
type Admitted = Vec<Result<Decision, RateLimitError>>;

/// What came of a group, with the permits of those that take places.
pub(super) type Outcome = Result<(Admitted, CallPermits), Refused>;
