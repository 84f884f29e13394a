//! [`Check`]: everything that one check asks, apart from the engine that answers it.

mod place;

pub(in crate::engine) use self::place::PlaceCheck;
use crate::error::RateLimitError;
use crate::rule::{Name, Terms};
use crate::store::{Request, Reserves};

/// One check. It borrows what is large: most checks are over before anything would have to be
/// owned.
#[derive(Clone, Copy)]
pub(crate) struct Check<'a> {
    pub(in crate::engine) name: Name,
    pub(in crate::engine) terms: &'a Terms,
    pub(in crate::engine) shadow: bool,
    /// What the store is asked.
    pub(in crate::engine) request: Request<'a>,
    /// Whether the store is known to declare all that the request needs.
    pub(in crate::engine) is_supported: bool,
    /// What is wrong with the check itself.
    pub(in crate::engine) broken: Option<&'a RateLimitError>,
}

/// What one call asks apart from its key, where its rule leaves that to it.
#[derive(Debug, Clone, Copy)]
pub(in crate::engine) struct Asked {
    pub(in crate::engine) cost: u64,
    pub(in crate::engine) reserves: Reserves,
    pub(in crate::engine) shadow: bool,
}

impl<'a> Check<'a> {
    /// The check of a key, of which the first `rule_len` bytes are those that all keys of the rule
    /// share.
    #[allow(clippy::inline_always, reason = "a call to it would cost as much as what it does")]
    #[inline(always)]
    pub(in crate::engine) fn new(name: Name, terms: &'a Terms, asked: Asked, key: &'a [u8], rule_len: usize) -> Self {
        let Asked { cost, reserves, shadow } = asked;
        let request = Request::new(key, terms.algorithm(), terms.limits())
            .with_cost(cost)
            .with_block_duration(if shadow { terms.block.without_offences() } else { terms.block })
            .with_rule_len(rule_len)
            .with_reserves(reserves);
        Self { name, terms, shadow, request, is_supported: false, broken: None }
    }

    /// Whether a store may be asked to decide on it; why not, says [`problem`](Self::problem).
    #[inline]
    pub(in crate::engine) fn is_sound(&self) -> bool {
        self.broken.is_none() && self.terms.most() > 0 && self.request.cost() <= self.terms.most()
    }

    /// What is known without asking a store: an unknown policy or time zone, two meanings of a
    /// name, a cost that no window admits.
    #[cold]
    pub(in crate::engine) fn problem(&self) -> RateLimitError {
        if let Some(error) = self.broken {
            return error.clone();
        }
        let (rule, limit) = (self.name.as_str(), self.capacity());
        if self.terms.is_calendar_misplaced() {
            let algorithm = self.terms.algorithm();
            return RateLimitError::misconfigured(format!(
                "the calendar quota of `{rule}` is kept by `fixed_window` alone, not by `{algorithm}`: set that, or a \
                 window such as 24 hours"
            ));
        }
        let cost = self.request.cost();
        if cost > limit || limit == 0 {
            return RateLimitError::CostExceedsLimit { rule, cost, limit, is_of_log: false };
        }
        if self.terms.algorithm().row().is_log && self.terms.most() > 0 {
            let limit = self.terms.most();
            return RateLimitError::CostExceedsLimit { rule, cost, limit, is_of_log: true };
        }
        RateLimitError::misconfigured(format!(
            "the bucket of `{rule}` takes more than a century to drain: lower its burst or raise its `max`"
        ))
    }

    /// What the limits admit at once, as refusals tell it: the smallest capacity. Unlike
    /// [`Terms::most`], not 0 of a bucket that takes too long to drain.
    #[inline]
    pub(in crate::engine) fn capacity(&self) -> u64 {
        self.terms.limits().iter().map(|limit| self.terms.algorithm().capacity(limit)).min().unwrap_or(0)
    }

    /// Whether a call that is refused may wait for a slot: its rule says `wait`.
    #[inline]
    pub(in crate::engine) fn may_queue(&self) -> bool {
        !self.shadow && !self.terms.wait.is_zero()
    }
}
