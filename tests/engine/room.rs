//! Room to wait: how many callers wait, and what those are told for whom there is no room.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use ratelimit_runtime::store::{Answer, Request, Verdict};
use ratelimit_runtime::testkit::FaultyStore;
use ratelimit_runtime::{
    Decision, Key, Limit, MemoryStore, RateLimitError, RateLimiter, Rule, Store,
};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{Instant, advance, sleep};

use crate::support::layer::{Layer, forward};

const SECOND: Duration = Duration::from_secs(1);
/// How many callers may wait for a key.
const MOST: usize = 1_000;

/// The rules of a stack.
type Rules<'a> = &'a [&'a Rule];
type Waiting = JoinHandle<Result<Decision, RateLimitError>>;

/// One unit, which is free again in an hour.
fn hourly(name: &'static str) -> Rule {
    Rule::new(name, Limit::per_hour(1)).with_wait(SECOND * 7200)
}

fn wait(limiter: &RateLimiter, rule: &Rule, key: &Key) -> Waiting {
    let (limiter, rule, key) = (limiter.clone(), rule.clone(), key.clone());
    tokio::spawn(async move { limiter.acquire(&rule, &key).await })
}

/// Lets all tasks go as far as they can.
async fn settle() {
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
}

/// Open calls of one client that wait for his keys, as many as he likes, leave others their room.
#[tokio::test(start_paused = true)]
async fn waiters_on_many_keys_of_one_client_leave_others_room_to_wait() {
    for (keys, callers) in [(10_u64, 1_000), (60, 1_000), (4_000, 16)] {
        let limiter = RateLimiter::memory();
        let hers = hourly("hers");
        let mut open = JoinSet::new();
        for key in 0..keys {
            let key = Key::of(&key);
            let _ = limiter.acquire(&hers, &key).await.unwrap();
            for _ in 0..callers {
                let (limiter, rule, key) = (limiter.clone(), hers.clone(), key.clone());
                open.spawn(async move { limiter.acquire(&rule, &key).await });
            }
        }
        settle().await;
        let soon = Rule::new("soon", Limit::new(1, SECOND / 5)).with_wait(SECOND);
        let others: Vec<Key> = (0..20_u64).map(|other| Key::of(&other)).collect();
        for other in &others {
            let _ = limiter.acquire(&soon, other).await.unwrap();
        }
        let start = Instant::now();
        let others: Vec<_> = others
            .iter()
            .map(|key| wait(&limiter, &soon, key))
            .collect();
        for other in others {
            assert!(other.await.unwrap().is_ok());
        }
        assert!(
            start.elapsed() < SECOND / 4,
            "{keys} keys: {:?}",
            start.elapsed()
        );
    }
}

/// Neither a caller for whom there is no room asks the store, nor one whose time is over before its
/// turn: of a limiter that is full as of a key that is.
#[tokio::test(start_paused = true)]
async fn a_caller_that_the_queue_refuses_asks_the_store_nothing() {
    let store = FaultyStore::new(MemoryStore::new());
    let limiter = RateLimiter::with_store(store.clone());
    let (rule, key) = (hourly("full"), Key::global());
    let _ = limiter.acquire(&rule, &key).await.unwrap();
    let mut open: Vec<Waiting> = (0..MOST - 100)
        .map(|_| wait(&limiter, &rule, &key))
        .collect();
    let impatient = Rule::new("full", Limit::per_hour(1)).with_wait(SECOND);
    let short: Vec<Waiting> = (0..100).map(|_| wait(&limiter, &impatient, &key)).collect();
    settle().await;
    let asked = store.calls();
    let all_refused = async || {
        for _ in 0..10_000 {
            let refused = limiter.acquire(&rule, &key).await.unwrap_err();
            let wait = refused.retry_after().unwrap();
            assert!(wait > SECOND * 3590 && wait <= SECOND * 3600, "{wait:?}");
        }
    };
    all_refused().await;
    for short in short {
        let refused = short.await.unwrap().unwrap_err();
        assert!(refused.retry_after().unwrap() > SECOND * 3590);
    }
    assert_eq!(store.calls(), asked);

    // A limiter that is full has room for the first callers of each key.
    for other in 0..50_u64 {
        let other = Key::of(&other);
        let _ = limiter.acquire(&rule, &other).await.unwrap();
        open.extend((0..MOST).map(|_| wait(&limiter, &rule, &other)));
        settle().await;
    }
    let asked = store.calls();
    all_refused().await;
    assert_eq!(store.calls(), asked);
}

/// Neither does one in a stack, over the share of its key, beside another queue, or beside
/// `concurrent`.
#[tokio::test(start_paused = true)]
async fn a_stack_that_the_queue_refuses_asks_the_store_nothing() {
    let own = Rule::new("own", Limit::per_hour(1_000_000));
    let few = Rule::new("few", Limit::per_hour(5));
    let (of_all, of_some) = (hourly("of_all"), hourly("of_some"));
    let in_flight = own.clone().with_concurrent(1_000_000);
    let permits = Rule::in_flight("permits", 1).with_wait(SECOND * 7200);
    let both = Rule::new("both", Limit::per_hour(1_000_000))
        .with_concurrent(1)
        .with_wait(SECOND * 7200);
    // The calls that wait, those for which there is no room, and the rule that refuses these.
    let cases: [(&[Rules<'_>], Rules<'_>, &str); 5] = [
        (&[&[&own, &of_all]], &[&own, &of_all], "of_all"),
        (&[&[&few, &of_all]], &[&few, &of_all], "of_all"),
        (&[&[&of_some], &[&of_all]], &[&of_all, &of_some], "of_all"),
        (
            &[&[&in_flight, &permits]],
            &[&in_flight, &permits],
            "permits",
        ),
        (&[&[&both]], &[&both], "both"),
    ];
    for (waiting, refused, by) in cases {
        let store = FaultyStore::new(MemoryStore::new());
        let limiter = RateLimiter::with_store(store.clone());
        let enter = |rules: Rules<'_>| {
            let (limiter, has_permits) = (limiter.clone(), by == "permits" || by == "both");
            let rules: Vec<Rule> = rules.iter().copied().cloned().collect();
            async move {
                let key = Key::global();
                let calls = rules.iter().map(|rule| (rule, &key));
                if has_permits {
                    limiter.enter_all(calls).await.map(Some)
                } else {
                    limiter.acquire_all(calls).await.map(|_| None)
                }
            }
        };
        let (mut held, mut open) = (Vec::new(), JoinSet::new());
        for (at, rules) in waiting.iter().enumerate() {
            held.push(enter(rules).await.unwrap());
            let callers = if at + 1 < waiting.len() { 1 } else { MOST };
            for _ in 0..callers {
                open.spawn(enter(rules));
            }
        }
        settle().await;
        let asked = store.calls();
        for _ in 0..MOST {
            let refused = enter(refused).await.unwrap_err();
            assert_eq!(refused.decision().unwrap().rule(), by);
        }
        assert_eq!(store.calls(), asked, "{by}: {} queues", waiting.len());
    }
}

/// One whose own limit is used up takes no place from those who wait for a limit of all.
#[tokio::test(start_paused = true)]
async fn a_caller_that_another_rule_refuses_takes_no_room_to_wait() {
    let own = Rule::new("own", Limit::per_hour(1));
    let of_all = Rule::new("of_all", Limit::new(1, SECOND * 10)).with_wait(SECOND * 60);
    let layered = RateLimiter::with_store(Layer(MemoryStore::new()));
    for limiter in [RateLimiter::memory(), layered] {
        let call = |user: &str| {
            let (limiter, own, of_all) = (limiter.clone(), own.clone(), of_all.clone());
            let user = Key::of(user);
            async move {
                let calls = [(&own, &user), (&of_all, &Key::global())];
                limiter.acquire_all(calls).await
            }
        };
        assert!(call("mallory").await.is_ok());
        let start = Instant::now();
        let bob = tokio::spawn(call("bob"));
        settle().await;
        for _ in 0..MOST + 100 {
            let call = tokio::spawn(call("mallory"));
            settle().await;
            assert!(call.is_finished(), "it waits for nothing");
            let refused = call.await.unwrap().unwrap_err();
            assert_eq!(refused.decision().unwrap().rule(), "own");
        }
        let carol = tokio::spawn(call("carol"));
        assert!(bob.await.unwrap().is_ok() && carol.await.unwrap().is_ok());
        assert_eq!(start.elapsed().as_secs(), 20);
    }
}

/// A caller with units left, who makes a thousand calls at once, takes no more of the room to wait
/// for a limit of all than his own limit could admit while they wait.
#[tokio::test(start_paused = true)]
async fn the_calls_of_one_key_fill_the_queue_of_another_as_far_as_its_limit_admits() {
    for (max, wait, places) in [(5, 60, 10), (5, 600, 55), (2_000, 60, MOST)] {
        let limiter = RateLimiter::memory();
        let own = Rule::new("own", Limit::per_minute(max));
        let of_all = Rule::new("of_all", Limit::new(1, SECOND * 50)).with_wait(SECOND * wait);
        let _ = limiter.acquire(&of_all, &Key::global()).await.unwrap();
        let call = |user: &str| {
            let (limiter, own, of_all) = (limiter.clone(), own.clone(), of_all.clone());
            let user = Key::of(user);
            tokio::spawn(async move {
                let calls = [(&own, &user), (&of_all, &Key::global())];
                limiter.acquire_all(calls).await
            })
        };
        let burst: Vec<_> = (0..MOST + 100).map(|_| call("mallory")).collect();
        settle().await;
        let (refused, waiting): (Vec<_>, Vec<_>) =
            burst.into_iter().partition(JoinHandle::is_finished);
        assert_eq!(waiting.len(), places, "{max} a minute, {wait} s");
        for refused in refused {
            let refused = refused.await.unwrap().unwrap_err();
            assert_eq!(refused.decision().unwrap().rule(), "of_all");
            assert_eq!(refused.retry_after(), Some(SECOND * 50));
        }
        let carol = call("carol");
        settle().await;
        assert_eq!(carol.is_finished(), places == MOST);
    }
}

/// A memory that answers while it is open. For all that the limiter knows it is up.
struct Late {
    memory: MemoryStore,
    asked: AtomicU64,
    is_open: watch::Sender<bool>,
}

impl Late {
    fn open() -> Arc<Self> {
        Arc::new(Self {
            memory: MemoryStore::new(),
            asked: AtomicU64::new(0),
            is_open: watch::Sender::new(true),
        })
    }

    fn asked(&self) -> u64 {
        self.asked.load(Ordering::SeqCst)
    }
}

impl Store for Late {
    fn inner(&self) -> Option<&dyn Store> {
        Some(&self.memory)
    }

    fn acquire<'a>(&'a self, request: Request<'a>) -> Answer<'a, Verdict> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        Answer::later(async move {
            let _ = self.is_open.subscribe().wait_for(|is_open| *is_open).await;
            self.memory.acquire(request).await
        })
    }

    forward!(memory: peek, reset);
}

/// The first in a queue asks a store that is late, and goes; so do others, one after the other. A
/// question is on its way all the time, and is the only one.
#[tokio::test(start_paused = true)]
async fn a_turn_passes_on_when_its_attempt_ends_and_not_when_its_caller_goes() {
    let store = Late::open();
    let limiter = RateLimiter::with_store(Arc::clone(&store));
    let rule = Rule::new("late", Limit::new(1, SECOND * 10))
        .with_wait(SECOND * 3600)
        .with_timeout(SECOND * 30);
    let key = Key::global();
    let _ = limiter.acquire(&rule, &key).await.unwrap();
    let mut waiting = vec![wait(&limiter, &rule, &key)];
    settle().await;
    waiting.extend((1..MOST).map(|_| wait(&limiter, &rule, &key)));
    settle().await;
    let asked = store.asked();
    store.is_open.send_replace(false);
    advance(SECOND * 10).await;
    settle().await;
    assert_eq!(store.asked(), asked + 1, "the first has asked");
    for gone in waiting.drain(..MOST / 2) {
        gone.abort();
        settle().await;
    }
    waiting.extend((0..MOST / 2).map(|_| wait(&limiter, &rule, &key)));
    // A store may be as late as the timeout says, and the turn is that of the attempt.
    advance(SECOND * 10).await;
    settle().await;
    assert_eq!(store.asked(), asked + 1);
    // Nobody knows how long those wait for whom there is no room.
    let refused = limiter.acquire(&rule, &key).await.unwrap_err();
    assert_eq!(refused.retry_after(), Some(Duration::from_millis(50)));
    assert_eq!(store.asked(), asked + 1);

    // What the first has is nobody's: the next is refused once, and served when that is over.
    store.is_open.send_replace(true);
    let start = Instant::now();
    assert!(waiting.swap_remove(0).await.unwrap().is_ok());
    assert_eq!(start.elapsed().as_secs(), 10);
    // The next but one has asked as well, when the next was served.
    assert_eq!(store.asked(), asked + 4);
}

/// A queue that its first caller leaves goes on without it.
#[tokio::test(start_paused = true)]
async fn callers_that_go_leave_the_turn_to_the_next() {
    let limiter = RateLimiter::memory();
    let rule = Rule::new("left", Limit::new(1, SECOND * 10)).with_wait(SECOND * 60);
    let _ = limiter.acquire(&rule, &Key::global()).await.unwrap();
    let start = Instant::now();
    let mut waiting: Vec<Waiting> = (0..10)
        .map(|_| wait(&limiter, &rule, &Key::global()))
        .collect();
    settle().await;
    sleep(SECOND).await;
    for gone in waiting.drain(..9) {
        gone.abort();
        settle().await;
    }
    assert!(waiting.swap_remove(0).await.unwrap().is_ok());
    assert_eq!(start.elapsed().as_secs(), 10);
}
