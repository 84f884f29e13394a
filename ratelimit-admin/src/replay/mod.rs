//! `replay`: replays a log of requests against several rules, and reports as a table and as a chart
//! how many requests of which keys each would have refused, and for how long.
//!
//! The log is held in memory, at 48 bytes a request.

#![allow(
    clippy::indexing_slicing,
    reason = "keys are known by their places in the log"
)]

mod arguments;
mod candidate;
mod chart;
mod log;
mod read;
mod report;
mod sample;
mod slices;
mod time;

use std::error::Error;
use std::fs::File;
use std::io::{self, BufReader, BufWriter, Cursor, ErrorKind, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use indicatif::{ProgressBar, ProgressFinish, ProgressStyle};

pub(crate) use self::arguments::Args;
use self::read::Read;
use crate::printable::of_error;
use crate::report::failed;

pub(crate) async fn run(args: &Args) -> ExitCode {
    match replay(args).await {
        Ok(()) => ExitCode::SUCCESS,
        // The reader of the output has closed the pipe, as `head` does.
        Err(problem) if matches!(problem.downcast_ref::<io::Error>(), Some(error) if error.kind() == ErrorKind::BrokenPipe) => {
            ExitCode::SUCCESS
        }
        Err(problem) => {
            failed(&problem.to_string());
            ExitCode::from(2)
        }
    }
}

async fn replay(args: &Args) -> Result<(), Box<dyn Error>> {
    let mut out = BufWriter::new(io::stdout().lock());
    if let (Some(requests), []) = (args.sample, args.rules.as_slice()) {
        sample::write(requests, &mut out)?;
        return Ok(out.flush()?);
    }
    let read = read_logs(args)?;
    for (name, bytes) in &read.behind {
        let name = name
            .as_deref()
            .or(args.files.first().and_then(|path| path.to_str()));
        let name = name.filter(|name| *name != STANDARD_INPUT);
        let text = format!(
            "{}: {bytes} bytes behind the end of its gzip are left out",
            name.unwrap_or("standard input")
        );
        // Its reader may be gone.
        let _ = writeln!(io::stderr(), "{}", of_error(&text));
    }
    if read.log.requests().is_empty() {
        return Err("there is no request in the log: it is empty, or holds only a header".into());
    }
    let mut outcomes = Vec::new();
    for candidate in &args.rules {
        let progress = progress(read.log.requests().len() as u64, &candidate.text);
        outcomes.push(candidate.replay(&read.log, &progress).await?);
    }
    report::print(args, &read, &outcomes, &mut out)?;
    if let Some(file) = &args.svg {
        let svg = chart::svg(&read.log, &args.rules, &outcomes)?;
        std::fs::write(file, svg)
            .map_err(|error| format!("cannot write {}: {error}", file.display()))?;
    }
    Ok(out.flush()?)
}

/// Reads the logs that the arguments name. Errors name the file.
fn read_logs(args: &Args) -> Result<Read<'_>, String> {
    let mut read = Read::new(&args.input)?;
    if let Some(requests) = args.sample {
        let mut log = Vec::new();
        sample::write(requests, &mut log)
            .and_then(|()| read.add(Cursor::new(log), None))
            .and_then(|()| read.sorted())
            .map_err(|error| error.to_string())
    } else {
        let input = [PathBuf::from(STANDARD_INPUT)];
        let files = if args.files.is_empty() {
            &input[..]
        } else {
            &args.files
        };
        for path in files {
            let name = name(path);
            add(&mut read, path, (files.len() > 1).then_some(&*name))
                .map_err(|error| format!("{name}: {error}"))?;
        }
        let name = files.first().map(|path| name(path)).unwrap_or_default();
        read.sorted().map_err(|error| match files.len() {
            1 => format!("{name}: {error}"),
            _ => error.to_string(),
        })
    }
}

/// Stands for standard input among the files.
const STANDARD_INPUT: &str = "-";

fn name(path: &Path) -> String {
    if path == Path::new(STANDARD_INPUT) {
        "standard input".to_owned()
    } else {
        path.display().to_string()
    }
}

fn add(read: &mut Read<'_>, path: &Path, name: Option<&str>) -> io::Result<()> {
    if path == Path::new(STANDARD_INPUT) {
        return read.add(io::stdin().lock(), name);
    }
    let file = File::open(path)?;
    let progress = progress(file.metadata()?.len(), "reading");
    let file = BufReader::with_capacity(1 << 16, progress.wrap_read(file));
    read.add(file, name)
}

/// A progress bar on standard error, if that is a terminal.
fn progress(length: u64, what: &str) -> ProgressBar {
    let style = ProgressStyle::with_template("{msg} {wide_bar} {percent} %, {eta} left");
    ProgressBar::new(length)
        .with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
        .with_message(what.to_owned())
        .with_finish(ProgressFinish::AndClear)
}
