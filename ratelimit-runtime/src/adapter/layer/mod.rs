//! [`RateLimitLayer`]: all checks of a request use one limiter, and its response has their
//! decisions. The modules of the frameworks make a layer or a middleware of it.

pub(super) mod header_update;

use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::sync::Arc;

use http::request::Parts;
use http::{Request, Response};
use smallvec::SmallVec;

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
///   for them but those in shadow mode, by attributes or by hand, admitted or refused: of each
///   layer the ten rules that are closest to a refusal, and 1 KiB of their names; see
///   [`Responses`](crate::Responses). Decisions that are made while a body is being streamed come
///   too late for that. Errors of other crates, in poem and from middleware of actix-web, become
///   responses around the layer, without the fields, unless their status is 429.
/// - With a [`limiter`](Self::limiter), checks made for a request use it, wherever it was made.
///   Without one, they use the installed one, and so do checks while a body is being streamed.
/// - With a [`rule`](Self::rule), the layer limits requests by itself. Several rules of one layer
///   are charged together, or none is; rules of several layers are charged one after the other.
/// - Answers in place of a handler have a status of HTTP, whatever the request says, or with `grpc`
///   one of gRPC. Caches must not store them.
///
/// A layer for CORS belongs around this one: see
/// [the order of layers](crate::guide::web_services#the-order-of-layers).
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
    rules: R,
    protocol: PhantomData<P>,
}

/// The protocol of a [`RateLimitLayer`] that answers refused requests with a status of HTTP.
#[derive(Clone, Copy, Debug, Default)]
pub struct Http;

/// The protocol of a [`RateLimitLayer`] that answers refused calls with a status of gRPC.
#[cfg(feature = "tonic")]
#[derive(Clone, Copy, Debug)]
pub struct Grpc;

/// The rules of a [`RateLimitLayer`] that has none: it adds header fields, and limits nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unlimited;

/// The rules of a [`RateLimitLayer`], for requests `Q` of a framework whose responses are `A`.
///
/// | framework | requests | responses |
/// | --- | --- | --- |
/// | axum | `axum::extract::Request` | `axum::response::Response` |
/// | actix-web | `actix_web::dev::ServiceRequest` | `actix_web::HttpResponse` |
/// | poem | `poem::Request` | `poem::Response` |
/// | tonic | `http::Request<tonic::body::Body>` | `http::Response<tonic::body::Body>` |
pub struct Limited<Q, A> {
    /// The rules, in the order of their keys and decisions; shared by all requests.
    rules: Arc<[LimitedRule<Q, A>]>,
    skips: Arc<[Skip<Q>]>,
}

/// A rule of a layer, and the function that makes its key.
struct LimitedRule<Q, A> {
    /// Shared by all requests, so that its names are worked out once.
    rule: Arc<Rule>,
    key: Arc<KeyFunction<Q, A>>,
}

/// The key of a request, or the answer in place of one.
type KeyFunction<Q, A> = dyn Fn(&Q) -> Result<Key, NoKey<A>> + Send + Sync;

/// `true` for a request that the layer does not limit.
type Skip<Q> = Arc<dyn Fn(&Q) -> bool + Send + Sync>;

impl<Q, A> Limited<Q, A> {
    fn none() -> Self {
        Self {
            rules: Arc::new([]),
            skips: Arc::new([]),
        }
    }

    fn and<K: RequestKey<A>>(
        &self,
        rule: &Rule,
        key: impl Fn(&Q) -> K + Send + Sync + 'static,
    ) -> Self {
        let rule = LimitedRule {
            rule: Arc::new(rule.clone()),
            key: Arc::new(move |request| key(request).into_key()),
        };
        Self {
            rules: self.rules.iter().cloned().chain([rule]).collect(),
            skips: Arc::clone(&self.skips),
        }
    }

    fn skip(&self, skip: Skip<Q>) -> Self {
        Self {
            rules: Arc::clone(&self.rules),
            skips: self.skips.iter().cloned().chain([skip]).collect(),
        }
    }
}

impl<Q, A> Clone for Limited<Q, A> {
    fn clone(&self) -> Self {
        Self {
            rules: Arc::clone(&self.rules),
            skips: Arc::clone(&self.skips),
        }
    }
}

impl<Q, A> Clone for LimitedRule<Q, A> {
    fn clone(&self) -> Self {
        Self {
            rule: Arc::clone(&self.rule),
            key: Arc::clone(&self.key),
        }
    }
}

impl<Q, A> fmt::Debug for Limited<Q, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rules = self.rules.iter().map(|limited| &limited.rule);
        f.debug_struct("Limited")
            .field("rules", &rules.collect::<Vec<_>>())
            .finish_non_exhaustive()
    }
}

impl RateLimitLayer {
    /// A layer without a rule: it writes the decisions on a request into its response.
    pub fn new() -> Self {
        Self::default()
    }
}

impl<P> RateLimitLayer<Unlimited, P> {
    /// Limits requests by this rule. `key` makes the key from a request of the framework: a
    /// [`Key`], or a `Result` with the answer in place of one, because requests without a key must
    /// not share one. The error is a [`KeyRejection`](crate::KeyRejection), a [`RateLimitError`], or a
    /// response of the framework. Around a layer that changes the body, a response of axum needs
    /// `MapResponseBodyLayer::new(Body::new)` of tower-http in between; a `Status` does not.
    ///
    /// [`Limited`](crate::layer::Limited) names the type, for functions that return the layer.
    pub fn rule<Q, A, K: RequestKey<A>>(
        self,
        rule: &Rule,
        key: impl Fn(&Q) -> K + Send + Sync + 'static,
    ) -> RateLimitLayer<Limited<Q, A>, P> {
        self.with(Limited::none().and(rule, key))
    }
}

impl<Q, A, P> RateLimitLayer<Limited<Q, A>, P> {
    /// Limits requests by this rule too, with a key of its own: a request is charged for all rules
    /// of the layer, or for none, as by [`RateLimiter::acquire_all`]. Of several rules that refuse,
    /// the response is the refusal that lasts longest, and has the fields of that rule alone.
    ///
    /// Keys are made in the order of the rules. The first that cannot be made answers the request,
    /// and nothing is charged.
    ///
    /// ```
    /// # #[cfg(feature = "axum")] {
    /// use axum::extract::Request;
    /// use ratelimit_runtime::{Key, Limit, RateLimitLayer, Rule, by_client_ip};
    ///
    /// static PER_ADDRESS: Rule = Rule::new("address", Limit::per_minute(60));
    /// static OF_ALL: Rule = Rule::new("all", Limit::per_second(1_000));
    ///
    /// let layer = RateLimitLayer::new()
    ///     .rule(&PER_ADDRESS, by_client_ip)
    ///     .rule(&OF_ALL, |_: &Request| Key::global());
    /// let app: axum::Router = axum::Router::new().layer(layer);
    /// # let _ = app;
    /// # }
    /// ```
    pub fn rule<K: RequestKey<A>>(
        self,
        rule: &Rule,
        key: impl Fn(&Q) -> K + Send + Sync + 'static,
    ) -> Self {
        let rules = self.rules.and(rule, key);
        self.with(rules)
    }

    /// Exempts requests for which `is_exempt` is `true`, such as health checks, from all rules of
    /// the layer: it makes no key for them and charges nothing. Limits inside of the layer, such as
    /// those of handlers, hold for them too. A request is exempt if one of several `skip` says so.
    pub fn skip(self, is_exempt: impl Fn(&Q) -> bool + Send + Sync + 'static) -> Self {
        let rules = self.rules.skip(Arc::new(is_exempt));
        self.with(rules)
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
            rules: self.rules,
            protocol: PhantomData,
        }
    }
}

impl<R, P> RateLimitLayer<R, P> {
    /// Sets the limiter for all checks that are made for a request, in place of the installed one.
    pub fn limiter(mut self, limiter: RateLimiter) -> Self {
        self.limiter = Some(limiter);
        self
    }

    /// Sets the proxies whose forwarding header [`ClientIp`](crate::ClientIp) trusts inside of this
    /// layer, in place of those of the [limiter](crate::RateLimiterBuilder::trusted_proxies).
    pub fn trusted_proxies(mut self, proxies: TrustedProxies) -> Self {
        self.proxies = Some(proxies);
        self
    }

    /// This layer, with these rules.
    fn with<L>(self, rules: L) -> RateLimitLayer<L, P> {
        RateLimitLayer {
            limiter: self.limiter,
            proxies: self.proxies,
            rules,
            protocol: PhantomData,
        }
    }

    /// Runs code that is no future.
    fn within<T>(&self, work: impl FnOnce() -> T) -> T {
        match &self.limiter {
            Some(limiter) => find::within(limiter.clone().into_engine(), work),
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

    /// The checks that a request needs, or the answer that `answer` makes to one without a key.
    pub(super) fn checks<Q, A, T>(
        &self,
        request: &Q,
        copy: Option<&Arc<Parts>>,
        answer: impl FnOnce(NoKey<A>) -> T,
    ) -> Result<RequestChecks, T>
    where
        R: RequestRules<Q, A>,
    {
        let checks = || self.rules.checks(request).map_err(answer);
        let checks = || answering_now(copy.cloned(), checks);
        self.within(|| find::behind_now(self.proxies.clone(), checks))
    }

    /// Runs the future that answers a request. Gives the answer, and the decisions made meanwhile.
    pub(super) fn run<F: Future>(
        &self,
        copy: Option<Arc<Parts>>,
        answer: F,
    ) -> impl Future<Output = (F::Output, HeaderUpdate)> + use<R, P, F> {
        let (limiter, proxies) = (self.limiter.clone(), self.proxies.clone());
        async move {
            let all = async {
                let answer = find::behind(proxies, answering(copy, answer));
                let (answer, decided) = observe::collect_by_rule(answer).await;
                (
                    answer,
                    HeaderUpdate {
                        decided,
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
    /// A response that fits any body of the service, whose type layers further in choose.
    Text(Box<Response<String>>),
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
impl<A> NoKey<A> {
    /// The response; `theirs` makes that of the framework.
    pub(super) fn answer(self, theirs: impl FnOnce(Response<String>) -> A) -> A {
        theirs(match self {
            Self::Answer(response) => return response,
            Self::Text(response) => *response,
            Self::Rejected(rejection) => rejection.to_http_response(),
            Self::Refused(error) => error.to_http_response(),
        })
    }
}

/// The rules of a [`RateLimitLayer`], if any, for requests `Q` of a framework whose responses are
/// `A`. It is a bound in signatures of frameworks, and cannot be named outside of this crate: only
/// [`Limited`] and [`Unlimited`] implement it.
#[allow(
    unnameable_types,
    unreachable_pub,
    reason = "sealed: a bound that frameworks see"
)]
pub trait RequestRules<Q, A>: Sized {
    /// The checks that the request needs, or the answer to a request without a key.
    fn checks(&self, request: &Q) -> Result<RequestChecks, NoKey<A>>;
}

impl<Q, A> RequestRules<Q, A> for Unlimited {
    fn checks(&self, _: &Q) -> Result<RequestChecks, NoKey<A>> {
        Ok(RequestChecks::new())
    }
}

impl<Q, A> RequestRules<Q, A> for Limited<Q, A> {
    fn checks(&self, request: &Q) -> Result<RequestChecks, NoKey<A>> {
        if self.skips.iter().any(|is_exempt| is_exempt(request)) {
            return Ok(RequestChecks::new());
        }
        let check = |limited: &LimitedRule<Q, A>| {
            let key = (limited.key)(request)?;
            Ok((Arc::clone(&limited.rule), key))
        };
        self.rules.iter().map(check).collect()
    }
}

/// The rules that one request is checked by, and its keys; empty if it is not limited.
pub(super) type RequestChecks = SmallVec<[(Arc<Rule>, Key); 1]>;

/// Charges a request for all of its checks, or gives the refusal.
pub(super) async fn acquire(checks: RequestChecks) -> Result<(), RateLimitError> {
    match &checks[..] {
        [] => Ok(()),
        [(rule, key)] => RateLimiter::current().acquire(rule, key).await.map(drop),
        several => {
            let calls = several.iter().map(|(rule, key)| (&**rule, key));
            let limiter = RateLimiter::current();
            // Most layers have one rule: their futures have no room for more.
            Box::pin(limiter.acquire_all(calls)).await.map(drop)
        }
    }
}

/// A return type of the key function of a [`RateLimitLayer`]: a [`Key`], or a `Result` whose error
/// is an answer of the framework, or can become one.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not what the key function of a layer returns",
    label = "the key of this layer's rule is of that type",
    note = "a key function returns a `Key`, as in `|_: &Request| key!(\"all\")` and `|request: &Request| Key::of(&value)`",
    note = "or a `Result<Key, E>` where a request may have no key, and `E` is its response, as by `map_err(IntoResponse::into_response)`, or an error of this crate, as in `by_client_ip`"
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

#[diagnostic::do_not_recommend]
impl<A, E: Into<NoKey<A>>> RequestKey<A> for Result<Key, E> {
    fn into_key(self) -> Result<Key, NoKey<A>> {
        self.map_err(Into::into)
    }
}
