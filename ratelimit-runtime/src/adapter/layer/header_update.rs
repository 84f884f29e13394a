//! [`HeaderUpdate`]: the decisions on a request, as header fields of its response.

use std::sync::Arc;

use crate::decision::{Decision, whole_seconds};
use crate::observe::Observation;
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
    pub(super) decisions: Vec<Observation>,
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
    /// refusal's, `refusal` the decision whose fields it already has.
    pub(in crate::adapter) fn apply(
        &self,
        is_refusal: bool,
        refusal: Option<RefusalDecision>,
        headers: &mut impl Fields,
    ) {
        let mut standings = Standings::after(
            &self.decisions,
            refusal.as_ref().map(|RefusalDecision(decision)| decision),
            &self.responses.names,
        );
        let strictest = standings.strictest().filter(|_| self.responses.legacy);
        // Fields of the refusal are among these; those that a layer further in has written are not.
        standings.yield_to(headers.all("ratelimit").filter(|_| refusal.is_none()));
        for (name, value) in standings.fields() {
            let further_in = headers.all(name).filter(|_| refusal.is_none());
            let line = joined(further_in, value);
            headers.set(name, line);
        }
        // These are of one rule. Of a refused call it is the one that refuses, which may have more
        // left than others, or no name for clients.
        let tells = |strictest: &Decision| {
            if is_refusal {
                !strictest.is_allowed()
            } else {
                refusal.is_some()
                    || remaining(headers).is_none_or(|remaining| strictest.remaining() < remaining)
            }
        };
        if let Some(strictest) = strictest.filter(|strictest| tells(strictest)) {
            headers.remove("x-ratelimit-reset");
            for (name, value) in legacy_fields(strictest) {
                headers.set(name, value);
            }
        }
        if is_refusal {
            self.lend_wait(headers);
        }
    }

    /// Adds `Retry-After` if the last decision is a refusal, which the handler may have answered
    /// with a status alone.
    fn lend_wait(&self, headers: &mut impl Fields) {
        let last = self.decisions.last().map(Observation::decision);
        if let Some(refusal) = last.filter(|decision| !decision.is_allowed())
            && headers.all("retry-after").next().is_none()
        {
            if let Some(wait) = refusal.retry_after() {
                headers.set("retry-after", whole_seconds(wait).to_string());
            }
            keep_out_of_caches(headers);
        }
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
