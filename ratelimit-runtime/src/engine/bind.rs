//! Binding: finds the [`BoundRule`] of a rule on a limiter, or makes it.

use std::hash::{DefaultHasher, Hasher as _};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use arc_swap::ArcSwapOption;

use super::bound::{BoundPolicy, BoundRule, Origin};
use super::state::Engine;
use crate::error::RateLimitError;
use crate::observe;
use crate::rule::{self, Rule};
use crate::store::Reserves;

impl Engine {
    /// The bound form of a rule for calls that reserve like this, if this limiter was the first to
    /// use it so, and its policies are unchanged.
    #[inline]
    pub(crate) fn first_look<'r>(
        &self,
        rule: &'r Rule,
        reserves: Reserves,
    ) -> Option<&'r Arc<BoundRule>> {
        let bound: &Arc<BoundRule> = rule.kept()?;
        let is_of_calls = bound.origin.limiter == self.id && bound.origin.reserves == reserves;
        (is_of_calls && bound.is_current(|| self.registry.version())).then_some(bound)
    }

    /// The bound form of a rule for calls that reserve like this, under the policy `called` if the
    /// call names one.
    pub(crate) fn bind(
        &self,
        rule: &Rule,
        called: Option<&str>,
        reserves: Reserves,
    ) -> Arc<BoundRule> {
        let first: Option<&Arc<BoundRule>> = rule.kept();
        let first = first.filter(|first| called.is_none() && first.origin.limiter == self.id);
        if let Some(newest) = first.and_then(|first| first.newest.load_full())
            && newest.origin.reserves == reserves
            && newest.is_current(|| self.registry.version())
        {
            return newest;
        }
        let policy = called.or(rule.policy());
        let known = self.registry.find(rule, policy, reserves);
        let bound = known.unwrap_or_else(|| self.made(rule, policy, reserves));
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
    fn made(&self, rule: &Rule, policy: Option<&str>, reserves: Reserves) -> Arc<BoundRule> {
        let version = self.registry.version();
        let found = policy.map(|name| (name, self.registry.policy(name)));
        let (found, unknown) = match found {
            Some((name, Ok(policy))) => {
                let name = name.into();
                (Some(BoundPolicy { name, policy }), None)
            }
            Some((_, Err(unknown))) => (None, Some(unknown)),
            None => (None, None),
        };
        let origin = Origin {
            limiter: self.id,
            policies: policy.map_or(0, |_| version),
            terms: *rule.terms(),
            site: rule.site(),
            reserves,
        };
        let mut bound = self.resolve(rule, found, origin);
        if let Some(unknown) = unknown {
            // A call may make up the name, so this is not kept, and holds nobody else up.
            bound.mistake = Some(RateLimitError::misconfigured(unknown));
            return Arc::new(bound);
        }
        let kept = self.keeps(rule, &bound);
        let mut rules = self.registry.write();
        if policy.is_some() && self.registry.version() != version {
            // The new policies were put in force without a look at this rule.
            drop(rules);
            return self.made(rule, policy, reserves);
        }
        let compared = kept.and_then(|()| rules.compare(rule, &bound));
        let is_second = matches!(compared, Ok(true));
        bound.mistake = compared.err();
        let bound = Arc::new(bound);
        rules.keep(rule, &bound);
        drop(rules);
        if is_second {
            observe::log::same_path(rule.name());
        }
        bound
    }

    /// The bound form of a rule, by its policy or by itself.
    fn resolve(&self, rule: &Rule, policy: Option<BoundPolicy>, origin: Origin) -> BoundRule {
        let (names, own) = (rule.names(), rule.terms());
        let of_policy = |found: &BoundPolicy| own.with_policy(&found.policy.terms);
        let terms = policy.as_ref().map_or(*own, of_policy);
        let terms = terms.in_zone(own.zone).unwrap_or(terms);
        let mut permit_head = String::from(&*self.prefix);
        rule::push_in_flight_head(&mut permit_head, &names.escaped);
        let mut head = String::from(&*self.prefix);
        if terms.limits().is_empty() {
            head.clone_from(&permit_head);
        } else {
            rule::push_head(&mut head, terms.algorithm(), terms.limits(), &names.escaped);
        }
        let mut hasher = DefaultHasher::new();
        hasher.write(head.split_at(self.prefix.len()).1.as_bytes());
        BoundRule {
            name: names.name,
            head: head.into_bytes().into(),
            terms_hash: (hasher.finish() >> 32) as u32,
            terms,
            is_plain: self.key_hasher.is_none() && policy.is_none(),
            policy,
            permit_head: terms.concurrent.map(|_| permit_head.into_bytes().into()),
            capabilities: self.capabilities,
            mistake: None,
            origin,
            is_noted: AtomicBool::new(false),
            newest: ArcSwapOption::empty(),
        }
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
            bound.mistake_under(&found.name, &found.policy)
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
            self.supports(terms, bound.origin.reserves)?;
        }
        Ok(())
    }
}
