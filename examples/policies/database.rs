//! Policies from a database: a task that calls `set_policies`.
//!
//! In this example the policies are the fields of a hash on Redis. For another database, change
//! `read`.

use std::collections::BTreeMap;
use std::time::Duration;

use ratelimit_runtime::{ParseError, Policy, RateLimiter};
use tokio::task::spawn_blocking;
use tokio::time::sleep;

/// The hash: each field is the name of a policy, its value a line such as `5/1m block 10m`, or a
/// table as JSON.
const POLICIES: &str = "policies";

/// The policies as text, by name.
type Rows = BTreeMap<String, String>;

/// Puts the policies of the database in force, and reads them again every second.
pub(crate) async fn follow(url: String, limiter: RateLimiter) -> Result<(), String> {
    let client = redis::Client::open(url).map_err(|error| error.to_string())?;
    let mut in_force = read(&client).await?;
    replace(&limiter, &in_force)?;
    tokio::spawn(async move {
        loop {
            sleep(Duration::from_secs(1)).await;
            match read(&client).await {
                Ok(rows) if rows == in_force => {}
                Ok(rows) => {
                    match replace(&limiter, &rows) {
                        Ok(()) => tracing::info!("the policies are replaced"),
                        Err(error) => tracing::error!("{error}; the policies stay as they were"),
                    }
                    // A wrong policy is reported once, not every second.
                    in_force = rows;
                }
                Err(error) => {
                    tracing::warn!("the policies cannot be read, and stay as they are: {error}");
                }
            }
        }
    });
    Ok(())
}

async fn read(client: &redis::Client) -> Result<Rows, String> {
    let client = client.clone();
    let rows = spawn_blocking(move || {
        let mut connection = client.get_connection_with_timeout(Duration::from_secs(1))?;
        connection.set_read_timeout(Some(Duration::from_secs(1)))?;
        redis::cmd("HGETALL")
            .arg(POLICIES)
            .query::<Rows>(&mut connection)
    });
    rows.await
        .map_err(|error| error.to_string())?
        .map_err(|error| error.to_string())
}

/// Replaces all policies, or none: `set_policies` refuses a set that lacks a policy in use.
fn replace(limiter: &RateLimiter, rows: &Rows) -> Result<(), String> {
    let policy = |(name, text): (&String, &String)| {
        let policy = parsed(text).map_err(|error| format!("the policy `{name}`: {error}"))?;
        Ok((name.clone(), policy))
    };
    let policies: Vec<_> = rows.iter().map(policy).collect::<Result<_, String>>()?;
    limiter
        .set_policies(policies)
        .map_err(|error| error.to_string())
}

fn parsed(text: &str) -> Result<Policy, String> {
    if text.starts_with('{') {
        return serde_json::from_str(text).map_err(|error| error.to_string());
    }
    text.parse().map_err(|error: ParseError| error.to_string())
}
