//! A web service that sends login codes: at most three per email address in any minute.
//!
//! ```text
//! cargo run --example send_code                                        # limits in the memory of this process
//! REDIS_URL=redis://127.0.0.1/ cargo run --example send_code           # limits that all processes share
//! PORT=3001 REDIS_URL=redis://127.0.0.1/ cargo run --example send_code # a second process
//! ```

#![allow(clippy::print_stdout, reason = "a program for the terminal")]

use std::net::{Ipv4Addr, SocketAddr};
use std::process::ExitCode;
use std::time::Duration;

use axum::extract::rejection::JsonRejection;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use axum::{Json, Router};
use ratelimit_runtime::{RateLimitError, RateLimiter, rate_limit};
use serde::{Deserialize, Serialize};
use tokio::net::TcpListener;

/// The attribute refuses the fourth call for one address within 60 seconds; its body does not run.
#[rate_limit(key = "<email>", window = "60s", max = 3)]
async fn send_code(email: &str) -> Result<(), RateLimitError> {
    println!("a login code goes out to {email}"); // where a real service calls its mailer
    Ok(())
}

#[derive(Deserialize)]
struct SendCode {
    email: String,
}

#[derive(Serialize)]
struct Reply<'a> {
    code: u16,
    message: &'a str,
    data: Option<Sent>,
}

#[derive(Serialize)]
struct Sent {
    email: String,
}

async fn handle(body: Result<Json<SendCode>, JsonRejection>) -> Result<Response, Response> {
    let Json(request) =
        body.map_err(|rejection| refusal(rejection.status(), &rejection.body_text()))?;
    let email = normalized(&request.email)
        .map_err(|problem| refusal(StatusCode::UNPROCESSABLE_ENTITY, problem))?;
    send_code(&email).await?; // or 429 with `Retry-After`, 503, 500, with a body like that of the other responses
    Ok(Json(Reply {
        code: 0,
        message: "ok",
        data: Some(Sent { email }),
    })
    .into_response())
}

/// The address in lower case, so that `Alice@example.com` and `alice@example.com` share a limit.
/// Text that is not an address is refused here, before it is charged or becomes a key.
fn normalized(email: &str) -> Result<String, &'static str> {
    let email = email.trim().to_lowercase();
    match email.split_once('@') {
        _ if email.is_empty() => Err("email is empty"),
        _ if email.len() > 254 => Err("email is longer than 254 bytes"),
        _ if email.contains(|c: char| c.is_whitespace() || c.is_control()) => {
            Err("email holds white space")
        }
        Some((local, domain))
            if !local.is_empty() && !domain.is_empty() && !domain.contains('@') =>
        {
            Ok(email)
        }
        _ => Err("email is not an address: it looks like name@example.com"),
    }
}

fn refusal(status: StatusCode, message: &str) -> Response {
    (
        status,
        Json(Reply {
            code: status.as_u16(),
            message,
            data: None,
        }),
    )
        .into_response()
}

#[tokio::main]
async fn main() -> ExitCode {
    match serve().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            eprintln!("error: {problem}");
            ExitCode::FAILURE
        }
    }
}

async fn serve() -> Result<(), String> {
    let port = match std::env::var("PORT") {
        Ok(port) => port.parse().map_err(|_| {
            format!("PORT is a number from 0 (any free port) to 65535, not {port:?}")
        })?,
        Err(_) => 3000,
    };
    let limiter = RateLimiter::from_env().map_err(|error| error.to_string())?;
    limiter.clone().install();

    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let listener = TcpListener::bind(address).await.map_err(|error| {
        format!("cannot listen on {address}: {error}; PORT=3001 chooses another port")
    })?;
    let address = listener.local_addr().map_err(|error| error.to_string())?;
    println!("sends login codes, at most 3 per email address in any 60 seconds");
    println!("listens on http://{address}");
    match redis_variable() {
        Some(variable) => {
            println!("limits are kept on Redis ({variable}), shared by all processes that use it");
            tokio::spawn(tell_when_ready(limiter));
        }
        None => println!(
            "limits are kept in the memory of this process; REDIS_URL=redis://127.0.0.1/ shares \
             them"
        ),
    }
    println!("try it four times:");
    println!(
        "  curl -i http://{address}/send/code -H 'content-type: application/json' -d \
         '{{\"email\":\"alice@example.com\"}}'"
    );

    let app = Router::new()
        .route("/send/code", post(handle))
        .fallback(|| async { refusal(StatusCode::NOT_FOUND, "there is POST /send/code") })
        .method_not_allowed_fallback(|| async {
            refusal(StatusCode::METHOD_NOT_ALLOWED, "use POST")
        });
    axum::serve(listener, app)
        .await
        .map_err(|error| error.to_string())
}

/// The variable that made [`RateLimiter::from_env`] choose Redis. Its value may hold a password: it
/// is not printed.
fn redis_variable() -> Option<&'static str> {
    let value = |name: &&str| std::env::var(name).ok().filter(|url| !url.is_empty());
    let name = ["RATELIMIT_URL", "REDIS_URL"]
        .into_iter()
        .find(|name| value(name).is_some())?;
    value(&name)
        .filter(|url| !url.starts_with("memory:"))
        .map(|_| name)
}

/// The service does not wait for Redis: while Redis is down, each process limits by itself
/// (`on_unavailable = "local"`, the default).
async fn tell_when_ready(limiter: RateLimiter) {
    if tokio::time::timeout(Duration::from_secs(1), limiter.ready())
        .await
        .is_err()
    {
        println!("Redis does not answer yet: until it does, the limits hold in this process alone");
    }
    match limiter.ready().await {
        Ok(()) => println!("Redis answers: the limits are shared"),
        Err(error) => eprintln!("error: {error}; every request is answered with 500"),
    }
}
