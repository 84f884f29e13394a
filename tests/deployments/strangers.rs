//! What an attacker on a cluster costs a stranger, whose keys are on the same node or on the other.

use std::time::Instant;

use ratelimit_runtime::store::Request;
use ratelimit_runtime::{Algorithm, Key, Limit, OnUnavailable, RateLimiter, Rule, Store as _};

use super::*;
use crate::support::{settled, unique};

const CALLS: u64 = 40;
const STRANGERS: u64 = 20;

/// How many questions each master was asked since.
struct Asked([u64; 2], Instant);

impl Asked {
    fn of(deployment: &Deployment) -> Self {
        Self(
            [0, 1].map(|master| deployment.scripts_run_on(master)),
            Instant::now(),
        )
    }

    fn since(&self, deployment: &Deployment) -> [u64; 2] {
        let now = Self::of(deployment);
        [now.0[0] - self.0[0], now.0[1] - self.0[1]]
    }

    /// How often a refusal that is known for a second was asked for anew.
    fn renewals(&self) -> u64 {
        u64::try_from(self.1.elapsed().as_millis()).unwrap() / 875
    }
}

struct Site {
    deployment: Deployment,
    limiter: RateLimiter,
    prefix: String,
}

impl Site {
    async fn new() -> Self {
        let (deployment, prefix) = (Deployment::cluster(), unique("strangers"));
        let builder = RateLimiter::builder().redis(&deployment.url());
        let builder = builder.prefix(prefix.as_str()).timeout(PATIENCE);
        let limiter = builder.on_unavailable(OnUnavailable::Deny).build().unwrap();
        limiter.ready().await.unwrap();
        Self {
            deployment,
            limiter,
            prefix,
        }
    }

    fn key(&self, rule: &Rule, master: usize) -> Key {
        Key::of(&self.deployment.number_on(master, &self.prefix, rule.name()))
    }

    async fn refused(&self, calls: &[(&Rule, &Key)]) -> String {
        let refused = self.limiter.acquire_all(calls.iter().copied()).await;
        let RateLimitError::Exceeded(refusal) = refused.unwrap_err() else {
            panic!("a refusal")
        };
        refusal.rule().to_owned()
    }
}

fn by_ip() -> Rule {
    Rule::new("by_ip", Limit::per_hour(1))
}

fn by_email() -> Rule {
    Rule::new("by_email", Limit::per_hour(STRANGERS)).with_block(HOUR)
}

/// Nothing is asked of another node, and one question in a second of that of the key.
#[tokio::test]
async fn forty_refused_calls_ask_their_own_node_once_and_no_other() {
    let site = Site::new().await;
    let rule = by_ip();
    let own = site.key(&rule, 0);
    let _ = site.limiter.acquire(&rule, &own).await.unwrap();
    let asked = Asked::of(&site.deployment);
    for _ in 0..CALLS {
        assert_eq!(site.refused(&[(&rule, &own)]).await, "by_ip");
    }
    let (of_each, renewals) = (asked.since(&site.deployment), asked.renewals());
    assert!((1..=1 + renewals).contains(&of_each[0]), "{of_each:?}");
    assert_eq!(of_each[1], 0);
}

/// A stack that a limit of the attacker's own refuses: the stranger's part is looked at once, and
/// neither charged nor blocked.
#[tokio::test]
async fn a_stack_that_a_limit_of_ones_own_refuses_asks_a_strangers_node_once() {
    for master in [0, 1] {
        let site = Site::new().await;
        let (by_ip, by_email) = (by_ip(), by_email());
        let (own, strangers) = (site.key(&by_ip, 0), site.key(&by_email, master));
        let _ = site.limiter.acquire(&by_ip, &own).await.unwrap();
        let asked = Asked::of(&site.deployment);
        let stack = [(&by_email, &strangers), (&by_ip, &own)];
        for _ in 0..CALLS {
            assert_eq!(site.refused(&stack).await, "by_ip");
        }
        settled(&site.limiter).await;
        let (of_each, renewals) = (asked.since(&site.deployment), asked.renewals());
        println!("stranger on node {master}: {of_each:?} questions for {CALLS} calls");
        let questions: u64 = of_each.iter().sum();
        assert!((1..=2 + 2 * renewals).contains(&questions), "{of_each:?}");
        let seen = site.limiter.peek(&by_email, &strangers).await.unwrap();
        assert!(
            !seen.is_blocked() && seen.remaining() == STRANGERS,
            "{seen:?}"
        );
    }
}

static LIMITS: [Limit; 1] = [Limit::per_hour(1)];

fn request(key: &str) -> Request<'_> {
    Request::new(key.as_bytes(), Algorithm::SlidingWindow, &LIMITS)
}

/// Each of these keys is a question to its own node, whichever client mints it; the stranger's
/// calls are decided by the store as before, and what refuses him is still known.
#[tokio::test]
async fn keys_that_one_client_mints_ask_their_own_node_and_forget_no_strangers_refusal() {
    const MINTED: u64 = 1_000;
    let deployment = Deployment::cluster();
    for master in [0, 1] {
        let mut store = deployment.store();
        store.known_mut().set_capacity(256);
        let store = ready(store).await;
        let (strangers, free) = (deployment.key_on(master), deployment.key_on(master));
        while !store.acquire(request(&strangers)).await.unwrap().cached {}
        let asked = Asked::of(&deployment);
        let mut minted = 0;
        let mut numbers = 0_u64..;
        while minted < MINTED {
            // He may search for keys of one node: no value chooses its slot, and each has one.
            let key = format!("{strangers}:minted:{}", numbers.next().unwrap());
            if !deployment.is_on(0, &key) {
                continue;
            }
            minted += 1;
            for _ in 0..2 {
                let _ = store.acquire(request(&key)).await.unwrap();
            }
            if minted % 10 == 0 {
                let verdict = store.acquire(request(&strangers)).await.unwrap();
                assert!(!verdict.allowed);
            }
        }
        let (of_each, renewals) = (asked.since(&deployment), asked.renewals());
        println!("stranger on node {master}: {of_each:?} questions for {MINTED} minted keys");
        let others = of_each[0] - 2 * MINTED + of_each[1];
        assert!(
            others <= 1 + renewals,
            "the stranger's refusal was asked for {others} times"
        );
        let admitted = store.acquire(request(&free)).await.unwrap();
        assert!(admitted.allowed && !admitted.cached);
    }
}
