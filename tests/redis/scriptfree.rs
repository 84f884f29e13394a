//! The Redis store without scripts, on a server that lets its user run none.

mod conformance;
mod deaths;
mod fixed_window;
mod held_up;
mod lifetimes;
mod strangers;

use std::sync::LazyLock;

use crate::support::redis::{RedisServer, patient};
use crate::support::unique;
use ratelimit_runtime::store::{Request, Verdict};
use ratelimit_runtime::{Algorithm, Limit, RedisMode, RedisStore, Store};

/// A server with a user who may run no scripts.
fn without_scripts() -> RedisServer {
    let server = RedisServer::start();
    let user = [
        "ACL",
        "SETUSER",
        "plain",
        "on",
        ">secret",
        "~*",
        "&*",
        "+@all",
        "-@scripting",
    ];
    assert_eq!(server.cli(&user), "OK");
    server
}

fn url(server: &RedisServer) -> String {
    format!("redis://plain:secret@127.0.0.1:{}/", server.port())
}

static SERVER: LazyLock<RedisServer> = LazyLock::new(without_scripts);

/// A script-free store on the server of all tests here.
fn plain() -> RedisStore {
    patient(&url(&SERVER))
        .mode(RedisMode::Transactions)
        .deny_cache(false)
}

async fn ask(store: &RedisStore, key: &str, algorithm: Algorithm, limit: Limit) -> Verdict {
    store
        .acquire(Request::new(key.as_bytes(), algorithm, &[limit]))
        .await
        .unwrap()
}
