//! [`RateLimitLayer`]: whole requests use one limiter, and their responses tell of the decisions. The frameworks' own
//! modules make it a layer or a middleware of theirs.

mod told;

use std::fmt;
use std::future::Future;

#[cfg(any(feature = "poem", feature = "tower"))]
pub(super) use self::told::write;
#[cfg(feature = "actix-web")]
pub(super) use self::told::{Before, Telling, tell};
use crate::client_ip::TrustedProxies;
use crate::error::RateLimitError;
use crate::key::Key;
use crate::limiter::{RateLimiter, find};
use crate::observe::{self, Observation};
use crate::rule::Rule;

/// A layer around the handlers of a server: `.layer(…)` of axum, tonic and everything else on tower, `.wrap(…)` of
/// actix-web, `.with(…)` of poem.
///
/// - Responses get the fields `RateLimit-Policy` and `RateLimit` of all decisions that were made for them, by attributes or
///   by hand, admitted or refused; see [`Responses`](crate::Responses). Decisions that are made while a body is
///   already being streamed come too late for that.
/// - With a [`limiter`](Self::limiter), checks made for a request use it, wherever it was made. Without one, they use the
///   installed one.
/// - With a [`rule`](Self::rule), the layer limits requests by itself. Several rules are several layers.
///
/// ```
/// # #[cfg(feature = "axum")] {
/// use axum::Router;
/// use axum::routing::get;
/// use ratelimit_runtime::{HeaderKey, Limit, NamedHeader, RateLimitLayer, RateLimiter, Rule, key};
///
/// static PER_KEY: Rule = Rule::new("api", Limit::per_minute(600));
///
/// struct ApiKey;
///
/// impl NamedHeader for ApiKey {
///     const NAME: &'static str = "x-api-key";
/// }
///
/// let app: Router = Router::new().route("/", get(|| async { "hello" })).layer(
///     RateLimitLayer::new().limiter(RateLimiter::memory()).rule(&PER_KEY, |request: &axum::extract::Request| {
///         HeaderKey::<ApiKey>::of(request.headers()).map(|api_key| key!("<api_key>"))
///     }),
/// );
/// # let _ = app;
/// # }
/// ```
#[derive(Clone, Debug)]
#[must_use = "a layer does nothing until it is applied"]
pub struct RateLimitLayer<R = Unlimited> {
    limiter: Option<RateLimiter>,
    pub(super) proxies: Option<TrustedProxies>,
    pub(super) rule: R,
}

/// A [`RateLimitLayer`] without a rule of its own.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unlimited;

/// The rule of a [`RateLimitLayer`].
#[derive(Clone)]
pub struct Limited<F> {
    rule: Rule,
    key: F,
}

impl<F> fmt::Debug for Limited<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Limited").field("rule", &self.rule).finish_non_exhaustive()
    }
}

impl Default for RateLimitLayer {
    fn default() -> Self {
        Self::new()
    }
}

impl RateLimitLayer {
    /// Tells of the decisions in responses.
    pub fn new() -> Self {
        Self { limiter: None, proxies: None, rule: Unlimited }
    }

    /// Limits requests by this rule. `key` makes the key from a request of the framework: a [`Key`], or a `Result` with the
    /// answer in place of one, because requests without a key must not share one.
    pub fn rule<F>(self, rule: &Rule, key: F) -> RateLimitLayer<Limited<F>> {
        RateLimitLayer { limiter: self.limiter, proxies: self.proxies, rule: Limited { rule: rule.clone(), key } }
    }
}

impl<R> RateLimitLayer<R> {
    /// The limiter for all checks that are made for a request.
    pub fn limiter(mut self, limiter: RateLimiter) -> Self {
        self.limiter = Some(limiter);
        self
    }

    /// Whom [`ClientIp`](crate::ClientIp) believes inside of this layer, in place of those of the
    /// [limiter](crate::RateLimiterBuilder::trusted_proxies).
    pub fn trusted_proxies(mut self, proxies: TrustedProxies) -> Self {
        self.proxies = Some(proxies);
        self
    }

    /// What the layer asks about a request, by the settings of its limiter.
    pub(super) fn question<Q, A>(&self, request: &Q) -> Result<Option<Question>, A>
    where
        R: Asks<Q, A>,
    {
        match &self.limiter {
            Some(limiter) => limiter.scope_now(|| self.rule.question(request)),
            None => self.rule.question(request),
        }
    }

    /// Runs what answers a request. Gives the answer, the decisions made for it, and whether legacy fields are wanted.
    pub(super) fn run<F: Future>(
        &self,
        answer: F,
    ) -> impl Future<Output = (F::Output, Vec<Observation>, bool)> + use<R, F> {
        let limiter = self.limiter.clone();
        async move {
            let all = async {
                let (answer, decisions) = observe::collect(answer).await;
                (answer, decisions, find::responses().legacy)
            };
            match limiter {
                Some(limiter) => limiter.scope(all).await,
                None => all.await,
            }
        }
    }
}

/// What a layer asks about requests `Q` of a framework, whose answers are `A`.
pub trait Asks<Q, A>: Sized {
    /// The question, if there is one, or the answer to a request without a key.
    #[doc(hidden)]
    fn question(&self, request: &Q) -> Result<Option<Question>, A>;
}

impl<Q, A> Asks<Q, A> for Unlimited {
    fn question(&self, _: &Q) -> Result<Option<Question>, A> {
        Ok(None)
    }
}

impl<Q, A, F: Fn(&Q) -> K, K: RequestKey<A>> Asks<Q, A> for Limited<F> {
    fn question(&self, request: &Q) -> Result<Option<Question>, A> {
        let key = (self.key)(request).into_key()?;
        Ok(Some(Question { rule: self.rule.clone(), key }))
    }
}

/// What a layer asks of the limiter.
#[derive(Debug)]
pub struct Question {
    rule: Rule,
    key: Key,
}

impl Question {
    /// Asks, if there is anything to ask.
    pub(super) async fn ask(question: Option<Self>) -> Result<(), RateLimitError> {
        match question {
            Some(Self { rule, key }) => RateLimiter::current().acquire(&rule, &key).await.map(drop),
            None => Ok(()),
        }
    }
}

/// What the key function of a [`RateLimitLayer`] may give: a [`Key`], or a `Result` whose error is an answer of the
/// framework, or can become one.
pub trait RequestKey<A> {
    /// The key, or the answer.
    ///
    /// # Errors
    ///
    /// The answer to a request that has no key.
    fn into_key(self) -> Result<Key, A>;
}

impl<A> RequestKey<A> for Key {
    fn into_key(self) -> Result<Key, A> {
        Ok(self)
    }
}

impl<A, E: Into<A>> RequestKey<A> for Result<Key, E> {
    fn into_key(self) -> Result<Key, A> {
        self.map_err(Into::into)
    }
}
