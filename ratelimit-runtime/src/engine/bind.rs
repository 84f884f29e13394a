//! Binding: finds the [`BoundRule`] of a rule on a limiter, or makes it.

use std::hash::{DefaultHasher, Hasher as _};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use arc_swap::ArcSwapOption;

use super::bound::{BoundPolicy, BoundRule, Origin};
use super::state::{Engine, PolicyUse};
use crate::error::RateLimitError;
use crate::rule::{self, Rule};

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
        let first: Option<&Arc<BoundRule>> = rule.kept();
        let first = first.filter(|first| called.is_none() && first.origin.limiter == self.id);
        if let Some(first) = first {
            let newest = first
                .newest
                .load_full()
                .unwrap_or_else(|| Arc::clone(first));
            if newest.is_of(self.id, || self.policies.version()) {
                return newest;
            }
        }
        let policy = called.or(rule.policy());
        let known = match policy {
            Some(policy) => self.policies.current().rules.find(rule, policy),
            None => self.registry.rules.find(rule, ""),
        };
        let bound = known.unwrap_or_else(|| self.made(rule, policy));
        let is_kept = match policy {
            Some(_) => called.is_none() && bound.policy.is_some(),
            None => bound.has_max_of(rule),
        };
        match first {
            Some(first) if is_kept => first.newest.store(Some(Arc::clone(&bound))),
            None if is_kept => rule.keep(Arc::clone(&bound)),
            _ => {}
        }
        bound
    }

    /// Makes the bound form of a rule, under this policy if it has one, for further calls to find.
    fn made(&self, rule: &Rule, policy: Option<&str>) -> Arc<BoundRule> {
        let Some(name) = policy else {
            let bound = Arc::new(self.resolve(rule, None, 0));
            self.registry.rules.insert(rule, "", &bound);
            return bound;
        };
        let by = PolicyUse::from(rule);
        let (set, found) = self.policies.used(name, &by);
        let found = found.map(|policy| BoundPolicy {
            name: name.into(),
            policy,
            by,
            reservations: Default::default(),
        });
        let is_known = found.is_some();
        let mut bound = self.resolve(rule, found, set.version);
        if !is_known {
            // A call may make up the name, so this is not kept.
            bound.mistake = Some(RateLimitError::misconfigured(set.unknown(name)));
            return Arc::new(bound);
        }
        let bound = Arc::new(bound);
        set.rules.insert(rule, name, &bound);
        self.registry.keep(&bound);
        bound
    }

    /// The bound form of a rule, by its policy or by itself, with the first mistake in it.
    fn resolve(&self, rule: &Rule, policy: Option<BoundPolicy>, version: u64) -> BoundRule {
        let (names, own) = (rule.names(), rule.terms());
        let of_policy = |found: &BoundPolicy| own.with_policy(&found.policy.terms);
        let terms = policy.as_ref().map_or(*own, of_policy);
        let terms = terms.in_zone(own.zone).unwrap_or(terms);
        let head = |push: &dyn Fn(&mut String)| {
            let mut head = String::from(&*self.prefix);
            push(&mut head);
            Box::<[u8]>::from(head.into_bytes())
        };
        let of_permits = |head: &mut String| rule::push_in_flight_head(head, &names.escaped);
        let of_limits = |head: &mut String| {
            rule::push_head(head, terms.algorithm(), terms.limits(), &names.escaped);
        };
        let is_limited = !terms.limits().is_empty();
        let stored = head(if is_limited { &of_limits } else { &of_permits });
        let mut hasher = DefaultHasher::new();
        hasher.write(stored.get(self.prefix.len()..).unwrap_or_default());
        let mut bound = BoundRule {
            name: names.name,
            head: stored,
            terms_hash: (hasher.finish() >> 32) as u32,
            terms,
            is_plain: self.key_hasher.is_none() && policy.is_none(),
            policy,
            permit_head: terms.concurrent.map(|_| head(&of_permits)),
            capabilities: self.capabilities,
            mistake: None,
            origin: Origin {
                limiter: self.id,
                policies: version,
                terms: *own,
                site: rule.site(),
            },
            is_noted: AtomicBool::new(false),
            newest: ArcSwapOption::empty(),
        };
        bound.mistake = self.keeps(rule, &bound).err();
        bound
    }

    /// `Ok` if the limiter can keep the rule.
    fn keeps(&self, rule: &Rule, bound: &BoundRule) -> Result<(), RateLimitError> {
        let (full, terms) = (&rule.names().full, &bound.terms);
        let zone = rule.terms().zone;
        let mistake = if rule.site().is_none() && full.len() > rule::MAX_NAME {
            Some(format!(
                "the name of a rule has at most {} bytes, and this one is longer: `{full}`",
                rule::MAX_NAME,
            ))
        } else if let Some(found) = &bound.policy {
            found
                .by
                .mistake(&found.name, &found.policy, &self.capabilities)
        } else if rule.has_policy() {
            // A rule of an attribute is used by hand.
            let why = "the policy of this rule is named by each call: say which by \
                       `with_policy_named`";
            Some(why.to_owned())
        } else {
            let mistake = terms.mistake(zone.is_some());
            mistake.map(|mistake| format!("the rule `{}`: {mistake}", rule.name()))
        };
        if let Some(mistake) = mistake.or_else(|| terms.in_zone(zone).err()) {
            return Err(RateLimitError::misconfigured(mistake));
        }
        if !terms.limits().is_empty() {
            self.supports(terms)?;
        }
        // An explicit name with a policy may be another's with limits: their keys differ.
        if bound.policy.is_none() || rule.site().is_some() {
            self.registry.compare(rule, &bound.head)?;
        }
        Ok(())
    }
}
