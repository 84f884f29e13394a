//! [`RateLimiterBuilder`]: sets up a limiter, and checks its settings.

use std::fmt;
use std::time::Duration;

use super::{RateLimiter, policies};
use crate::engine::Engine;
use crate::error::RateLimitError;
use crate::key::KeyHasher;
use crate::observe;
use crate::rule::{FORMAT, OnUnavailable, Policy};
use crate::store::memory::MemoryStore;
use crate::store::{BuiltInStore as _, Store};

/// Sets up a [`RateLimiter`]; made by [`RateLimiter::builder`].
#[must_use = "a builder does nothing until `build`"]
pub struct RateLimiterBuilder {
    engine: Engine,
    policies: Vec<(String, Policy)>,
    /// A mistake in a setting that could not be kept until `build` checks it.
    problem: Option<RateLimitError>,
}

impl RateLimiter {
    /// A builder of a limiter: store, prefix, timeout, policies, the answer while the store is
    /// unavailable.
    pub fn builder() -> RateLimiterBuilder {
        RateLimiterBuilder {
            engine: Engine::on(MemoryStore::new()),
            policies: Vec::new(),
            problem: None,
        }
    }

    /// A limiter that all processes on one Redis share. It connects in the background when it is
    /// first asked, once in each tokio runtime; [`ready`](Self::ready) does so before that.
    ///
    /// # Errors
    ///
    /// [`RateLimitError::Misconfigured`] when the URL is not a valid Redis URL.
    #[cfg(feature = "redis")]
    pub fn redis(url: &str) -> Result<Self, RateLimitError> {
        Self::builder().redis(url).build()
    }

    /// A limiter on the Redis that `RATELIMIT_URL`, or else `REDIS_URL`, names, whether one server,
    /// Sentinel or a cluster; in memory if neither is set or the value is `memory:`. Its
    /// [prefix](RateLimiterBuilder::prefix) is `RATELIMIT_PREFIX`, as that of `ratelimit-admin`.
    ///
    /// # Errors
    ///
    /// [`RateLimitError::Misconfigured`] when a variable is set, but not to a usable value.
    pub fn from_env() -> Result<Self, RateLimitError> {
        Self::builder().store_from_env()?.build()
    }
}

impl fmt::Debug for RateLimiterBuilder {
    /// Without the secret, and without the store, whose URL may hold a password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RateLimiterBuilder")
            .field("prefix", &self.engine.prefix)
            .field("timeout", &self.engine.timeout)
            .field("on_unavailable", &self.engine.on_unavailable)
            .field("hash_keys", &self.engine.key_hasher.is_some())
            .field("policies", &self.policies)
            .finish_non_exhaustive()
    }
}

impl RateLimiterBuilder {
    /// Sets the beginning of every stored key, which keeps services and stages that share a Redis
    /// apart: `shop:prod`. None unless set; at most 64 bytes, without braces, white space, control
    /// characters or a part `rl1`.
    pub fn prefix(mut self, prefix: impl Into<String>) -> Self {
        self.engine.prefix = prefix.into().into_boxed_str();
        self
    }

    /// Sets how long a whole check may take, from 1 ms to 1 min: 100 ms unless set. Waiting for
    /// room is not part of it. A future that is moved to another tokio runtime keeps the timeout,
    /// unless the check takes several steps: these end only while the first runtime runs.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.engine.timeout = timeout;
        self
    }

    /// Sets the answer while the store cannot answer: [`OnUnavailable::Local`] unless set.
    pub fn on_unavailable(mut self, answer: OnUnavailable) -> Self {
        self.engine.on_unavailable = answer;
        self
    }

    /// Hashes keys with this secret before they leave the process, so that the store holds no
    /// personal data. All processes that share limits need the same secret; with another one all
    /// counts start from zero. A [listed](crate::RateLimiter::keys) key is not hashed again. An
    /// empty secret is an error of [`build`](Self::build).
    pub fn hash_keys(mut self, secret: impl AsRef<[u8]>) -> Self {
        self.engine.key_hasher = KeyHasher::new(secret.as_ref());
        if self.engine.key_hasher.is_none() {
            self.problem = Some(RateLimitError::misconfigured(
                "the secret of `hash_keys` is empty",
            ));
        }
        self
    }

    /// Sets the policy of this name. A call whose rule names a policy that the limiter lacks is
    /// `Misconfigured`.
    pub fn policy(self, name: impl Into<String>, policy: Policy) -> Self {
        self.policies([(name, policy)])
    }

    /// Sets several policies, such as those of a configuration: with the feature `serde` a
    /// [`Policy`] is read from a line, `"5/1m, 50/1d"`, or from a table. Two policies of one name
    /// are an error of [`build`](Self::build).
    pub fn policies(
        mut self,
        policies: impl IntoIterator<Item = (impl Into<String>, Policy)>,
    ) -> Self {
        let policies = policies.into_iter();
        self.policies
            .extend(policies.map(|(name, policy)| (name.into(), policy)));
        self
    }

    /// Sets the responses to refusals over HTTP, where this is the limiter
    /// [in force](crate::RateLimiter::current) while the response is made; a limiter that only
    /// `limiter = …` names is not.
    #[cfg(feature = "http")]
    pub fn responses(mut self, responses: crate::Responses) -> Self {
        self.engine.responses = std::sync::Arc::new(responses);
        self
    }

    /// Sets the proxies whose forwarding header [`ClientIp`](crate::ClientIp) trusts, where this is
    /// the limiter [in force](crate::RateLimiter::current). None by default. A
    /// [`RateLimitLayer`](crate::RateLimitLayer) may set others for the handlers inside of it.
    #[cfg(feature = "http")]
    pub fn trusted_proxies(mut self, proxies: crate::TrustedProxies) -> Self {
        self.engine.trusted_proxies = proxies;
        self
    }

    /// Keeps limits on the Redis that a URL names: one server, the master that Sentinel names, or a
    /// cluster. [`RedisStore::new`](crate::RedisStore::new) has the forms; any other URL is an
    /// error of [`build`](Self::build).
    #[cfg(feature = "redis")]
    pub fn redis(mut self, url: &str) -> Self {
        match crate::store::redis::RedisStore::new(url) {
            Ok(store) => return self.store(store),
            Err(error) => self.problem = Some(RateLimitError::Misconfigured(error)),
        }
        self
    }

    /// Keeps limits in this store; without one, in memory.
    pub fn store(mut self, store: impl Store) -> Self {
        self.engine = self.engine.with_store(store);
        self
    }

    /// Takes the store from `RATELIMIT_URL`, or else `REDIS_URL`, and the prefix from
    /// `RATELIMIT_PREFIX` unless [`prefix`](Self::prefix) sets one; as [`RateLimiter::from_env`]
    /// does. A variable that is empty counts as unset; an empty URL is a warning of the log.
    ///
    /// # Errors
    ///
    /// `Misconfigured` when a variable is set, but not to a usable value.
    pub fn store_from_env(mut self) -> Result<Self, RateLimitError> {
        if self.engine.prefix.is_empty()
            && let Some(prefix) = variable("RATELIMIT_PREFIX")?
        {
            let prefix = prefix.into_boxed_str();
            let wrong = |why| RateLimitError::misconfigured(format!("RATELIMIT_PREFIX: {why}"));
            checked_prefix(&prefix).map_err(wrong)?;
            self.engine.prefix = prefix;
        }
        for name in ["RATELIMIT_URL", "REDIS_URL"] {
            match variable(name)? {
                Some(url) if url.is_empty() => observe::log::empty_url(name),
                Some(url) => return self.url(name, &url),
                None => {}
            }
        }
        Ok(self)
    }

    fn url(self, variable: &str, url: &str) -> Result<Self, RateLimitError> {
        if matches!(url, "memory:" | "memory://") {
            return Ok(self);
        }
        #[cfg(feature = "redis")]
        return crate::store::redis::RedisStore::new(url)
            .map(|store| self.store(store))
            .map_err(|error| RateLimitError::misconfigured(format!("{variable}: {error}")));
        #[cfg(not(feature = "redis"))]
        Err(RateLimitError::misconfigured(format!(
            "{variable} names a Redis, and `ratelimit-runtime` was built without its feature `redis`"
        )))
    }

    /// Makes the limiter. This checks the settings and returns at once; a store connects when it
    /// is first asked, in the background.
    ///
    /// # Errors
    ///
    /// [`RateLimitError::Misconfigured`] with the mistake and what to write instead, also where a
    /// policy needs a feature that the store lacks.
    pub fn build(self) -> Result<RateLimiter, RateLimitError> {
        if let Some(problem) = self.problem {
            return Err(problem);
        }
        let mut engine = self.engine;
        engine.prefix = checked_prefix(&engine.prefix).map_err(RateLimitError::misconfigured)?;
        let timeout = engine.timeout;
        if !(Duration::from_millis(1)..=Duration::from_secs(60)).contains(&timeout) {
            return Err(RateLimitError::misconfigured(format!(
                "the timeout of a rate limiter is between 1ms and 60s, not {timeout:?}"
            )));
        }
        engine.store.answers_within(timeout);
        #[cfg(feature = "http")]
        engine.responses.check()?;
        policies::replace(&engine, self.policies)?;
        Ok(RateLimiter::on(engine))
    }
}

/// The prefix with the colon that ends it. It must not hold the segment of a format, or two
/// prefixes could give one key.
fn checked_prefix(prefix: &str) -> Result<Box<str>, String> {
    let problem = if prefix.len() > 64 {
        "is longer than 64 bytes"
    } else if prefix.contains(['{', '}']) {
        "holds a brace, which would put all keys on one node of a Redis Cluster"
    } else if prefix.contains(|c: char| c.is_control() || c.is_whitespace()) {
        "holds white space or a control character"
    } else if prefix.split(':').any(|segment| segment == FORMAT) {
        "holds the segment `rl1`, which marks the end of a prefix"
    } else if prefix.is_empty() {
        return Ok(Box::default());
    } else {
        return Ok(format!("{prefix}:").into_boxed_str());
    };
    Err(format!("the prefix {prefix:?} {problem}"))
}

/// A variable of the environment, if it is set.
fn variable(name: &str) -> Result<Option<String>, RateLimitError> {
    let not_text = |_| RateLimitError::misconfigured(format!("{name} is not UTF-8"));
    let value = std::env::var_os(name).map(std::ffi::OsString::into_string);
    value.transpose().map_err(not_text)
}
