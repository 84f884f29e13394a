use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Instant;

use async_trait::async_trait;
use ratelimit_runtime::{RateLimitError, key, rate_limit};

struct User {
    name: String,
    seen: Instant,
}

/// As a framework hands it to a method of a service.
struct Request<T> {
    message: T,
}

fn address(_: &str) -> Result<IpAddr, RateLimitError> {
    Ok(Ipv4Addr::LOCALHOST.into())
}

#[rate_limit(key = "<price>", window = "60s", max = 3)]
async fn float(price: f64) -> Result<(), RateLimitError> {
    Ok(())
}

#[rate_limit(key = (email, Instant::now()), window = "60s", max = 3)]
async fn expression(email: &str) -> Result<(), RateLimitError> {
    Ok(())
}

#[rate_limit(key = "<id>", window = "60s", max = 3)]
async fn generic_without_bound<T>(id: T) -> Result<(), RateLimitError> {
    Ok(())
}

#[rate_limit(key = address(email), window = "60s", max = 3)]
async fn result(email: &str) -> Result<(), RateLimitError> {
    Ok(())
}

/// Its value would be one key for all callers.
fn must_be_valid(_: &str) -> Result<(), RateLimitError> {
    Ok(())
}

#[rate_limit(key = must_be_valid(email)?, window = "60s", max = 3)]
async fn nothing(email: &str) -> Result<(), RateLimitError> {
    Ok(())
}

#[rate_limit(key = "<addr>", window = "60s", max = 3)]
async fn socket_address(addr: SocketAddr) -> Result<(), RateLimitError> {
    Ok(())
}

#[rate_limit(key = "<id>:<user>", window = "60s", max = 3)]
async fn second_of_two(id: u32, user: &User) -> Result<(), RateLimitError> {
    Ok(())
}

#[rate_limit(key = "<user.nmae>", window = "60s", max = 3)]
async fn field_misspelt(user: &User) -> Result<(), RateLimitError> {
    Ok(())
}

#[rate_limit(key = "<id>:<user.nmae>", window = "60s", max = 3)]
async fn field_of_the_second_misspelt(id: u32, user: &User) -> Result<(), RateLimitError> {
    Ok(())
}

#[rate_limit(key = "<email.to_lowecase()>", window = "60s", max = 3)]
async fn method_misspelt(email: &str) -> Result<(), RateLimitError> {
    Ok(())
}

impl User {
    #[rate_limit(key = "<id>:<self.seen>", window = "60s", max = 3)]
    async fn field(&self, id: u32) -> Result<(), RateLimitError> {
        Ok(())
    }
}

const KEY: &str = "<email>";

#[rate_limit(key = KEY, window = "60s", max = 3)]
async fn constant(email: &str) -> Result<(), RateLimitError> {
    Ok(())
}

#[rate_limit(key = format!("{KEY}"), window = "60s", max = 3)]
async fn formatted_constant(email: &str) -> Result<(), RateLimitError> {
    Ok(())
}

#[async_trait]
trait Post {
    #[rate_limit(key = "<request.email>", window = "60s", max = 3)]
    async fn field(&self, request: Request<User>) -> Result<(), RateLimitError> {
        Ok(())
    }

    #[rate_limit(key = "<request>", window = "60s", max = 3)]
    async fn whole(&self, request: Request<User>) -> Result<(), RateLimitError> {
        Ok(())
    }
}

fn main() {
    let price = 1.5;
    let user = User { name: String::new(), seen: Instant::now() };
    let _ = (key!("item:<price>"), key!("<emial>"), key!("<crate>"));
    let _ = (key!("<user.nmae>"), key!("<user.name.lenn()>"));
}
