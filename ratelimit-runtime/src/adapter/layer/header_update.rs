//! [`HeaderUpdate`]: the decisions on a request, as header fields of its response.

use std::sync::Arc;

use crate::decision::{Decision, whole_seconds};
use crate::observe::{DecisionsByRule, Observation};
use crate::response::{RefusalDecision, Responses, Standings, joined, legacy_fields};

/// The header fields of a response, of whatever crate. Names are in lower case.
pub(in crate::adapter) trait Fields {
    /// The values under a name, in their order.
    fn all(&self, name: &'static str) -> impl Iterator<Item = &[u8]>;

    /// Replaces all values under a name by one.
    fn set(&mut self, name: &'static str, value: impl AsRef<[u8]>);

    /// Removes all values under a name.
    fn remove(&mut self, name: &'static str);
}

/// The header fields that the decisions made for a request add to its response.
pub(in crate::adapter) struct HeaderUpdate {
    pub(super) decided: DecisionsByRule,
    pub(super) responses: Arc<Responses>,
}

/// Keeps a response that replaces a handler's out of caches, unless it has `Cache-Control`.
pub(in crate::adapter) fn keep_out_of_caches(headers: &mut impl Fields) {
    if headers.all("cache-control").next().is_none() {
        headers.set("cache-control", "no-store");
    }
}

/// The remaining units that a layer further in has written into `X-RateLimit-Remaining`.
fn remaining(headers: &impl Fields) -> Option<u64> {
    let value = headers.all("x-ratelimit-remaining").next()?;
    str::from_utf8(value).ok()?.parse().ok()
}

impl HeaderUpdate {
    /// Writes the fields into the headers of a response. `is_refusal` tells that its status is a
    /// refusal's, `refusal` which one it is made of. Gives the refusal for layers further out.
    pub(in crate::adapter) fn apply(
        &self,
        is_refusal: bool,
        refusal: Option<RefusalDecision>,
        headers: &mut impl Fields,
    ) -> Option<RefusalDecision> {
        let (further_in, made) = match refusal {
            Some(refusal) if refusal.is_in_layer => (Some(refusal.decision), None),
            made => (None, made.map(|refusal| refusal.decision)),
        };
        let names = &self.responses.names;
        // A handler may answer with a status alone.
        let own = match further_in {
            None if is_refusal => made.or_else(|| self.last_refusal()),
            _ => made,
        };
        let mut standings = Standings::after(&self.decided.decisions, own.as_ref(), names);
        let strictest = standings.strictest().copied();
        // Fields of a refusal alone are among these; those of layers further in are not.
        let lines = headers.all("ratelimit").filter(|_| made.is_none());
        standings.yield_to(
            lines,
            further_in.and_then(|refusal| names.of(refusal.rule())),
        );
        for (name, value) in standings.fields() {
            let further_in = headers.all(name).filter(|_| made.is_none());
            let line = joined(further_in, value);
            headers.set(name, line);
        }
        // These are of one rule. Of a refused call it is the one that refuses, which may have more
        // left than others, or no name for clients.
        let reported = match own {
            Some(refusal) => Some(refusal).filter(|refusal| names.of(refusal.rule()).is_some()),
            None if is_refusal || further_in.is_some() => None,
            None => strictest.filter(|strictest| {
                remaining(headers).is_none_or(|remaining| strictest.remaining() < remaining)
            }),
        };
        if let Some(reported) = reported.filter(|_| self.responses.legacy) {
            headers.remove("x-ratelimit-reset");
            for (name, value) in legacy_fields(&reported) {
                headers.set(name, value);
            }
        }
        if let Some(refusal) = own.filter(|_| is_refusal) {
            lend_wait(&refusal, headers);
        }
        let refusal = further_in.or(own);
        refusal.map(|decision| RefusalDecision {
            decision,
            is_in_layer: true,
        })
    }

    /// The refusal with which the checks of the request ended, if they did.
    fn last_refusal(&self) -> Option<Decision> {
        let last = self.decided.decisions.last().map(Observation::decision);
        last.copied().filter(|_| self.decided.ends_refused)
    }
}

/// Adds `Retry-After` to a refusal that the handler has answered with a status alone.
fn lend_wait(refusal: &Decision, headers: &mut impl Fields) {
    if headers.all("retry-after").next().is_none() {
        if let Some(wait) = refusal.retry_after() {
            headers.set("retry-after", whole_seconds(wait).to_string());
        }
        keep_out_of_caches(headers);
    }
}

impl Fields for http::HeaderMap {
    fn all(&self, name: &'static str) -> impl Iterator<Item = &[u8]> {
        self.get_all(name).iter().map(http::HeaderValue::as_bytes)
    }

    fn set(&mut self, name: &'static str, value: impl AsRef<[u8]>) {
        let value = http::HeaderValue::from_bytes(value.as_ref());
        debug_assert!(value.is_ok(), "{name} is printable");
        if let Ok(value) = value {
            self.insert(name, value);
        }
    }

    fn remove(&mut self, name: &'static str) {
        Self::remove(self, name);
    }
}
