//! [`RateLimitLayer`]: all checks of a request use one limiter, and its response tells their
//! decisions.
//! The frameworks' own modules make it a layer or a middleware of theirs.

pub(super) mod header_update;

use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::sync::Arc;

use http::Request;
use http::request::Parts;

use self::header_update::HeaderUpdate;
use crate::client_ip::TrustedProxies;
use crate::error::RateLimitError;
use crate::key::Key;
use crate::limiter::{RateLimiter, find};
use crate::observe;
use crate::response::{KeyRejection, answering, answering_now};
use crate::rule::Rule;

/// A layer around the handlers of a server: `.layer(…)` of axum, tonic and everything else on
/// tower, `.wrap(…)` of actix-web, `.with(…)` of poem.
///
/// - Responses get the fields `RateLimit-Policy` and `RateLimit` of all decisions that were made
///   for them, by attributes or by hand, admitted or refused; see [`Responses`](crate::Responses).
///   Decisions that are made while a body is already being streamed come too late for that.
/// - With a [`limiter`](Self::limiter), checks made for a request use it, wherever it was made.
///   Without one, they use the installed one, and so do checks while a body is being streamed.
/// - With a [`rule`](Self::rule), the layer limits requests by itself. Several rules are several
///   layers.
/// - Answers in place of a handler have a status of HTTP, whatever the request says, or with `grpc`
///   one of gRPC. Caches must not store them.
///
/// Scripts in a browser that come from another origin see these fields only where a layer for CORS
/// exposes them. It belongs around this layer, because a preflight has neither key nor credentials.
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
#[derive(Clone, Debug, Default)]
#[must_use = "a layer does nothing until it is applied"]
pub struct RateLimitLayer<R = Unlimited, P = Http> {
    limiter: Option<RateLimiter>,
    pub(super) proxies: Option<TrustedProxies>,
    rule: R,
    protocol: PhantomData<P>,
}

/// The protocol of a [`RateLimitLayer`] that answers refused requests with a status of HTTP.
#[derive(Clone, Copy, Debug, Default)]
pub struct Http;

/// The protocol of a [`RateLimitLayer`] that answers refused calls with a status of gRPC.
#[cfg(feature = "tonic")]
#[derive(Clone, Copy, Debug)]
pub struct Grpc;

/// A [`RateLimitLayer`] without a rule of its own.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unlimited;

/// The rule of a [`RateLimitLayer`], for requests `Q` of a framework whose responses are `A`.
///
/// | framework | requests | responses |
/// | --- | --- | --- |
/// | axum | `axum::extract::Request` | `axum::response::Response` |
/// | actix-web | `actix_web::dev::ServiceRequest` | `actix_web::HttpResponse` |
/// | poem | `poem::Request` | `poem::Response` |
/// | tonic | `http::Request<tonic::body::Body>` | `http::Response<tonic::body::Body>` |
pub struct Limited<Q, A> {
    /// Shared by all requests, so that its names are worked out once.
    rule: Arc<Rule>,
    key: Arc<KeyFunction<Q, A>>,
}

/// The key of a request, or nothing if it is not limited.
type KeyFunction<Q, A> = dyn Fn(&Q) -> Result<Option<Key>, NoKey<A>> + Send + Sync;

impl<Q, A> Clone for Limited<Q, A> {
    fn clone(&self) -> Self {
        Self {
            rule: Arc::clone(&self.rule),
            key: Arc::clone(&self.key),
        }
    }
}

impl<Q, A> fmt::Debug for Limited<Q, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Limited")
            .field("rule", &self.rule)
            .finish_non_exhaustive()
    }
}

impl RateLimitLayer {
    /// Tells of the decisions in responses.
    pub fn new() -> Self {
        Self::default()
    }
}

impl<P> RateLimitLayer<Unlimited, P> {
    /// Limits requests by this rule. `key` makes the key from a request of the framework: a
    /// [`Key`], or a `Result` with the answer in place of one, because requests without a key must
    /// not share one. The error is a [`KeyRejection`](crate::KeyRejection), a [`RateLimitError`], or a
    /// response of the framework.
    ///
    /// The type has a name, as it takes to return the layer from a function, see
    /// [`Limited`](crate::layer::Limited).
    pub fn rule<Q, A, K: RequestKey<A>>(
        self,
        rule: &Rule,
        key: impl Fn(&Q) -> K + Send + Sync + 'static,
    ) -> RateLimitLayer<Limited<Q, A>, P> {
        RateLimitLayer {
            limiter: self.limiter,
            proxies: self.proxies,
            rule: Limited {
                rule: Arc::new(rule.clone()),
                key: Arc::new(move |request| key(request).into_key().map(Some)),
            },
            protocol: PhantomData,
        }
    }
}

impl<Q: 'static, A: 'static, P> RateLimitLayer<Limited<Q, A>, P> {
    /// Does not limit requests for which `is_exempt` is `true`, such as health checks: the layer
    /// makes no key for them and charges nothing. Limits further in hold for them too. Of several
    /// `skip`, each exempts requests.
    pub fn skip(mut self, is_exempt: impl Fn(&Q) -> bool + Send + Sync + 'static) -> Self {
        let key = self.rule.key;
        self.rule.key = Arc::new(move |request| {
            if is_exempt(request) {
                Ok(None)
            } else {
                key(request)
            }
        });
        self
    }
}

#[cfg(feature = "tonic")]
impl<R> RateLimitLayer<R> {
    /// Makes this a layer for services of tonic: it answers requests in place of a method with a
    /// status of gRPC, which is HTTP's 200 with the same code and details as the
    /// [`Status`](tonic::Status) of a refused method. Other servers on tower answer HTTP: caches
    /// and alerts would take a 200 for success.
    #[cfg_attr(docsrs, doc(cfg(feature = "tonic")))]
    pub fn grpc(self) -> RateLimitLayer<R, Grpc> {
        RateLimitLayer {
            limiter: self.limiter,
            proxies: self.proxies,
            rule: self.rule,
            protocol: PhantomData,
        }
    }
}

impl<R, P> RateLimitLayer<R, P> {
    /// The limiter for all checks that are made for a request.
    pub fn limiter(mut self, limiter: RateLimiter) -> Self {
        self.limiter = Some(limiter);
        self
    }

    /// Proxies whose forwarding headers [`ClientIp`](crate::ClientIp) trusts inside of this layer,
    /// in place of those of the [limiter](crate::RateLimiterBuilder::trusted_proxies).
    pub fn trusted_proxies(mut self, proxies: TrustedProxies) -> Self {
        self.proxies = Some(proxies);
        self
    }

    /// Runs code that is no future.
    fn within<T>(&self, work: impl FnOnce() -> T) -> T {
        match &self.limiter {
            Some(limiter) => limiter.within(work),
            None => work(),
        }
    }

    /// A copy of a request, which `fill` makes, if bodies of refusals may read it.
    pub(super) fn copy(&self, fill: impl FnOnce(&mut Request<()>)) -> Option<Arc<Parts>> {
        let responses = self.within(find::responses);
        responses.read_requests().then(|| {
            let mut copy = Request::new(());
            fill(&mut copy);
            Arc::new(copy.into_parts().0)
        })
    }

    /// The check that a request needs, if any, or the answer that `answer` makes to one without a
    /// key.
    pub(super) fn check<Q, A, T>(
        &self,
        request: &Q,
        copy: Option<&Arc<Parts>>,
        answer: impl FnOnce(NoKey<A>) -> T,
    ) -> Result<RequestCheck, T>
    where
        R: RequestRule<Q, A>,
    {
        let check = || self.rule.check(request).map_err(answer);
        self.within(|| answering_now(copy.cloned(), check))
    }

    /// Runs the future that answers a request. Gives the answer, and the decisions made meanwhile.
    pub(super) fn run<F: Future>(
        &self,
        copy: Option<Arc<Parts>>,
        answer: F,
    ) -> impl Future<Output = (F::Output, HeaderUpdate)> + use<R, P, F> {
        let limiter = self.limiter.clone();
        async move {
            let all = async {
                let answer = answering(copy, answer);
                let (answer, decisions) = observe::collect(answer).await;
                (
                    answer,
                    HeaderUpdate {
                        decisions,
                        responses: find::responses(),
                    },
                )
            };
            match limiter {
                Some(limiter) => limiter.scope(all).await,
                None => all.await,
            }
        }
    }
}

/// The answer to a request that has no key: a response of the framework, or a [`KeyRejection`] or
/// [`RateLimitError`] in the protocol of the layer. Caches must not store it, unless the response
/// says that they may.
#[allow(
    unnameable_types,
    unreachable_pub,
    reason = "what errors of key functions become"
)]
#[derive(Debug)]
pub enum NoKey<A> {
    Answer(A),
    Rejected(KeyRejection),
    Refused(RateLimitError),
}

impl<A> From<KeyRejection> for NoKey<A> {
    fn from(rejection: KeyRejection) -> Self {
        Self::Rejected(rejection)
    }
}

impl<A> From<RateLimitError> for NoKey<A> {
    fn from(error: RateLimitError) -> Self {
        Self::Refused(error)
    }
}

#[cfg(any(feature = "actix-web", feature = "poem"))]
impl<A: From<KeyRejection> + From<RateLimitError>> NoKey<A> {
    /// The response.
    pub(super) fn answer(self) -> A {
        match self {
            Self::Answer(response) => response,
            Self::Rejected(rejection) => rejection.into(),
            Self::Refused(error) => error.into(),
        }
    }
}

/// The rule of a [`RateLimitLayer`], if any, for requests `Q` of a framework whose responses are
/// `A`. It is a bound in signatures of frameworks, and cannot be named outside of this crate: only
/// [`Limited`] and [`Unlimited`] implement it.
#[allow(
    unnameable_types,
    unreachable_pub,
    reason = "sealed: a bound that frameworks see"
)]
pub trait RequestRule<Q, A>: Sized {
    /// The check that the request needs, if any, or the answer to a request without a key.
    fn check(&self, request: &Q) -> Result<RequestCheck, NoKey<A>>;
}

impl<Q, A> RequestRule<Q, A> for Unlimited {
    fn check(&self, _: &Q) -> Result<RequestCheck, NoKey<A>> {
        Ok(None)
    }
}

impl<Q, A> RequestRule<Q, A> for Limited<Q, A> {
    fn check(&self, request: &Q) -> Result<RequestCheck, NoKey<A>> {
        let key = (self.key)(request)?;
        Ok(key.map(|key| (Arc::clone(&self.rule), key)))
    }
}

/// The rule and the key of one request, if it is limited.
pub(super) type RequestCheck = Option<(Arc<Rule>, Key)>;

/// Charges a request, if there is anything to check, or gives the refusal.
pub(super) async fn acquire(check: RequestCheck) -> Result<(), RateLimitError> {
    match check {
        Some((rule, key)) => RateLimiter::current().acquire(&rule, &key).await.map(drop),
        None => Ok(()),
    }
}

/// A return type of the key function of a [`RateLimitLayer`]: a [`Key`], or a `Result` whose error
/// is an answer of the framework, or can become one.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not what the key function of a layer returns",
    label = "the key of this layer's rule is of that type",
    note = "a key function returns a `Key`, as in `|_: &Request| key!(\"all\")` and `|request: &Request| Key::of(&value)`",
    note = "or a `Result<Key, E>` where a request may have no key, and `E` becomes its response, as in `by_client_ip`"
)]
#[allow(
    unnameable_types,
    unreachable_pub,
    reason = "sealed: a bound that frameworks see"
)]
pub trait RequestKey<A> {
    /// The key, or the answer.
    ///
    /// # Errors
    ///
    /// The answer to a request that has no key.
    fn into_key(self) -> Result<Key, NoKey<A>>;
}

impl<A> RequestKey<A> for Key {
    fn into_key(self) -> Result<Key, NoKey<A>> {
        Ok(self)
    }
}

impl<A, E: Into<NoKey<A>>> RequestKey<A> for Result<Key, E> {
    fn into_key(self) -> Result<Key, NoKey<A>> {
        self.map_err(Into::into)
    }
}
