//! Reads a log: CSV or JSON lines.

use std::borrow::Cow;
use std::io::{self, BufRead, ErrorKind};

use csv::{ReaderBuilder, StringRecord, Terminator, Trim};
use serde_json::{Map, Value};

use crate::args::{Format, Input};
use crate::log::Log;
use crate::time;

/// What was read, and what was left out.
#[derive(Default)]
pub(crate) struct Read {
    pub(crate) log: Log,
    pub(crate) bad_lines: u64,
    /// The first of them, and what is wrong with it.
    pub(crate) first_bad: Option<String>,
}

/// Reads all of it. What a line says is quoted in errors only where it is no key.
pub(crate) fn read(mut from: impl BufRead, input: &Input) -> io::Result<Read> {
    let mut read = Read::default();
    let starts_json = from.fill_buf()?.trim_ascii_start().starts_with(b"{");
    match input.format.unwrap_or(if starts_json { Format::Json } else { Format::Csv }) {
        Format::Csv => read.csv(from, input)?,
        Format::Json => read.json(from, input)?,
    }
    read.log.sort();
    Ok(read)
}

impl Read {
    fn csv(&mut self, from: impl BufRead, input: &Input) -> io::Result<()> {
        let mut builder = ReaderBuilder::new();
        builder.has_headers(false).flexible(true).trim(Trim::All).terminator(Terminator::Any(b'\n'));
        // With a last line that ends as the others do, a record ends where the next line begins.
        let mut reader = builder.from_reader(from.chain(&b"\n"[..]));
        let first = reader.headers()?;
        if first.is_empty() {
            return Ok(());
        }
        let columns = Columns::of(first, input).map_err(|why| bad_line(1, &why))?;
        let mut record = StringRecord::new();
        if columns.in_header {
            reader.read_record(&mut record)?;
        }
        loop {
            let found = reader.read_record(&mut record);
            let line = reader.position().line() - 1;
            match found {
                Ok(false) => return Ok(()),
                Ok(true) if record.iter().all(str::is_empty) => {}
                Ok(true) => self.line(line, input, columns.fields(&record))?,
                Err(error) if error.is_io_error() => return Err(error.into()),
                Err(_) => self.line(line, input, Err("it is not UTF-8".to_owned()))?,
            }
        }
    }

    fn json(&mut self, mut from: impl BufRead, input: &Input) -> io::Result<()> {
        let mut text = Vec::new();
        for line in 1.. {
            text.clear();
            if from.read_until(b'\n', &mut text)? == 0 {
                break;
            }
            if text.trim_ascii().is_empty() {
                continue;
            }
            let object = serde_json::from_slice::<Map<String, Value>>(&text);
            let fields = match &object {
                Ok(object) => Fields::of_json(object, input),
                Err(error) => Err(format!("it is not a JSON object, at column {}", error.column())),
            };
            self.line(line, input, fields)?;
        }
        Ok(())
    }

    /// Takes a line, or notes that it cannot be read.
    fn line(&mut self, line: u64, input: &Input, fields: Result<Fields<'_>, String>) -> io::Result<()> {
        match fields.and_then(|fields| fields.push_to(&mut self.log, input)) {
            Ok(()) => {}
            Err(why) if input.skip_bad_lines => {
                self.bad_lines += 1;
                self.first_bad.get_or_insert_with(|| format!("line {line}: {why}"));
            }
            Err(why) => return Err(bad_line(line, &why)),
        }
        Ok(())
    }
}

fn bad_line(line: u64, why: &str) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, format!("line {line}: {why}"))
}

/// What a line says of a request, as text.
struct Fields<'a> {
    time: Cow<'a, str>,
    key: Cow<'a, str>,
    cost: Option<Cow<'a, str>>,
    actual_cost: Option<Cow<'a, str>>,
}

impl<'a> Fields<'a> {
    fn of_json(object: &'a Map<String, Value>, input: &Input) -> Result<Self, String> {
        let text = |name: &str| match object.get(name) {
            Some(Value::String(text)) => Ok(Some(Cow::Borrowed(text.as_str()))),
            Some(Value::Number(number)) => Ok(Some(Cow::Owned(number.to_string()))),
            Some(Value::Null) | None => Ok(None),
            Some(_) => Err(format!("`{name}` is neither text nor a number")),
        };
        let needed = |name: &str| text(name)?.ok_or_else(|| format!("it has no `{name}`"));
        Ok(Self {
            time: needed(&input.time_field)?,
            key: needed(&input.key_field)?,
            cost: text(&input.cost_field)?,
            actual_cost: text(&input.actual_cost_field)?,
        })
    }

    fn push_to(self, log: &mut Log, input: &Input) -> Result<(), String> {
        let at = time::micros(&self.time, input.time_unit)?;
        if self.key.is_empty() {
            return Err("the key is empty".to_owned());
        }
        let number = |text: &str| text.parse().map_err(|_| format!("the cost `{text}` is not a whole number"));
        let given =
            |cost: Option<Cow<'_, str>>| cost.filter(|cost| !cost.is_empty()).map(|cost| number(&cost)).transpose();
        log.push(at, &self.key, given(self.cost)?.unwrap_or(1), given(self.actual_cost)?);
        Ok(())
    }
}

/// Where the fields of a CSV stand.
struct Columns {
    time: usize,
    key: usize,
    cost: Option<usize>,
    actual_cost: Option<usize>,
    /// Whether the first line says so, and is no request.
    in_header: bool,
}

impl Columns {
    fn of(first: &StringRecord, input: &Input) -> Result<Self, String> {
        let place = |name: &str| first.iter().position(|column| column == name);
        if let Some(time) = place(&input.time_field) {
            let key =
                place(&input.key_field).ok_or_else(|| format!("the header has no column `{}`", input.key_field))?;
            let (cost, actual_cost) = (place(&input.cost_field), place(&input.actual_cost_field));
            return Ok(Self { time, key, cost, actual_cost, in_header: true });
        }
        match first.get(0).map(|time| time::micros(time, input.time_unit)) {
            Some(Ok(_)) => Ok(Self { time: 0, key: 1, cost: Some(2), actual_cost: None, in_header: false }),
            _ => Err(format!("it is no header with a column `{}`, nor does it begin with a time", input.time_field)),
        }
    }

    fn fields<'a>(&self, record: &'a StringRecord) -> Result<Fields<'a>, String> {
        let text = |column| record.get(column).map(Cow::Borrowed);
        match (text(self.time), text(self.key)) {
            (Some(time), Some(key)) => {
                Ok(Fields { time, key, cost: self.cost.and_then(text), actual_cost: self.actual_cost.and_then(text) })
            }
            _ => Err("it has too few columns".to_owned()),
        }
    }
}
