//! Reads a log in any of the formats.

mod client;
mod columns;
mod fields;
mod format;
mod json;
pub(crate) mod pattern;
mod record;
mod source;
mod words;

use std::fmt::Display;
use std::io::{self, BufRead, Cursor, ErrorKind, Read as _};
use std::rc::Rc;

use indexmap::IndexSet;
use serde::Deserialize;

use self::client::{Clients, masked};
use self::fields::Fields;
use self::format::{Reader, distinct, unwrapped, wrapped};
use self::json::Object;
use self::record::Record;
use self::source::{Lines, Numbered, decompressed};
use self::words::Place;
use crate::printable::escaped;
use crate::replay::arguments::{Format, Input};
use crate::replay::log::Log;
use crate::replay::time::{self, Part};

/// The number of lines that the format and the fields of a log are found by.
const SAMPLE: usize = 100;

/// The longest line that a pattern is suggested by, in bytes: a client may have made it long.
const LONGEST_SAMPLE: usize = 4_096;

/// The most times that a line is wrapped in a field of another, as by Docker and a collector.
const MOST_WRAPPERS: usize = 3;

/// The requests of the logs, and the lines that could not be read.
pub(crate) struct Read<'a> {
    pub(crate) log: Log,
    pub(crate) bad_lines: u64,
    /// The error of the first line that could not be read.
    pub(crate) first_bad: Option<String>,
    /// The parts that times lack.
    pub(crate) times_without: Vec<Part>,
    /// The logs in gzip that have other bytes behind its end, and how many.
    pub(crate) behind: Vec<(Option<String>, u64)>,
    /// The logs that are copies of others, whose requests count once.
    pub(crate) repeated: Vec<String>,
    /// The fields that the keys were taken from, each once.
    pub(crate) taken: Vec<Taken>,
    /// The suggested options for a log of which no line could be read.
    suggested: Option<String>,
    input: &'a Input,
    clients: Clients,
    /// The text of the last time and its value: many lines of a busy server have the same time.
    last_time: Option<(String, u64)>,
}

/// A field that keys were taken from.
pub(crate) struct Taken {
    /// The name of the field and, in an access log, its place.
    pub(crate) field: String,
    /// The header in which proxies name the client, if the log has it as a field.
    pub(crate) forwarded: Option<String>,
    /// Further fields that hold addresses of clients.
    pub(crate) others: IndexSet<String>,
    /// The field of the time, and the fields with other times, if there are any.
    pub(crate) times: Option<(String, String)>,
    /// The id and the stage of requests that have a line for each stage.
    pub(crate) stages: Option<(&'static str, &'static str)>,
    /// The first keys that differ, and whether each is an address.
    pub(crate) samples: Vec<(String, bool)>,
    /// `true` if there were lists of addresses.
    pub(crate) lists: bool,
    /// The number of requests whose client no proxy names.
    pub(crate) unnamed: usize,
}

/// The kind of a key in the log.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Found {
    Text,
    Address,
    InList,
    /// The address of a trusted proxy.
    Proxy,
}

/// The fields of a request, as text.
struct Request {
    time: String,
    key: String,
    found: Found,
    status: Option<String>,
    cost: Option<String>,
    actual_cost: Option<String>,
}

impl<'a> Read<'a> {
    /// Makes a reader without requests.
    ///
    /// # Errors
    ///
    /// If the proxies are no networks.
    pub(crate) fn new(input: &'a Input) -> Result<Self, String> {
        let clients = Clients::behind(&input.trusted_proxies);
        Ok(Self {
            log: Log::default(),
            bad_lines: 0,
            first_bad: None,
            times_without: Vec::new(),
            behind: Vec::new(),
            repeated: Vec::new(),
            taken: Vec::new(),
            suggested: None,
            input,
            clients: clients.map_err(|error| error.to_string())?,
            last_time: None,
        })
    }

    /// Adds the requests of a log, which may be compressed. Errors of lines begin with its `name`.
    ///
    /// # Errors
    ///
    /// If the log cannot be read, or its format is unknown. A message quotes a line only if that
    /// holds no key.
    pub(crate) fn add(&mut self, from: impl BufRead, name: Option<&str>) -> io::Result<()> {
        let behind = Rc::default();
        let from = with_beginning(decompressed(with_beginning(from)?, Rc::clone(&behind))?)?;
        let bad_lines = self.bad_lines;
        self.add_text(from, name)?;
        if self.log.end() {
            self.bad_lines = bad_lines;
            self.repeated.extend(name.map(str::to_owned));
        }
        match behind.get() {
            0 => {}
            bytes => self.behind.push((name.map(str::to_owned), bytes)),
        }
        Ok(())
    }

    fn add_text(&mut self, mut from: impl BufRead, name: Option<&str>) -> io::Result<()> {
        if from.fill_buf()?.starts_with(MARK) {
            from.consume(MARK.len());
        }
        self.log.begin();
        let is_json = matches!(self.input.format, None | Some(Format::Json));
        if is_json && is_array(from.fill_buf()?) {
            return self.add_array(serde_json::from_reader(from)?, name);
        }
        if is_json && is_records(from.fill_buf()?) {
            // Files of the trail may have been joined.
            let all = serde_json::Deserializer::from_reader(from).into_iter::<Records>();
            let all = all.collect::<Result<Vec<_>, _>>()?.into_iter();
            return self.add_array(all.flat_map(|all| all.records).collect(), name);
        }
        let mut lines = Lines::of(from);
        let mut sample: Vec<Numbered> = lines.by_ref().take(SAMPLE).collect::<Result<_, _>>()?;
        let mut wrappers = Vec::new();
        while let Some(name) = format::wrapper(&texts(&sample), self.input, &self.clients)
            && wrappers.len() < MOST_WRAPPERS
        {
            for (_, line) in &mut sample {
                let wrapped = std::mem::replace(line, Ok(String::new()));
                *line = wrapped.and_then(|line| unwrapped(&line, name));
            }
            wrappers.push(name);
        }
        let inner = |line: String| {
            let mut names = wrappers.iter();
            names.try_fold(line, |line, name| unwrapped(&line, name))
        };
        let texts = texts(&sample);
        let first = sample.first().map_or(1, |(number, _)| *number);
        if texts.is_empty() {
            for (number, line) in sample {
                self.line(format_args!("line {number}"), name, line.map(|_| None));
            }
            return Ok(());
        }
        let wrong = |why| bad(format!("line {first}: {why}"));
        let mut reader = Reader::of(&texts, self.input, &self.clients).map_err(|why| {
            wrong(match self.suggested(&texts) {
                Some(pattern) => format!("{why}. {}", read_by(&pattern)),
                None => why,
            })
        })?;
        let lines = lines.map(|line| line.map(|(number, line)| (number, line.and_then(inner))));
        let mut lines = reader.rows(sample.into_iter().map(Ok).chain(lines));
        let sample: Vec<Numbered> = lines.by_ref().take(SAMPLE).collect::<Result<_, _>>()?;
        let texts = self::texts(&sample);
        let records: Vec<Record<'_>> = texts
            .iter()
            .filter_map(|line| reader.record(line, &self.clients).ok()?)
            .collect();
        let records: Vec<_> = records.iter().collect();
        let mut fields = Fields::of(&records, self.input, &self.clients).map_err(bad)?;
        fields.offset = reader.offset();
        let is_request = |record: &&Record<'_>| fields.request(record, &self.clients).is_ok();
        if !records.iter().any(is_request) {
            self.suggested = self.suggested(&texts);
        }
        reader.begin();
        self.take_from(&fields, reader.address);
        for line in sample.into_iter().map(Ok).chain(lines) {
            let (number, line) = line?;
            let request = line.and_then(|line| {
                reader.follow(&line, self.input);
                let record = reader.record(&line, &self.clients)?;
                record
                    .map(|record| fields.request(&record, &self.clients))
                    .transpose()
            });
            self.line(format_args!("line {number}"), name, request);
        }
        Ok(())
    }

    /// Adds the requests of an array of JSON objects, which is read as a whole.
    fn add_array(&mut self, objects: Vec<Object>, name: Option<&str>) -> io::Result<()> {
        let objects: Vec<_> = objects
            .into_iter()
            .map(|object| distinct(object).map(Record::Object))
            .collect();
        let sample: Vec<_> = objects.iter().flatten().take(SAMPLE).collect();
        let fields = Fields::of(&sample, self.input, &self.clients).map_err(bad)?;
        self.take_from(&fields, None);
        for (number, record) in (1..).zip(&objects) {
            let request = match record {
                Ok(record) => fields.request(record, &self.clients).map(Some),
                Err(why) => Err(why.clone()),
            };
            self.line(format_args!("object {number}"), name, request);
        }
        Ok(())
    }

    /// Sorts the requests by time, when all logs are added.
    ///
    /// # Errors
    ///
    /// If there were lines, and none could be read.
    pub(crate) fn sorted(mut self) -> io::Result<Self> {
        if let (true, Some(first)) = (self.log.requests().is_empty(), &self.first_bad) {
            let how = match &self.suggested {
                Some(pattern) => format!(". {}", read_by(pattern)),
                None if first.contains("--") => String::new(),
                None => "; --format, --pattern, --time-field and --key-field say how to read a log"
                    .to_owned(),
            };
            let lines = self.bad_lines;
            return Err(bad(format!("no line of {lines} can be read; {first}{how}")));
        }
        self.log.sort();
        Ok(self)
    }

    /// The value of `--pattern` that reads these lines, or the lines of other programs in their
    /// fields.
    fn suggested(&self, lines: &[&str]) -> Option<String> {
        if self.input.pattern.is_some() {
            return None;
        }
        let inner: Vec<_> = lines.iter().map(|line| wrapped(line)).collect();
        let lines = lines.iter().zip(&inner);
        let lines: Vec<_> = lines
            .map(|(line, inner)| inner.as_deref().unwrap_or(line))
            .filter(|line| !line.starts_with('{') && line.len() <= LONGEST_SAMPLE)
            .collect();
        pattern::suggested(&lines, self.input.time_format.as_ref(), &self.clients)
    }

    /// Records the field of the next keys; in access logs, also the word of the address.
    fn take_from(&mut self, fields: &Fields<'_>, place: Option<Place>) {
        let field = match place {
            Some(place) if fields.key == "address" => format!("`address`, {place}"),
            _ => format!("`{}`", escaped(&fields.key)),
        };
        let forwarded = fields.forwarded.as_deref().map(escaped);
        let is_known = |taken: &Taken| taken.field == field && taken.forwarded == forwarded;
        let known = self.taken.iter().position(is_known);
        let taken = known.map(|at| self.taken.remove(at));
        let mut taken = taken.unwrap_or_else(|| Taken {
            field,
            forwarded,
            others: IndexSet::new(),
            times: None,
            stages: None,
            samples: Vec::new(),
            lists: false,
            unnamed: 0,
        });
        if !fields.other_times.is_empty() {
            let others = fields
                .other_times
                .iter()
                .map(|name| format!("`{}`", escaped(name)));
            let others = others.collect::<Vec<_>>().join(", ");
            taken.times = Some((escaped(&fields.time), others));
        }
        taken.stages = taken.stages.or(fields.stages);
        taken
            .others
            .extend(fields.others.iter().map(|name| escaped(name)));
        self.taken.push(taken);
    }

    /// Adds the request of a line, or counts the line as unreadable. A header is neither.
    fn line(
        &mut self,
        place: impl Display,
        name: Option<&str>,
        line: Result<Option<Request>, String>,
    ) {
        let added = line.and_then(|request| request.map_or(Ok(()), |request| self.push(request)));
        if let Err(why) = added {
            self.bad_lines += 1;
            self.first_bad.get_or_insert_with(|| {
                let log = name.map(|name| format!("{name}: ")).unwrap_or_default();
                let text = format!("{log}{place}: {why}");
                // What an error quotes of the line may be long, and control a terminal.
                escaped(&text.chars().take(LONGEST_ERROR).collect::<String>())
            });
        }
    }

    fn push(&mut self, request: Request) -> Result<(), String> {
        let at = match &self.last_time {
            Some((text, at)) if request.time == *text => *at,
            _ => {
                let last = self.last_time.as_ref().map(|(_, at)| *at);
                let time = time::read(&request.time, self.input.time_format.as_ref(), last)?;
                if let Some(part) = time.without
                    && !self.times_without.contains(&part)
                {
                    self.times_without.push(part);
                }
                self.last_time.insert((request.time, time.micros)).1
            }
        };
        let given = |cost: Option<String>, option: &str| {
            let number = |text: String| {
                let parts = text.split_once('.');
                let whole = parts.filter(|(_, part)| part.bytes().all(|digit| digit == b'0'));
                let whole = whole.map_or(&*text, |(whole, _)| whole);
                let why = |_| {
                    format!("the cost `{text}` is not a whole number: {option} names its field")
                };
                whole.parse().map_err(why)
            };
            cost.map(number).transpose()
        };
        let mut actual_cost = given(request.actual_cost, "--actual-cost-field")?;
        if let Some(status) = request.status
            && !counts(&status, self.input)?
        {
            actual_cost = Some(0);
        }
        let cost = given(request.cost, "--cost-field")?.unwrap_or(1);
        if let Some(taken) = self.taken.last_mut() {
            taken.see(&request.key, request.found);
        }
        self.log.push(at, &request.key, cost, actual_cost);
        Ok(())
    }
}

/// In characters.
const LONGEST_ERROR: usize = 300;

impl Taken {
    fn see(&mut self, key: &str, found: Found) {
        self.lists |= found == Found::InList;
        self.unnamed += usize::from(found == Found::Proxy);
        let is_new = |known: &(String, bool)| known.0 != key;
        if self.samples.len() < 3 && self.samples.iter().all(is_new) {
            let is_address = found != Found::Text;
            self.samples.push((key.to_owned(), is_address));
        }
    }

    /// The samples to show: all in clear, else the networks of the addresses.
    pub(crate) fn shown(&self, in_clear: bool) -> Vec<String> {
        let shown =
            self.samples
                .iter()
                .filter_map(|(key, is_address)| match (in_clear, is_address) {
                    (true, _) => Some(escaped(key)),
                    (false, true) => Some(masked(key)),
                    (false, false) => None,
                });
        shown.collect()
    }
}

/// `true` if a request with this status counts.
fn counts(status: &str, input: &Input) -> Result<bool, String> {
    let number = status
        .parse()
        .map_err(|_| format!("the status `{status}` is not a number"))?;
    Ok(input.status.iter().any(|statuses| statuses.has(number)))
}

/// The advice for a log of which no line could be read.
fn read_by(pattern: &str) -> String {
    let first = ["month", "day"].into_iter().find(|part| {
        let letter = part.get(..1).unwrap_or_default();
        pattern.contains(&format!("'%{letter}/"))
    });
    let first = first.map(|part| format!(" and the {part} stands first"));
    let first = first.unwrap_or_default();
    format!("If {{address}} is the client in it{first}, this reads it: --pattern {pattern}")
}

/// The byte order mark of UTF-8.
const MARK: &[u8] = b"\xef\xbb\xbf";

/// Fills the reader's buffer with the bytes that tell a format: a pipe may give them one by one.
fn with_beginning(mut from: impl BufRead) -> io::Result<impl BufRead> {
    const BYTES: usize = RECORDS.len();
    let (mut start, mut found) = (Vec::new(), 0);
    while found < BYTES && from.by_ref().take(1).read_to_end(&mut start)? > 0 {
        found += usize::from(!start.last().is_some_and(u8::is_ascii_whitespace));
    }
    Ok(Cursor::new(start).chain(from))
}

/// `true` if this is the beginning of an array of objects.
fn is_array(start: &[u8]) -> bool {
    let within = start.trim_ascii_start().strip_prefix(b"[");
    within.is_some_and(|start| start.trim_ascii_start().starts_with(b"{"))
}

/// The beginning of an object that holds an array of objects, as AWS writes its audit trail.
const RECORDS: &[u8] = b"{\"Records\":[";

#[derive(Deserialize)]
struct Records {
    #[serde(rename = "Records")]
    records: Vec<Object>,
}

fn is_records(start: &[u8]) -> bool {
    let text = start.iter().filter(|byte| !byte.is_ascii_whitespace());
    let start: Vec<u8> = text.copied().take(RECORDS.len()).collect();
    start == RECORDS
}

/// The lines that can be read.
fn texts(lines: &[Numbered]) -> Vec<&str> {
    let lines = lines.iter();
    lines.filter_map(|(_, line)| line.as_deref().ok()).collect()
}

fn bad(why: impl Display) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, escaped(&why.to_string()))
}
