//! Checks that the code logs the events of guide/observability.md: target, name, level and fields.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use futures_util::FutureExt as _;
use proc_macro2::{TokenStream, TokenTree};
use ratelimit_runtime::__private::BuiltInStore as _;
use ratelimit_runtime::store::{Answer, Request, StoreError, StoreErrorKind, Verdict};
use ratelimit_runtime::testkit::FaultyStore;
use ratelimit_runtime::{
    Algorithm, ClientIp, Key, Limit, MemoryStore, OnUnavailable, Policy, RateLimitError,
    RateLimiter, RedisStore, Responses, Rule, Store, TrustedProxies, rate_limit,
};
use syn::visit::{self, Visit};
use tonic::codegen::http;

use crate::documented::{code, file, table};
use crate::log::{Kind, Log};
use crate::redis_server::{ALONE, limiter, take_ahead, until};
use crate::support::cluster::RedisCluster;
use crate::support::proxy::Proxy;
use crate::support::redis::RedisServer;
use crate::support::unique;

fn documented() -> BTreeSet<Kind> {
    let rows = table("| target | name | level |");
    let text = |cell: &str| cell.trim_matches('`').to_owned();
    let kind = |row: &Vec<String>| {
        let [target, name, level, fields, _] = row.as_slice() else {
            panic!("{row:?}")
        };
        Kind {
            target: text(target),
            name: text(name),
            level: level.clone(),
            fields: code(fields),
        }
    };
    rows.iter().map(kind).collect()
}

/// The events that a file of the library writes.
#[derive(Default)]
struct Written {
    kinds: BTreeSet<Kind>,
    targets: Vec<(String, String)>,
}

impl<'a> Visit<'a> for Written {
    fn visit_item_const(&mut self, item: &'a syn::ItemConst) {
        if let syn::Expr::Lit(syn::ExprLit {
            lit: syn::Lit::Str(text),
            ..
        }) = &*item.expr
        {
            self.targets.push((item.ident.to_string(), text.value()));
        }
    }

    fn visit_macro(&mut self, call: &'a syn::Macro) {
        if call
            .path
            .segments
            .first()
            .is_some_and(|first| first.ident == "tracing")
        {
            self.add(
                &call.path.segments.last().unwrap().ident.to_string(),
                call.tokens.clone(),
            );
        }
        visit::visit_macro(self, call);
    }
}

impl Written {
    /// `name: "…", target: T, field, %field, ?field, field = ?value, "text"`.
    fn add(&mut self, level: &str, tokens: TokenStream) {
        let mut parts: Vec<Vec<TokenTree>> = vec![Vec::new()];
        for token in tokens {
            match token {
                TokenTree::Punct(comma) if comma.as_char() == ',' => parts.push(Vec::new()),
                token => parts.last_mut().unwrap().push(token),
            }
        }
        let last = |part: &Vec<TokenTree>| part.last().unwrap().to_string();
        let (name, target) = (last(&parts[0]), last(&parts[1]));
        let target = self
            .targets
            .iter()
            .find(|(constant, _)| *constant == target)
            .unwrap()
            .1
            .clone();
        // The usual formats print no names.
        let text = last(parts.iter().rfind(|part| !part.is_empty()).unwrap());
        assert!(
            text.starts_with(name.trim_end_matches('"')),
            "{text} does not begin with {name}"
        );
        let field = |part: &Vec<TokenTree>| {
            let value = part
                .iter()
                .position(|token| matches!(token, TokenTree::Punct(sign) if sign.as_char() == '='));
            part[..value.unwrap_or(part.len())]
                .last()
                .unwrap()
                .to_string()
        };
        let fields = parts[2..]
            .iter()
            .map(field)
            .take_while(|part| !part.starts_with('"'));
        let kind = Kind {
            target,
            name: name.trim_matches('"').to_owned(),
            level: level.to_uppercase(),
            fields: fields.collect(),
        };
        assert!(self.kinds.insert(kind), "{name} is written in two places");
    }
}

#[test]
fn every_event_of_the_code_is_documented() {
    let mut written = Written::default();
    written.visit_file(&syn::parse_file(&file("ratelimit-runtime/src/observe/log.rs")).unwrap());
    assert_eq!(written.kinds, documented());
}

/// All events are in one file, so that the test above sees all.
#[test]
fn nothing_is_logged_elsewhere() {
    fn look(folder: &Path) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                look(&path);
            } else if !path.ends_with("observe/log.rs")
                && path.extension().is_some_and(|extension| extension == "rs")
            {
                let text = fs::read_to_string(&path).unwrap();
                let found = ["trace!(", "debug!(", "info!(", "warn!(", "error!("]
                    .map(|event| format!("tracing::{event}"));
                assert!(
                    !found.iter().any(|event| text.contains(event)),
                    "{} logs",
                    path.display()
                );
            }
        }
    }
    look(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../ratelimit-runtime/src"));
}

mod twins {
    use super::{RateLimitError, RateLimiter, rate_limit};

    macro_rules! closure {
        () => {
            async |limiter: &RateLimiter| {
                #[rate_limit(limiter = limiter, window = "1h", max = 9)]
                async fn inner(limiter: &RateLimiter) -> Result<(), RateLimitError> {
                    tokio::task::yield_now().await;
                    Ok(())
                }
                inner(limiter).await
            }
        };
    }

    /// Two closures' bodies have one path.
    pub(super) async fn both(limiter: &RateLimiter) {
        closure!()(limiter).await.unwrap();
        closure!()(limiter).await.unwrap();
    }
}

#[rate_limit(limiter = limiter, window = "1h", max = 9, count = "ok")]
async fn counted(
    limiter: &RateLimiter,
    store: &FaultyStore<MemoryStore>,
) -> Result<(), RateLimitError> {
    tokio::task::yield_now().await;
    store.fail_with(StoreErrorKind::Misconfigured);
    Ok(())
}

/// Causes every event except a login that cannot be renewed, and checks that each one is
/// documented.
#[tokio::test]
async fn every_documented_event_is_logged_when_it_happens() {
    let _alone = ALONE.lock().await;
    let (log, _listening) = Log::listen();
    let rule = |name: &str| Rule::named(unique(name), Limit::per_hour(1));
    let key = Key::of("alice");

    let memory = RateLimiter::memory();
    let (plain, shadow) = (rule("plain"), rule("shadow").with_shadow(true));
    for rule in [
        &plain,
        &plain,
        &shadow,
        &shadow,
        &rule("heavy").with_cost(2),
        &shadow.clone().with_policy("none"),
    ] {
        let _ = memory.acquire(rule, &key).await;
    }
    twins::both(&memory).await;
    drop(RateLimiter::current().acquire(&plain, &key).await);
    let missing = rule("missing").with_policy("only-this-test-names-it");
    let _ = memory.acquire(&missing, &key).await.unwrap_err();

    let proxies = TrustedProxies::new(["10.0.0.0/8"]).unwrap();
    let mut headers = http::HeaderMap::new();
    let client = |proxies: TrustedProxies, headers: &http::HeaderMap| {
        proxies.client_ip([10, 0, 0, 1].into(), headers).unwrap();
    };
    client(proxies, &headers);
    headers.insert("x-forwarded-for", "9.9.9.9".parse().unwrap());
    client(TrustedProxies::default(), &headers);

    let file = std::env::temp_dir().join(format!("{}.toml", unique("events")));
    fs::write(&file, "api = \"5/1m\"").unwrap();
    memory.watch_policies(&file).await.unwrap();
    assert_eq!(log.count("policies_replaced"), 1, "as they are at first");
    assert!(log.text().contains("policies=1"), "{}", log.text());
    fs::write(&file, "api = \"6/1m\"").unwrap();
    let replaced = || log.count("policies_replaced") == 2;
    until("the change is in force", replaced).await;
    fs::remove_file(&file).unwrap();
    until("it is missed", || log.has("policies_refused")).await;

    let store = FaultyStore::new(MemoryStore::new());
    let faulty = RateLimiter::with_store(store.clone());
    counted(&faulty, &store).await.unwrap();
    store.fail_with(StoreErrorKind::Unavailable);
    let _ = faulty.acquire(&plain, &key).await;
    let _ = faulty
        .acquire(
            &rule("open").with_on_unavailable(OnUnavailable::Allow),
            &key,
        )
        .await;
    store.fail_with(StoreErrorKind::Full);
    let _ = faulty.acquire(&plain, &key).await;

    let mut server = RedisServer::start();
    let unknown = RedisStore::new(&server.url().replace("//", "//nobody:wrong@")).unwrap();
    assert_eq!(
        unknown.ready().await.unwrap_err().kind(),
        StoreErrorKind::Misconfigured
    );
    server.cli(&["ACL", "SETUSER", "default", "-role", "-eval", "-ping"]);
    let on_redis = limiter(&server);
    on_redis.ready().await.unwrap();
    let _ = on_redis.acquire(&plain, &key).await;
    take_ahead(&on_redis).await;
    until("it is not told the role", || log.has("role_unknown")).await;
    server.stop();
    // A connection that no call uses is not made again.
    let _ = on_redis.acquire(&plain, &Key::of("bob")).await;
    until("it is down", || log.has("outage")).await;
    server.restart();
    on_redis.ready().await.unwrap();
    until("it is up", || log.has("recovered")).await;
    server.stop();
    let _ = on_redis.acquire(&plain, &Key::of("bob")).await;
    until("it is down again", || log.count("outage") > 1).await;
    drop(on_redis);
    until("it is not asked", || log.has("dropped")).await;

    let (seen, documented) = (log.kinds(), documented());
    let unknown: Vec<_> = seen.difference(&documented).collect();
    assert!(unknown.is_empty(), "not documented: {unknown:#?}");
    let missed: Vec<_> = documented
        .difference(&seen)
        .map(|kind| kind.name.as_str())
        .collect();
    // They happen in tests of their own: in `redis/permits/processes.rs`, and below.
    assert_eq!(
        missed,
        ["login_expires", "permit_lost", "shadow_ended", "empty_url"]
    );
}

/// The master never serves again: its outage ends when a replica has its slots.
#[tokio::test]
async fn an_outage_of_a_replaced_master_ends() {
    let (log, _listening) = Log::listen();
    let mut cluster = RedisCluster::start(3, 1);
    let limiter = RateLimiter::redis(&cluster.url()).unwrap();
    let rule = Rule::named(unique("replaced"), Limit::per_hour(1_000_000));
    let ask_all = async || {
        for user in 0..30_u8 {
            let _ = limiter.acquire(&rule, &Key::of(&user)).await.unwrap();
        }
    };
    ask_all().await;
    let slot = cluster.slots_of(0)[0];
    cluster.kill(0);
    ask_all().await;
    until("it is down", || log.has("outage")).await;
    assert!(!log.has("dropped"), "it may serve again");
    assert!(cluster.wait_for_fail_over(slot, 0) >= 3);
    until("its slots are another's", || log.has("dropped")).await;
    ask_all().await;
    assert_eq!((log.count("outage"), log.count("dropped")), (1, 1));
}

/// Callers get another answer from then on.
#[tokio::test]
async fn an_outage_that_turns_out_to_be_a_wrong_setting_is_logged_as_both() {
    let (log, _listening) = Log::listen();
    let locked = RedisServer::start_with(&["--requirepass", "secret"]);
    let proxy = Proxy::start(1).await;
    let limiter = RateLimiter::redis(&proxy.url()).unwrap();
    assert!(limiter.ready().now_or_never().is_none());
    until("nobody is there", || log.has("outage")).await;
    proxy.lead_to(locked.port());
    until("a password is asked for", || log.has("misconfigured")).await;
}

/// A client can repeat its request as often as it likes, and does not fill the disk with the log.
#[tokio::test]
async fn an_error_that_every_call_gets_is_logged_once() {
    let (log, _listening) = Log::listen();
    let missing = |policy| Rule::named(unique("missing"), Limit::per_hour(1)).with_policy(policy);
    let (one, other) = (missing("never-set"), missing("never-set-either"));
    let (shadow, key) = (missing("never-set").with_shadow(true), Key::of("alice"));
    let no_media_type = Responses::new().body(|_| ("text\nplain", String::new()));
    let memory = RateLimiter::builder().responses(no_media_type);
    let memory = memory.build().unwrap();
    for calls in 1..=5 {
        for rule in [&one, &other] {
            let error = memory.acquire(rule, &key).await.unwrap_err();
            if calls > 1 {
                // A response logs it no second time.
                let _ = memory.scope(async { error.to_http_response() }).await;
                drop(tonic::Status::from(error));
            }
        }
        let _ = memory.acquire(&shadow, &key).await.unwrap();
        assert_eq!(
            (log.count("misconfigured"), log.count("shadow_failed")),
            (2 + usize::from(calls > 1), 1),
            "{calls}"
        );
        assert_eq!(log.count("failed"), 2 * calls, "each can be looked for");
    }
}

#[rate_limit(limiter = limiter, window = "1h", max = 1000)]
async fn of_one_path(limiter: &RateLimiter) -> Result<(), RateLimitError> {
    tokio::task::yield_now().await;
    Ok(())
}

#[tokio::test]
async fn two_functions_of_one_path_are_logged_once_per_limiter_and_one_function_is_not() {
    let (log, _listening) = Log::listen();
    // More than a function remembers.
    let limiters: Vec<RateLimiter> = (0..12).map(|_| RateLimiter::memory()).collect();
    for limiter in limiters.iter().cycle().take(36) {
        of_one_path(limiter).await.unwrap();
        twins::both(limiter).await;
    }
    // The bucket of the function, reached by hand under its derived name.
    let by_hand = Rule::named(
        concat!(module_path!(), "::of_one_path").replace("::", "."),
        Limit::per_hour(1000),
    );
    assert_eq!(
        limiters[0]
            .peek(&by_hand, &Key::global())
            .await
            .unwrap()
            .remaining(),
        997
    );
    assert_eq!(log.count("same_path"), 12, "of the twins alone");
}

/// A limit that is tried on real traffic fills no disk: metrics count the calls.
#[tokio::test(start_paused = true)]
async fn an_episode_of_refusals_in_shadow_mode_is_two_lines() {
    let (log, _listening) = Log::listen();
    let memory = RateLimiter::memory();
    let shadow = |name| Rule::named(unique(name), Limit::per_hour(1)).with_shadow(true);
    let (rule, other, key) = (shadow("tried"), shadow("other"), Key::of("alice"));
    let refuse = async |rule: &Rule, times: usize| {
        for _ in 0..times {
            let _ = memory.acquire(rule, &key).await.unwrap();
        }
    };
    let told = || (log.count("shadow_refused"), log.count("shadow_ended"));
    refuse(&rule, 501).await;
    refuse(&other, 2).await;
    assert_eq!(told(), (2, 0));
    tokio::time::sleep(Duration::from_secs(59)).await;
    refuse(&rule, 500).await;
    assert_eq!(told(), (2, 0), "it goes on");
    tokio::time::sleep(Duration::from_secs(59)).await;
    assert_eq!(told(), (2, 1), "of the other rule");
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(told(), (2, 2));
    for count in ["refusals=1\n", "refusals=1000\n"] {
        assert!(log.text().contains(count), "{}", log.text());
    }
    refuse(&rule, 10).await;
    assert_eq!(told(), (3, 2), "the next one");
}

/// Without a runtime to wait for its end, an episode is ended by another refusal.
#[test]
fn an_episode_whose_runtime_has_ended_is_ended_by_the_next_refusal() {
    let (log, _listening) = Log::listen();
    let memory = RateLimiter::memory();
    let rule = Rule::named(unique("tried"), Limit::per_hour(1)).with_shadow(true);
    for episode in 1..=3 {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.enable_time().start_paused(true).build().unwrap();
        runtime.block_on(async {
            // Later than the refusals on the clock of the runtime before.
            tokio::time::advance(Duration::from_secs(100 * episode)).await;
            for _ in 0..3 {
                let _ = memory.acquire(&rule, &Key::of("bob")).await.unwrap();
            }
        });
        let expected = (episode, episode - 1);
        let told = [log.count("shadow_refused"), log.count("shadow_ended")];
        assert_eq!(told.map(|count| count as u64), [expected.0, expected.1]);
    }
    // No task can wait for it on one without timers.
    let untimed = tokio::runtime::Builder::new_current_thread().build();
    let (untimed, rule) = (untimed.unwrap(), rule.with_cost(2));
    let _ = untimed.block_on(memory.acquire(&rule, &Key::of("bob")));
    assert_eq!(untimed.metrics().num_alive_tasks(), 0);
}

/// A store without memory, with words of its own.
struct Full(String);

impl Full {
    fn error<'a, T>(&self) -> Answer<'a, T> {
        Answer::ready(Err(StoreError::new(StoreErrorKind::Full, self.0.clone())))
    }
}

impl Store for Full {
    fn acquire<'a>(&'a self, _: Request<'a>) -> Answer<'a, Verdict> {
        self.error()
    }

    fn peek<'a>(&'a self, _: Request<'a>) -> Answer<'a, Verdict> {
        self.error()
    }

    fn reset<'a>(&'a self, _: Request<'a>) -> Answer<'a, bool> {
        self.error()
    }
}

/// A store without memory decides nothing. The log says so, whatever answers instead.
#[tokio::test]
async fn a_store_that_is_out_of_memory_is_logged_once() {
    for policy in [
        OnUnavailable::Deny,
        OnUnavailable::Local,
        OnUnavailable::Allow,
    ] {
        let (log, _listening) = Log::listen();
        let store = Full(unique("no memory left"));
        let limiter = RateLimiter::builder()
            .store(store)
            .on_unavailable(policy)
            .build()
            .unwrap();
        for call in 0..5 {
            let outcome = limiter
                .acquire(
                    &Rule::named(unique("full"), Limit::per_hour(1)),
                    &Key::of(&call),
                )
                .await;
            assert_eq!(outcome.is_err(), policy == OnUnavailable::Deny);
        }
        assert_eq!(log.count("full"), 1, "{policy}");
    }
}

/// Each script quotes itself in the error, and a server without a disk says so to a PING as well.
#[tokio::test]
async fn a_full_redis_is_logged_once_whichever_script_meets_it() {
    let _alone = ALONE.lock().await;
    let (log, _listening) = Log::listen();
    let (memory, disk) = (RedisServer::start(), RedisServer::start_without_disk());
    for (server, reason) in [(&memory, "out of memory"), (&disk, "save to disk")] {
        let limiter = limiter(server);
        limiter.ready().await.unwrap();
        if reason == "save to disk" {
            server.fail_to_save();
        } else {
            server.cli(&["CONFIG", "SET", "maxmemory", "1"]);
        }
        let before = log.count("full");
        for algorithm in Algorithm::ALL {
            let rule = Rule::named(unique("full"), Limit::per_hour(9)).with_algorithm(*algorithm);
            for call in 0..10 {
                drop(limiter.acquire(&rule, &Key::of(&call)).await);
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        }
        assert_eq!(log.count("full") - before, 1, "{reason}: {}", log.text());
        assert!(log.text().contains(reason), "{}", log.text());
    }
    assert_eq!(log.count("outage"), 0, "it is none");
}

/// A proxy that names no client merges all of its clients: that is said for each reason, and not at
/// each request.
#[test]
fn a_trusted_proxy_that_names_no_client_is_logged_once() {
    let (log, _listening) = Log::listen();
    let proxies = TrustedProxies::new(["10.0.0.0/8"]).unwrap();
    let ask = |fields: &[(&'static str, &'static str)]| {
        let mut headers = http::HeaderMap::new();
        for (name, value) in fields {
            headers.append(*name, http::HeaderValue::from_static(value));
        }
        // A clone is the same setting.
        proxies
            .clone()
            .client_ip([10, 0, 0, 7].into(), &headers)
            .unwrap();
    };
    let told = |reason: &str| log.text().matches(&format!("reason={reason:?}")).count();
    ask(&[("x-forwarded-for", "9.9.9.9")]);
    assert_eq!(log.kinds().len(), 0);
    let reasons = ["no_header", "all_trusted", "no_address"];
    for (fields, expected) in [
        (&[][..], [1, 0, 0]),
        (&[("x-forwarded-for", "10.0.0.9, 10.0.0.8")], [1, 1, 0]),
        (&[("x-forwarded-for", "unknown, 10.0.0.8")], [1, 1, 1]),
    ] {
        (0..3).for_each(|_| ask(fields));
        assert_eq!(reasons.map(told), expected);
    }
    assert!(
        log.text().contains("proxy=10.0.0.8"),
        "the last proxy that is known"
    );
}

/// Behind a proxy that is not named, all clients are one. A peer on the internet may be a client
/// that writes such a header itself.
#[test]
fn a_forwarded_request_is_logged_once_where_no_proxy_is_trusted() {
    let (log, _listening) = Log::listen();
    let ask_from = |peer: &str, proxies: &TrustedProxies, name: &'static str| {
        let mut headers = http::HeaderMap::new();
        headers.append(name, http::HeaderValue::from_static("9.9.9.9"));
        let client = proxies.client_ip(peer.parse().unwrap(), &headers);
        assert_eq!(client.unwrap().to_string(), peer);
    };
    let ask = |proxies: &TrustedProxies, name| ask_from("10.0.0.7", proxies, name);
    let others = TrustedProxies::new(["192.0.2.1"]).unwrap();
    for peer in ["198.51.100.7", "2001:db8::7"] {
        ask_from(peer, &others, "forwarded");
    }
    let none = TrustedProxies::default();
    ask(&none, "accept");
    assert_eq!(log.kinds().len(), 0, "{}", log.text());
    for (nth, peer) in ["172.17.0.1", "127.0.0.1", "fd00::7"].iter().enumerate() {
        let others = TrustedProxies::new(["10.0.0.0/8"]).unwrap();
        ask_from(peer, &others, "x-forwarded-for");
        assert_eq!(log.count("no_proxies"), nth + 1, "{peer}");
        assert!(log.text().contains(&format!("peer={peer}")));
    }
    for name in ["x-real-ip", "cf-connecting-ip", "true-client-ip"] {
        ask(&TrustedProxies::default(), name);
    }
    let before = log.count("no_proxies");
    assert_eq!(before, 6);
    for _ in 0..3 {
        ask(&none, "x-forwarded-for");
        ask(&none.clone(), "forwarded");
    }
    ask(&TrustedProxies::default(), "forwarded");
    assert_eq!(log.count("no_proxies"), before + 2);
    for header in ["x-forwarded-for", "forwarded"] {
        assert!(log.text().contains(&format!("header={header:?}")));
    }

    // Without a limiter, too.
    let mut forwarded = http::HeaderMap::new();
    forwarded.append("forwarded", http::HeaderValue::from_static("for=9.9.9.9"));
    for _ in 0..2 {
        ClientIp::of([10, 0, 0, 7].into(), &forwarded).unwrap();
    }
    assert_eq!(log.count("no_proxies"), before + 3);
}

#[test]
fn a_limiter_says_once_where_it_keeps_its_limits_and_no_secret() {
    let (log, _listening) = Log::listen();
    let policy = Policy::new(Limit::per_hour(1));
    let prefixed = RateLimiter::builder().prefix("shop:prod");
    let limiter = prefixed
        .redis("redis://user:geheim@127.0.0.1:7/")
        .policy("login", policy)
        .build()
        .unwrap();
    drop(limiter.clone());
    let said = log.text();
    for value in [
        "store=\"127.0.0.1:7\"",
        "prefix=\"shop:prod\"",
        "policies=1",
    ] {
        assert!(said.contains(value), "{said}");
    }
    assert!(!said.contains("geheim"), "{said}");
    drop(RateLimiter::builder().build().unwrap());
    drop(RateLimiter::with_store(
        FaultyStore::new(MemoryStore::new()),
    ));
    assert_eq!(log.count("built"), 3);
    let said = log.text();
    for value in ["store=\"memory\"", "store=\"custom\"", "policies=0"] {
        assert!(said.contains(value), "{said}");
    }
}

/// In a process of its own, because the environment is that of all tests.
#[test]
fn an_empty_url_in_the_environment_is_a_warning() {
    const VARIABLES: [&str; 2] = ["RATELIMIT_URL", "REDIS_URL"];
    let is_empty = |name| std::env::var_os(name).is_some_and(|url| url.is_empty());
    if !VARIABLES.into_iter().all(is_empty) {
        let test = "events::an_empty_url_in_the_environment_is_a_warning";
        let mut process = Command::new(std::env::current_exe().unwrap());
        process
            .args(["--exact", test])
            .envs(VARIABLES.map(|name| (name, "")));
        let output = process.output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(
            output.status.success() && said.contains("1 passed"),
            "{said}"
        );
        return;
    }
    let (log, _listening) = Log::listen();
    drop(RateLimiter::from_env().unwrap());
    assert_eq!((log.count("empty_url"), log.count("built")), (2, 1));
    assert!(log.text().contains("store=\"memory\""), "{}", log.text());
    let names = documented().into_iter().map(|kind| kind.name);
    assert!(names.into_iter().any(|name| name == "empty_url"));
}
