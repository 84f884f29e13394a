//! Runs cases, and prints what came of them: the lines of libtest, and the table.
//!
//! libtest cannot run them. Most cases are rows of a table, and not functions. Each gives rows of
//! another table, which is printed once all have ended, in the order of `main.rs` and not in that
//! of their ends; libtest takes no value from a test, and runs nothing after the last one. It also
//! waits for ever for a case that hangs, and has as many run as there are cores: here four do on
//! every machine, because they mostly wait, and because the servers of more would make each other
//! late. Arguments and lines are those of libtest, as far as scripts use them.

use std::any::Any;
use std::collections::VecDeque;
use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::ExitCode;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use tokio::runtime::Builder;

use super::row::{Row, table};
use super::{log, witness};
use crate::support::random::seed;

/// How many cases run at the same time. They mostly wait.
const ABREAST: usize = 4;
/// A case that takes longer hangs, unless it was asked to.
const PATIENCE: Duration = Duration::from_secs(60);
const SOAK: &str = "RATELIMIT_SOAK_MINUTES";
/// Above it a report is written by hand.
const MARK: &str = "<!-- generated -->";
const REPORT: &str = "RATELIMIT_FAULTS_REPORT";

type Run = Box<dyn FnOnce() -> Vec<Row> + Send>;

/// One fault to be tried.
pub(crate) struct Case {
    name: &'static str,
    run: Run,
}

impl Case {
    pub(crate) fn new<F: Future<Output: Into<Vec<Row>>>>(
        name: &'static str,
        case: impl FnOnce() -> F + Send + 'static,
    ) -> Self {
        Self {
            name,
            run: Box::new(move || run(case)),
        }
    }
}

/// For how long random faults go on: half a minute, unless said.
pub(crate) fn soak() -> Duration {
    let minutes = std::env::var(SOAK)
        .ok()
        .and_then(|minutes| minutes.parse().ok());
    Duration::from_secs_f64(60.0 * minutes.unwrap_or(0.5))
}

/// The case has a thread to itself, and may block it: its callers are on another.
fn run<F: Future<Output: Into<Vec<Row>>>>(case: impl FnOnce() -> F) -> Vec<Row> {
    let runtime = Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .expect("a runtime");
    let rows = runtime.block_on(async { tokio::time::timeout(PATIENCE + soak(), case()).await });
    // What hangs is not waited for.
    runtime.shutdown_background();
    rows.unwrap_or_else(|_| panic!("it hangs for {PATIENCE:?}"))
        .into()
}

/// Cases run whose names hold one of the arguments, all of them without any; and none whose name
/// holds an argument behind `--skip`.
fn wanted(name: &str) -> bool {
    let mut arguments = std::env::args().skip(1);
    let (mut filters, mut skipped) = (Vec::new(), Vec::new());
    while let Some(word) = arguments.next() {
        match &*word {
            "--skip" => skipped.extend(arguments.next()),
            word if word.starts_with('-') => {}
            _ => filters.push(word),
        }
    }
    let has = |text: &String| name.contains(&**text);
    (filters.is_empty() || filters.iter().any(has)) && !skipped.iter().any(has)
}

struct Outcome {
    name: &'static str,
    result: Result<Vec<Row>, String>,
}

/// Runs what the arguments ask for.
pub(crate) fn main(cases: Vec<Case>) -> ExitCode {
    let order: Vec<_> = cases.iter().map(|case| case.name).collect();
    let (wanted, others): (Vec<_>, Vec<_>) = cases.into_iter().partition(|case| wanted(case.name));
    if std::env::args().any(|word| word == "--list") {
        for case in wanted {
            println!("{}: test", case.name);
        }
        return ExitCode::SUCCESS;
    }
    log::listen();
    witness::watch();
    println!(
        "\nrunning {} tests (RATELIMIT_SEED={})",
        wanted.len(),
        seed()
    );
    let start = Instant::now();
    let mut outcomes = run_all(wanted);
    outcomes.sort_by_key(|outcome| order.iter().position(|name| *name == outcome.name));
    let took = start.elapsed();

    let rows: Vec<Row> = outcomes
        .iter()
        .filter_map(|outcome| outcome.result.as_ref().ok())
        .flatten()
        .cloned()
        .collect();
    println!("\n{}", table(&rows));
    let failures: Vec<_> = outcomes
        .iter()
        .filter_map(|o| o.result.as_ref().err().map(|why| (o.name, why)))
        .collect();
    for (name, why) in &failures {
        println!("---- {name} ----\n{why}\n");
    }
    let failed = failures.len();
    let passed = outcomes.len() - failed;
    if failed == 0 && others.is_empty() {
        report(&table(&rows));
    }
    println!(
        "test result: {}. {passed} passed; {failed} failed; 0 ignored; 0 measured; {} filtered \
         out; finished in {:.2}s\n",
        if failed == 0 { "ok" } else { "FAILED" },
        others.len(),
        took.as_secs_f64()
    );
    // As libtest does.
    if failed == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(101)
    }
}

fn run_all(cases: Vec<Case>) -> Vec<Outcome> {
    let queue = Mutex::new(VecDeque::from(cases));
    let outcomes = Mutex::new(Vec::new());
    let work = || {
        loop {
            // A statement of its own, so that the queue is not locked while the case runs.
            let next = lock(&queue).pop_front();
            let Some(case) = next else { return };
            let start = Instant::now();
            let outcome = Outcome {
                name: case.name,
                result: guarded(case),
            };
            let word = match &outcome.result {
                Err(_) => "FAILED",
                Ok(_) => "ok",
            };
            println!(
                "test {} ... {word} ({:.1} s)",
                outcome.name,
                start.elapsed().as_secs_f64()
            );
            let _ = std::io::stdout().flush();
            lock(&outcomes).push(outcome);
        }
    };
    thread::scope(|scope| {
        for _ in 0..ABREAST {
            scope.spawn(work);
        }
    });
    outcomes
        .into_inner()
        .unwrap_or_else(PoisonError::into_inner)
}

/// A case that panics ends alone, and says why.
fn guarded(case: Case) -> Result<Vec<Row>, String> {
    let (name, start) = (case.name, Instant::now());
    let thread = thread::Builder::new()
        .name(name.to_owned())
        .spawn(case.run)
        .map_err(|error| error.to_string())?;
    thread.join().map_err(|panic| {
        let seed = seed();
        format!(
            "{}\n(seed {seed}, after {:?})",
            message(panic.as_ref()),
            start.elapsed()
        )
    })
}

fn message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("it panicked")
}

/// Writes the table below the mark of the file that is named for it.
fn report(table: &str) {
    let Some(path) = std::env::var_os(REPORT) else {
        return;
    };
    // From the root of the workspace, where `cargo` is called; it runs tests in the folder of their
    // package.
    let path = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/..")).join(path);
    let text = fs::read_to_string(&path).unwrap_or_default();
    let above = text
        .split_once(MARK)
        .map_or(text.as_str(), |(above, _)| above);
    let text = format!("{}\n\n{MARK}\n\n{table}", above.trim_end());
    fs::write(&path, text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
