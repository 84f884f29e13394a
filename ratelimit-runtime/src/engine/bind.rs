//! Binding: finds the [`BoundRule`] of a rule on a limiter, or makes it.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

use super::bound::{BoundConcurrent, BoundPolicy, BoundRule, Origin};
use super::state::{Engine, PolicyUse};
use crate::error::RateLimitError;
use crate::key::RenderedKinds;
use crate::rule::{self, CallsInFlight, Rule, Terms};
use crate::store::BuiltInStore as _;

impl Engine {
    /// The bound form of a rule, if this limiter was the first to use it and its policies are
    /// unchanged.
    #[inline]
    pub(crate) fn first_look<'r>(&self, rule: &'r Rule) -> Option<&'r Arc<BoundRule>> {
        let bound: &Arc<BoundRule> = rule.kept()?;
        bound
            .is_of(self.id, || self.policies.version())
            .then_some(bound)
    }

    /// The bound form of a rule, under the policy `called` if the call names one.
    pub(crate) fn bind(&self, rule: &Rule, called: Option<&str>) -> Arc<BoundRule> {
        if called.is_none()
            && let Some(bound) = self.first_look(rule)
        {
            return Arc::clone(bound);
        }
        let Some(policy) = called.or(rule.policy()) else {
            let bound = self.registry.rules.find(rule, "").unwrap_or_else(|| {
                let bound = Arc::new(self.bind_by_itself(rule));
                self.registry.rules.insert(rule, "", &bound);
                bound
            });
            if bound.has_max_of(rule) {
                rule.keep(Arc::clone(&bound));
            }
            return bound;
        };
        if let Some(bound) = self.policies.current().rules.find(rule, policy) {
            if called.is_none() {
                rule.keep(Arc::clone(&bound));
            }
            return bound;
        }
        let by = PolicyUse::from(rule);
        let (set, found) = self.policies.used(policy, by);
        let Some(found) = found else {
            // A call may make up the name, so this is not kept.
            let mut bound = self.with_terms(rule, rule.terms(), set.version);
            bound.mistake = Some(RateLimitError::misconfigured(set.unknown(policy)));
            return Arc::new(bound);
        };
        let found = BoundPolicy::new(policy, found, by);
        let bound = Arc::new(self.bind_by_policy(rule, found, set.version));
        set.rules.insert(rule, policy, &bound);
        if called.is_none() {
            rule.keep(Arc::clone(&bound));
        }
        bound
    }

    /// Keeps the summary of a rule that operators are shown, and gives it to the store, once for
    /// each bound form. `is_max_per_call`: whether the call gives the `max`.
    pub(super) fn tell(
        &self,
        rule: &Rule,
        bound: &BoundRule,
        called: Option<&str>,
        kinds: RenderedKinds,
        is_max_per_call: bool,
    ) {
        if bound.is_noted.load(Relaxed) || bound.mistake.is_some() {
            return;
        }
        bound.is_noted.store(true, Relaxed);
        let in_flight = bound.concurrent.as_ref().map(|concurrent| concurrent.limit);
        let policy = called.or(rule.policy());
        let kinds = kinds.list();
        let summary = rule.summary(&bound.terms, in_flight, policy, kinds, is_max_per_call);
        if self.summaries.keep(&summary) {
            self.store.note_rule(&self.prefix, &summary);
        }
    }

    fn bind_by_itself(&self, rule: &Rule) -> BoundRule {
        let (terms, unzoned) = zoned(rule.terms());
        let mut bound = self.with_terms(rule, &terms, 0);
        bound.mistake = bound.mistake.or_else(|| {
            if rule.has_policy() {
                // A rule of an attribute is used by hand.
                return Some(RateLimitError::misconfigured(
                    "the policy of this rule is named by each call: say which by \
                     `with_policy_named`",
                ));
            }
            unzoned
                .or_else(|| mistake_of(rule, &terms))
                .or_else(|| self.registry.compare(rule, &bound.head).err())
        });
        bound
    }

    fn bind_by_policy(&self, rule: &Rule, found: BoundPolicy, set: u64) -> BoundRule {
        let policy = &found.policy;
        let (terms, unzoned) = zoned(&rule.terms().with_policy(policy));
        let mut bound = self.with_terms(rule, &terms, set);
        if let Some(concurrent) = &mut bound.concurrent {
            concurrent.is_by_policy = policy.concurrent.is_some();
            let CallsInFlight { max, lease } = &mut concurrent.limit;
            (*max, *lease) = (
                policy.concurrent.unwrap_or(*max),
                policy.lease.unwrap_or(*lease),
            );
        }
        bound.mistake = bound.mistake.or_else(|| {
            let mistake = found.mistake(found.by, &self.capabilities);
            // An explicit name with a policy may be another's with limits: their keys differ.
            let compare = || {
                rule.site()
                    .map(|_| self.registry.compare(rule, &bound.head))
            };
            mistake
                .or(unzoned)
                .or_else(|| compare().and_then(Result::err))
        });
        bound.is_plain = false;
        bound.policy = Some(found);
        bound
    }

    /// The rule bound by these terms, with the reason if the store cannot keep them.
    fn with_terms(&self, rule: &Rule, terms: &Terms, policies: u64) -> BoundRule {
        let names = rule.names();
        let head = |push: &dyn Fn(&mut String)| {
            let mut head = String::from(&*self.prefix);
            push(&mut head);
            Box::from(head.into_bytes())
        };
        let of_concurrent = |head: &mut String| rule::push_in_flight_head(head, &names.escaped);
        let of_limits = |head: &mut String| {
            rule::push_head(head, terms.algorithm(), terms.limits(), &names.escaped);
        };
        let is_limited = !terms.limits().is_empty();
        let in_flight = rule.in_flight_limit();
        let mut bound = BoundRule {
            name: names.name,
            head: head(if is_limited {
                &of_limits
            } else {
                &of_concurrent
            }),
            terms: *terms,
            policy: None,
            is_plain: self.key_hasher.is_none(),
            concurrent: in_flight.map(|limit| BoundConcurrent {
                head: head(&of_concurrent),
                limit,
                is_by_policy: false,
            }),
            capabilities: self.capabilities,
            mistake: None,
            origin: Origin {
                limiter: self.id,
                policies,
                terms: *rule.terms(),
                in_flight,
                site: rule.site(),
            },
            is_noted: AtomicBool::new(false),
        };
        if rule.site().is_none() && names.full.len() > rule::MAX_NAME {
            bound.mistake = Some(RateLimitError::misconfigured(format!(
                "the name of a rule has at most {} bytes, and this one is longer: `{}`",
                rule::MAX_NAME,
                names.full
            )));
        } else if is_limited && !terms.is_calendar_misplaced() {
            bound.mistake = self.supports(&bound.request()).err().map(Into::into);
        }
        bound
    }
}

/// The terms with their time zone applied, and the reason if that is not possible.
fn zoned(terms: &Terms) -> (Terms, Option<RateLimitError>) {
    match terms.in_its_zone() {
        Ok(zoned) => (zoned, None),
        Err(why) => (*terms, Some(RateLimitError::misconfigured(why))),
    }
}

/// The mistake in a rule without a policy, if it has one.
fn mistake_of(rule: &Rule, terms: &Terms) -> Option<RateLimitError> {
    let name = rule.name();
    let mistake = if terms.waits_in_vain() {
        format!(
            "a call of the rule `{name}` either waits or is blocked: leave `with_wait` out, or the \
             block"
        )
    } else if terms.blocks_never() {
        format!(
            "the rule `{name}` has no limit that could block a key: leave the block out, or set a \
             limit as well"
        )
    } else if terms.is_burst_misplaced() {
        format!("the rule `{name}`: {}", terms.algorithm().lacks_burst())
    } else if let Some(mistake) = terms.prefetch_mistake() {
        format!("the rule `{name}`: {mistake}")
    } else if terms.has_zone() && !terms.has_calendar() {
        format!(
            "the rule `{name}` has a time zone and no calendar quota, which alone begins by it: \
             write a limit such as `Limit::calendar(500, CalendarUnit::Day)`, or leave `with_zone` \
             out"
        )
    } else {
        return None;
    };
    Some(RateLimitError::misconfigured(mistake))
}
