//! poem: a handler with a limit, header fields on every response, and a limit for the whole
//! service.
//!
//! ```text
//! cargo run --example poem --features poem     # then: curl -i -H 'x-api-key: mine' http://127.0.0.1:3000/search/tea
//! ```

#![allow(clippy::print_stdout, reason = "a program for the terminal")]

use poem::listener::{Acceptor as _, Listener as _, TcpListener};
use poem::web::Path;
use poem::{EndpointExt as _, Request, Route, Server, get, handler};
use ratelimit_runtime::{
    ClientIp, HeaderKey, Limit, NamedHeader, RateLimitError, RateLimitLayer, RateLimiter, Rule,
    TrustedProxies, key, rate_limit,
};

struct ApiKey;
impl NamedHeader for ApiKey {
    const NAME: &'static str = "x-api-key";
}

/// Ten calls a minute for each client and search term.
#[handler]
#[rate_limit(key = "<ip>/<term>", window = "60s", max = 10)]
async fn search(ip: ClientIp, Path(term): Path<String>) -> Result<String, RateLimitError> {
    Ok(format!("{ip} looks for {term}"))
}

/// The limit of an API key for the whole service. A request without an API key is answered with an
/// error, and does not share a bucket with others.
static PER_KEY: Rule = Rule::new("api", Limit::per_minute(100));

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    // For a reverse proxy on this machine, which appends the client's address to `X-Forwarded-For`.
    // This trusts every process of this machine. If other programs run here, or the proxy runs on
    // another machine, use the proxy's address.
    let proxies = TrustedProxies::new(["127.0.0.0/8"])?;
    RateLimiter::builder()
        .store_from_env()?
        .trusted_proxies(proxies)
        .build()?
        .install(); // REDIS_URL, or in memory
    let layer = RateLimitLayer::new().rule(&PER_KEY, |request: &Request| {
        HeaderKey::<ApiKey>::of(request.headers()).map(|api_key| key!("<api_key>"))
    });
    let app = Route::new().at("/search/:term", get(search)).with(layer);

    let port = std::env::var("PORT").unwrap_or_else(|_| "3000".to_owned());
    let listener = TcpListener::bind(format!("127.0.0.1:{port}"))
        .into_acceptor()
        .await?;
    if let Some(address) = listener
        .local_addr()
        .first()
        .and_then(|address| address.as_socket_addr())
    {
        println!("listens on http://{address}");
    }
    Server::new_with_acceptor(listener).run(app).await?;
    Ok(())
}
