//! [`Reader`]: the format of a log, and its lines as records.

use std::collections::HashSet;

use serde_json::{Map, Value};

use super::client::Clients;
use super::columns::{Columns, Rows};
use super::fields::keys;
use super::json::Object;
use super::pattern::Pattern;
use super::record::Record;
use super::words::{self, Access, Place, Texts};
use crate::replay::arguments::{Format, Input};

/// Reads the lines of one log.
pub(super) struct Reader {
    format: Format,
    columns: Columns,
    /// The operator's pattern, which replaces the format.
    pattern: Option<Pattern>,
    /// `true` if most lines begin with their JSON object: then only such lines are read.
    is_bare: bool,
    /// The place of the client's address in a line of an access log.
    pub(super) address: Option<Place>,
    /// What stands between quotes behind the request.
    texts: Texts,
}

impl Reader {
    /// A reader of the log with these first lines. A line that is not of the log decides nothing.
    pub(super) fn of(lines: &[&str], input: &Input, clients: &Clients) -> Result<Self, String> {
        let pattern = input.pattern.as_ref();
        let pattern = pattern.map(|pattern| pattern.of(lines, input.time_format.as_ref(), clients));
        let mut format = match &pattern {
            Some(_) => Some(Format::Pairs),
            None => input.format,
        };
        let mut columns = Columns::default();
        if format.is_none() && lines.iter().any(|line| Columns::of_w3c(line).is_some()) {
            format = Some(Format::W3c);
        }
        if format.is_none() {
            let found = lines.iter().map(|line| of_line(line, clients));
            let others = lines.iter().zip(found.clone());
            let others = others.filter(|(line, format)| format.is_none() && words::is_other(line));
            let others = others.count();
            let found: Vec<Format> = found.flatten().collect();
            let votes = |format: Format| found.iter().filter(|found| **found == format).count();
            // Of equal ones `max_by_key` takes the last.
            let most = found.iter().rev().max_by_key(|format| votes(**format));
            format = most.copied().filter(|format| {
                votes(*format) * 2 >= lines.len() || Columns::of_csv(lines, input).is_err()
            });
            if matches!(format, Some(Format::Common | Format::Combined)) && others * 3 > found.len()
            {
                return Err(
                    "it is an access log in an order that is not known: --pattern says where the \
                     fields stand"
                        .to_owned(),
                );
            }
        }
        let format = format.unwrap_or(Format::Csv);
        if format == Format::Csv {
            columns = Columns::of_csv(lines, input)?;
        }
        if format == Format::W3c
            && let Some(named) = lines.iter().find_map(|line| Columns::of_w3c(line))
        {
            columns = named;
        }
        let bare = lines.iter().filter(|line| line.starts_with('{')).count();
        Ok(Self {
            format,
            columns,
            pattern,
            is_bare: bare * 2 > lines.len(),
            address: match format {
                Format::Common | Format::Combined => words::address(lines, clients),
                _ => None,
            },
            texts: Texts::of(lines, clients),
        })
    }

    /// The offset of times in two columns, where the format says it.
    pub(super) fn offset(&self) -> &'static str {
        if self.format == Format::W3c { "Z" } else { "" }
    }

    /// These lines, without those that a quoted field of CSV goes over.
    pub(super) fn rows<I>(&self, lines: I) -> Rows<I> {
        let separator = (self.format == Format::Csv).then_some(self.columns.separator);
        Rows::of(lines, separator)
    }

    /// Begins a file: no line of an earlier one names its W3C columns.
    pub(super) fn begin(&mut self) {
        if self.format == Format::W3c {
            self.columns = Columns::default();
        }
    }

    /// Takes the names of columns from a line that has them, for the lines below it.
    pub(super) fn follow(&mut self, line: &str, input: &Input) {
        match self.format {
            Format::W3c => {
                if let Some(columns) = Columns::of_w3c(line) {
                    self.columns = columns;
                }
            }
            Format::Csv => self.columns.follow(line, input),
            _ => {}
        }
    }

    /// The fields of a line; `None` if it is a header.
    pub(super) fn record<'a>(
        &'a self,
        line: &'a str,
        clients: &Clients,
    ) -> Result<Option<Record<'a>>, String> {
        if let Some(pattern) = &self.pattern {
            return pattern.record(line, clients).map(Some);
        }
        let record = match self.format {
            Format::Csv => return self.columns.csv(line),
            Format::W3c => return self.columns.w3c(line),
            Format::Json if self.is_bare && !line.starts_with('{') => {
                return Err("it does not begin with a JSON object".to_owned());
            }
            Format::Json => return object(line).map(Record::Object).map(Some),
            Format::Common | Format::Combined => {
                let access = Access::of(line).ok_or("it is not a line of an access log")?;
                if self.format == Format::Combined && access.quoted.len() < 2 {
                    return Err("it has no referer and user agent".to_owned());
                }
                if access.is_joined(self.address, clients) {
                    return Err("it holds two requests".to_owned());
                }
                let word = self.address.unwrap_or_default().word;
                Some(access.record(word, self.texts, clients))
            }
            Format::Envoy => words::envoy(line),
            Format::Haproxy => words::haproxy(line),
            Format::Alb => words::alb(line),
            Format::Bind => words::bind(line),
            Format::Pairs => words::pairs(line),
        };
        record
            .map(Some)
            .ok_or_else(|| "it is not one whole line of this format".to_owned())
    }
}

/// The format of a line, unless it can be CSV.
fn of_line(line: &str, clients: &Clients) -> Option<Format> {
    if line.starts_with('{') {
        return Some(Format::Json);
    }
    if let Some(access) = Access::of(line) {
        let is_envoy = words::address(&[line], clients).is_none() && words::envoy(line).is_some();
        return Some(match access.quoted.len() {
            _ if is_envoy => Format::Envoy,
            ..2 => Format::Common,
            _ => Format::Combined,
        });
    }
    if object(line).is_ok() {
        return Some(Format::Json);
    }
    [
        (Format::Envoy, words::envoy(line)),
        (Format::Haproxy, words::haproxy(line)),
        (Format::Alb, words::alb(line)),
        (Format::Bind, words::bind(line)),
        (Format::Pairs, words::pairs(line)),
    ]
    .into_iter()
    .find_map(|(format, record)| record.map(|_| format))
}

/// The fields in which collectors of logs store the line that a process wrote.
const LINES: &[&str] = &["log", "message", "textPayload", "line"];

/// The field of these objects that holds lines, if most of the objects themselves hold no key, or
/// that of a collector.
pub(super) fn wrapper(lines: &[&str], input: &Input, clients: &Clients) -> Option<&'static str> {
    let objects = lines.iter().filter(|line| line.starts_with('{'));
    let records: Vec<_> = objects
        .filter_map(|line| object(line).ok().map(Record::Object))
        .collect();
    if records.len() * 2 < lines.len() {
        return None;
    }
    let name = LINES.iter().copied().find(|name| {
        let texts = records.iter().filter_map(|record| record.get(name).ok()?);
        let is_line = |text: &str| match &input.pattern {
            Some(pattern) => pattern.fits(text),
            None => of_line(text, clients).is_some(),
        };
        let lines = texts.filter(|text| is_line(text.trim()));
        lines.count() * 2 > records.len()
    })?;
    let outer = keys(&records.iter().collect::<Vec<_>>(), input, clients);
    let is_wrapper = match input.key_field {
        Some(_) => outer.is_empty(),
        None => {
            outer.len() * 2 < records.len()
                || are_of_collector(&outer, &records, name, input, clients)
        }
    };
    is_wrapper.then_some(name)
}

/// `true` if this field holds lines of an access log, most of other clients than these of the
/// objects themselves, which are not more.
fn are_of_collector(
    outer: &[String],
    records: &[Record<'_>],
    name: &str,
    input: &Input,
    clients: &Clients,
) -> bool {
    use Format::{Alb, Combined, Common, Envoy, Haproxy};
    let texts = records.iter().filter_map(|record| record.get(name).ok()?);
    let texts: Vec<_> = texts.collect();
    let texts: Vec<_> = texts.iter().map(|text| text.trim()).collect();
    let Ok(reader) = Reader::of(&texts, input, clients) else {
        return false;
    };
    let inner = texts
        .iter()
        .filter_map(|text| reader.record(text, clients).ok()?);
    let inner = keys(
        &inner.collect::<Vec<_>>().iter().collect::<Vec<_>>(),
        input,
        clients,
    );
    let set = |keys: &[String]| keys.iter().cloned().collect::<HashSet<_>>();
    let (outer, all) = (set(outer), set(&inner));
    let others = inner.iter().filter(|key| !outer.contains(*key));
    matches!(reader.format, Alb | Combined | Common | Envoy | Haproxy)
        && others.count() * 2 > inner.len()
        && all.len() >= outer.len()
}

/// The line of another program that a field of this JSON object holds.
pub(super) fn wrapped(line: &str) -> Option<String> {
    let mut texts = LINES.iter().map(|name| unwrapped(line, name));
    texts.find_map(Result::ok)
}

/// The line in a field of an object.
pub(super) fn unwrapped(line: &str, name: &str) -> Result<String, String> {
    let record = Record::Object(object(line)?);
    let text = record
        .get(name)?
        .ok_or_else(|| format!("it has no `{name}`"))?;
    Ok(text.trim().to_owned())
}

/// The JSON object of a line, in front of which a collector of logs may have written words.
pub(super) fn object(line: &str) -> Result<Map<String, Value>, String> {
    let read = |text: &str| serde_json::from_str::<Object>(text);
    let whole = match read(line) {
        Ok(object) => return distinct(object),
        Err(error) => error,
    };
    if let Some((front, text)) = line.find('{').and_then(|at| line.split_at_checked(at))
        && let Ok(object) = read(text)
    {
        let mut object = distinct(object)?;
        for (name, word) in words::in_front(front) {
            object.entry(name).or_insert(word.into());
        }
        return Ok(object);
    }
    let at = whole.column();
    let ends = if whole.is_eof() {
        ", where the line ends: each object has a line, as by `jq -c`"
    } else {
        ""
    };
    Err(format!("it is not a JSON object, at column {at}{ends}"))
}

/// The object, if it has no name twice.
pub(super) fn distinct(Object(object): Object) -> Result<Map<String, Value>, String> {
    object.map_err(|name| format!("it has several fields `{name}`"))
}
