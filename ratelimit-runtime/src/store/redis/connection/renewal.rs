//! Logging in again on an open connection, before what it was logged in with expires.

use std::sync::Arc;
use std::time::Duration;

use redis::Value;

use super::exchange::Exchange;
use super::question::{Expected, Question};
use super::server::Server;
use crate::error::StoreError;
use crate::store::redis::errors;
use crate::{observe, real_time};

/// After a renewal that failed.
const PAUSE: Duration = Duration::from_secs(1);

/// Renews after this time, and again whenever new credentials ask for it.
pub(super) async fn renew(server: Arc<Server>, exchange: Exchange, after: Duration) {
    let mut next = Some(after);
    while let Some(after) = next {
        real_time::sleep(after).await;
        next = renew_once(&server, &exchange).await.unwrap_or_else(|error| {
            // If the server ends the session meanwhile, the next connection asks for credentials too.
            observe::log::login_expires(&server, &error);
            Some(PAUSE)
        });
    }
}

async fn renew_once(server: &Server, exchange: &Exchange) -> Result<Option<Duration>, StoreError> {
    let Some((auth, renew_after)) = server.login_again().await? else { return Ok(None) };
    let question =
        Question { packed: auth.get_packed_command(), replies: 1, expected: Expected::Anything, timeout_at: None };
    match exchange.ask(question).await {
        Ok(Value::ServerError(error)) => Err(errors::from_server(&error)),
        Ok(_) => Ok(renew_after),
        Err(_) => Err(StoreError::unavailable("Redis does not answer")),
    }
}
