//! What the command line says.

use std::path::PathBuf;

use clap::{Parser, ValueEnum};

use crate::candidate::Candidate;
use crate::time::Unit;

/// Which limit should I set? Replays a log of requests against candidate rules, and says whom each
/// would have refused.
///
/// The log holds one request a line, with its time, its key (what requests are counted by: a user,
/// an address) and, where requests differ in weight, its cost, as it was estimated and as it was.
/// What was admitted and did cost more is a debt, which later requests wait for. Every rule sees
/// the whole log, on a clock that moves as the log says. Requests that are refused are not tried
/// again. A log does not say when calls end, so limits on calls in flight (`concurrent`) are not
/// replayed.
#[derive(Parser)]
#[command(name = "replay", after_help = EXAMPLES, arg_required_else_help = true)]
pub(crate) struct Args {
    /// The log; standard input unless given
    #[arg(value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,

    /// A candidate: [ALGORITHM] LIMIT[, LIMIT] [burst N] [block TIME[..TIME]]; give any number
    #[arg(short, long = "rule", value_name = "RULE", required_unless_present = "sample")]
    pub(crate) rules: Vec<Candidate>,

    /// Draw the share that each rule refuses over time
    #[arg(long, value_name = "FILE", requires = "rules")]
    pub(crate) svg: Option<PathBuf>,

    /// How many of the keys that a rule refuses most to list
    #[arg(long, value_name = "N", default_value_t = 5, requires = "rules")]
    pub(crate) worst: usize,

    /// List keys as they are; otherwise as hashes, which differ from run to run
    #[arg(long, requires = "rules")]
    pub(crate) show_keys: bool,

    /// Make up a log of N requests instead of reading one; without a rule, print it
    #[arg(long, value_name = "N", conflicts_with = "file")]
    pub(crate) sample: Option<u32>,

    #[command(flatten)]
    pub(crate) input: Input,
}

/// How to read the log.
#[derive(clap::Args)]
#[command(next_help_heading = "The log")]
pub(crate) struct Input {
    /// Its format; unless given, JSON lines where the first line begins with a brace, else CSV
    #[arg(long, value_enum)]
    pub(crate) format: Option<Format>,

    /// The field with the time: RFC 3339, or a number of seconds, milliseconds or microseconds
    #[arg(long, value_name = "NAME", default_value = "time")]
    pub(crate) time_field: String,

    /// The field with the key
    #[arg(long, value_name = "NAME", default_value = "key")]
    pub(crate) key_field: String,

    /// The field with the cost; a request without one costs 1
    #[arg(long, value_name = "NAME", default_value = "cost")]
    pub(crate) cost_field: String,

    /// The field with what a request did cost; where there is one, its cost is the estimate
    #[arg(long, value_name = "NAME", default_value = "actual_cost")]
    pub(crate) actual_cost_field: String,

    /// What a time that is a number counts; unless given, its size tells, as it does for all
    /// moments from 1973 to 5138
    #[arg(long, value_enum, value_name = "UNIT")]
    pub(crate) time_unit: Option<Unit>,

    /// Leave out lines that cannot be read, and say how many; otherwise the first one ends the
    /// program
    #[arg(long)]
    pub(crate) skip_bad_lines: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// With a header, or with the columns time, key and cost
    Csv,
    /// An object a line; fields with other names are ignored
    Json,
}

const EXAMPLES: &str = "\
Rules:
  5/1m                                 at most 5 in any minute
  5/1m, 50/1d                          and at most 50 in any day
  fixed_window 100/1h                  by another algorithm than sliding_window
  token_bucket 10/1s burst 50          10 a second, and 50 at once
  5/1m block 10m                       who exceeds it is refused for ten minutes
  5/1m block 1m..1h                    for a minute, then each time for twice as long, up to an hour

Logs:
  time,key,cost                        {\"time\": 1767225600.25, \"key\": \"alice\"}
  2026-01-01T00:00:00.25Z,alice,1      {\"time\": \"2026-01-01T00:00:01Z\", \"key\": \"bob\", \"cost\": 3}

  Lines may stand in any order: they are replayed in the order of their times.

Try it:
  replay --sample 1000000 --rule 60/1m --rule 'token_bucket 1/1s burst 30' --svg refused.svg
  replay --key-field remote_addr --rule 5/1s --rule 100/1m access.jsonl";
