//! TLS: whom the store trusts, and what it shows.

use std::sync::mpsc;
use std::time::Duration;

use super::{MINUTE, PATIENCE, acquire, acquire_in_time};
use crate::support::redis::shared;
use crate::support::tls::{Authority, TlsServer};
use crate::support::{unique, until};
use ratelimit_runtime::__private::BuiltInStore as _;
use ratelimit_runtime::store::{StoreError, StoreErrorKind};
use ratelimit_runtime::{Limit, RedisStore};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::time::timeout;

const LOCAL: [&str; 2] = ["127.0.0.1", "localhost"];

async fn ready(store: &RedisStore) -> Result<(), StoreError> {
    timeout(PATIENCE, store.ready()).await.unwrap()
}

/// What the store is told for good.
async fn mistake(store: &RedisStore) -> String {
    let error = ready(store).await.unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Misconfigured, "{error}");
    assert_eq!(
        acquire_in_time(store, "k").await.unwrap_err().kind(),
        StoreErrorKind::Misconfigured
    );
    error.message().to_owned()
}

#[tokio::test]
async fn ca_certificates_are_trusted() {
    let authority = Authority::new();
    let server = TlsServer::start(&authority);
    let pem = authority.certificate();
    for url in [server.url(), format!("rediss://localhost:{}/", server.port)] {
        let store = RedisStore::new(&url)
            .unwrap()
            .ca_certificates(&pem)
            .unwrap();
        ready(&store).await.unwrap();
        let (key, limit) = (unique("tls"), Limit::new(1, MINUTE));
        assert!(acquire(&store, &key, limit).await.unwrap().allowed);
        assert!(!acquire(&store, &key, limit).await.unwrap().allowed);
        assert_eq!(server.server.number(&["EXISTS", &key]), 1);
    }
    // Several in one file, as they are handed out while one takes the other's place.
    let both = format!("{}{pem}", Authority::new().certificate());
    ready(
        &RedisStore::new(&server.url())
            .unwrap()
            .ca_certificates(both)
            .unwrap(),
    )
    .await
    .unwrap();
}

/// Not all servers tell: Redis closes the connection, or waits for more.
#[tokio::test]
async fn a_scheme_that_does_not_fit_the_server_is_an_error_that_names_the_other() {
    use StoreErrorKind::{Misconfigured, Unavailable};
    let to_tls = "`rediss` in place of `redis`";
    let from_tls = "`redis` in place of `rediss`";
    let protocol_version = &b"\x15\x03\x01\x00\x02\x02\x46"[..];
    let internal_error = &b"\x15\x03\x03\x00\x02\x02\x50"[..];
    let unrecognized_name = &b"\x15\x03\x03\x00\x02\x02\x70"[..];
    for (scheme, reply, kind, words) in [
        ("redis", protocol_version, Misconfigured, to_tls),
        // As load balancers do while the server behind them is away.
        ("rediss", b"HTTP/1.1 503 Gone\r\n", Unavailable, from_tls),
        ("rediss", unrecognized_name, Unavailable, "UnrecognisedName"),
        ("rediss", b"", Unavailable, from_tls),
        // No setting corrects what happens to the server.
        ("rediss", internal_error, Unavailable, "InternalError"),
    ] {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let server = tokio::spawn(async move {
            let mut clients = Vec::new();
            while let Ok((mut client, _)) = listener.accept().await {
                let _ = client.read(&mut [0; 4_096]).await;
                let _ = client.write_all(reply).await;
                clients.push(client);
            }
        });
        let store = RedisStore::new(&format!("{scheme}://127.0.0.1:{port}")).unwrap();
        let says_so = async || {
            let error = acquire(&store, "k", Limit::per_hour(1)).await.unwrap_err();
            error.message().contains(words) && error.kind() == kind
        };
        until(words, PATIENCE, says_so).await;
        server.abort();
    }
}

#[tokio::test]
async fn a_certificate_that_is_not_trusted_is_misconfigured() {
    let authority = Authority::new();
    let server = TlsServer::start(&authority);
    let store = RedisStore::new(&server.url()).unwrap();
    assert!(
        mistake(&store).await.contains("certificate"),
        "the platform does not know the authority"
    );
    server.show(&authority.identity(&["other.example"]));
    let store = store.ca_certificates(authority.certificate()).unwrap();
    assert!(
        mistake(&store).await.contains("not valid for name"),
        "one for another name"
    );
}

#[tokio::test]
async fn a_client_certificate_is_presented() {
    let authority = Authority::new();
    let server = TlsServer::start_with(
        &authority,
        &authority.identity(&LOCAL),
        &["--tls-auth-clients", "yes"],
    );
    let store = || {
        RedisStore::new(&server.url())
            .unwrap()
            .ca_certificates(authority.certificate())
            .unwrap()
    };
    assert!(
        mistake(&store()).await.contains("certificate"),
        "it has none to show"
    );
    let (client, stranger) = (
        authority.identity(&["limiter"]),
        Authority::new().identity(&["limiter"]),
    );
    ready(
        &store()
            .client_certificate(&client.certificate, &client.key)
            .unwrap(),
    )
    .await
    .unwrap();
    let store_of_stranger = store()
        .client_certificate(&stranger.certificate, &stranger.key)
        .unwrap();
    assert!(mistake(&store_of_stranger).await.contains("certificate"));
    let mixed = store()
        .client_certificate(&client.certificate, &stranger.key)
        .unwrap();
    assert!(mistake(&mixed).await.contains("does not fit"));
}

#[tokio::test]
async fn a_certificate_that_cannot_be_used_is_an_error_at_once() {
    let identity = Authority::new().identity(&LOCAL);
    let store = || RedisStore::new("rediss://localhost/").unwrap();
    let errors = [
        (store().ca_certificates("").unwrap_err(), "PEM"),
        (store().ca_certificates(&identity.key).unwrap_err(), "PEM"),
        (
            store()
                .ca_certificates("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")
                .unwrap_err(),
            "PEM",
        ),
        (
            store().client_certificate("", &identity.key).unwrap_err(),
            "certificate of the client",
        ),
        (
            store()
                .client_certificate(&identity.certificate, "")
                .unwrap_err(),
            "key of the client",
        ),
        (
            RedisStore::new("redis://localhost")
                .unwrap()
                .ca_certificates(&identity.certificate)
                .unwrap_err(),
            "rediss",
        ),
        (
            RedisStore::new("redis+sentinel://h/m")
                .unwrap()
                .client_certificate(&identity.certificate, &identity.key)
                .unwrap_err(),
            "rediss",
        ),
    ];
    for (error, expected) in errors {
        assert_eq!(error.kind(), StoreErrorKind::Misconfigured);
        assert!(error.message().contains(expected), "{error}");
    }
}

/// One end speaks TLS, and the other does not: a server that makes no sense, or says nothing.
#[tokio::test]
async fn the_wrong_scheme_is_like_an_outage() {
    let server = TlsServer::start(&Authority::new());
    for url in [
        format!("rediss://127.0.0.1:{}", shared().port()),
        format!("redis://127.0.0.1:{}", server.port),
    ] {
        let store = RedisStore::new(&url).unwrap();
        let error = acquire_in_time(&store, "k").await.unwrap_err();
        assert_eq!(error.kind(), StoreErrorKind::Unavailable, "{error}");
        let names_the_other = async || {
            let error = acquire_in_time(&store, "k").await.unwrap_err();
            error.message().contains(" in place of ")
        };
        until("the other scheme", PATIENCE, names_the_other).await;
    }
}

/// Nor does one that has no thread to read certificates on.
#[test]
fn a_runtime_that_stands_still_while_it_connects_keeps_no_other_from_connecting() {
    let authority = Authority::new();
    let server = TlsServer::start(&authority);
    let store = RedisStore::new(&server.url()).unwrap();
    let store = store.ca_certificates(authority.certificate()).unwrap();
    let [first, second] = [(); 2].map(|()| {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        builder
            .enable_all()
            .max_blocking_threads(1)
            .build()
            .unwrap()
    });
    let (release, held) = mpsc::channel::<()>();
    first.spawn_blocking(move || held.recv());
    let soon = async { timeout(Duration::from_millis(500), store.ready()).await };
    assert!(first.block_on(soon).is_err());
    second.block_on(ready(&store)).unwrap();
    drop(release);
}
