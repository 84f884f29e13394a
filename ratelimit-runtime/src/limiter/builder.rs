//! [`RateLimiterBuilder`]: sets up a limiter, and checks its settings.

use std::fmt;
use std::time::Duration;

use super::policies;
use crate::engine::{Engine, is_in_memory};
use crate::error::RateLimitError;
use crate::key::KeyHasher;
use crate::rule::{FORMAT, OnUnavailable, Policy};
use crate::store::Store;
use crate::store::memory::MemoryStore;

/// Sets up a [`RateLimiter`](crate::RateLimiter); made by
/// [`RateLimiter::builder`](crate::RateLimiter::builder).
///
/// ```
/// use std::time::Duration;
/// use ratelimit_runtime::{OnUnavailable, RateLimiter};
///
/// # fn main() -> Result<(), ratelimit_runtime::RateLimitError> {
/// let limiter = RateLimiter::builder()
///     .prefix("shop:prod")
///     .timeout(Duration::from_millis(50))
///     .on_unavailable(OnUnavailable::Deny)
///     .build()?;
/// # let _ = limiter;
/// # Ok(())
/// # }
/// ```
#[must_use = "a builder does nothing until `build`"]
pub struct RateLimiterBuilder {
    store: Option<Result<Box<dyn Store>, RateLimitError>>,
    in_memory: bool,
    prefix: String,
    timeout: Option<Duration>,
    on_unavailable: OnUnavailable,
    secret: Option<Vec<u8>>,
    policies: Vec<(String, Policy)>,
    #[cfg(feature = "http")]
    responses: crate::Responses,
    #[cfg(feature = "http")]
    trusted_proxies: crate::TrustedProxies,
}

impl fmt::Debug for RateLimiterBuilder {
    /// Without the secret, and without the store, whose URL may hold a password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RateLimiterBuilder")
            .field("prefix", &self.prefix)
            .field("timeout", &self.timeout)
            .field("on_unavailable", &self.on_unavailable)
            .field("hash_keys", &self.secret.is_some())
            .field("policies", &self.policies)
            .finish_non_exhaustive()
    }
}

impl RateLimiterBuilder {
    pub(super) fn new() -> Self {
        Self {
            store: None,
            in_memory: true,
            prefix: String::new(),
            timeout: None,
            on_unavailable: OnUnavailable::default(),
            secret: None,
            policies: Vec::new(),
            #[cfg(feature = "http")]
            responses: crate::Responses::default(),
            #[cfg(feature = "http")]
            trusted_proxies: crate::TrustedProxies::default(),
        }
    }

    /// What every stored key begins with, so that services and stages that share a Redis stay
    /// apart: `shop:prod`. At most 64 bytes, without braces (they would put all keys on one node of
    /// a cluster), white space or control characters.
    pub fn prefix(mut self, prefix: impl Into<String>) -> Self {
        self.prefix = prefix.into();
        self
    }

    /// How long a whole check may take, from 1 ms to 1 min: 100 ms unless set. Waiting for a slot
    /// is not part of it.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// What to do when the store cannot answer: [`OnUnavailable::Local`] unless set.
    pub fn on_unavailable(mut self, policy: OnUnavailable) -> Self {
        self.on_unavailable = policy;
        self
    }

    /// Hashes keys with this secret before they leave the process, so that the store holds no
    /// personal data. All processes that share limits need the same secret; changing it starts
    /// every limit afresh. A key as it is [listed](crate::RateLimiter::keys) is not hashed again.
    pub fn hash_keys(mut self, secret: impl AsRef<[u8]>) -> Self {
        self.secret = Some(secret.as_ref().to_vec());
        self
    }

    /// The limits of rules with `policy = "…"`. A rule whose policy is missing is an error when it
    /// is first used.
    pub fn policy(mut self, name: impl Into<String>, policy: Policy) -> Self {
        self.policies.push((name.into(), policy));
        self
    }

    /// Several policies at once, as they come from a configuration: with the feature `serde` a
    /// [`Policy`] is read from `"5/1m, 50/1d"` or `"token_bucket 10/1s burst 50"`, from a list of
    /// limits, or from a table of `limits`, `algorithm`, `burst` and `block`.
    pub fn policies(mut self, policies: impl IntoIterator<Item = (impl Into<String>, Policy)>) -> Self {
        self.policies.extend(policies.into_iter().map(|(name, policy)| (name.into(), policy)));
        self
    }

    /// How refusals look over HTTP, where this is the limiter
    /// [in force](crate::RateLimiter::current) while the response is made.
    #[cfg(feature = "http")]
    pub fn responses(mut self, responses: crate::Responses) -> Self {
        self.responses = responses;
        self
    }

    /// Proxies whose forwarding headers [`ClientIp`](crate::ClientIp) trusts, where this is the
    /// limiter [in force](crate::RateLimiter::current). None by default. A
    /// [`RateLimitLayer`](crate::RateLimitLayer) may set others for what is inside of it.
    #[cfg(feature = "http")]
    pub fn trusted_proxies(mut self, proxies: crate::TrustedProxies) -> Self {
        self.trusted_proxies = proxies;
        self
    }

    /// Keeps limits on the Redis that a URL names: one server (`redis://`, `unix://`), the master
    /// that Sentinel knows (`redis+sentinel://`), or a cluster (`redis+cluster://`), with TLS by
    /// `rediss` (feature `redis-tls`). [`RedisStore::new`](crate::RedisStore::new) has the forms.
    #[cfg(feature = "redis")]
    pub fn redis(mut self, url: &str) -> Self {
        let store = crate::store::redis::RedisStore::new(url);
        self.in_memory = false;
        self.store = Some(store.map(|store| Box::new(store) as _).map_err(RateLimitError::Misconfigured));
        self
    }

    /// Keeps limits in this store; without one, in memory.
    pub fn store(mut self, store: impl Store) -> Self {
        self.in_memory = is_in_memory(&store);
        self.store = Some(Ok(Box::new(store)));
        self
    }

    /// Takes the store from `RATELIMIT_URL`, or else `REDIS_URL`; as
    /// [`RateLimiter::from_env`](crate::RateLimiter::from_env) does.
    ///
    /// # Errors
    ///
    /// `Misconfigured` when the variable is set, but not to a usable value.
    pub fn store_from_env(self) -> Result<Self, RateLimitError> {
        for variable in ["RATELIMIT_URL", "REDIS_URL"] {
            match std::env::var(variable) {
                Ok(url) if url.is_empty() => {}
                Ok(url) => return self.url(variable, &url),
                Err(std::env::VarError::NotPresent) => {}
                Err(std::env::VarError::NotUnicode(_)) => {
                    return Err(RateLimitError::misconfigured(format!("{variable} is not UTF-8")));
                }
            }
        }
        Ok(self)
    }

    fn url(self, variable: &str, url: &str) -> Result<Self, RateLimitError> {
        if matches!(url, "memory:" | "memory://") {
            return Ok(self);
        }
        #[cfg(feature = "redis")]
        {
            let builder = self.redis(url);
            match builder.store {
                Some(Err(RateLimitError::Misconfigured(error))) => {
                    Err(RateLimitError::misconfigured(format!("{variable}: {error}")))
                }
                _ => Ok(builder),
            }
        }
        #[cfg(not(feature = "redis"))]
        Err(RateLimitError::misconfigured(format!(
            "{variable} names a Redis, and `ratelimit-runtime` was built without its feature `redis`"
        )))
    }
}

impl RateLimiterBuilder {
    /// The engine of the limiter, if all settings are valid.
    pub(super) fn build_engine(self) -> Result<Engine, RateLimitError> {
        let store = self.store.unwrap_or_else(|| Ok(Box::new(MemoryStore::new())))?;
        let mut engine = Engine::new(store);
        engine.in_memory = self.in_memory;
        engine.prefix = checked_prefix(self.prefix)?;
        if let Some(timeout) = self.timeout {
            if !(Duration::from_millis(1)..=Duration::from_secs(60)).contains(&timeout) {
                return Err(RateLimitError::misconfigured(format!(
                    "the timeout of a rate limiter is between 1ms and 60s, not {timeout:?}"
                )));
            }
            engine.timeout = timeout;
        }
        engine.store.innermost().answers_within(engine.timeout);
        engine.on_unavailable = self.on_unavailable;
        #[cfg(feature = "http")]
        {
            self.responses.check()?;
            engine.responses = self.responses;
            engine.trusted_proxies = self.trusted_proxies;
        }
        policies::replace(&engine, self.policies)?;
        if let Some(secret) = self.secret {
            let hasher = KeyHasher::new(&secret);
            engine.key_hasher =
                Some(hasher.ok_or_else(|| RateLimitError::misconfigured("the secret of `hash_keys` is empty"))?);
        }
        Ok(engine)
    }
}

/// The prefix with the colon that ends it. It must not hold the segment of a format, or two
/// prefixes could give one key.
fn checked_prefix(prefix: String) -> Result<Box<str>, RateLimitError> {
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
        return Ok((prefix + ":").into_boxed_str());
    };
    Err(RateLimitError::misconfigured(format!("the prefix {prefix:?} {problem}")))
}
