//! Logs whose columns have names: CSV, with a header or without, and the W3C format, with a line
//! `#Fields`.

use std::borrow::Cow;

use super::record::Record;
use crate::replay::arguments::Input;
use crate::replay::time;

/// Begins the line with the names of columns in the W3C format.
const FIELDS: &str = "#Fields:";

/// The names of the columns.
#[derive(Default)]
pub(super) struct Columns {
    names: Vec<String>,
    /// How many of them a line has at least.
    needed: usize,
    /// The line that is the header.
    header: Option<String>,
}

impl Columns {
    /// The columns of CSV that begins with these lines: by the first that is a header, else by the
    /// first that begins with a time.
    pub(super) fn of_csv(lines: &[&str], input: &Input) -> Result<Self, String> {
        let time_field = input.time_field.as_deref().unwrap_or("time");
        let is_header = |line: &&&str| cells(line).iter().any(|name| *name == time_field);
        if let Some(line) = lines.iter().find(is_header) {
            let names: Vec<String> = cells(line).into_iter().map(Cow::into_owned).collect();
            return Self::of_header(names, line, time_field, input);
        }
        let begins_with_a_time = |line: &str| {
            let cells = cells(line);
            cells.len() > 1
                && cells
                    .first()
                    .is_some_and(|time| time::micros(time, input.time_unit).is_ok())
        };
        let mut above = lines.iter().take_while(|line| !begins_with_a_time(line));
        let first = lines.iter().find(|line| begins_with_a_time(line));
        // A line above that has as many columns is a header, with other names.
        let is_one = first.is_some_and(|first| {
            let columns = cells(first).len();
            !above.any(|line| cells(line).len() == columns)
        });
        if !is_one {
            return Err(format!(
                "it is no header with a column `{time_field}`, nor does it begin with a time, nor \
                 is it JSON or the line of an access log; --format names the format"
            ));
        }
        if !input.status.is_empty() {
            return Err("--status asks for a header with a column `status`".to_owned());
        }
        let names = ["time", "key", "cost"].map(str::to_owned).to_vec();
        Ok(Self {
            names,
            needed: 2,
            header: None,
        })
    }

    fn of_header(
        names: Vec<String>,
        line: &str,
        time_field: &str,
        input: &Input,
    ) -> Result<Self, String> {
        let place = |name: &str| names.iter().position(|column| column == name);
        let key_field = input.key_field.as_deref().unwrap_or("key");
        let (time, key) = (place(time_field), place(key_field));
        let key = key.ok_or_else(|| format!("the header has no column `{key_field}`"))?;
        let status = input.status_field.as_deref().unwrap_or("status");
        if place(status).is_none() && !input.status.is_empty() {
            return Err(format!(
                "the header has no column `{status}`, which --status asks for"
            ));
        }
        Ok(Self {
            needed: time.unwrap_or_default().max(key) + 1,
            header: Some(line.to_owned()),
            names,
        })
    }

    pub(super) fn csv<'a>(&'a self, line: &'a str) -> Result<Option<Record<'a>>, String> {
        if self.header.as_deref() == Some(line) {
            return Ok(None);
        }
        let cells = cells(line);
        if cells.len() < self.needed {
            return Err("it has too few columns".to_owned());
        }
        let more = cells.iter().skip(self.names.len());
        if self.header.is_some() && !more.map(|cell| cell.trim_ascii()).all(str::is_empty) {
            return Err("it has more columns than the header".to_owned());
        }
        Ok(Some(Record::Words(self.named().zip(cells).collect())))
    }

    /// The columns that a line `#Fields:` names.
    pub(super) fn of_w3c(line: &str) -> Option<Self> {
        let names = line.strip_prefix(FIELDS)?;
        Some(Self {
            names: names.split_ascii_whitespace().map(str::to_owned).collect(),
            ..Self::default()
        })
    }

    pub(super) fn w3c<'a>(&'a self, line: &'a str) -> Result<Option<Record<'a>>, String> {
        if line.starts_with('#') {
            return Ok(None);
        }
        if self.names.is_empty() {
            return Err("there is no line `#Fields:` above it".to_owned());
        }
        let words = line.split(|c: char| c.is_ascii_whitespace());
        // IIS writes a blank as a plus sign.
        let words = words.map(|word| {
            if word.contains(",+") {
                Cow::Owned(word.replace(",+", ", "))
            } else {
                Cow::Borrowed(word)
            }
        });
        let words: Vec<_> = words.collect();
        if words.len() != self.names.len() {
            return Err("it has other columns than the line `#Fields:` above it".to_owned());
        }
        let words: Vec<_> = self.named().zip(words).collect();
        let value = |name: &str| {
            let mut words = words.iter().filter(|(known, _)| *known == name);
            words.next().map(|(_, value)| &**value)
        };
        let time = match (value("date"), value("time")) {
            (Some(date), Some(time)) => Some(format!("{date}T{time}Z")),
            _ => None,
        };
        let time = time.map(|time| ("time", Cow::Owned(time)));
        let others = words
            .into_iter()
            .filter(|(name, _)| time.is_none() || *name != "time");
        Ok(Some(Record::Words(others.chain(time.clone()).collect())))
    }

    fn named(&self) -> impl Iterator<Item = &str> {
        self.names.iter().map(String::as_str)
    }
}

/// The cells of a line of CSV. A quotation mark that is not closed ends with its line.
fn cells(line: &str) -> Vec<Cow<'_, str>> {
    let mut cells = Vec::new();
    let mut rest = Some(line);
    while let Some(text) = rest {
        let text = text.trim_ascii_start();
        let Some(mut quoted) = text.strip_prefix('"') else {
            let (cell, behind) = match text.split_once(',') {
                Some((cell, behind)) => (cell, Some(behind)),
                None => (text, None),
            };
            cells.push(cell.trim_ascii_end().into());
            rest = behind;
            continue;
        };
        let mut cell = String::new();
        loop {
            let (part, behind) = quoted.split_once('"').unwrap_or((quoted, ""));
            cell.push_str(part);
            let Some(behind) = behind.strip_prefix('"') else {
                rest = behind.split_once(',').map(|(_, behind)| behind);
                break;
            };
            cell.push('"');
            quoted = behind;
        }
        cells.push(cell.into());
    }
    cells
}
