//! Reads a log in any of the formats.

mod access;
mod csv;
mod json;

use std::borrow::Cow;
use std::fmt::Display;
use std::io::{self, BufRead, BufReader, ErrorKind};
use std::net::IpAddr;

use flate2::bufread::MultiGzDecoder;
use ratelimit_runtime::Key;

use crate::replay::arguments::{Format, Input};
use crate::replay::log::Log;
use crate::replay::time;

/// The requests of a log, and the lines that could not be read.
#[derive(Default)]
pub(crate) struct Read {
    pub(crate) log: Log,
    pub(crate) bad_lines: u64,
    /// The error of the first line that could not be read.
    pub(crate) first_bad: Option<String>,
    /// The text of the last time and its value: many lines of a busy server have the same time.
    last_time: Option<(String, u64)>,
}

/// The fields of a line, as text.
#[derive(Default)]
struct Fields<'a> {
    time: Cow<'a, str>,
    key: Cow<'a, str>,
    status: Option<Cow<'a, str>>,
    cost: Option<Cow<'a, str>>,
    actual_cost: Option<Cow<'a, str>>,
}

/// Reads the whole log, which may be compressed by gzip.
///
/// # Errors
///
/// If the file cannot be read, or no line of it. A message quotes a line only if that holds no key.
pub(crate) fn read(mut from: impl BufRead, input: &Input) -> io::Result<Read> {
    const GZIP: &[u8] = &[0x1f, 0x8b];
    if from.fill_buf()?.starts_with(GZIP) {
        return lines(
            BufReader::with_capacity(1 << 16, MultiGzDecoder::new(from)),
            input,
        );
    }
    lines(from, input)
}

fn lines(mut from: impl BufRead, input: &Input) -> io::Result<Read> {
    let mut read = Read::default();
    match input.format.unwrap_or(format(from.fill_buf()?)) {
        Format::Csv => csv::read(from, input, &mut read)?,
        Format::Json => json::read(from, input, &mut read)?,
        Format::Common => access::read(from, input, access::Kind::Common, &mut read)?,
        Format::Combined => access::read(from, input, access::Kind::Combined, &mut read)?,
    }
    if let (true, Some(first)) = (read.log.requests().is_empty(), &read.first_bad) {
        return Err(bad(format!(
            "no line of {} can be read; {first}",
            read.bad_lines
        )));
    }
    read.log.sort();
    Ok(read)
}

/// The format of a log with this beginning.
fn format(start: &[u8]) -> Format {
    let line = start
        .trim_ascii_start()
        .split(|byte| *byte == b'\n')
        .next()
        .unwrap_or_default();
    if line.starts_with(b"{") {
        return Format::Json;
    }
    std::str::from_utf8(line)
        .ok()
        .and_then(access::Kind::of)
        .map_or(Format::Csv, |kind| match kind {
            access::Kind::Common => Format::Common,
            access::Kind::Combined => Format::Combined,
        })
}

/// Calls `each` with every line that is not empty, and its number.
fn each_line(mut from: impl BufRead, mut each: impl FnMut(u64, &[u8])) -> io::Result<()> {
    let mut line = Vec::new();
    for number in 1.. {
        line.clear();
        if from.read_until(b'\n', &mut line)? == 0 {
            break;
        }
        let text = line.trim_ascii();
        if !text.is_empty() {
            each(number, text);
        }
    }
    Ok(())
}

impl Read {
    /// Adds the request of a line, or counts the line as unreadable.
    fn line(&mut self, number: u64, input: &Input, fields: Result<Fields<'_>, String>) {
        if let Err(why) = fields.and_then(|fields| self.push(fields, input)) {
            self.bad_lines += 1;
            self.first_bad
                .get_or_insert_with(|| format!("line {number}: {why}"));
        }
    }

    fn push(&mut self, fields: Fields<'_>, input: &Input) -> Result<(), String> {
        let at = match &self.last_time {
            Some((text, at)) if fields.time == *text => *at,
            _ => {
                let at = time::micros(&fields.time, input.time_unit)?;
                self.last_time.insert((fields.time.to_string(), at)).1
            }
        };
        if fields.key.is_empty() {
            return Err("the key is empty".to_owned());
        }
        let number = |text: &str| {
            text.parse()
                .map_err(|_| format!("the cost `{text}` is not a whole number"))
        };
        let given = |cost: Option<Cow<'_, str>>| {
            cost.filter(|cost| !cost.is_empty())
                .map(|cost| number(&cost))
                .transpose()
        };
        let mut actual_cost = given(fields.actual_cost)?;
        if !input.status.is_empty() && !counts(fields.status.as_deref(), input)? {
            actual_cost = Some(0);
        }
        self.log.push(
            at,
            &fields.key,
            given(fields.cost)?.unwrap_or(1),
            actual_cost,
        );
        Ok(())
    }
}

/// Whether a request with this answer counts.
fn counts(status: Option<&str>, input: &Input) -> Result<bool, String> {
    let status = status.ok_or("it has no `status`")?;
    let number = status
        .parse()
        .map_err(|_| format!("the status `{status}` is not a number"))?;
    Ok(input.status.iter().any(|statuses| statuses.has(number)))
}

/// The key that services make of a client's address.
fn client(address: Cow<'_, str>) -> Cow<'_, str> {
    match address.parse::<IpAddr>() {
        Ok(parsed @ IpAddr::V6(_)) => {
            let key = Key::of(&parsed);
            let rendered = String::from_utf8_lossy(key.as_bytes());
            rendered
                .trim_start_matches('<')
                .trim_end_matches('>')
                .to_owned()
                .into()
        }
        _ => address,
    }
}

/// The path of a request's target, without the query.
fn path(target: &str) -> &str {
    target.split_once('?').map_or(target, |(path, _)| path)
}

fn bad(why: impl Display) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, why.to_string())
}
