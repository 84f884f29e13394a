//! All events that are logged, by `tracing`. Targets, names and fields are those of
//! guide/observability.md. No event has a key, which may be personal data.

use std::fmt::Debug;
#[cfg(feature = "redis")]
use std::fmt::Display;
use std::io::Write as _;
#[cfg(feature = "watch")]
use std::path::Path;
#[cfg(feature = "redis")]
use std::time::Duration;

use tracing::field;
use tracing::level_filters::LevelFilter;

use super::episodes::{Episodes, ShadowEpisodes};
use super::labels::{self, OutcomeLabel};
use super::survive::survive;
use crate::decision::{Decision, Source};
use crate::error::{RateLimitError, StoreError};

/// Target of the outcomes of calls.
const DECISION: &str = "ratelimit_runtime::decision";
/// Target of the states of connections to servers.
const CONNECTION: &str = "ratelimit_runtime::connection";
/// Target of mistakes in the setup.
const SETUP: &str = "ratelimit_runtime::setup";

/// `true` if a subscriber takes events at the level of a decision, by its `allowed` and `shadow`.
#[inline]
pub(super) fn listens(allowed: bool, shadow: bool) -> bool {
    let level = match (allowed, shadow) {
        (true, _) => LevelFilter::TRACE,
        (false, true) => LevelFilter::INFO,
        (false, false) => LevelFilter::DEBUG,
    };
    level <= LevelFilter::current()
}

pub(super) fn decision(decision: &Decision, shadow: bool) {
    let (rule, source) = (decision.rule(), labels::source(decision.source()));
    let outcome = OutcomeLabel::of(decision, shadow).as_str();
    let retry_after = decision.retry_after().map(field::debug);
    if decision.is_allowed() {
        let remaining = decision.remaining();
        tracing::trace!(name: "admitted", target: DECISION, rule, outcome, source, remaining, "admitted");
    } else if shadow {
        static EPISODES: ShadowEpisodes = ShadowEpisodes::new(shadow_ended);
        if EPISODES.begins(decision.rule.as_str()) {
            tracing::info!(
                name: "shadow_refused", target: DECISION, rule, outcome, source, retry_after,
                "shadow_refused: calls that the limit refuses run: the rule is in shadow mode"
            );
        }
    } else {
        tracing::debug!(name: "refused", target: DECISION, rule, outcome, source, retry_after, "refused");
    }
}

/// Logs that a rule in shadow mode has not refused for a minute, by a task or its next refusal.
fn shadow_ended(rule: &str, refusals: u64) {
    survive(|| {
        tracing::info!(
            name: "shadow_ended", target: DECISION, rule, refusals,
            "shadow_ended: the limit of a rule in shadow mode has not refused for a minute"
        );
    });
}

/// Logs that a check ended with an error, and a mistake in the setup so that it is seen.
pub(super) fn failed(rule: &str, error: &RateLimitError) {
    error.log_if_misconfigured();
    let outcome = OutcomeLabel::of_error(error).as_str();
    tracing::debug!(name: "failed", target: DECISION, rule, outcome, %error, "failed");
}

/// Logs that `source` answers, because the store gave this error.
pub(super) fn degraded(rule: &str, source: Source, error: &StoreError) {
    let source = labels::source(source);
    tracing::debug!(
        name: "degraded", target: DECISION, rule, source, %error,
        "degraded: the store gives no answer"
    );
}

/// Logs that a store refuses writes: once per episode of an error.
#[cold]
pub(super) fn full(error: &StoreError) {
    static EPISODES: Episodes = Episodes::new();
    if EPISODES.begins("", error.message()) {
        survive(|| {
            tracing::warn!(
                name: "full", target: CONNECTION, %error,
                "full: the store refuses writes; calls are limited by each process, or refused \
                 where `on_unavailable` is `deny`"
            );
        });
    }
}

/// Logs that a check failed in shadow mode and its call runs: once per episode of rule and error.
pub(crate) fn shadow_failed(rule: &str, error: &RateLimitError) {
    static EPISODES: Episodes = Episodes::new();
    if !EPISODES.begins(rule, &error.to_string()) {
        return;
    }
    tracing::warn!(
        name: "shadow_failed", target: DECISION, rule, %error,
        "shadow_failed: a check failed, and its call runs because the rule is in shadow mode"
    );
}

/// Logs that a charge will not be settled.
pub(crate) fn unsettled(rule: &str, completion: &dyn Debug, error: &StoreError) {
    survive(|| {
        tracing::debug!(
            name: "unsettled", target: DECISION, rule, settlement = ?completion, %error,
            "unsettled: a charge could not be settled, and counts until it expires"
        );
    });
}

impl RateLimitError {
    /// Logs a mistake in the setup, which clients are not shown: once per episode of an error,
    /// because clients can repeat their requests. A mistake in a rule names the rule. Responses
    /// call it too, for errors that no check gave, such as that of a `peek`.
    pub(crate) fn log_if_misconfigured(&self) {
        static EPISODES: Episodes = Episodes::new();
        if let Self::Misconfigured(error) = self
            && EPISODES.begins("", error.message())
        {
            tracing::error!(
                name: "misconfigured", target: SETUP, %error,
                "misconfigured: the rate limiter is set up wrongly"
            );
        }
    }
}

/// Logs that a trusted proxy names no client.
#[cfg(feature = "http")]
pub(crate) fn no_client(proxy: Option<std::net::IpAddr>, reason: &str) {
    let proxy = proxy.map(field::display);
    tracing::warn!(
        name: "no_client", target: SETUP, proxy, reason,
        "no_client: a trusted proxy names no client: such requests share the limits of its own \
         address, or are refused if it has none or `TrustedProxies` is strict. Let it write the \
         header that `TrustedProxies` reads: `X-Forwarded-For`, unless set. Of a client inside of \
         a trusted network, all addresses are trusted"
    );
}

/// Logs that a request seems to be forwarded, by a peer that is not trusted. The peer is shown if
/// it is none on the internet, which may be a client.
#[cfg(feature = "http")]
pub(crate) fn no_proxies(header: &str, peer: Option<std::net::IpAddr>) {
    let peer = peer.map(field::display);
    tracing::warn!(
        name: "no_proxies", target: SETUP, header, peer,
        "no_proxies: a request has this header, and its peer is not trusted to write it: behind a \
         proxy, all clients share the limits of its address. Name it in `TrustedProxies`"
    );
}

/// Logs that a limiter was built, without the URL of its store, which may hold a password.
pub(crate) fn built(store: &str, prefix: &str, policies: usize) {
    tracing::info!(
        name: "built", target: SETUP, store, prefix, policies,
        "built: a rate limiter is built"
    );
}

pub(crate) fn empty_url(variable: &str) {
    tracing::warn!(
        name: "empty_url", target: SETUP, variable,
        "empty_url: the variable is empty, which counts as unset: write `memory:` to keep limits \
         in the memory of this process"
    );
}

pub(crate) fn no_limiter() {
    const MESSAGE: &str = "no rate limiter is installed: limits are kept in the memory of this \
        process only; call `RateLimiter::redis(url)?.install()` or \
        `RateLimiter::memory().install()` at start";
    tracing::warn!(name: "no_limiter", target: SETUP, "no_limiter: {MESSAGE}");
    // A forgotten `install()` must also be seen where the subscriber has been forgotten.
    if !tracing::dispatcher::has_been_set() {
        let _ = writeln!(std::io::stderr(), "warning: {MESSAGE}");
    }
}

pub(crate) fn same_path(rule: &str) {
    tracing::error!(
        name: "same_path", target: SETUP, rule,
        "same_path: two functions have the same path, and their rate limits one name: give one of \
         them a name of its own, `name = \"…\"`"
    );
}

#[cfg(feature = "watch")]
pub(super) fn policies_in_force(file: &Path, outcome: &Result<usize, RateLimitError>) {
    let file = file.display();
    survive(|| match outcome {
        Ok(policies) => {
            tracing::info!(
                name: "policies_replaced", target: SETUP, %file, policies,
                "policies_replaced: the policies of the file are in force"
            );
        }
        Err(error) => {
            tracing::error!(
                name: "policies_refused", target: SETUP, %file, %error,
                "policies_refused: the policies stay as they were"
            );
        }
    });
}

#[cfg(feature = "redis")]
pub(crate) fn connected(server: &dyn Display) {
    survive(|| {
        tracing::debug!(name: "connected", target: CONNECTION, %server, "connected to Redis");
    });
}

#[cfg(feature = "redis")]
pub(crate) fn lost(server: &dyn Display, lasted: Duration, error: &StoreError) {
    survive(|| {
        tracing::debug!(
            name: "lost", target: CONNECTION, %server, ?lasted, %error,
            "lost: a connection to Redis is over"
        );
    });
}

#[cfg(feature = "redis")]
pub(crate) fn outage(server: &dyn Display, error: &StoreError) {
    survive(|| {
        tracing::warn!(
            name: "outage", target: CONNECTION, %server, %error,
            "outage: Redis does not serve; calls are answered as `on_unavailable` says"
        );
    });
}

/// Logs that the server does not serve until a setting changes, here or on the server.
#[cfg(feature = "redis")]
pub(crate) fn misconfigured(server: &dyn Display, error: &StoreError) {
    survive(|| {
        tracing::error!(
            name: "misconfigured", target: CONNECTION, %server, %error,
            "misconfigured: Redis does not serve this process; every call is answered with an \
             error, whatever `on_unavailable` says"
        );
    });
}

/// Logs that a server which does not serve is asked no more.
#[cfg(feature = "redis")]
pub(crate) fn dropped(server: &dyn Display, after: Duration) {
    survive(|| {
        tracing::info!(
            name: "dropped", target: CONNECTION, %server, ?after,
            "dropped: a Redis that does not serve is asked no more"
        );
    });
}

#[cfg(feature = "redis")]
pub(crate) fn recovered(server: &dyn Display, after: Duration) {
    survive(|| {
        tracing::info!(
            name: "recovered", target: CONNECTION, %server, ?after,
            "recovered: Redis serves again"
        );
    });
}

/// Logs that a call in flight lost its permit: once per episode of a rule, as many may at once.
#[cfg(feature = "redis")]
pub(super) fn permit_lost(rule: &str) {
    static EPISODES: Episodes = Episodes::new();
    if EPISODES.begins(rule, "") {
        survive(|| {
            tracing::warn!(
                name: "permit_lost", target: DECISION, rule,
                "permit_lost: calls in flight have lost their permits and go on: for as long as a \
                 lease no connection renewed it, or the clock of the server jumped, and others \
                 hold them"
            );
        });
    }
}

#[cfg(feature = "redis")]
pub(super) fn prefetched(granted: u64, spent: u64, given_back: u64) {
    survive(|| {
        tracing::trace!(
            name: "prefetched", target: DECISION, granted, spent, given_back,
            "prefetched: units that were taken ahead are over"
        );
    });
}

#[cfg(feature = "redis")]
pub(crate) fn login_expires(server: &dyn Display, error: &StoreError) {
    survive(|| {
        tracing::warn!(
            name: "login_expires", target: CONNECTION, %server, %error,
            "login_expires: the login on Redis could not be renewed; trying again"
        );
    });
}

#[cfg(feature = "redis")]
pub(crate) fn role_unknown(server: &dyn Display) {
    survive(|| {
        tracing::info!(
            name: "role_unknown", target: SETUP, %server,
            "role_unknown: Redis does not say whether it is a master: a process all of whose \
             calls are refused notices a fail-over late. Let the user run `ROLE`"
        );
    });
}

#[cfg(test)]
mod tests {
    #[test]
    fn at_info_the_refusals_of_shadow_mode_are_logged_and_no_other_decisions() {
        let _at_info = tracing::subscriber::set_default(tracing_subscriber::fmt().finish());
        assert!(super::listens(false, true));
        assert!(!super::listens(false, false) && !super::listens(true, true));
    }
}
