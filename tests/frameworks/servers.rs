//! One app in axum, actix-web and poem: the same handlers behind the same layers.

use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;

use actix_web::dev::ServiceRequest;
use actix_web::middleware::Condition;
use actix_web::test::{TestRequest, call_service, init_service};
use actix_web::{App, HttpRequest, Responder, web};
use axum::Router;
use axum::extract::ConnectInfo;
use axum::routing::get;
use poem::endpoint::{BoxEndpoint, make};
use poem::{EndpointExt as _, Route, handler};
use ratelimit_runtime::{
    ClientIp, HeaderKey, Key, KeyRejection, RateLimitError, RateLimitLayer, RateLimiter, Rule,
    rate_limit,
};

use crate::{ApiKey, PER_IP, Seen, actix, axum_server, poem_server, search};

/// The parts of a key.
pub(crate) struct Parts {
    pub(crate) ip: Result<ClientIp, KeyRejection>,
    pub(crate) api_key: Result<HeaderKey<ApiKey>, KeyRejection>,
}

pub(crate) type KeyOf = fn(Parts) -> Result<Key, KeyRejection>;

type Answering<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// The answer of an app to `GET /{user}`.
pub(crate) type Handler =
    Arc<dyn Fn(String) -> Answering<Result<String, RateLimitError>> + Send + Sync>;

/// The handlers and the layers of an app: at most two that have a rule, the inner one first, and
/// one around them that has none.
#[derive(Clone)]
pub(crate) struct Site {
    pub(crate) handler: Handler,
    pub(crate) rules: Vec<(RateLimitLayer, Rule, KeyOf)>,
    /// Of each layer that has a rule, the rules that are charged together with it.
    pub(crate) together: Vec<(Rule, KeyOf)>,
    pub(crate) plain: Option<RateLimitLayer>,
    /// The paths that no layer limits.
    pub(crate) is_exempt: fn(&str) -> bool,
}

impl Site {
    /// Searches, behind this layer.
    pub(crate) fn behind(layer: RateLimitLayer) -> Self {
        Self {
            plain: Some(layer),
            ..Self::open()
        }
    }

    /// Searches, limited by this layer.
    pub(crate) fn limited(layer: RateLimitLayer, rule: &Rule, key: KeyOf) -> Self {
        Self {
            rules: vec![(layer, rule.clone(), key)],
            ..Self::open()
        }
    }

    /// Searches, behind no layer.
    pub(crate) fn open() -> Self {
        let handler: Handler = Arc::new(|user| Box::pin(async move { search(&user).await }));
        Self {
            handler,
            rules: Vec::new(),
            together: Vec::new(),
            plain: None,
            is_exempt: |_| false,
        }
    }

    /// The app in each framework. Each has budgets of its own where the limiters differ.
    pub(crate) async fn serve(&self) -> [Server; 3] {
        [self.on_axum(), self.on_actix().await, self.on_poem()]
    }

    fn on_axum(&self) -> Server {
        let handler = Arc::clone(&self.handler);
        let is_exempt = self.is_exempt;
        let mut app = Router::new()
            .route("/by-ip", get(by_ip))
            .route("/whoami", get(async |ip: ClientIp| ip.to_string()))
            .route("/opaque", get(opaque_on_axum))
            .fallback(move |request: axum::extract::Request| handler(user(request.uri().path())));
        for (layer, rule, key) in self.rules.clone() {
            let by = |key: KeyOf| {
                move |request: &axum::extract::Request| {
                    key(Parts {
                        ip: request.try_into(),
                        api_key: HeaderKey::of(request.headers()),
                    })
                }
            };
            let mut layer = layer.rule(&rule, by(key));
            for (rule, key) in &self.together {
                layer = layer.rule(rule, by(*key));
            }
            app = app.layer(layer.skip(move |request| is_exempt(request.uri().path())));
        }
        if let Some(layer) = self.plain.clone() {
            app = app.layer(layer);
        }
        Server::new("axum", move |ask: Ask| {
            let mut request = axum_server::request(ask.path);
            if let Some(peer) = ask.peer {
                request.extensions_mut().insert(ConnectInfo(peer));
            }
            for (name, value) in ask.fields {
                request
                    .headers_mut()
                    .append(name, axum::http::HeaderValue::from_bytes(&value).unwrap());
            }
            let app = app.clone();
            Box::pin(async move { axum_server::ask(&app, request).await })
        })
    }

    async fn on_actix(&self) -> Server {
        let is_exempt = self.is_exempt;
        let ruled = |at: usize| {
            let (layer, rule, key) = match self.rules.get(at) {
                Some(rule) => rule.clone(),
                None => (
                    RateLimitLayer::new(),
                    PER_IP.clone(),
                    (|_| Ok(Key::global())) as KeyOf,
                ),
            };
            let by = |key: KeyOf| {
                move |request: &ServiceRequest| {
                    key(Parts {
                        ip: request.try_into(),
                        api_key: request.try_into(),
                    })
                }
            };
            let mut layer = layer.rule(&rule, by(key));
            for (rule, key) in &self.together {
                layer = layer.rule(rule, by(*key));
            }
            let layer = layer.skip(move |request| is_exempt(request.path()));
            Condition::new(at < self.rules.len(), layer)
        };
        let handler = Arc::clone(&self.handler);
        let app = App::new()
            .route("/by-ip", web::get().to(by_ip))
            .route(
                "/whoami",
                web::get().to(async |ip: ClientIp| ip.to_string()),
            )
            .route("/opaque", web::get().to(opaque_on_actix))
            .default_service(web::to(move |request: HttpRequest| {
                handler(user(request.path()))
            }))
            .wrap(ruled(0))
            .wrap(ruled(1))
            .wrap(Condition::new(
                self.plain.is_some(),
                self.plain.clone().unwrap_or_default(),
            ));
        let app = std::rc::Rc::new(init_service(app).await);
        Server::new("actix-web", move |ask: Ask| {
            let mut request = TestRequest::get().uri(ask.path);
            if let Some(peer) = ask.peer {
                request = request.peer_addr(peer);
            }
            for (name, value) in ask.fields {
                request = request.append_header((name, value));
            }
            let app = std::rc::Rc::clone(&app);
            Box::pin(
                async move { actix::seen(call_service(&*app, request.to_request()).await).await },
            )
        })
    }

    fn on_poem(&self) -> Server {
        let handler = Arc::clone(&self.handler);
        let is_exempt = self.is_exempt;
        let app = Route::new()
            .at("/by-ip", poem::get(by_ip_on_poem))
            .at("/whoami", poem::get(whoami_on_poem))
            .at("/opaque", poem::get(opaque_on_poem))
            .at(
                "/*user",
                make(move |request: poem::Request| handler(user(request.uri().path()))),
            );
        let mut app: BoxEndpoint<'static, poem::Response> = app.map_to_response().boxed();
        for (layer, rule, key) in self.rules.clone() {
            let by = |key: KeyOf| {
                move |request: &poem::Request| {
                    key(Parts {
                        ip: request.try_into(),
                        api_key: HeaderKey::of(request.headers()),
                    })
                }
            };
            let mut layer = layer.rule(&rule, by(key));
            for (rule, key) in &self.together {
                layer = layer.rule(rule, by(*key));
            }
            let layer = layer.skip(move |request| is_exempt(request.uri().path()));
            app = app.with(layer).map_to_response().boxed();
        }
        if let Some(layer) = self.plain.clone() {
            app = app.with(layer).map_to_response().boxed();
        }
        let app = Arc::new(app);
        Server::new("poem", move |ask: Ask| {
            let mut request = poem_server::request(ask.path);
            if let Some(peer) = ask.peer {
                request = poem_server::from(peer, ask.path);
            }
            for (name, value) in ask.fields {
                request
                    .headers_mut()
                    .append(name, poem::http::HeaderValue::from_bytes(&value).unwrap());
            }
            let app = Arc::clone(&app);
            Box::pin(async move { poem_server::ask(&*app, request).await })
        })
    }
}

fn user(path: &str) -> String {
    path.trim_start_matches('/').to_owned()
}

#[rate_limit(key = "<ip>/<api_key>", window = "60s", max = 1, name = "by_ip")]
async fn by_ip(ip: ClientIp, api_key: HeaderKey<ApiKey>) -> Result<String, RateLimitError> {
    Ok(format!("{ip} {}", api_key.as_bytes().len()))
}

#[handler]
async fn by_ip_on_poem(ip: ClientIp, api_key: HeaderKey<ApiKey>) -> Result<String, RateLimitError> {
    by_ip(ip, api_key).await
}

#[handler]
fn whoami_on_poem(ip: ClientIp) -> String {
    ip.to_string()
}

#[rate_limit(window = "60s", max = 1, name = "opaque")]
async fn opaque_on_axum() -> Result<impl axum::response::IntoResponse, RateLimitError> {
    Ok("anything")
}

#[rate_limit(window = "60s", max = 1, name = "opaque")]
async fn opaque_on_actix() -> Result<impl Responder, RateLimitError> {
    Ok("anything")
}

#[handler]
#[rate_limit(window = "60s", max = 1, name = "opaque")]
async fn opaque_on_poem() -> Result<impl poem::IntoResponse, RateLimitError> {
    Ok("anything")
}

/// A request.
#[derive(Clone)]
pub(crate) struct Ask {
    path: &'static str,
    peer: Option<SocketAddr>,
    fields: Vec<(&'static str, Vec<u8>)>,
}

pub(crate) fn ask(path: &'static str) -> Ask {
    Ask {
        path,
        peer: None,
        fields: Vec::new(),
    }
}

impl Ask {
    pub(crate) fn from(mut self, peer: &str) -> Self {
        self.peer = Some(SocketAddr::new(peer.parse().unwrap(), 4711));
        self
    }

    pub(crate) fn field(mut self, name: &'static str, value: impl AsRef<[u8]>) -> Self {
        self.fields.push((name, value.as_ref().to_vec()));
        self
    }

    pub(crate) fn with_key(self, value: &str) -> Self {
        self.field("x-api-key", value)
    }
}

type Asked = Pin<Box<dyn Future<Output = Seen>>>;

/// An app that is asked, and the name of its framework.
pub(crate) struct Server {
    pub(crate) name: &'static str,
    serve: Box<dyn Fn(Ask) -> Asked>,
}

impl Server {
    fn new(name: &'static str, serve: impl Fn(Ask) -> Asked + 'static) -> Self {
        Self {
            name,
            serve: Box::new(serve),
        }
    }

    /// The framework is printed, for the output of a test that fails.
    pub(crate) async fn answer(&self, ask: Ask) -> Seen {
        println!("{}: {}", self.name, ask.path);
        (self.serve)(ask).await
    }
}

/// Each framework by itself: a limiter of its own, and the app that `site` makes with it.
pub(crate) async fn each(
    limiter: impl Fn() -> RateLimiter,
    site: impl Fn(RateLimitLayer) -> Site,
) -> [Server; 3] {
    let sites = [(); 3].map(|()| site(RateLimitLayer::new().limiter(limiter())));
    [
        sites[0].on_axum(),
        sites[1].on_actix().await,
        sites[2].on_poem(),
    ]
}
