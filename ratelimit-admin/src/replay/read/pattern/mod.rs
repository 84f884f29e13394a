//! [`Pattern`]: where the fields of a line stand, as an operator writes it.

mod suggested;

use std::cell::{LazyCell, RefCell};
use std::str::FromStr;

pub(super) use self::suggested::suggested;
use super::client::{Clients, LONGEST_ADDRESS, ends};
use super::record::Record;
use super::words::quote;
use crate::replay::time::{self, Form};

/// `[GIN] {time} | {status} | {} | {address} | {}`: text, and fields between braces, of which one
/// without a name is not read. A field ends where the text behind it begins, the last one with the
/// line. A blank of the text stands for any number of blanks and tabs, `{{` and `}}` for braces.
#[derive(Clone)]
pub(crate) struct Pattern {
    /// In front of the first field.
    head: String,
    fields: Vec<Field>,
    /// The format of the time; `None` to guess it.
    form: Option<Form>,
    /// The number of places of a whole line where another seems to begin, as after the first word
    /// if two times and two addresses stand side by side.
    beginnings: usize,
}

#[derive(Clone)]
struct Field {
    name: String,
    /// The text after the field; empty after the last one.
    behind: String,
    /// The number of times that a value of the field holds the text `behind`.
    holds: usize,
}

/// The name of the time, which may hold the text behind it: blanks.
const TIME: &str = "time";

/// The most words of a time.
const LONGEST_TIME: usize = 6;

impl FromStr for Pattern {
    type Err = String;

    fn from_str(pattern: &str) -> Result<Self, String> {
        let mut read = Self {
            head: String::new(),
            fields: Vec::new(),
            form: None,
            beginnings: 0,
        };
        let mut rest = pattern;
        while let Some(next) = rest.chars().next() {
            let is_doubled = rest.starts_with("{{") || rest.starts_with("}}");
            let length = next.len_utf8() * if is_doubled { 2 } else { 1 };
            rest = rest.get(length..).unwrap_or_default();
            match next {
                '{' if !is_doubled => {
                    let (name, behind) = rest
                        .split_once('}')
                        .ok_or("a field is not closed: a brace of the text is written `{{`")?;
                    read.add(name.trim())?;
                    rest = behind;
                }
                '}' if !is_doubled => {
                    return Err("a brace of the text is written `}}`".to_owned());
                }
                _ => match read.fields.last_mut() {
                    Some(last) => last.behind.push(next),
                    None => read.head.push(next),
                },
            }
        }
        if read.fields.is_empty() {
            return Err("it has no fields, as in '{time} {address} {}'".to_owned());
        }
        Ok(read)
    }
}

impl Pattern {
    fn add(&mut self, name: &str) -> Result<(), String> {
        let mut last = self.fields.iter().rev();
        if last.next().is_some_and(|last| last.behind.is_empty()) {
            return Err(format!("no text stands in front of `{{{name}}}`"));
        }
        if !name.is_empty() && self.fields.iter().any(|field| field.name == name) {
            return Err(format!("it has two fields `{{{name}}}`"));
        }
        self.fields.push(Field {
            name: name.to_owned(),
            behind: String::new(),
            holds: 0,
        });
        Ok(())
    }

    /// The pattern, with times as long as those of most of these lines.
    pub(super) fn of(&self, lines: &[&str], form: Option<&Form>, clients: &Clients) -> Self {
        let counted = (0..LONGEST_TIME).map(|holds| {
            let mut pattern = self.clone();
            pattern.form = form.cloned();
            for field in &mut pattern.fields {
                field.holds = if field.name == TIME { holds } else { 0 };
            }
            let count = lines.iter().filter(|line| pattern.has_time(line)).count();
            (count, pattern)
        });
        // Of equal ones the last: an offset is part of the time.
        match counted.max_by_key(|(count, _)| *count) {
            Some((1.., mut pattern)) => {
                let values = lines
                    .iter()
                    .filter_map(|line| Some((line, pattern.values(line)?)));
                let beginnings = values.map(|(line, values)| {
                    pattern.beginnings(&Places::of(line, &pattern.fields), &values, clients)
                });
                pattern.beginnings = beginnings.min().unwrap_or(0);
                pattern
            }
            _ => self.clone(),
        }
    }

    /// `true` if a line fits the pattern.
    pub(super) fn fits(&self, line: &str) -> bool {
        self.values(line).is_some()
    }

    fn has_time(&self, line: &str) -> bool {
        self.values(line)
            .is_some_and(|values| self.named(&values).any(|field| self.is_time(field)))
    }

    fn is_time(&self, (name, value): (&str, &str)) -> bool {
        name == TIME && time::read(value, self.form.as_ref(), None).is_ok()
    }

    /// The fields of a line.
    ///
    /// # Errors
    ///
    /// If the line has other text, or the line of another request begins in it.
    pub(super) fn record<'a>(
        &'a self,
        line: &'a str,
        clients: &Clients,
    ) -> Result<Record<'a>, String> {
        let places = Places::of(line, &self.fields);
        let values = self
            .values(line)
            .ok_or_else(|| "it is not as --pattern says".to_owned())?;
        if self.beginnings(&places, &values, clients) > self.beginnings {
            return Err("it holds two requests".to_owned());
        }
        if self.is_ambiguous(&places, clients) {
            return Err("a quotation mark in it ends no field".to_owned());
        }
        let words = self.named(&values);
        Ok(Record::Words(
            words.map(|(name, value)| (name, value.into())).collect(),
        ))
    }

    /// The values of the fields that have names.
    fn named<'a>(&'a self, values: &[&'a str]) -> impl Iterator<Item = (&'a str, &'a str)> {
        let fields = self.fields.iter().zip(values.iter().copied());
        let fields = fields.map(|(field, value)| (&*field.name, value));
        fields.filter(|(name, _)| !name.is_empty())
    }

    /// The values of all fields.
    fn values<'a>(&self, line: &'a str) -> Option<Vec<&'a str>> {
        let from = line.len() - after(line, &self.head)?.len();
        Places::of(line, &self.fields).values(0, from)
    }

    /// `true` if a field between quotes may end later, in front of another address. Not every
    /// server escapes the quotes that clients send.
    fn is_ambiguous(&self, places: &Places<'_, '_>, clients: &Clients) -> bool {
        let line = places.line;
        let mut from = line.len() - after(line, &self.head).unwrap_or_default().len();
        for (at, field) in self.fields.iter().enumerate() {
            let Some((_, behind)) = places.value(at, from) else {
                return false;
            };
            let has_address = |from| {
                let values = places.values(at + 1, from).unwrap_or_default();
                let others = self.fields.get(at + 1..).unwrap_or_default();
                let mut named = others.iter().zip(values);
                named.any(|(field, value)| !field.name.is_empty() && clients.named(value).is_some())
            };
            if field.behind.starts_with('"')
                && occurrences(line, behind, &field.behind).any(|(_, end)| has_address(end))
            {
                return true;
            }
            from = behind;
        }
        false
    }

    /// The number of places where another line seems to begin because this one was cut: its address
    /// and its time would be of different requests.
    fn beginnings(&self, places: &Places<'_, '_>, found: &[&str], clients: &Clients) -> usize {
        let line = places.line;
        let is_address = |(_, value): &(&str, &str)| clients.named(value).is_some();
        // Few lines have the text of another request.
        let has_time = LazyCell::new(|| self.named(found).any(|field| self.is_time(field)));
        let address = LazyCell::new(|| Some(self.named(found).find(is_address)?.0));
        let is_request = |values: &[&str]| {
            let mut addresses = self.named(values).filter(is_address);
            address.is_none_or(|address| addresses.any(|(name, _)| name == address))
                && (!*has_time || self.named(values).any(|field| self.is_time(field)))
        };
        let (Some(first), Some(value)) = (self.fields.first(), found.first()) else {
            return 0;
        };
        let is_first = !first.name.is_empty() && clients.named(value).is_some();
        let begin = after(line, &self.head).map(|text| line.len() - text.len());
        let Some((_, from)) = begin.and_then(|begin| places.value(0, begin)) else {
            return 0;
        };
        let text = if self.head.is_empty() {
            &first.behind
        } else {
            &self.head
        };
        let begins = |&(at, behind): &(usize, usize)| {
            if !self.head.is_empty() {
                let values = places.values(0, behind);
                return values.is_some_and(|values| is_request(&values));
            }
            let Some(mut values) = places.values(1, behind) else {
                return false;
            };
            let before = line.get(from..at).unwrap_or_default();
            values.insert(0, "");
            let mut is_request = |end| {
                if let Some(first) = values.first_mut() {
                    *first = end;
                }
                is_request(&values)
            };
            // What stands in front of the text may end with the first value of another line.
            match &*first.name {
                TIME => {
                    let start = before.len().checked_sub(value.len());
                    let end = start.and_then(|start| before.get(start..));
                    end.is_some_and(is_request)
                }
                _ if is_first => ends(before.trim_ascii_end()).any(is_request),
                _ => is_request(""),
            }
        };
        occurrences(line, from, text).filter(begins).count()
    }
}

/// Finds the values of fields from any place of a line on. The line is read once for each field
/// while the places come from left to right, however often the text behind a field recurs.
struct Places<'l, 'f> {
    line: &'l str,
    fields: &'f [Field],
    /// The last answers, by field and by the number of such texts in its value so far.
    last: RefCell<Vec<[Option<Sought>; LONGEST_TIME]>>,
}

/// The place from which a text was looked for, and the place found.
#[derive(Clone, Copy)]
struct Sought {
    from: usize,
    found: Option<Place>,
}

/// The place where a text begins, and its end if it is the text looked for.
#[derive(Clone, Copy)]
struct Place {
    at: usize,
    end: Option<usize>,
}

impl<'l, 'f> Places<'l, 'f> {
    fn of(line: &'l str, fields: &'f [Field]) -> Self {
        Self {
            line,
            fields,
            last: RefCell::new(vec![[None; LONGEST_TIME]; fields.len()]),
        }
    }

    /// The values of the fields from the `first` on.
    fn values(&self, first: usize, mut from: usize) -> Option<Vec<&'l str>> {
        let mut values = Vec::with_capacity(self.fields.len());
        for at in first..self.fields.len() {
            let (value, behind) = self.value(at, from)?;
            values.push(value.trim_ascii());
            from = behind;
        }
        Some(values)
    }

    /// The value of a field that begins at `from`, and the place after the text behind it.
    fn value(&self, at: usize, from: usize) -> Option<(&'l str, usize)> {
        let field = self.fields.get(at)?;
        if field.behind.is_empty() {
            return Some((self.line.get(from..)?, self.line.len()));
        }
        let (mut holds, mut next) = (0, from);
        loop {
            let place = self.next(at, holds, next)?;
            let end = place.end?;
            if holds == field.holds {
                return Some((self.line.get(from..place.at)?, end));
            }
            // At its end a line has one blank.
            next = end + usize::from(place.at == self.line.len());
            holds += 1;
        }
    }

    /// The first place of the text behind a field, at `from` or later.
    fn next(&self, at: usize, holds: usize, from: usize) -> Option<Place> {
        let field = self.fields.get(at)?;
        // What clients send stands between quotes, in which servers escape quotes.
        let is_quoted = field.behind.starts_with('"');
        let mut last = self.last.borrow_mut();
        let last = last.get_mut(at)?.get_mut(holds)?;
        if let Some(Sought {
            from: before,
            found,
        }) = *last
            && before <= from
            && found.is_none_or(|place| from <= place.at)
            && (before == from || !is_quoted || !self.line.get(..from)?.ends_with('\\'))
        {
            return found;
        }
        let found = if is_quoted {
            let rest = self.line.get(from..)?;
            quote(rest).map(|quote| Place {
                at: from + quote,
                end: rest
                    .get(quote..)
                    .and_then(|rest| after(rest, &field.behind))
                    .map(|behind| self.line.len() - behind.len()),
            })
        } else {
            occurrence(self.line, from, &field.behind).map(|(at, end)| Place { at, end: Some(end) })
        };
        *last = Some(Sought { from, found });
        found
    }
}

/// The beginning and end of each occurrence of a pattern's text in a line.
fn occurrences(line: &str, mut from: usize, text: &str) -> impl Iterator<Item = (usize, usize)> {
    std::iter::from_fn(move || {
        let (at, end) = occurrence(line, from, text)?;
        // At its end a line has one blank.
        from = end + usize::from(at == line.len());
        Some((at, end))
    })
}

/// The beginning and end of a pattern's text in a line, at `from` or later.
fn occurrence(line: &str, mut from: usize, text: &str) -> Option<(usize, usize)> {
    loop {
        let rest = line.get(from..)?;
        if let Some(behind) = after(rest, text) {
            return Some((from, line.len() - behind.len()));
        }
        let mut others = rest.chars();
        let next = others.next()?;
        let others = match text.chars().next() {
            // From each blank of a run the line goes on alike.
            Some(' ') if is_blank(next) => others.as_str().trim_start_matches(is_blank),
            Some(' ') => others.as_str().trim_start_matches(|c| !is_blank(c)),
            Some(first) => {
                let others = others.as_str();
                others.get(others.find(first)?..)?
            }
            None => others.as_str(),
        };
        from = line.len() - others.len();
    }
}

fn is_blank(c: char) -> bool {
    matches!(c, ' ' | '\t')
}

/// The line behind a text of a pattern, which it begins with. A blank of it stands for any number
/// of them, and for none where the line ends.
fn after<'a>(line: &'a str, text: &str) -> Option<&'a str> {
    let mut rest = line;
    let mut blank = false;
    for wanted in text.chars() {
        if wanted != ' ' {
            rest = rest.strip_prefix(wanted)?;
        } else if !blank {
            let behind = rest.trim_start_matches(is_blank);
            if behind.len() == rest.len() && !rest.is_empty() {
                return None;
            }
            rest = behind;
        }
        blank = wanted == ' ';
    }
    Some(rest)
}
