//! [`HeaderUpdate`]: what was decided for a request, as header fields of its response.

use crate::decision::{Decision, whole_seconds};
use crate::observe::Observation;
use crate::response::{RefusalDecision, Standings, legacy_fields, reset};

/// The header fields of a response, of whatever crate. Names are in lower case.
pub(in crate::adapter) trait Fields {
    /// The values under a name, in their order.
    fn all(&self, name: &'static str) -> impl Iterator<Item = &[u8]>;

    /// Puts one value in the place of all of that name.
    fn set(&mut self, name: &'static str, value: &str);

    /// Puts one more value beside those of that name.
    fn add(&mut self, name: &'static str, value: &str);
}

/// The header fields that the decisions made for a request add to its response.
pub(in crate::adapter) struct HeaderUpdate {
    pub(super) decisions: Vec<Observation>,
    /// Whether `X-RateLimit-*` are among them.
    pub(super) legacy: bool,
    /// Whether `Access-Control-Expose-Headers` names them.
    pub(super) exposed: bool,
}

/// What a layer writes into responses, as far as it does.
const FIELDS: [&str; 6] =
    ["retry-after", "ratelimit-policy", "ratelimit", "x-ratelimit-limit", "x-ratelimit-remaining", "x-ratelimit-reset"];

const EXPOSED: &str = "access-control-expose-headers";

/// Keeps an answer in place of a handler out of caches, unless it says something about them itself.
pub(in crate::adapter) fn keep_out_of_caches(headers: &mut impl Fields) {
    if headers.all("cache-control").next().is_none() {
        headers.set("cache-control", "no-store");
    }
}

impl HeaderUpdate {
    /// Writes them into the headers of a response of this status. `refusal` is the decision whose
    /// fields the response already has, if it is a refusal.
    pub(in crate::adapter) fn apply(&self, status: u16, refusal: Option<RefusalDecision>, headers: &mut impl Fields) {
        // 429, and RESOURCE_EXHAUSTED of gRPC.
        let refuses = status == 429 || headers.all("grpc-status").eq([b"8"]);
        let standings = Standings::after(&self.decisions, refusal.as_ref().map(|RefusalDecision(decision)| decision));
        for (name, value) in standings.fields() {
            // Those of the refusal are among them; those that a layer further in has written are
            // not.
            if refusal.is_some() {
                headers.set(name, &value);
            } else {
                headers.add(name, &value);
            }
        }
        if let Some(strictest) = standings.strictest().filter(|_| self.legacy) {
            let is_refusal = !strictest.is_allowed();
            if refusal.is_some() || is_refusal || !is_stricter_already(headers, strictest, refuses) {
                for (name, value) in legacy_fields(strictest) {
                    headers.set(name, &value);
                }
            }
        }
        if refuses {
            self.lend_wait(headers);
        }
        if self.exposed {
            expose(headers);
        }
    }

    /// A handler may have answered a refusal with a status and no more. One that went on after it,
    /// and was admitted elsewhere, answers for itself.
    fn lend_wait(&self, headers: &mut impl Fields) {
        let last = self.decisions.iter().rev().find(|decision| !decision.is_shadow()).map(Observation::decision);
        if let Some(refusal) = last.filter(|decision| !decision.is_allowed())
            && headers.all("retry-after").next().is_none()
        {
            if let Some(wait) = refusal.retry_after() {
                headers.set("retry-after", &whole_seconds(wait).to_string());
            }
            keep_out_of_caches(headers);
        }
    }
}

/// Whether the legacy fields of a layer further in say more than these, which are those of an
/// admission.
fn is_stricter_already(headers: &impl Fields, ours: &Decision, refuses: bool) -> bool {
    let theirs = |name| -> Option<u64> {
        let mut values = headers.all(name);
        let value = std::str::from_utf8(values.next()?).ok()?.parse().ok();
        value.filter(|_| values.next().is_none())
    };
    let Some(their_left) = theirs("x-ratelimit-remaining") else { return false };
    let their_until = theirs("x-ratelimit-reset").unwrap_or_default();
    let our_until = reset(ours).unwrap_or(u64::MAX);
    // Of the two, only that one can have refused.
    refuses || (their_left, our_until) <= (ours.remaining(), their_until)
}

/// Names what was written, where no other line names it.
fn expose(headers: &mut impl Fields) {
    let is_named = |field: &&str| {
        let mut names = headers.all(EXPOSED).flat_map(|line| line.split(|byte| *byte == b','));
        names.any(|name| name.trim_ascii().eq_ignore_ascii_case(field.as_bytes()))
    };
    let there = FIELDS.into_iter().filter(|field| headers.all(field).next().is_some());
    let names: Vec<_> = there.filter(|field| !is_named(field)).collect();
    if !names.is_empty() {
        headers.add(EXPOSED, &names.join(", "));
    }
}

impl Fields for http::HeaderMap {
    fn all(&self, name: &'static str) -> impl Iterator<Item = &[u8]> {
        self.get_all(name).iter().map(http::HeaderValue::as_bytes)
    }

    fn set(&mut self, name: &'static str, value: &str) {
        if let Ok(value) = http::HeaderValue::from_str(value) {
            self.insert(name, value);
        }
    }

    fn add(&mut self, name: &'static str, value: &str) {
        if let Ok(value) = http::HeaderValue::from_str(value) {
            self.append(name, value);
        }
    }
}
