//! tonic: methods with limits, metadata on every response, and a limit for the whole service.
//!
//! ```text
//! cargo run --example tonic --features tonic     # listens on port 3000; PORT=… chooses another
//! ```

#![allow(clippy::print_stdout, reason = "a program for the terminal")]

use proto::words_server::{Words, WordsServer};
use ratelimit_runtime::{
    ClientIp, HeaderKey, Limit, NamedHeader, RateLimitLayer, RateLimiter, Rule, TrustedProxies,
    key, rate_limit,
};
use tonic::transport::server::{Server, TcpIncoming};
use tonic::{Request, Response, Status};

#[allow(warnings, reason = "written by build.rs")]
mod proto {
    tonic::include_proto!("example.Words");
}

struct ApiKey;
impl NamedHeader for ApiKey {
    const NAME: &'static str = "x-api-key";
}

struct Service;

#[tonic::async_trait]
impl Words for Service {
    /// Ten calls a minute for each client and search term.
    #[rate_limit(
        key = (ClientIp::try_from(&request)?, request.get_ref()), window = "60s", max = 10
    )]
    async fn search(&self, request: Request<String>) -> Result<Response<String>, Status> {
        Ok(Response::new(format!(
            "nothing about {}",
            request.into_inner()
        )))
    }
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
    let layer = RateLimitLayer::new().grpc().rule(
        &PER_KEY,
        |request: &tonic::codegen::http::Request<_>| {
            HeaderKey::<ApiKey>::of(request.headers()).map(|api_key| key!("<api_key>"))
        },
    );

    let port = std::env::var("PORT").unwrap_or_else(|_| "3000".to_owned());
    let listener = TcpIncoming::bind(format!("127.0.0.1:{port}").parse()?)?;
    println!("listens on http://{}", listener.local_addr()?);
    Server::builder()
        .layer(layer)
        .add_service(WordsServer::new(Service))
        .serve_with_incoming(listener)
        .await?;
    Ok(())
}
