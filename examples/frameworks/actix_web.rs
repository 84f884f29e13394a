//! actix-web: a handler with a limit, header fields on every response, and a limit for the whole
//! service.
//!
//! ```text
//! cargo run --example actix_web --features actix_web     # then: curl -i -H 'x-api-key: mine' http://127.0.0.1:3000/search/tea
//! ```

#![allow(clippy::print_stdout, reason = "a program for the terminal")]

use actix_web::dev::ServiceRequest;
use actix_web::{App, HttpServer, get, web};
use ratelimit_runtime::{
    ClientIp, HeaderKey, Limit, NamedHeader, RateLimitError, RateLimitLayer, RateLimiter, Rule,
    TrustedProxies, key, rate_limit,
};

struct ApiKey;
impl NamedHeader for ApiKey {
    const NAME: &'static str = "x-api-key";
}

/// Ten calls a minute for each client and search term.
#[get("/search/{term}")]
#[rate_limit(key = "<ip>/<term.as_str()>", window = "60s", max = 10)]
async fn search(ip: ClientIp, term: web::Path<String>) -> Result<String, RateLimitError> {
    Ok(format!("{ip} looks for {term}"))
}

/// The limit of an API key for the whole service. A request without an API key is answered with an
/// error, and does not share a bucket with others.
static PER_KEY: Rule = Rule::new("api", Limit::per_minute(100));

#[actix_web::main]
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
    let app = || {
        let layer = RateLimitLayer::new().rule(&PER_KEY, |request: &ServiceRequest| {
            HeaderKey::<ApiKey>::try_from(request).map(|api_key| key!("<api_key>"))
        });
        App::new().service(search).wrap(layer)
    };

    let port = std::env::var("PORT").unwrap_or_else(|_| "3000".to_owned());
    let server = HttpServer::new(app)
        .workers(2)
        .bind(format!("127.0.0.1:{port}"))?;
    for address in server.addrs() {
        println!("listens on http://{address}");
    }
    Ok(server.run().await?)
}
