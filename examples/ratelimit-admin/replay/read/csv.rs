//! CSV, with a header or without.

use std::borrow::Cow;
use std::io::{self, BufRead};

use csv::{ReaderBuilder, StringRecord, Terminator, Trim};

use super::{Fields, Read, bad};
use crate::replay::arguments::Input;
use crate::replay::time;

pub(super) fn read(from: impl BufRead, input: &Input, read: &mut Read) -> io::Result<()> {
    let mut builder = ReaderBuilder::new();
    builder
        .has_headers(false)
        .flexible(true)
        .trim(Trim::All)
        .terminator(Terminator::Any(b'\n'));
    // With a line feed after the last line too, a record always ends where the next line begins.
    let mut reader = builder.from_reader(from.chain(&b"\n"[..]));
    let first = reader.headers()?;
    if first.is_empty() {
        return Ok(());
    }
    let columns = Columns::of(first, input).map_err(|why| bad(format!("line 1: {why}")))?;
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
            Ok(true) => read.line(line, input, columns.fields(&record)),
            Err(error) if error.is_io_error() => return Err(error.into()),
            Err(_) => read.line(line, input, Err("it is not UTF-8".to_owned())),
        }
    }
}

/// The columns of the fields.
struct Columns {
    time: usize,
    key: usize,
    status: Option<usize>,
    cost: Option<usize>,
    actual_cost: Option<usize>,
    /// Whether the first line is a header, not a request.
    in_header: bool,
}

impl Columns {
    fn of(first: &StringRecord, input: &Input) -> Result<Self, String> {
        let place = |name: &str| first.iter().position(|column| column == name);
        let time_field = input.time_field.as_deref().unwrap_or("time");
        let key_field = input.key_field.as_deref().unwrap_or("key");
        if let Some(time) = place(time_field) {
            let key = place(key_field)
                .ok_or_else(|| format!("the header has no column `{key_field}`"))?;
            let status = place("status");
            if status.is_none() && !input.status.is_empty() {
                return Err("the header has no column `status`, which --status asks for".to_owned());
            }
            let (cost, actual_cost) = (place(&input.cost_field), place(&input.actual_cost_field));
            return Ok(Self {
                time,
                key,
                status,
                cost,
                actual_cost,
                in_header: true,
            });
        }
        match first.get(0).map(|time| time::micros(time, input.time_unit)) {
            Some(Ok(_)) if input.status.is_empty() => Ok(Self {
                time: 0,
                key: 1,
                status: None,
                cost: Some(2),
                actual_cost: None,
                in_header: false,
            }),
            Some(Ok(_)) => Err("--status asks for a header with a column `status`".to_owned()),
            _ => Err(format!(
                "it is no header with a column `{time_field}`, nor does it begin with a time, nor \
                 is it JSON or the line of an access log"
            )),
        }
    }

    fn fields<'a>(&self, record: &'a StringRecord) -> Result<Fields<'a>, String> {
        let text = |column| record.get(column).map(Cow::Borrowed);
        match (text(self.time), text(self.key)) {
            (Some(time), Some(key)) => Ok(Fields {
                time,
                key,
                status: self.status.and_then(text),
                cost: self.cost.and_then(text),
                actual_cost: self.actual_cost.and_then(text),
            }),
            _ => Err("it has too few columns".to_owned()),
        }
    }
}
