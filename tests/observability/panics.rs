//! A recorder and a subscriber of the application that panic: the tasks of the library go on.

use std::collections::BTreeMap;
use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use metrics::{
    Counter, Gauge, Histogram, Key, KeyName, Metadata, Recorder, SharedString, Unit,
    set_default_local_recorder,
};
use ratelimit_runtime::__private::{BuiltInStore as _, PermitRequest};
use ratelimit_runtime::store::Request;
use ratelimit_runtime::{Algorithm, Limit, RateLimiter, RedisCredentials, RedisStore, Store as _};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Subscriber};

use crate::log::Log;
use crate::redis_server::until;
use crate::support::redis::RedisServer;
use crate::support::unique;

/// Panics at each metric and at each event of the library, and counts them by name.
#[derive(Clone, Default)]
struct Panicking(Arc<Mutex<BTreeMap<String, usize>>>);

impl Panicking {
    fn panic(&self, name: &str) -> ! {
        *self.0.lock().unwrap().entry(name.to_owned()).or_default() += 1;
        panic!("{name} is not taken");
    }

    fn count(&self, name: &str) -> usize {
        self.0
            .lock()
            .unwrap()
            .get(name)
            .copied()
            .unwrap_or_default()
    }
}

impl Recorder for Panicking {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        self.panic(key.name())
    }

    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
        self.panic(key.name())
    }

    fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> Histogram {
        self.panic(key.name())
    }
}

impl Subscriber for Panicking {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        metadata.target().starts_with("ratelimit_runtime")
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        self.panic(event.metadata().name());
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

fn permit(key: &str) -> PermitRequest {
    PermitRequest {
        lease: PermitRequest::MIN_LEASE,
        rule: "panics",
        ..PermitRequest::new(key.as_bytes(), 1)
    }
}

async fn acquire(store: &RedisStore, permit: &PermitRequest) {
    assert!(
        store
            .acquire_all(Some(permit.clone()), &[])
            .await
            .unwrap()
            .is_acquired()
    );
}

/// Waits until the lease of the one permit of this key is renewed.
async fn is_renewed(server: &RedisServer, key: &str) {
    let ends = || {
        let member = server.cli(&["ZRANGE", key, "-1", "-1", "WITHSCORES"]);
        member.lines().nth(1).map(str::to_owned)
    };
    let before = ends();
    until("the lease is renewed", || ends() > before).await;
}

#[tokio::test]
async fn connections_are_made_and_leases_renewed_while_recorder_and_subscriber_panic() {
    let foreign = Panicking::default();
    let _alive = Log::listen();
    let _recorder = set_default_local_recorder(&foreign);
    let _subscriber = tracing::subscriber::set_default(foreign.clone());
    let mut server = RedisServer::start();
    server.cli(&["ACL", "SETUSER", "default", "-role", "-eval"]);
    let is_login_known = Arc::new(AtomicBool::new(true));
    let known = Arc::clone(&is_login_known);
    let store = server.store().credentials(move || {
        let is_known = known.load(Ordering::Relaxed);
        async move {
            let login = RedisCredentials::new("default", "any").renew_after(Duration::ZERO);
            is_known.then_some(login).ok_or("none")
        }
    });
    store.ready().await.unwrap();

    let key = unique("kept");
    let kept = permit(&key);
    acquire(&store, &kept).await;
    is_renewed(&server, &key).await;
    is_login_known.store(false, Ordering::Relaxed);
    until("a login expires", || foreign.count("login_expires") > 0).await;
    is_login_known.store(true, Ordering::Relaxed);
    server.cli(&["CLIENT", "KILL", "TYPE", "normal"]);
    store.ready().await.unwrap();
    is_renewed(&server, &key).await;

    let lost = unique("lost");
    acquire(&store, &permit(&lost)).await;
    server.cli(&["DEL", &lost]);
    let far = (server.now_us() + 600_000_000).to_string();
    server.cli(&["ZADD", &lost, &far, "00000000000000aa.1.3600000"]);
    until("a permit is lost", || foreign.count("permit_lost") > 0).await;
    is_renewed(&server, &key).await;

    server.stop();
    let limits = [Limit::per_hour(1)];
    let request = Request::new(b"away", Algorithm::SlidingWindow, &limits);
    until("it is down", || foreign.count("outage") > 0).await;
    assert!(store.acquire(request).await.is_err());
    server.restart();
    store.ready().await.unwrap();
    // It enters anew.
    is_renewed(&server, &key).await;
    store.release_permit(&kept);
    until("it leaves", || server.number(&["EXISTS", &key]) == 0).await;
    for event in [
        "connected",
        "lost",
        "outage",
        "recovered",
        "role_unknown",
        "login_expires",
        "permit_lost",
        "ratelimit_connections",
        "ratelimit_connects_total",
        "ratelimit_connection_losses_total",
        "ratelimit_outages_total",
        "ratelimit_permits_lost_total",
        "ratelimit_command_decisions",
    ] {
        assert!(foreign.count(event) > 0, "{event}");
    }
}

#[tokio::test]
async fn policies_are_watched_while_recorder_and_subscriber_panic() {
    let foreign = Panicking::default();
    let limiter = RateLimiter::memory();
    let file = std::env::temp_dir().join(format!("{}.toml", unique("panics")));
    fs::write(&file, "api = \"5/1m\"").unwrap();
    let _alive = Log::listen();
    let _recorder = set_default_local_recorder(&foreign);
    let _subscriber = tracing::subscriber::set_default(foreign.clone());
    limiter.watch_policies(&file).await.unwrap();
    for (text, event) in [
        ("api = \"6/1m\"", "policies_replaced"),
        ("api = \"6/1x\"", "policies_refused"),
        ("api = \"7/1m\"", "policies_replaced"),
    ] {
        let before = foreign.count(event);
        fs::write(&file, text).unwrap();
        until("the change is seen", || foreign.count(event) > before).await;
    }
    fs::remove_file(&file).unwrap();
    assert!(foreign.count("ratelimit_policy_changes_total") >= 3);
}
