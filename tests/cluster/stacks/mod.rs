//! Stacks of checks that no script decides as one: on keys of several nodes, behind a layer, on two
//! limiters and without scripts; beside them those that one store decides.

mod late;
mod layer;
mod parts;
mod random;
mod strangers;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use ratelimit_runtime::__private::{
    CallPermits, CheckBuilder, Completion, Reservations, run_reserved_with_permits,
};
use ratelimit_runtime::store::{Answer, Capabilities, Request, Verdict};
use ratelimit_runtime::testkit::FakeClock;
use ratelimit_runtime::{
    Decision, Key, Limit, MemoryStore, RateLimitError, RateLimiter, RedisMode, RedisStore, Rule,
    Store,
};

use super::slots;
use crate::support::layer::Layer;
use crate::support::{cluster, polled, redis, settled, strict, unique};

const MINUTE: Duration = Duration::from_secs(60);
const NODES: usize = 3;
/// How many parts a stack has at most.
const PARTS: usize = 3;

/// Where a stack is decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Cluster,
    /// A cluster whose client remembers refusals, as it does unless told otherwise.
    CachedCluster,
    LayerOnRedis,
    LayerOnMemory,
    TwoLimiters,
    WithoutScripts,
    ClusterWithoutScripts,
    OneServer,
    Memory,
}

impl Kind {
    fn has_scripts(self) -> bool {
        !matches!(self, Self::WithoutScripts | Self::ClusterWithoutScripts)
    }
}

const KINDS: [Kind; 9] = [
    Kind::Cluster,
    Kind::CachedCluster,
    Kind::LayerOnRedis,
    Kind::LayerOnMemory,
    Kind::TwoLimiters,
    Kind::WithoutScripts,
    Kind::ClusterWithoutScripts,
    Kind::OneServer,
    Kind::Memory,
];

/// The limiters of a test.
#[derive(Clone)]
struct Site {
    kind: Kind,
    prefix: String,
    /// That of the first part of a stack, and that of the others.
    limiters: [RateLimiter; 2],
}

impl Site {
    async fn new(kind: Kind) -> Self {
        Self::with_clock(kind, None).await
    }

    async fn with_clock(kind: Kind, clock: Option<&FakeClock>) -> Self {
        Self::of_prefix(kind, clock, unique("stack")).await
    }

    /// Another process with the same keys.
    async fn elsewhere(&self) -> Self {
        Self::of_prefix(self.kind, None, self.prefix.clone()).await
    }

    /// The kind is printed, for the output of a test that fails.
    async fn of_prefix(kind: Kind, clock: Option<&FakeClock>, prefix: String) -> Self {
        println!("{kind:?}:");
        let redis = |url: &str| {
            let store = RedisStore::new(url).unwrap();
            match clock {
                Some(clock) => store.with_clock(clock.clone()),
                None => store,
            }
        };
        let memory = || match clock {
            Some(clock) => MemoryStore::new().with_clock(clock.clone()),
            None => MemoryStore::new(),
        };
        let on = |store: Box<dyn Store>, prefix: &str| {
            strict().prefix(prefix).store(store).build().unwrap()
        };
        let server = || redis(&redis::shared().url()).deny_cache(false);
        let cluster = || redis(&cluster::shared().url());
        let store: Box<dyn Store> = match kind {
            Kind::Cluster => Box::new(cluster().deny_cache(false)),
            Kind::CachedCluster => Box::new(cluster()),
            Kind::LayerOnRedis => Box::new(Layer(server())),
            Kind::LayerOnMemory => Box::new(Layer(memory())),
            Kind::WithoutScripts => Box::new(server().mode(RedisMode::Transactions)),
            Kind::ClusterWithoutScripts => {
                Box::new(cluster().deny_cache(false).mode(RedisMode::Transactions))
            }
            Kind::TwoLimiters | Kind::OneServer => Box::new(server()),
            Kind::Memory => Box::new(memory()),
        };
        let first = on(store, &prefix);
        let second = match kind {
            Kind::TwoLimiters => on(Box::new(server()), &format!("{prefix}:other")),
            _ => first.clone(),
        };
        let site = Self {
            kind,
            prefix,
            limiters: [first, second],
        };
        for limiter in &site.limiters {
            limiter.ready().await.unwrap();
        }
        site
    }

    fn blocks(&self) -> bool {
        self.kind.has_scripts()
    }

    fn is_cluster(&self) -> bool {
        matches!(
            self.kind,
            Kind::Cluster | Kind::CachedCluster | Kind::ClusterWithoutScripts
        )
    }

    fn limiter(&self, place: usize) -> &RateLimiter {
        &self.limiters[place.min(1)]
    }

    /// Keys whose state under this rule this node of the cluster keeps; elsewhere any keys.
    fn keys(&self, rule: &Rule, node: usize) -> impl Iterator<Item = u64> + use<> {
        let (head, is_cluster) = (self.head(rule), self.is_cluster());
        let form = if self.kind.has_scripts() { "" } else { "%log" };
        (0..).filter(move |key| !is_cluster || node_of(&format!("{head}<{key}>{form}")) == node)
    }

    fn key(&self, rule: &Rule, node: usize) -> u64 {
        self.keys(rule, node).next().unwrap()
    }

    /// A key whose permits this node keeps.
    fn permit_key(&self, rule: &Rule, node: usize) -> u64 {
        let head = format!("{}:rl1:cc:{}:", self.prefix, rule.name());
        let is_there = |key: &u64| !self.is_cluster() || node_of(&format!("{head}<{key}>")) == node;
        (0..1_000_000).find(is_there).unwrap()
    }

    /// The beginning of the stored keys of a rule.
    fn head(&self, rule: &Rule) -> String {
        let heard = Arc::new(Heard::default());
        let limiter = strict()
            .prefix(self.prefix.as_str())
            .store(Arc::clone(&heard));
        let limiter = limiter.build().unwrap();
        let peeked = futures_util::FutureExt::now_or_never(limiter.peek(rule, &Key::of(&0_u64)));
        let _ = peeked.unwrap().unwrap();
        let key = String::from_utf8(heard.0.lock().unwrap().clone()).unwrap();
        key.strip_suffix("<0>").unwrap().to_owned()
    }

    fn stack(&self, parts: &[(&Rule, u64)]) -> Stack {
        let part = |(place, &(rule, key)): (usize, &(&Rule, u64))| {
            Some(Part {
                limiter: self.limiter(place).clone(),
                rule: rule.clone(),
                key,
                charge: Charge::Plain,
            })
        };
        Stack(parts.iter().enumerate().map(part).collect())
    }

    /// What a key says that is a stack's part at this place.
    async fn peek(&self, place: usize, rule: &Rule, key: u64) -> Decision {
        let peeked = self.limiter(place).peek(rule, &Key::of(&key)).await;
        peeked.unwrap()
    }

    async fn left(&self, place: usize, rule: &Rule, key: u64) -> u64 {
        self.peek(place, rule, key).await.remaining()
    }

    /// Charges a key as the part at this place does, so often.
    async fn charge(&self, place: usize, rule: &Rule, key: u64, times: u64) {
        for _ in 0..times {
            let charged = self.limiter(place).acquire(rule, &Key::of(&key)).await;
            let _ = charged.unwrap();
        }
    }

    async fn settled(&self) {
        for limiter in &self.limiters {
            settled(limiter).await;
        }
    }
}

fn node_of(key: &str) -> usize {
    let slot = usize::from(slots::of(key.as_bytes()));
    let first = |node: usize| 16_384 * node / NODES;
    let node = (0..NODES).find(|node| (first(*node)..first(node + 1)).contains(&slot));
    node.unwrap()
}

/// A part of a stack: a check on one key.
#[derive(Clone)]
struct Part {
    limiter: RateLimiter,
    rule: Rule,
    key: u64,
    charge: Charge,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Charge {
    Plain,
    /// As `count`.
    ByOutcome,
    /// As `actual_cost`.
    Estimate,
}

/// The checks of one call; `None` where `when` is false.
#[derive(Clone)]
struct Stack(Vec<Option<Part>>);

/// What an admitted call has while it runs.
#[derive(Debug)]
struct Running {
    reservations: Reservations<PARTS>,
    permits: CallPermits,
}

impl Running {
    fn end(self, completions: [Completion; PARTS]) {
        self.reservations.complete(completions);
        drop(self.permits);
    }
}

impl Stack {
    async fn call(self) -> Result<Running, RateLimitError> {
        assert!(self.0.len() <= PARTS);
        let mut checks = [const { None }; PARTS];
        for (check, part) in checks.iter_mut().zip(&self.0) {
            *check = part.as_ref().map(|part| {
                let mut check = CheckBuilder::on(&part.rule, part.limiter.clone());
                check.part(&part.key);
                match part.charge {
                    Charge::Plain => {}
                    Charge::ByOutcome => check.reserve(),
                    Charge::Estimate => check.reserve_estimate(),
                }
                (check, None)
            });
        }
        let (reservations, permits) = run_reserved_with_permits(checks).await?;
        Ok(Running {
            reservations,
            permits,
        })
    }

    /// The part at `place` is charged in another way.
    fn charging(mut self, place: usize, charge: Charge) -> Self {
        self.0[place].as_mut().unwrap().charge = charge;
        self
    }
}

/// The name of the rule that refused.
fn refused_by<T: std::fmt::Debug>(outcome: Result<T, RateLimitError>) -> &'static str {
    let error = outcome.unwrap_err();
    let RateLimitError::Exceeded(refusal) = error else {
        panic!("{error:?}")
    };
    refusal.rule()
}

/// Remembers the key that it was asked about last.
#[derive(Default)]
struct Heard(Mutex<Vec<u8>>);

impl Store for Heard {
    fn acquire<'a>(&'a self, request: Request<'a>) -> Answer<'a, Verdict> {
        self.peek(request)
    }

    fn peek<'a>(&'a self, request: Request<'a>) -> Answer<'a, Verdict> {
        *self.0.lock().unwrap() = request.key().to_vec();
        Answer::ready(Ok(Verdict::admitted()))
    }

    fn reset<'a>(&'a self, _: Request<'a>) -> Answer<'a, bool> {
        Answer::ready(Ok(false))
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::all()
    }
}
