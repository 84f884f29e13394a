//! [`measure`]: one peer doing one work for a while.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::Failure;
use crate::histogram::{Histogram, median};
use crate::peer::{Kind, Peer};
use crate::server::Server;
use crate::work::Work;

/// The clock is read, and others are let run, once in so many calls of a peer that answers in the
/// process.
const BATCH: u64 = 64;

/// Callers that fill the keys beforehand.
const FILLERS: u64 = 64;

/// What one run gave.
#[derive(Debug, Clone, Copy)]
pub struct Figures {
    pub per_second: f64,
    /// Microseconds; not a number for peers in the process, where reading the clock would be half
    /// of it.
    pub p50: f64,
    pub p99: f64,
    /// The server's microseconds per decision.
    pub server: f64,
    /// Commands sent per decision.
    pub calls: f64,
}

impl Figures {
    /// The median of each figure.
    pub fn median(runs: &[Self]) -> Self {
        let of = |figure: fn(&Self) -> f64| median(runs.iter().map(figure).collect());
        Self {
            per_second: of(|run| run.per_second),
            p50: of(|run| run.p50),
            p99: of(|run| run.p99),
            server: of(|run| run.server),
            calls: of(|run| run.calls),
        }
    }
}

/// A server without keys, and a peer of its own on it: prepared, warmed up, and measured.
pub async fn measure(
    kind: Kind,
    work: Work,
    server: &Server,
    time: Duration,
) -> Result<Figures, Failure> {
    server.empty()?;
    let peer = Arc::new(Peer::open(kind, server, work.rate()).await?);
    for key in 0..work.exhausted() {
        for _ in 0..work.max() {
            peer.admits(&format!("user{key}")).await?;
        }
    }
    fill(Arc::clone(&peer), work.known(), 1).await?;
    let first = load(&peer, kind, work, 0, time / 5).await?;
    server.count_anew()?;
    let start = Instant::now();
    let sum = load(&peer, kind, work, first.calls, time).await?;
    let took = start.elapsed();
    let server_work = server.work()?;

    let decided = sum.decided as f64;
    let admitted = sum.admitted as f64 / decided;
    // PING admits everything. A caller that starts late makes the share of fresh keys a little
    // larger.
    if kind != Kind::Ping && (admitted - work.admitted()).abs() > 0.01 {
        return Err(format!(
            "admitted {admitted:.3} of the calls instead of {}",
            work.admitted()
        )
        .into());
    }
    let (p50, p99) = match kind.is_in_process() {
        true => (f64::NAN, f64::NAN),
        false => (sum.took.quantile(0.5) / 1e3, sum.took.quantile(0.99) / 1e3),
    };
    Ok(Figures {
        per_second: decided / took.as_secs_f64(),
        p50,
        p99,
        server: server_work.microseconds as f64 / decided,
        calls: server_work.calls as f64 / decided,
    })
}

/// Admits so many calls on each key.
pub async fn fill(filler: Arc<Peer>, keys: u64, entries: u32) -> Result<(), Failure> {
    let callers: Vec<_> = (0..FILLERS)
        .map(|caller| {
            let filler = Arc::clone(&filler);
            tokio::spawn(async move {
                for n in (caller..keys * u64::from(entries)).step_by(FILLERS as usize) {
                    if !filler.admits(&format!("user{}", n % keys)).await? {
                        return Err("refused while filling".into());
                    }
                }
                Ok::<_, Failure>(())
            })
        })
        .collect();
    for caller in callers {
        caller.await??;
    }
    Ok(())
}

/// What callers did.
struct Done {
    decided: u64,
    admitted: u64,
    /// The largest number of calls of one caller.
    calls: u64,
    took: Histogram,
}

impl Done {
    fn nothing() -> Self {
        Self {
            decided: 0,
            admitted: 0,
            calls: 0,
            took: Histogram::new(),
        }
    }
}

async fn load(
    peer: &Arc<Peer>,
    kind: Kind,
    work: Work,
    first_call: u64,
    time: Duration,
) -> Result<Done, Failure> {
    let deadline = Instant::now() + time;
    let callers: Vec<_> = (0..work.callers)
        .map(|caller| {
            tokio::spawn(call(
                Arc::clone(peer),
                kind,
                work,
                caller,
                first_call,
                deadline,
            ))
        })
        .collect();
    let mut sum = Done::nothing();
    for caller in callers {
        let done = caller.await??;
        sum.decided += done.decided;
        sum.admitted += done.admitted;
        sum.calls = sum.calls.max(done.calls);
        sum.took.merge(&done.took);
    }
    Ok(sum)
}

async fn call(
    peer: Arc<Peer>,
    kind: Kind,
    work: Work,
    caller: u64,
    first_call: u64,
    deadline: Instant,
) -> Result<Done, Failure> {
    let mut done = Done {
        calls: first_call,
        ..Done::nothing()
    };
    let mut asked = Instant::now();
    while asked < deadline {
        let calls = if kind.is_in_process() { BATCH } else { 1 };
        for _ in 0..calls {
            let user = format!("user{}", work.key(caller, done.calls));
            done.admitted += u64::from(peer.admits(&user).await?);
            done.decided += 1;
            done.calls += 1;
        }
        let answered = Instant::now();
        done.took.add((answered - asked).as_nanos() as u64);
        asked = answered;
        // A caller who is always answered at once must let the others, and the connection, run too.
        if done.calls.is_multiple_of(BATCH) {
            tokio::task::yield_now().await;
            asked = Instant::now();
        }
    }
    Ok(done)
}
