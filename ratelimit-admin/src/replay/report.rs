//! The report, as tables in Markdown.

use std::hash::{BuildHasher, RandomState};
use std::io::{self, Write};
use std::time::Duration;

use comfy_table::{CellAlignment, Table, presets};
use indicatif::HumanCount;

use crate::printable::escaped;
use crate::replay::arguments::Args;
use crate::replay::candidate::Outcome;
use crate::replay::read::Read;
use crate::replay::time::{Part, rfc3339};

/// The most other fields with addresses that are named.
const MOST_OTHERS: usize = 5;

pub(crate) fn print(
    args: &Args,
    read: &Read<'_>,
    outcomes: &[Outcome],
    out: &mut impl Write,
) -> io::Result<()> {
    let log = &read.log;
    let (first, last) = log.span();
    let (requests, keys) = (log.requests().len(), log.keys().len());
    let (first, last) = (rfc3339(first), rfc3339(last));
    writeln!(
        out,
        "requests: {}, keys: {}, from {first} to {last}",
        count(requests),
        count(keys)
    )?;
    notes(args, read, out)?;
    if !args.input.status.is_empty() {
        let counted = log
            .requests()
            .iter()
            .filter(|request| request.actual_cost != Some(0))
            .count();
        writeln!(
            out,
            "counted: {}, by their status; others are refused too, and count nothing",
            count(counted)
        )?;
    }

    writeln!(out)?;
    let mut table = table(
        &["rule"],
        &[
            "refused",
            "share",
            "keys refused",
            "share of keys",
            "longest wait",
        ],
    );
    for (candidate, outcome) in args.rules.iter().zip(outcomes) {
        table.add_row([
            candidate.text.clone(),
            count(outcome.refused()),
            percent(share(outcome.refused(), requests)),
            count(outcome.keys_refused()),
            percent(share(outcome.keys_refused(), keys)),
            wait(outcome.longest_wait),
        ]);
    }
    writeln!(out, "{table}")?;
    for (candidate, outcome) in args
        .rules
        .iter()
        .zip(outcomes)
        .filter(|(_, outcome)| outcome.too_heavy > 0)
    {
        let (rule, heavy) = (&candidate.text, HumanCount(outcome.too_heavy));
        writeln!(
            out,
            "{rule}: {heavy} of the refused cost more than it ever admits, however long they wait"
        )?;
    }
    worst_hit(args, read, outcomes, out)
}

/// Writes how the log was read, and what was left out.
fn notes(args: &Args, read: &Read<'_>, out: &mut impl Write) -> io::Result<()> {
    for taken in &read.taken {
        let samples = taken.shown(args.show_keys).join(", ");
        let such_as = if samples.is_empty() { "" } else { ", such as " };
        writeln!(out, "key: {}{such_as}{samples}", taken.field)?;
        if let Some(forwarded) = &taken.forwarded {
            writeln!(out, "behind the trusted proxies: `{forwarded}`")?;
        }
        if !taken.others.is_empty() {
            let mut names = taken
                .others
                .iter()
                .take(MOST_OTHERS)
                .map(|name| format!("`{name}`"));
            let mut others = names.by_ref().collect::<Vec<_>>().join(", ");
            if taken.others.len() > MOST_OTHERS {
                others += " and others";
            }
            let proxies = match args.input.trusted_proxies.as_slice() {
                [] => ", --trusted-proxies the client behind proxies",
                _ => "",
            };
            writeln!(
                out,
                "addresses also stand in {others}: --key-field takes one of them{proxies}"
            )?;
        }
        if taken.unnamed > 0 {
            writeln!(
                out,
                "in {} requests it is the address of a proxy, which names no client",
                count(taken.unnamed)
            )?;
        }
        if taken.lists && args.input.trusted_proxies.is_empty() {
            writeln!(
                out,
                "it holds lists of addresses, of which the last one is taken; --trusted-proxies \
                 says which are proxies"
            )?;
        }
        if let Some((id, stage)) = taken.stages {
            writeln!(
                out,
                "each line counts, also of requests with several of one `{id}`: leave the lines of \
                 one `{stage}`"
            )?;
        }
        if let Some((time, others)) = &taken.times {
            writeln!(
                out,
                "time: `{time}`; other times stand in {others}: --time-field takes one of them"
            )?;
        }
    }
    if read.log.out_of_order > 0 {
        writeln!(
            out,
            "out of order: {}; all are replayed in the order of their times",
            count(read.log.out_of_order)
        )?;
    }
    if read.log.requests().iter().any(|request| request.cost != 1) {
        let field = escaped(&args.input.cost_field);
        writeln!(out, "requests cost what `{field}` says")?;
    }
    for part in &read.times_without {
        let part = match part {
            Part::Offset => {
                writeln!(out, "times without an offset are taken for UTC")?;
                continue;
            }
            Part::Year => "year",
            Part::Date => "date",
        };
        writeln!(
            out,
            "of times without a {part}, the first is taken for the last one before now, others for \
             the nearest to the line above, all for UTC"
        )?;
    }
    for name in &read.repeated {
        writeln!(out, "given twice, and counted once: {}", escaped(name))?;
    }
    if let Some(first) = &read.first_bad {
        writeln!(
            out,
            "lines left out: {}; the first is {first}",
            HumanCount(read.bad_lines)
        )?;
    }
    Ok(())
}

fn worst_hit(
    args: &Args,
    read: &Read<'_>,
    outcomes: &[Outcome],
    out: &mut impl Write,
) -> io::Result<()> {
    let mut requests_of_key = vec![0_usize; read.log.keys().len()];
    for request in read.log.requests() {
        requests_of_key[request.key] += 1;
    }
    // With a new key in each run, so that the hashes of all addresses cannot be computed
    // beforehand.
    let hasher = RandomState::new();
    let mut table = table(&["rule", "key"], &["requests", "refused", "share"]);
    for (candidate, outcome) in args.rules.iter().zip(outcomes) {
        for (key, refused) in outcome.worst_hit(args.worst) {
            let name = &*read.log.keys()[key];
            let refused = usize::try_from(refused).unwrap_or(usize::MAX);
            table.add_row([
                candidate.text.clone(),
                if args.show_keys {
                    shown(name)
                } else {
                    format!("#{:016x}", hasher.hash_one(name))
                },
                count(requests_of_key[key]),
                count(refused),
                percent(share(refused, requests_of_key[key])),
            ]);
        }
    }
    if table.is_empty() {
        return Ok(());
    }
    let hidden = if args.show_keys {
        ""
    } else {
        " (hashed; --show-keys shows them)"
    };
    writeln!(out, "\nThe keys that are refused most{hidden}:\n\n{table}")
}

/// A table with columns of text, then columns of numbers.
fn table(texts: &[&str], numbers: &[&str]) -> Table {
    let mut table = Table::new();
    table
        .load_style(presets::ASCII_MARKDOWN)
        .set_header(texts.iter().chain(numbers));
    for column in table.column_iter_mut().skip(texts.len()) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

fn count(count: usize) -> String {
    HumanCount(count as u64).to_string()
}

/// The share in percent.
#[allow(clippy::cast_precision_loss, reason = "to two digits")]
pub(crate) fn share(part: usize, whole: usize) -> f64 {
    100.0 * part as f64 / whole as f64
}

/// With two digits; a share above zero is never printed as zero.
pub(crate) fn percent(share: f64) -> String {
    if 0.0 < share && share < 0.005 {
        "< 0.01 %".to_owned()
    } else {
        format!("{share:.2} %")
    }
}

/// The wait, rounded up: above one second to whole seconds.
pub(crate) fn wait(wait: Duration) -> String {
    let unit = if wait >= Duration::from_secs(1) {
        1_000_000
    } else {
        1_000
    };
    let micros = u64::try_from(wait.as_micros())
        .unwrap_or(u64::MAX / unit)
        .div_ceil(unit)
        * unit;
    humantime::format_duration(Duration::from_micros(micros)).to_string()
}

/// The key, escaped so that it neither controls the terminal nor ends the cell of a table.
fn shown(key: &str) -> String {
    escaped(key).replace('|', "\\|")
}
