//! Logs whose columns have names: CSV, with a header or without, and the W3C format, with a line
//! `#Fields`.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::io;

use super::fields::TIMES;
use super::record::{Record, same};
use super::source::Numbered;
use crate::replay::arguments::Input;
use crate::replay::time;

/// The columns without a header.
const HEADLESS: [&str; 3] = ["time", "key", "cost"];

/// Begins the line with the names of columns in the W3C format.
const FIELDS: &str = "#Fields:";

/// The names of the columns.
#[derive(Default)]
pub(super) struct Columns {
    names: Vec<String>,
    pub(super) separator: char,
    has_header: bool,
}

/// The separators of CSV cells.
const SEPARATORS: [char; 3] = [',', ';', '\t'];

impl Columns {
    /// The columns of CSV that begins with these lines: by the first that is a header, else by the
    /// first that begins with a time.
    pub(super) fn of_csv(lines: &[&str], input: &Input) -> Result<Self, String> {
        let time_field = input.time_field.as_deref().unwrap_or("time");
        if let Some(columns) = lines.iter().find_map(|line| Self::of_header(line, input)) {
            let has = |name: &str| columns.names.iter().any(|column| same(column, name));
            let status = input.status_field.as_deref().unwrap_or("status");
            if !input.status.is_empty() && !has(status) {
                return Err(format!(
                    "the header has no column `{status}`, which --status asks for: --status-field \
                     names it"
                ));
            }
            return Ok(columns);
        }
        let begins_with_a_time = |line: &str| {
            let cells = cells(line, ',');
            let is_time = |time: &str| time::exact(time, input.time_format.as_ref()).is_some();
            // Of a time with a comma, the second cell is the fraction.
            let is_cut = |next: &str| {
                next.split(' ').next().is_some_and(|part| {
                    part != next
                        && part.len() == 3
                        && part.bytes().all(|byte| byte.is_ascii_digit())
                })
            };
            matches!(cells.as_slice(), [time, next, ..] if is_time(time) && !is_cut(next))
        };
        let mut above = lines.iter().take_while(|line| !begins_with_a_time(line));
        let first = lines.iter().find(|line| begins_with_a_time(line));
        let columns = first.map_or(0, |first| cells(first, ',').len());
        // A line above that has as many columns is a header, with other names.
        if columns == 0 || above.any(|line| cells(line, ',').len() == columns) {
            return Err(format!(
                "it is no header with a column `{time_field}`, nor does it begin with a time, nor \
                 is it JSON or the line of an access log that is known: --format names the format, \
                 --time-field the column, --pattern where the fields stand; or make it CSV with \
                 the columns time and key"
            ));
        }
        if columns > HEADLESS.len() {
            return Err(format!(
                "it has {columns} columns, and no header that names them, such as time,key,status"
            ));
        }
        if !input.status.is_empty() {
            return Err("--status asks for a header with a column `status`".to_owned());
        }
        Ok(Self {
            names: HEADLESS.map(str::to_owned).to_vec(),
            separator: ',',
            has_header: false,
        })
    }

    /// The columns that a line names, if it has one for the time.
    pub(super) fn of_header(line: &str, input: &Input) -> Option<Self> {
        let is_time = |name: &str| match &input.time_field {
            Some(time) => name == time,
            None => TIMES.iter().any(|time| same(time, name)),
        };
        SEPARATORS.into_iter().find_map(|separator| {
            let names = cells(line, separator);
            // A line may end with a separator.
            let last = names.iter().rposition(|name| !name.is_empty()).unwrap_or(0);
            let is_named = last > 0 && !names.iter().take(last).any(|name| name.is_empty());
            // Other lines have a time, and a client may send what is the name of a column.
            let form = input.time_format.as_ref();
            let is_value = |name: &Cow<'_, str>| time::read(name, form, None).is_ok();
            let is_header =
                is_named && names.iter().any(|name| is_time(name)) && !names.iter().any(is_value);
            is_header.then(|| Self {
                names: names.into_iter().map(Cow::into_owned).collect(),
                separator,
                has_header: true,
            })
        })
    }

    /// Takes the names of a header below the first, as where logs were joined.
    pub(super) fn follow(&mut self, line: &str, input: &Input) {
        let begins = |cell: &str| cell.trim_start().starts_with(|c: char| c.is_ascii_digit());
        if self.has_header
            && !line.split(self.separator).any(begins)
            && let Some(columns) = Self::of_header(line, input)
        {
            *self = columns;
        }
    }

    /// The cells of a line; `None` if it is the header.
    pub(super) fn csv<'a>(&'a self, line: &'a str) -> Result<Option<Record<'a>>, String> {
        let cells = cells(line, self.separator);
        if self.has_header && cells.iter().eq(&self.names) {
            return Ok(None);
        }
        let (is, most) = (cells.len(), self.names.len());
        // Without a header, the cost may be left out.
        let least = if self.has_header { most } else { 2 };
        let more = cells.iter().skip(most);
        if is < least || !more.map(|cell| cell.trim_ascii()).all(str::is_empty) {
            let of = if self.has_header {
                "the header has"
            } else {
                "time, key and cost are"
            };
            return Err(format!("it has {is} columns, and {of} {most}"));
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
        let words: Vec<_> = if line.contains('\t') {
            line.split('\t')
                .map(|word| unquoted(word.trim_ascii()))
                .collect()
        } else {
            line.split_ascii_whitespace().map(unquoted).collect()
        };
        if words.len() != self.names.len() {
            return Err("it has other columns than the line `#Fields:` above it".to_owned());
        }
        Ok(Some(Record::Words(self.named().zip(words).collect())))
    }

    fn named(&self) -> impl Iterator<Item = &str> {
        self.names.iter().map(String::as_str)
    }
}

/// A word without the quotes around it. IIS writes a blank as a plus sign.
fn unquoted(word: &str) -> Cow<'_, str> {
    let bare = word
        .strip_prefix('"')
        .and_then(|word| word.strip_suffix('"'));
    let word = bare.unwrap_or(word);
    if word.contains(",+") {
        word.replace(",+", ", ").into()
    } else {
        word.into()
    }
}

/// Lines of CSV, of which those that a quoted field goes over are errors: in it, a client may have
/// sent what looks like a line.
pub(super) struct Rows<I> {
    lines: I,
    /// `None` if the lines are not of CSV.
    separator: Option<char>,
    ahead: VecDeque<Numbered>,
    /// The number of lines next that are of one field.
    within: usize,
}

/// The most bytes in which the end of a field is looked for.
const LONGEST_FIELD: usize = 1 << 16;

impl<I> Rows<I> {
    pub(super) fn of(lines: I, separator: Option<char>) -> Self {
        Self {
            lines,
            separator,
            ahead: VecDeque::new(),
            within: 0,
        }
    }
}

impl<I: Iterator<Item = io::Result<Numbered>>> Rows<I> {
    /// The number of lines that a field goes over which began in the line above. None, if a
    /// quotation mark in them ends no cell: then it was one of a text without others.
    fn length(&mut self, separator: char) -> io::Result<usize> {
        let (mut count, mut bytes) = (0, 0);
        while bytes < LONGEST_FIELD {
            if count == self.ahead.len() {
                match self.lines.next().transpose()? {
                    Some(line) => self.ahead.push_back(line),
                    None => break,
                }
            }
            let line = self
                .ahead
                .get(count)
                .and_then(|(_, line)| line.as_ref().ok());
            let line = line.map_or("", String::as_str);
            count += 1;
            bytes += 1 + line.len();
            match is_open(line, separator, true) {
                Some(true) => {}
                Some(false) => break,
                None => return Ok(0),
            }
        }
        Ok(count)
    }
}

impl<I: Iterator<Item = io::Result<Numbered>>> Iterator for Rows<I> {
    type Item = io::Result<Numbered>;

    fn next(&mut self) -> Option<Self::Item> {
        let ahead = self.ahead.pop_front().map(Ok);
        let (number, line) = match ahead.or_else(|| self.lines.next())? {
            Ok(line) => line,
            Err(error) => return Some(Err(error)),
        };
        if let (0, Some(separator), Ok(text)) = (self.within, self.separator, &line)
            && is_open(text, separator, false) == Some(true)
        {
            match self.length(separator) {
                Ok(0) => {}
                Ok(length) => self.within = 1 + length,
                Err(error) => return Some(Err(error)),
            }
        }
        let is_within = self.within > 0;
        self.within = self.within.saturating_sub(1);
        let of_field = || Err("a quoted field in it goes over several lines".to_owned());
        Some(Ok((number, if is_within { of_field() } else { line })))
    }
}

/// `true` if a quoted cell is open at the end of a line; `None` if it was open at the beginning,
/// and the first quotation mark ends no cell.
fn is_open(line: &str, separator: char, was_open: bool) -> Option<bool> {
    if !was_open {
        return Some(split(line, separator).1);
    }
    let Some(end) = line.replace("\"\"", "  ").find('"') else {
        return Some(true);
    };
    match line.get(end + 1..)? {
        "" => Some(false),
        behind => Some(split(behind.strip_prefix(separator)?, separator).1),
    }
}

/// The cells of a line of CSV. A quotation mark that is not closed ends with its line.
fn cells(line: &str, separator: char) -> Vec<Cow<'_, str>> {
    split(line, separator).0
}

/// The cells of a line, and whether a quotation mark is not closed.
fn split(line: &str, separator: char) -> (Vec<Cow<'_, str>>, bool) {
    let (mut cells, mut is_open) = (Vec::new(), false);
    let mut rest = Some(line);
    while let Some(text) = rest {
        let text = text.trim_start_matches(' ');
        let Some(mut quoted) = text.strip_prefix('"') else {
            let (cell, behind) = match text.split_once(separator) {
                Some((cell, behind)) => (cell, Some(behind)),
                None => (text, None),
            };
            cells.push(cell.trim_ascii_end().into());
            rest = behind;
            continue;
        };
        let mut cell = String::new();
        loop {
            let (part, behind) = quoted.split_once('"').unwrap_or_else(|| {
                is_open = true;
                (quoted, "")
            });
            cell.push_str(part);
            let Some(behind) = behind.strip_prefix('"') else {
                rest = behind.split_once(separator).map(|(_, behind)| behind);
                break;
            };
            cell.push('"');
            quoted = behind;
        }
        cells.push(cell.into());
    }
    (cells, is_open)
}
