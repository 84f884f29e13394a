//! This crate beside its peers, on one machine in one run. `scripts/bench.sh` runs it.
//!
//! ```text
//! ratelimit-peers [--quick] [PART]
//! ratelimit-peers [--quick] all FOLDER
//! ```
//!
//! prints one part (throughput, callers, service, prefetch, open-loop, server-time, in-process,
//! bytes or growth), or all of it. Then the folder is given the charts and the sentences of the
//! READMEs, and has in a file what another program printed: `compile-cost`.

#![forbid(unsafe_code)]

use std::fmt::Display;
use std::fs;
use std::path::Path;
use std::process::ExitCode;
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use tokio::runtime::{Builder, Runtime};

mod histogram;
mod measure;
mod page;
mod parts;
mod peer;
mod proxy;
mod server;
mod table;
mod work;

use self::page::budgets::{self, Measured};
use self::page::printed::Printed;
use self::page::{chart, curves, headline, machine};
use self::parts::bytes::Bytes;
use self::parts::callers::Callers;
use self::parts::growth::{self, Extent};
use self::parts::in_process::{self, InProcess};
use self::parts::open_loop::{self, OpenLoop};
use self::parts::prefetch::{Prefetch, Rounds};
use self::parts::server_time::{self, Bucket, Case, ServerTime};
use self::parts::service::Service;
use self::parts::throughput::Throughput;
use self::peer::Kind;
use self::server::Server;

/// Where `scripts/bench.sh` puts them.
const CURVES: &str = "![Latency over the rate of arrivals](../../docs/open-loop.svg)";
const BY_CALLERS: &str =
    "![Decisions and latency over the number of callers](../../docs/callers.svg)";

pub type Failure = Box<dyn std::error::Error + Send + Sync>;

fn main() -> ExitCode {
    // One worker: the other core is the server's.
    exit(runtime(1).and_then(|runtime| runtime.block_on(async { tokio::spawn(run()).await? })))
}

fn runtime(workers: usize) -> Result<Runtime, Failure> {
    Ok(Builder::new_multi_thread()
        .worker_threads(workers)
        .enable_all()
        .build()?)
}

fn exit(done: Result<(), Failure>) -> ExitCode {
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Says on the standard error what is being done, and how many seconds after the start.
fn progress(what: impl Display) {
    static START: LazyLock<Instant> = LazyLock::new(Instant::now);
    eprintln!("{:>4} s  {what}", START.elapsed().as_secs());
}

async fn run() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let quick = arguments.iter().any(|argument| argument == "--quick");
    let named: Vec<&str> = arguments
        .iter()
        .map(String::as_str)
        .filter(|argument| !argument.starts_with("--"))
        .collect();
    let server = Arc::new(Server::start()?);
    in_process::install();
    match &named[..] {
        ["throughput"] => {
            print!("{}", throughput(&server, quick, 1).await?.report());
            print!("\n{}", throughput(&server, quick, 2).await?.rates());
        }
        ["callers"] => {
            print!("{}", callers(&server, quick, 1).await?.report());
            print!("{}", callers(&server, quick, 2).await?.report());
        }
        ["service"] => print!("{}", service(&server, quick).report()),
        ["prefetch"] => print!("{}", prefetch(&server, quick).await?.report()),
        ["server-time"] => print!("{}", server_time(&server, quick).await.report()),
        ["in-process"] => print!("{}", in_process(quick).report()),
        ["open-loop"] => {
            let capacities = open_loop::capacities(&throughput(&server, quick, 1).await?);
            print!(
                "{}",
                OpenLoop::measure(&server, capacities?, rounds(quick))
                    .await
                    .report()
            );
        }
        ["bytes"] => print!("{}", bytes(&server, quick).await.report()),
        ["growth"] => print!("{}", growth::report(&server, extent(quick), None).await),
        ["all", folder] => print!("{}", all(&server, quick, folder.as_ref()).await?),
        other => return Err(format!("this is not known: {other:?}").into()),
    }
    Ok(())
}

async fn all(server: &Arc<Server>, quick: bool, folder: &Path) -> Result<String, Failure> {
    let compile = Printed(fs::read_to_string(folder.join("compile-cost"))?);
    let machine = machine::report(server)?;
    let two_workers = throughput(server, quick, 2).await?.rates();
    let throughput = throughput(server, quick, 1).await?;
    let by_callers = callers(server, quick, 1).await?;
    let by_callers_of_two = callers(server, quick, 2).await?.report();
    let service = service(server, quick);
    let prefetch = prefetch(server, quick).await?;
    let open_loop =
        OpenLoop::measure(server, open_loop::capacities(&throughput)?, rounds(quick)).await;
    fs::write(folder.join("performance.svg"), chart::draw(&throughput))?;
    fs::write(folder.join("callers.svg"), page::callers::draw(&by_callers))?;
    fs::write(folder.join("open-loop.svg"), curves::draw(&open_loop))?;
    fs::write(
        folder.join("headlines"),
        headline::sentences(&throughput, &prefetch),
    )?;
    let server_time = server_time(server, quick).await;
    let in_process = in_process(quick);
    let bytes = bytes(server, quick).await;
    let unbatched = server_time.of(Case {
        bucket: Bucket::Log { limits: 1 },
        entries: 5,
        admitted: true,
    });
    let ping = throughput.of(Kind::Ping, work::DISTINCT, 512);
    let growth = growth::report(server, extent(quick), ping.map(|ping| (ping, unbatched))).await;
    let budgets = budgets::report(&Measured {
        throughput: &throughput,
        callers: &by_callers,
        service: &service,
        prefetch: &prefetch,
        open_loop: &open_loop,
        in_process: &in_process,
        bytes: &bytes,
        compile: &compile,
    });
    let rounds = if quick {
        " This was a quick run: one short round of most."
    } else {
        ""
    };
    let sections = [
        ("Budgets", budgets),
        (
            "Beside its peers",
            format!("{}\n{two_workers}", throughput.report()),
        ),
        (
            "By the number of callers",
            format!("{BY_CALLERS}\n\n{}{by_callers_of_two}", by_callers.report()),
        ),
        ("A service", service.report()),
        ("With prefetch", prefetch.report()),
        (
            "Arrivals that do not wait",
            format!("{CURVES}\n\n{}", open_loop.report()),
        ),
        ("Server time of one decision", server_time.report()),
        ("In the process", in_process.report()),
        ("Bytes", bytes.report()),
        ("Compiling", compile.report()),
        ("Growth", growth),
    ];
    let sections = sections.map(|(title, text)| format!("\n## {title}\n\n{text}"));
    Ok(format!("{machine}{rounds}\n{}", sections.concat()))
}

async fn throughput(
    server: &Arc<Server>,
    quick: bool,
    workers: usize,
) -> Result<Throughput, Failure> {
    let (rounds, time) = (if quick { 1 } else { 5 }, Duration::from_millis(200));
    let server = Arc::clone(server);
    on_workers(workers, async move {
        Throughput::measure(&server, workers, rounds, time).await
    })
    .await
}

async fn callers(server: &Arc<Server>, quick: bool, workers: usize) -> Result<Callers, Failure> {
    let (rounds, time) = if quick {
        (1, Duration::from_millis(150))
    } else {
        (3, Duration::from_millis(200))
    };
    let server = Arc::clone(server);
    on_workers(workers, async move {
        Callers::measure(&server, workers, rounds, time).await
    })
    .await
}

/// On a thread that is of no runtime: the service has one of its own.
fn service(server: &Server, quick: bool) -> Service {
    let (rounds, time) = if quick { (1, 150) } else { (5, 300) };
    let measure = || Service::measure(server, rounds, Duration::from_millis(time));
    std::thread::scope(|scope| {
        let measured = scope.spawn(measure).join();
        measured.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

async fn prefetch(server: &Arc<Server>, quick: bool) -> Result<Prefetch, Failure> {
    let (count, [waiting, steady, shared]) = if quick {
        (1, [150, 1_000, 4_000])
    } else {
        (3, [300, 2_000, 4_000])
    };
    let rounds = Rounds {
        count,
        waiting: Duration::from_millis(waiting),
        steady: Duration::from_millis(steady),
        shared: Duration::from_millis(shared),
    };
    let server = Arc::clone(server);
    on_workers(1, async move { Prefetch::measure(&server, rounds).await }).await
}

/// On a runtime of so many workers. Two share their cores with the server where there are no more,
/// and pay for what they have in common: that is how services run.
async fn on_workers<T: Send + 'static>(
    workers: usize,
    measure: impl Future<Output = T> + Send + 'static,
) -> Result<T, Failure> {
    let runtime = runtime(workers)?;
    let measured = runtime.spawn(measure).await;
    // Connections of peers may still have tasks; nothing of them is waited for.
    runtime.shutdown_background();
    Ok(measured?)
}

async fn server_time(server: &Server, quick: bool) -> ServerTime {
    let (rounds, keys) = if quick { (3, 50) } else { (7, 200) };
    ServerTime::measure(server, server_time::cases(), rounds, keys).await
}

/// Of the open loop.
fn rounds(quick: bool) -> usize {
    if quick { 1 } else { 5 }
}

fn in_process(quick: bool) -> InProcess {
    let (rounds, time) = if quick {
        (1, Duration::from_millis(100))
    } else {
        (5, Duration::from_millis(300))
    };
    InProcess::measure(rounds, time)
}

async fn bytes(server: &Server, quick: bool) -> Bytes {
    Bytes::measure(server, if quick { 20_000 } else { 250_000 }).await
}

fn extent(quick: bool) -> Extent {
    match quick {
        true => Extent {
            max: 1_000,
            keys: 10_000,
            callers: 1_024,
            rounds: 1,
            time: Duration::from_millis(100),
        },
        false => Extent {
            max: 100_000,
            keys: 1_000_000,
            callers: 4_096,
            rounds: 5,
            time: Duration::from_millis(500),
        },
    }
}
