//! Instructions and allocations per call, by valgrind: they do not depend on the machine's mood.
//! The difference between a long run and a short one leaves out how the program starts.

use std::process::Command;

use crate::Failure;
use crate::parts::in_process::{ALL, Asking};
use crate::progress;
use crate::table::{Table, number, ratio};

/// Far enough from the start for everything to have its size.
const SHORT: u64 = 2_000;

/// governor's clock is calibrated at the start, for a time that differs: more calls make little of
/// that.
fn long(asking: Asking) -> u64 {
    match asking {
        Asking::Governor | Asking::GovernorKeyGiven | Asking::GovernorRefused => 100_000,
        _ => 5_000,
    }
}

#[derive(Debug, Clone, Copy)]
pub struct PerCall {
    pub instructions: f64,
    pub allocations: f64,
}

/// What each way to ask takes.
pub struct Instructions(Result<Vec<(Asking, PerCall)>, String>);

impl Instructions {
    /// Nothing but a reason where there is no valgrind.
    pub fn measure() -> Self {
        let each = |asking: Asking| {
            progress(format_args!("instructions: {}", asking.name()));
            per_call(asking).map(|figures| (asking, figures))
        };
        Self(ALL.into_iter().map(each).collect::<Result<_, _>>().map_err(|error| error.to_string()))
    }

    pub fn of(&self, asking: Asking) -> PerCall {
        let found = self.0.iter().flatten().find(|(other, _)| *other == asking);
        found.map_or(PerCall { instructions: f64::NAN, allocations: f64::NAN }, |(_, figures)| *figures)
    }

    pub fn report(&self) -> String {
        let calls = match &self.0 {
            Ok(calls) => calls,
            Err(why) => return format!("No instructions were counted: {why}.\n"),
        };
        let mut table = Table::new(["per call", "instructions", "× governor", "allocations"]);
        for (asking, figures) in calls {
            let governor = if asking.is_refused() { Asking::GovernorRefused } else { Asking::Governor };
            table.row([
                asking.name().to_owned(),
                format!("{:.0}", figures.instructions),
                ratio(figures.instructions / self.of(governor).instructions),
                number(figures.allocations),
            ]);
        }
        table.to_string()
    }
}

fn per_call(asking: Asking) -> Result<PerCall, Failure> {
    let per_call = |tool: &[&str], count: fn(&str) -> Option<f64>| {
        let [less, more] = [SHORT, long(asking)].map(|calls| run(tool, asking, calls, count));
        Ok::<_, Failure>((more? - less?) / (long(asking) - SHORT) as f64)
    };
    Ok(PerCall {
        instructions: per_call(&["--tool=callgrind", "--callgrind-out-file=/dev/null"], |said| {
            after(said, "Collected :")
        })?,
        allocations: per_call(&["--tool=dhat", "--dhat-out-file=/dev/null"], |said| {
            let (_, blocks) = said.split_once("Total:")?.1.split_once(" bytes in ")?;
            blocks.split_once(" blocks")?.0.replace(',', "").parse().ok()
        })?,
    })
}

fn after(said: &str, label: &str) -> Option<f64> {
    said.split_once(label)?.1.split_whitespace().next()?.parse().ok()
}

/// This program, in valgrind, asking so many times.
fn run(tool: &[&str], asking: Asking, calls: u64, count: fn(&str) -> Option<f64>) -> Result<f64, Failure> {
    let index = ALL.iter().position(|other| *other == asking).unwrap_or_default();
    let mut command = Command::new("valgrind");
    command.args(tool).arg(std::env::current_exe()?).args(["asking", &index.to_string(), &calls.to_string()]);
    let output = command.output().map_err(|error| format!("valgrind cannot be run ({error})"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    match count(&said) {
        Some(count) if output.status.success() => Ok(count),
        _ => Err(format!("valgrind said: {said}").into()),
    }
}
