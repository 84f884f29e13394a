//! [`Check`]: everything that one check asks, apart from the engine that answers it.

use std::fmt;
use std::time::{Duration, Instant};

use smallvec::SmallVec;

use crate::error::RateLimitError;
use crate::key::KeyBuf;
use crate::rule::{Algorithm, Limit, Name, OnUnavailable};
use crate::store::Request;

/// Beyond this, times could not be added exactly on Redis. 2⁵² µs are 142 years.
const MAX_HORIZON_US: u64 = 1 << 52;

/// One check. It owns its key, so that it borrows nothing from the caller across an `.await`.
#[derive(Clone)]
pub(crate) struct Check {
    pub(super) name: Name,
    pub(super) algorithm: Algorithm,
    pub(super) limits: SmallVec<[Limit; 2]>,
    pub(super) cost: u64,
    pub(super) block: Duration,
    /// How long to wait for a slot.
    pub(super) wait: Duration,
    pub(super) timeout: Duration,
    pub(super) on_unavailable: OnUnavailable,
    pub(super) reservation: bool,
    pub(super) shadow: bool,
    pub(super) key: KeyBuf,
    /// The length of the part of the key that all keys of the rule share.
    pub(super) rule_len: usize,
    /// What is wrong with the check itself; it is reported when the check is made.
    pub(super) broken: Option<RateLimitError>,
}

impl Check {
    /// The request that a store gets to decide on a call. `timeout_at` tells it until when the caller waits.
    ///
    /// # Errors
    ///
    /// What is known without asking a store: an unknown policy, two meanings of a name, a cost that no window admits.
    pub(super) fn request(&self, timeout_at: Option<Instant>) -> Result<Request<'_>, RateLimitError> {
        let limit = self.capacity();
        if self.broken.is_none() && (self.cost > limit || limit == 0) {
            return Err(RateLimitError::CostExceedsLimit { rule: self.name.as_str(), cost: self.cost, limit });
        }
        if self.limits.iter().any(|limit| self.algorithm.horizon_us(limit) > MAX_HORIZON_US) {
            return Err(RateLimitError::misconfigured(format!(
                "the bucket of `{}` takes more than a century to drain: lower its burst or raise its `max`",
                self.name.as_str()
            )));
        }
        let request = self.key_request()?;
        Ok(match timeout_at {
            Some(at) => request.with_timeout_at(at),
            None => request,
        })
    }

    /// The request that a store gets to change something about the key, whatever the call would cost.
    ///
    /// # Errors
    ///
    /// Those of the check itself: an unknown policy, two meanings of a name.
    pub(super) fn key_request(&self) -> Result<Request<'_>, RateLimitError> {
        if let Some(error) = &self.broken {
            return Err(error.clone());
        }
        let request = Request::new(&self.key, self.algorithm, &self.limits)
            .with_cost(self.cost)
            .with_block(if self.shadow { Duration::ZERO } else { self.block })
            .with_rule_len(self.rule_len);
        Ok(if self.reservation { request.reserving() } else { request })
    }

    /// What one call may cost at most.
    pub(super) fn capacity(&self) -> u64 {
        self.limits.iter().map(|limit| self.algorithm.capacity(limit)).min().unwrap_or(0)
    }

    pub(super) fn waits(&self) -> bool {
        !self.shadow && !self.wait.is_zero()
    }
}

impl fmt::Debug for Check {
    /// Without the key, which may hold personal data.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Check").field("rule", &self.name).field("limits", &self.limits).finish_non_exhaustive()
    }
}
