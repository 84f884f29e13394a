//! [`abreast`]: runs cases, some at a time.

use std::any::Any;
use std::collections::VecDeque;
use std::fmt::Debug;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;

/// How many cases run at a time. They mostly wait.
const ABREAST: usize = 4;

/// Runs cases, some at a time, while no other test of this program runs. It fails with all that
/// failed.
pub(crate) fn abreast<T: Debug + Copy + Send>(cases: Vec<T>, run: impl Fn(T) + Sync) {
    let _alone = alone();
    let count = cases.len();
    let (waiting, failures) = (Mutex::new(VecDeque::from(cases)), Mutex::new(Vec::new()));
    let next = || lock(&waiting).pop_front();
    thread::scope(|scope| {
        for _ in 0..ABREAST {
            scope.spawn(|| {
                while let Some(case) = next() {
                    if let Err(error) = catch_unwind(AssertUnwindSafe(|| run(case))) {
                        lock(&failures).push(format!("{case:?}: {}", text(&*error)));
                    }
                }
            });
        }
    });
    let failures = lock(&failures);
    assert!(
        failures.is_empty(),
        "{} of {count} cases failed:\n{}",
        failures.len(),
        failures.join("\n")
    );
}

/// To be held by a test that measures.
pub(crate) fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    lock(&ALONE)
}

/// `RATELIMIT_CASES` chooses the cases whose description holds all of its words.
pub(crate) fn is_chosen(case: &str) -> bool {
    let chosen = std::env::var("RATELIMIT_CASES").unwrap_or_default();
    chosen.split_whitespace().all(|word| case.contains(word))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn text(error: &(dyn Any + Send)) -> String {
    let text = error.downcast_ref::<String>().cloned();
    text.or_else(|| error.downcast_ref::<&str>().map(|&text| text.to_owned()))
        .unwrap_or_default()
}
