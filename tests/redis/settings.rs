//! Settings that are wrong: reported as that, at once, and without giving anything away.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test that cannot go on fails")]

use super::{MINUTE, PATIENCE, acquire, acquire_in_time};
use crate::support::redis::{RedisServer, shared};
use crate::support::unique;
use ratelimit_runtime::__private::BuiltInStore as _;
use ratelimit_runtime::store::{StoreError, StoreErrorKind};
use ratelimit_runtime::{Limit, RedisStore};
use tokio::time::timeout;

async fn misconfigured(url: &str) -> StoreError {
    let store = RedisStore::new(url).unwrap();
    let error = timeout(PATIENCE, store.ready()).await.expect("ready does not wait for the hopeless").unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Misconfigured, "{error}");
    let called = acquire_in_time(&store, "k").await.unwrap_err();
    assert_eq!(called.kind(), StoreErrorKind::Misconfigured, "{called}");
    assert!(!format!("{error:?} {called:?} {store:?}").contains("hunter2"), "{error:?}");
    error
}

#[tokio::test]
async fn wrong_and_missing_passwords() {
    let server = RedisServer::start_with(&["--requirepass", "correct"]);
    let port = server.port();
    let wrong = misconfigured(&format!("redis://:hunter2@127.0.0.1:{port}/")).await;
    assert!(wrong.message().contains("password"), "{wrong}");
    let missing = misconfigured(&format!("redis://127.0.0.1:{port}/")).await;
    assert!(missing.message().contains("password"), "{missing}");
    let right = RedisStore::new(&format!("redis://:correct@127.0.0.1:{port}/")).unwrap();
    right.ready().await.unwrap();
}

#[tokio::test]
async fn a_database_that_does_not_exist() {
    let error = misconfigured(&format!("{}99", shared().url())).await;
    assert!(error.message().contains("database"), "{error}");
}

#[tokio::test]
async fn a_user_who_may_not_do_what_the_script_does() {
    let server = RedisServer::start();
    let limit = Limit::new(1, MINUTE);
    let users = [
        ("noscript", "+@all -@scripting", "NOPERM"),
        ("nowrite", "+@all -zadd", "ACL"),
        ("nokeys", "+@all resetkeys ~other:*", "NOPERM"),
    ];
    for (user, permissions, expected) in users {
        let mut command = vec!["ACL", "SETUSER", user, "on", ">pw", "~*"];
        command.extend(permissions.split(' '));
        assert_eq!(server.cli(&command), "OK");
        let store = RedisStore::new(&format!("redis://{user}:pw@127.0.0.1:{}/", server.port())).unwrap();
        store.ready().await.unwrap();
        let error = acquire(&store, "alice", limit).await.unwrap_err();
        assert_eq!(error.kind(), StoreErrorKind::Misconfigured, "{user}: {error}");
        assert!(error.message().contains(expected), "{user}: {error}");
        assert!(!format!("{error:?}").contains("alice"), "{error:?}");
    }
}

#[tokio::test]
async fn a_key_that_holds_something_else() {
    let server = shared();
    let store = RedisStore::new(&server.url()).unwrap();
    let (text, foreign) = (unique("text"), unique("foreign"));
    server.cli(&["SET", &text, "hello"]);
    server.cli(&["ZADD", &foreign, "1", "alice"]);
    for key in [text, foreign] {
        let error = acquire(&store, &key, Limit::new(1, MINUTE)).await.unwrap_err();
        assert_eq!(error.kind(), StoreErrorKind::Misconfigured, "{error}");
        assert!(error.message().contains("prefix"), "says what to do: {error}");
        assert!(!error.message().contains(&key), "{error}");
        server.cli(&["DEL", &key]);
    }
}
