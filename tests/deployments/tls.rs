//! TLS where Sentinel names the master: of the sentinels, and of the servers.

use ratelimit_runtime::store::{Request, StoreErrorKind};
use ratelimit_runtime::{Algorithm, Limit, Store as _};

use super::*;
use crate::support::eventually;
use crate::support::sentinel::NAME;
use crate::support::tls::{Authority, Identity, TlsServer};
use crate::support::{unique, until};

const LOCAL: [&str; 2] = ["127.0.0.1", "localhost"];

/// Two servers and a sentinel that speak TLS with each other and with everybody else.
struct Secured {
    authority: Authority,
    servers: [TlsServer; 2],
    sentinel: TlsServer,
}

impl Secured {
    fn start() -> Self {
        let authority = Authority::new();
        let start = |config: &str, args: &[&str]| {
            let args = [&["--tls-replication", "yes"], args].concat();
            TlsServer::start_from(config, &authority, &authority.identity(&LOCAL), &args)
        };
        let at_once = ["--repl-diskless-sync-delay", "0"];
        let master = start("", &at_once);
        let port = master.port.to_string();
        let replica = start(
            "",
            &[&at_once[..], &["--replicaof", "127.0.0.1", &port]].concat(),
        );
        let follows = || replica.server.info("replication", "master_link_status") == "up";
        assert!(eventually(follows), "the replica follows");
        Self {
            sentinel: sentinel(&authority, &authority.identity(&LOCAL), master.port),
            authority,
            servers: [master, replica],
        }
    }

    fn store(&self) -> RedisStore {
        self.store_by(&self.sentinel)
    }

    /// By another sentinel.
    fn store_by(&self, sentinel: &TlsServer) -> RedisStore {
        let store = RedisStore::new(&url(sentinel)).unwrap();
        store.ca_certificates(self.authority.certificate()).unwrap()
    }

    /// Whether the store counts on this server.
    async fn counts_on(&self, store: &RedisStore, server: usize) -> bool {
        let (key, limits) = (unique("tls"), [Limit::per_hour(1)]);
        let request = Request::new(key.as_bytes(), Algorithm::SlidingWindow, &limits);
        let called = store.acquire(request).await;
        called.is_ok() && self.servers[server].server.cli(&["EXISTS", &key]) == "1"
    }
}

fn url(sentinel: &TlsServer) -> String {
    format!("rediss+sentinel://127.0.0.1:{}/{NAME}", sentinel.port)
}

/// A sentinel that shows this certificate, and knows the replica of the master at this port.
fn sentinel(authority: &Authority, identity: &Identity, port: u16) -> TlsServer {
    let config = format!(
        "sentinel monitor {NAME} 127.0.0.1 {port} 1\nsentinel down-after-milliseconds {NAME} \
         500\nsentinel failover-timeout {NAME} 1500\n"
    );
    let args = ["--tls-replication", "yes", "--sentinel"];
    let sentinel = TlsServer::start_from(&config, authority, identity, &args);
    let knows = || {
        let known = sentinel.server.cli(&["SENTINEL", "REPLICAS", NAME]);
        known.contains("master-link-status\nok")
    };
    assert!(eventually(knows), "the sentinel knows the replica");
    sentinel
}

/// The mistake that `ready` tells.
async fn mistake(store: &RedisStore) -> String {
    let told = tokio::time::timeout(PATIENCE, store.ready()).await;
    let error = told.unwrap().unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Misconfigured, "{error}");
    println!("{error}");
    error.message().to_owned()
}

#[tokio::test]
async fn sentinels_and_servers_are_asked_by_tls_and_a_fail_over_is_followed() {
    let all = Secured::start();
    let store = ready(all.store()).await;
    assert!(all.counts_on(&store, 0).await);
    let begins = || all.sentinel.server.cli(&["SENTINEL", "FAILOVER", NAME]) == "OK";
    assert!(eventually(begins), "a fail-over begins");
    let follows = async || all.counts_on(&store, 1).await;
    until("the new master is followed", PATIENCE, follows).await;
}

#[tokio::test]
async fn a_certificate_that_does_not_fit_is_an_error_that_says_whose_it_is() {
    let all = Secured::start();
    let server = &all.servers[0];
    // Neither is known to the platform.
    let error = mistake(&RedisStore::new(&url(&all.sentinel)).unwrap()).await;
    assert!(error.contains("certificate"), "{error}");
    assert!(is_of_sentinel(&error, &all.sentinel), "{error}");

    let other = all.authority.identity(&["other.example"]);
    server.show(&other);
    let store = all.store();
    let error = mistake(&store).await;
    assert!(error.contains("not valid for name"), "{error}");
    assert!(error.contains(&server.port.to_string()), "{error}");
    assert!(!error.contains("the sentinel at"), "{error}");
    // It is corrected without a restart.
    server.show(&all.authority.identity(&LOCAL));
    let is_right = async || all.counts_on(&store, 0).await;
    until("the certificate fits", PATIENCE, is_right).await;

    let expired = all.authority.expired(&LOCAL);
    for (shown, words) in [(other, "not valid for name"), (expired, "expired")] {
        let sentinel = sentinel(&all.authority, &shown, server.port);
        let error = mistake(&all.store_by(&sentinel)).await;
        assert!(error.contains(words), "{error}");
        assert!(is_of_sentinel(&error, &sentinel), "{error}");
    }
}

fn is_of_sentinel(error: &str, sentinel: &TlsServer) -> bool {
    error.contains(&format!("the sentinel at 127.0.0.1:{}", sentinel.port))
}
