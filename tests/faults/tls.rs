//! Certificates that become wrong while a service runs.

use std::time::Duration;

use ratelimit_runtime::RedisStore;

use crate::harness::{Account, Answered, Load, POLICIES, Row, nothing_is_left_on};
use crate::support::proxy::Proxy;
use crate::support::tls::{Authority, Identity, TlsServer};

const LOCAL: [&str; 2] = ["127.0.0.1", "localhost"];
/// Attempts to connect go on, with pauses of up to a second.
const RECOVERY: Duration = Duration::from_secs(2);

async fn load_on(url: &str, authority: &Authority) -> Load {
    let store = || RedisStore::new(url).unwrap().ca_certificates(authority.certificate()).unwrap();
    Load::with(|builder| builder.store(store())).await
}

/// Shows another certificate, and ends all connections, so that it is looked at.
fn show(server: &TlsServer, identity: &Identity) {
    server.show(identity);
    server.server.cli(&["CLIENT", "KILL", "TYPE", "normal"]);
}

async fn shown(fault: &str, identity: impl FnOnce(&Authority) -> Identity) -> Row {
    let authority = Authority::new();
    let server = TlsServer::start(&authority);
    let mut load = load_on(&server.url(), &authority).await;
    load.fault();
    show(&server, &identity(&authority));
    load.go_on(Duration::from_secs(1)).await;
    server.show(&authority.identity(&LOCAL));
    load.healed();
    load.recover(RECOVERY).await;
    let account = load.end_with(Account::expect_misconfigured).await;
    for policy in POLICIES {
        assert!(account.during(policy, Answered::Misconfigured) > 0, "under `{policy}` nobody is told of the mistake");
    }
    nothing_is_left_on(&server.server);
    account.row(fault)
}

pub(crate) async fn wrong_certificate() -> Row {
    shown("TLS: the certificate of another authority, for 1 s", |_| Authority::new().identity(&LOCAL)).await
}

pub(crate) async fn expired_certificate() -> Row {
    shown("TLS: a certificate that has expired, for 1 s", |authority| authority.expired(&LOCAL)).await
}

/// The handshake takes longer than any call waits, and is not cut short by calls that give up.
pub(crate) async fn slow_handshake() -> Row {
    let authority = Authority::new();
    let server = TlsServer::start(&authority);
    let proxy = Proxy::start(server.port).await;
    let url = format!("rediss://localhost:{}/", proxy.port());
    let mut load = load_on(&url, &authority).await;
    load.fault();
    proxy.delay(Duration::from_millis(40));
    server.server.cli(&["CLIENT", "KILL", "TYPE", "normal"]);
    load.go_on(Duration::from_millis(400)).await;
    proxy.delay(Duration::ZERO);
    load.healed();
    load.recover(Duration::from_secs(1)).await;
    let limiters = u64::try_from(POLICIES.len()).unwrap();
    assert_eq!(proxy.accepted(), 2 * limiters, "one attempt each was enough");
    let account = load.end().await;
    account.assert_felt();
    nothing_is_left_on(&server.server);
    account.row("TLS with an own authority: all connections killed, and handshakes of 160 ms")
}
