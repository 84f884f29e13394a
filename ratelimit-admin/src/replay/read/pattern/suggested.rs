//! A pattern for a log whose format is not known, for its operator to confirm.

use std::borrow::Cow;

use super::{LONGEST_ADDRESS, Pattern, TIME};
use crate::replay::read::client::Clients;
use crate::replay::read::words::{self, quoted};
use crate::replay::time::{self, Form, Part};

/// The number of lines that patterns are made of.
const TRIED: usize = 10;

/// In bytes.
const LONGEST_TIME: usize = 40;

/// The times from 2002 to 2100, in microseconds: other numbers are sizes and identifiers, such as
/// the twelve digits of AWS.
const TIMES: std::ops::Range<u64> = 1_009_843_200_000_000..4_102_444_800_000_000;

/// The name of the first address of a line. Others have a number behind it.
const ADDRESS: &str = "address";

/// The forms of times that are ambiguous, of equally good ones the last.
const FORMS: [&str; 5] = [
    "%d.%m.%Y %H:%M:%S",
    "%d/%m/%Y %H:%M:%S",
    "%m/%d/%Y %H:%M:%S",
    "%m/%d/%Y, %H:%M:%S",
    "%m/%d/%Y %I:%M:%S %p",
];

/// The options that read most of these lines, if one has a time and an address. They repeat only
/// punctuation of the lines, and so name no person.
pub(crate) fn suggested(lines: &[&str], form: Option<&Form>, clients: &Clients) -> Option<String> {
    let best = |times: Times<'_>| best(lines, times, clients);
    let mut found = best(Times::Dated(form)).map(|(_, pattern)| (pattern, None));
    if form.is_none() {
        let others = FORMS.iter().filter_map(|text| {
            let form = Form::Text((*text).to_owned());
            let (count, pattern) = best(Times::Dated(Some(&form)))?;
            Some((count, (pattern, Some(*text))))
        });
        found = found
            .or_else(|| {
                others
                    .max_by_key(|(count, _)| *count)
                    .map(|(_, found)| found)
            })
            .or_else(|| best(Times::Any).map(|(_, pattern)| (pattern, None)));
    }
    let (pattern, form) = found?;
    let form = form.map(|form| format!(" --time-format '{form}'"));
    // A line may hold the quotes of a shell, and its operator copies the command.
    let pattern = pattern.replace('\'', r"'\''");
    Some(format!("'{pattern}'{}", form.unwrap_or_default()))
}

/// The times that a pattern accepts.
#[derive(Clone, Copy)]
enum Times<'a> {
    /// With a date and a year, in this form.
    Dated(Option<&'a Form>),
    Any,
}

/// The pattern that fits most of these lines, and how many it fits.
fn best(lines: &[&str], times: Times<'_>, clients: &Clients) -> Option<(usize, String)> {
    let form = match times {
        Times::Dated(form) => form,
        Times::Any => None,
    };
    let is_one = |address: Cow<'_, str>| clients.named(&address).is_some();
    let fits = |text: &str| {
        let pattern = text.parse::<Pattern>().ok()?.of(lines, form, clients);
        let is_request = |line: &&&str| {
            let record = pattern.record(line, clients);
            let fits = record.and_then(|record| {
                let status = record.get("status")?;
                Ok(record.get(ADDRESS)?.is_some_and(is_one)
                    && status.is_none_or(|status| words::is_status(&status)))
            });
            pattern.has_time(line) && fits.unwrap_or(false)
        };
        Some(lines.iter().filter(is_request).count())
    };
    let made = lines
        .iter()
        .filter_map(|line| Maker::new(times, clients).made(line));
    let counted = made
        .take(TRIED)
        .filter_map(|text| Some((fits(&text)?, text)));
    let best = counted.max_by_key(|(count, _)| *count)?;
    (best.0 * 10 > lines.len()).then_some(best)
}

/// Makes the pattern of a line.
struct Maker<'a> {
    clients: &'a Clients,
    times: Times<'a>,
    pattern: String,
    /// The length of the pattern up to its last field with a name.
    named: usize,
    has_time: bool,
    addresses: usize,
    has_request: bool,
    has_status: bool,
}

impl<'a> Maker<'a> {
    fn new(times: Times<'a>, clients: &'a Clients) -> Self {
        Self {
            clients,
            times,
            pattern: String::new(),
            named: 0,
            has_time: false,
            addresses: 0,
            has_request: false,
            has_status: false,
        }
    }

    /// The pattern, if the line has a time and an address.
    fn made(mut self, line: &str) -> Option<String> {
        let mut rest = line;
        while let Some(next) = rest.chars().next() {
            let length = self.step(rest, next);
            rest = rest.get(length..).unwrap_or_default();
        }
        // All that stands behind the last field with a name is one field.
        let behind = self.pattern.split_off(self.named);
        let end = behind.find("{}").map_or(behind.len(), |at| at + 2);
        self.pattern += behind.get(..end)?;
        (self.has_time && self.addresses > 0).then_some(self.pattern)
    }

    /// Adds the field or character that a text begins with, and returns its length. `next` is the
    /// first character.
    fn step(&mut self, text: &str, next: char) -> usize {
        if let Some(length) = self.add_field(text) {
            return length;
        }
        if let Some((inside, behind)) = quoted(text).filter(|_| next == '"') {
            self.pattern.push('"');
            if self.add_field(inside) != Some(inside.len()) {
                self.add(if is_request(inside) && !self.has_request {
                    "request"
                } else {
                    ""
                });
            }
            self.pattern.push('"');
            return text.len() - behind.len();
        }
        let close = match next {
            '[' => text.find(']'),
            '(' => text.find(')'),
            _ => None,
        };
        if let Some(inside) = close.and_then(|close| text.get(1..close))
            && !starts(inside).any(|start| self.field(start).is_some())
        {
            self.text(next);
            self.add("");
            return 1 + inside.len();
        }
        let end = text.find(SEPARATORS).unwrap_or(text.len());
        let Some(word) = text.get(..end).filter(|word| !word.is_empty()) else {
            self.text(next);
            return next.len_utf8();
        };
        let within = starts(word).find(|start| {
            let start = text.get(word.len() - start.len()..).unwrap_or_default();
            self.field(start).is_some()
        });
        if let Some(start) = within {
            let front = word.len() - start.len();
            self.add_front(word.get(..front).unwrap_or_default());
            return front;
        }
        // Elsewhere such a number may be a size or a duration.
        if is_status(word) && self.has_request && !self.has_status {
            self.has_status = true;
            self.add("status");
        } else if word.contains(|c: char| c.is_alphanumeric() || c == '-') {
            self.add("");
        } else {
            word.chars().for_each(|c| self.text(c));
        }
        word.len()
    }

    /// Adds the time or address at the start of a text as a field, and returns its length.
    fn add_field(&mut self, text: &str) -> Option<usize> {
        let (name, length) = self.field(text)?;
        if name == TIME {
            self.has_time = true;
            self.add(name);
        } else {
            self.addresses += 1;
            match self.addresses {
                1 => self.add(name),
                number => self.add(&format!("{name}-{number}")),
            }
        }
        Some(length)
    }

    /// The name and the length of the field that a text begins with.
    fn field(&self, text: &str) -> Option<(&'static str, usize)> {
        let ends = text.char_indices().map(|(at, _)| at).chain([text.len()]);
        let ends = ends.skip(1).take_while(|end| *end <= LONGEST_ADDRESS);
        let ends = ends.filter(|end| {
            let behind = text.get(*end..).unwrap_or_default();
            behind.is_empty() || behind.starts_with(SEPARATORS)
        });
        let value = |end: usize| text.get(..end).unwrap_or_default();
        let is_time = |end: &usize| {
            let value = value(*end);
            let time = || {
                if let Times::Dated(form) = self.times {
                    return time::dated(value, form);
                }
                // In front of a time of the day may stand a date in a form that is not known.
                let time = time::read(value, None, None).ok()?;
                let is_first = !self.pattern.contains('{');
                (is_first || time.without != Some(Part::Date)).then_some(time.micros)
            };
            value.len() > 7
                && value.len() <= LONGEST_TIME
                && value.trim_ascii().len() == value.len()
                && !value.starts_with('[')
                && (!value.contains(' ') || value.matches(':').count() > 1)
                && time().is_some_and(|time| TIMES.contains(&time))
        };
        let is_address = |end: &usize| {
            let value = value(*end);
            value.contains(['.', ':'])
                && value.contains(|c: char| c.is_ascii_digit())
                && !value.contains([',', ' ', '\t', '['])
                && self.clients.named(value).is_some()
        };
        if !self.has_time
            && let Some(end) = ends.clone().filter(is_time).last()
        {
            return Some((TIME, end));
        }
        ends.clone().find(is_address).map(|end| (ADDRESS, end))
    }

    fn add(&mut self, name: &str) {
        self.pattern.push('{');
        self.pattern += name;
        self.pattern.push('}');
        if !name.is_empty() {
            self.named = self.pattern.len();
        }
        if name == "request" {
            self.has_request = true;
        }
    }

    /// Adds the part of a word in front of a field.
    fn add_front(&mut self, front: &str) {
        let mut is_text = true;
        for c in front.chars() {
            if FRONT.contains(c) || c == '/' {
                self.text(c);
                is_text = true;
            } else if std::mem::take(&mut is_text) {
                self.add("");
            }
        }
    }

    fn text(&mut self, c: char) {
        match c {
            '{' => self.pattern += "{{",
            '}' => self.pattern += "}}",
            ' ' | '\t' if self.pattern.ends_with(' ') => {}
            '\t' => self.pattern.push(' '),
            c => self.pattern.push(c),
        }
    }
}

/// Between words.
const SEPARATORS: &[char] = &[' ', '\t', '"', '[', ']', '(', ')', '{', '}', '|', ',', ';'];

/// In front of a field within a word.
const FRONT: &str = "=:<>@";

/// A text, and the ends of it behind one of [`FRONT`] or a separator. Java writes a slash in front
/// of addresses.
fn starts(text: &str) -> impl Iterator<Item = &str> {
    let is_front = |c: char| FRONT.contains(c) || SEPARATORS.contains(&c);
    let places = text.match_indices(is_front).map(|(at, c)| at + c.len());
    [0].into_iter()
        .chain(places)
        .filter_map(|at| text.get(at..))
        .map(|start| start.strip_prefix('/').unwrap_or(start))
}

fn is_status(word: &str) -> bool {
    word.len() == 3
        && word
            .parse::<u16>()
            .is_ok_and(|status| (100..600).contains(&status))
}

/// `true` if this is a method and a target.
fn is_request(text: &str) -> bool {
    let method = text.split_once(' ').map(|(method, _)| method);
    method.is_some_and(|method| method.bytes().all(|byte| byte.is_ascii_uppercase()))
}
