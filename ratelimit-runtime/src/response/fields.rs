//! Decisions as the header fields `RateLimit-Policy` and `RateLimit` of draft-ietf-httpapi-ratelimit-headers-10.

use std::time::Duration;

use sfv::{Integer, KeyRef, ListSerializer, StringRef, key_ref};
use smallvec::SmallVec;

use crate::decision::{Decision, Source, whole_seconds};
#[cfg(any(feature = "actix-web", feature = "poem", feature = "tower"))]
use crate::observe::Observation;
use crate::rule::Limit;

/// The name of a header field, in lower case, and its value.
pub(crate) type Field = (&'static str, String);

/// How many rules a response speaks of; a handler may have asked more.
#[cfg(any(feature = "actix-web", feature = "poem", feature = "tower"))]
const MOST: usize = 10;

/// A rule that took part, and how it decided.
struct Item<'a> {
    decision: &'a Decision,
    limits: SmallVec<[Limit; 2]>,
}

impl<'a> Item<'a> {
    /// Only the limit that decided is known.
    fn of_decision(decision: &'a Decision) -> Self {
        Self { decision, limits: SmallVec::new() }
    }

    /// Whether this one is closer to a refusal.
    fn is_stricter_than(&self, other: &Decision) -> bool {
        let rank = |decision: &Decision| (decision.is_allowed(), decision.remaining(), !decision.retry_after_us);
        rank(self.decision) < rank(other)
    }
}

/// The fields of a refusal of which no more than the decision is known.
pub(super) fn of_refusal(decision: &Decision, legacy: bool) -> Vec<Field> {
    write(&[Item::of_decision(decision)], legacy)
}

/// The fields that tell of the decisions made for a response. Rules in shadow mode limit nobody, so they are not told of.
#[cfg(any(feature = "actix-web", feature = "poem", feature = "tower"))]
pub(crate) fn fields(observations: &[Observation], legacy: bool) -> Vec<Field> {
    let mut items: Vec<Item<'_>> = Vec::new();
    for observation in observations.iter().filter(|observation| !observation.is_shadow()) {
        let item = Item { decision: observation.decision(), limits: SmallVec::from_slice(observation.limits()) };
        // Of several decisions by one rule, on several keys, the strictest matters to the client.
        if let Some(known) = items.iter_mut().find(|known| known.decision.rule() == item.decision.rule()) {
            if item.is_stricter_than(known.decision) {
                *known = item;
            }
        } else if items.len() < MOST {
            items.push(item);
        }
    }
    write(&items, legacy)
}

fn write(items: &[Item<'_>], legacy: bool) -> Vec<Field> {
    const Q: &KeyRef = key_ref("q");
    const W: &KeyRef = key_ref("w");
    const R: &KeyRef = key_ref("r");
    const T: &KeyRef = key_ref("t");
    let (mut policies, mut standings) = (ListSerializer::new(), ListSerializer::new());
    for Item { decision, limits } in items {
        let mut policy = |index: usize, quota: u64, window: Duration| {
            let name = name(decision.rule(), index);
            let Ok(name) = StringRef::from_str(&name) else { return };
            let _ = policies.bare_item(name).parameter(Q, integer(quota)).parameter(W, integer(whole_seconds(window)));
        };
        if limits.is_empty() {
            policy(decision.limit_index(), decision.limit(), decision.window());
        }
        for (index, limit) in limits.iter().enumerate() {
            policy(index, limit.max(), limit.window());
        }
        // Where nobody was asked, nobody knows what is left.
        if decision.source() != Source::Nobody {
            let name = name(decision.rule(), decision.limit_index());
            let Ok(name) = StringRef::from_str(&name) else { continue };
            let _ = standings
                .bare_item(name)
                .parameter(R, integer(decision.remaining()))
                .parameter(T, integer(reset(decision)));
        }
    }
    let mut fields = Vec::new();
    fields.extend(policies.finish().map(|value| ("ratelimit-policy", value)));
    fields.extend(standings.finish().map(|value| ("ratelimit", value)));
    if legacy {
        let known = items.iter().map(|item| item.decision).filter(|decision| decision.source() != Source::Nobody);
        let strictest = known.reduce(|a, b| if Item::of_decision(b).is_stricter_than(a) { b } else { a });
        if let Some(decision) = strictest {
            fields.push(("x-ratelimit-limit", decision.limit().to_string()));
            fields.push(("x-ratelimit-remaining", decision.remaining().to_string()));
            fields.push(("x-ratelimit-reset", reset(decision).to_string()));
        }
    }
    fields
}

/// When it is worth to come again: of a refused call the same moment as `Retry-After`.
fn reset(decision: &Decision) -> u64 {
    whole_seconds(if decision.is_allowed() { decision.reset_after() } else { decision.retry_after() })
}

/// The limits of a rule have names of their own. Of a path, which derived names are, clients are told the last part alone.
/// A structured string holds ASCII.
pub(super) fn name(rule: &str, index: usize) -> String {
    let rule = rule.rsplit('.').next().unwrap_or(rule);
    let name = rule.chars().map(|c| if (' '..='~').contains(&c) { c } else { '_' });
    let number = if index == 0 { String::new() } else { format!("/{}", index + 1) };
    name.chain(number.chars()).collect()
}

/// A structured integer has 15 digits.
fn integer(value: u64) -> Integer {
    i64::try_from(value).ok().and_then(|value| Integer::try_from(value).ok()).unwrap_or(Integer::MAX)
}
