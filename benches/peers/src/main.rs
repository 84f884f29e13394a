//! This crate beside its peers, on one machine in one run. `scripts/bench.sh` runs it.
//!
//!     cargo run --release -- [--quick] [throughput]

#![forbid(unsafe_code)]

use std::process::ExitCode;
use std::time::Duration;

mod histogram;
mod measure;
mod peer;
mod server;
mod server_time;
mod table;
mod throughput;
mod work;

use self::server::Server;
use self::server_time::ServerTime;
use self::throughput::Throughput;

pub type Failure = Box<dyn std::error::Error + Send + Sync>;

fn main() -> ExitCode {
    // One worker: the other core is the server's.
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
    let done =
        runtime.map_err(Failure::from).and_then(|runtime| runtime.block_on(async { tokio::spawn(run()).await? }));
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn run() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let quick = arguments.iter().any(|argument| argument == "--quick");
    let part = arguments.iter().find(|argument| !argument.starts_with("--")).map_or("all", String::as_str);
    let server = Server::start()?;
    match part {
        "throughput" => {
            let (rounds, time) = if quick { (1, Duration::from_millis(200)) } else { (3, Duration::from_millis(600)) };
            print!("{}", Throughput::measure(&server, rounds, time).await?.report());
        }
        "server-time" => {
            let (rounds, keys) = if quick { (3, 50) } else { (7, 200) };
            print!("{}", ServerTime::measure(&server, rounds, keys).await?.report());
        }
        other => return Err(format!("there is no part {other:?}").into()),
    }
    Ok(())
}
