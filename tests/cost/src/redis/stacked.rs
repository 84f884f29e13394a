//! [`Stacked`]: what stacks of rules, which are charged together, cost a redis-server.

use std::fmt;
use std::sync::Arc;

use ratelimit_runtime::__private::BuiltInStore as _;
use ratelimit_runtime::store::Request;
use ratelimit_runtime::{Algorithm, Limit, RedisStore};
use tokio::runtime::Runtime;
use tokio::task::JoinSet;

use super::server::CountedServer;
use super::table::WINDOW;

/// Users, each with two keys.
const USERS: u64 = 128;
/// Of them, those for whom calls are made one after the other.
const FEW: u64 = 16;
/// How often each calls while it is counted.
const CALLS: u64 = 3;
/// Of the first rule and of the second, which refuses.
const MAX: [u64; 2] = [100, 8];

/// Who asks, and what it comes to.
pub const STACKED_COLUMNS: [&str; 3] = ["admitted", "one caller", "refused"];

/// The instructions of a stack of two rules of one algorithm, in the order of [`STACKED_COLUMNS`].
#[derive(Debug)]
pub struct Stacked(pub Vec<(Algorithm, [u64; STACKED_COLUMNS.len()])>);

impl Stacked {
    /// Measures a row for every algorithm.
    pub fn measure(server: &mut CountedServer) -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        let rows = Algorithm::ALL.iter().map(|&algorithm| {
            server.empty();
            // What is refused is asked again.
            let store = RedisStore::new(&server.url()).unwrap().deny_cache(false);
            store.answers_within(super::COUNTED);
            runtime.block_on(store.ready()).unwrap();
            let store = Arc::new(store);
            let ask = |users, calls| asked(&runtime, &store, algorithm, users, calls);
            assert_eq!(ask(0..USERS, 1), USERS);
            let admitted = counted(server, USERS * CALLS, || ask(0..USERS, CALLS));
            let alone = counted(server, FEW * CALLS, || {
                (0..FEW).map(|user| ask(user..user + 1, CALLS)).sum()
            });
            ask(0..USERS, MAX[1]);
            let refused = server.instructions(|| assert_eq!(ask(0..USERS, CALLS), 0));
            (algorithm, [admitted, alone, refused / (USERS * CALLS)])
        });
        Self(rows.collect())
    }
}

/// The instructions of each of so many stacks, all of which have to be admitted.
fn counted(server: &mut CountedServer, stacks: u64, ask: impl FnOnce() -> u64) -> u64 {
    server.instructions(|| assert_eq!(ask(), stacks)) / stacks
}

/// So many calls for each user, all users at once; how many were admitted.
fn asked(
    runtime: &Runtime,
    store: &Arc<RedisStore>,
    algorithm: Algorithm,
    users: std::ops::Range<u64>,
    calls: u64,
) -> u64 {
    runtime.block_on(async {
        let mut running = JoinSet::new();
        for user in users {
            let store = Arc::clone(store);
            running.spawn(async move {
                let [first, second] = [format!("first:user{user}"), format!("second:user{user}")];
                let [few, many] = MAX.map(|max| [Limit::new(max, WINDOW)]);
                let requests = [(&first, &few), (&second, &many)]
                    .map(|(key, limits)| Request::new(key.as_bytes(), algorithm, limits));
                let mut admitted = 0;
                for _ in 0..calls {
                    let verdicts = store.acquire_all(None, &requests).await.unwrap().verdicts;
                    admitted += u64::from(
                        verdicts.len() == 2 && verdicts.iter().all(|verdict| verdict.allowed),
                    );
                }
                admitted
            });
        }
        running.join_all().await.into_iter().sum()
    })
}

impl fmt::Display for Stacked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        super::rows(f, "instructions of two rules", STACKED_COLUMNS, &self.0)
    }
}
