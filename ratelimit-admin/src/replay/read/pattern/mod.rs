//! [`Pattern`]: where the fields of a line stand, as an operator writes it.

mod suggested;

use std::cell::LazyCell;
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
    /// In how many places of a whole line another seems to begin, as behind the first word where
    /// two times and two addresses stand side by side.
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
                let beginnings =
                    values.map(|(line, values)| pattern.beginnings(line, &values, clients));
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
        let values = self
            .values(line)
            .ok_or_else(|| "it is not as --pattern says".to_owned())?;
        if self.beginnings(line, &values, clients) > self.beginnings {
            return Err("it holds two requests".to_owned());
        }
        if self.is_ambiguous(line, clients) {
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
        values(&self.fields, after(line, &self.head)?)
    }

    /// `true` if a field between quotes may end later, in front of another address. Not every
    /// server escapes the quotes that clients send.
    fn is_ambiguous(&self, line: &str, clients: &Clients) -> bool {
        let mut rest = after(line, &self.head).unwrap_or_default();
        let mut fields = &*self.fields;
        while let Some((field, others)) = fields.split_first()
            && let Some((_, behind)) = field.value(rest)
        {
            let has_address = |text: &str| {
                let values = values(others, text).unwrap_or_default();
                let mut named = others.iter().zip(values);
                named.any(|(field, value)| !field.name.is_empty() && clients.named(value).is_some())
            };
            if field.behind.starts_with('"')
                && occurrences(behind, &field.behind).any(|(_, text)| has_address(text))
            {
                return true;
            }
            (fields, rest) = (others, behind);
        }
        false
    }

    /// The number of places where another line seems to begin because this one was cut: its address
    /// and its time would be of different requests.
    fn beginnings(&self, line: &str, found: &[&str], clients: &Clients) -> usize {
        let is_address = |(_, value): &(&str, &str)| clients.named(value).is_some();
        // Few lines have the text of another request.
        let has_time = LazyCell::new(|| self.named(found).any(|field| self.is_time(field)));
        let address = LazyCell::new(|| Some(self.named(found).find(is_address)?.0));
        let is_request = |values: &[&str]| {
            let mut addresses = self.named(values).filter(is_address);
            address.is_none_or(|address| addresses.any(|(name, _)| name == address))
                && (!*has_time || self.named(values).any(|field| self.is_time(field)))
        };
        let (Some((first, others)), Some(value)) = (self.fields.split_first(), found.first())
        else {
            return 0;
        };
        let is_first = !first.name.is_empty() && clients.named(value).is_some();
        let Some((_, from)) = after(line, &self.head).and_then(|text| first.value(text)) else {
            return 0;
        };
        let text = if self.head.is_empty() {
            &first.behind
        } else {
            &self.head
        };
        let begins = |(before, behind): &(&str, &str)| {
            if !self.head.is_empty() {
                return values(&self.fields, behind).is_some_and(|values| is_request(&values));
            }
            let Some(mut values) = values(others, behind) else {
                return false;
            };
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
        occurrences(from, text).filter(begins).count()
    }
}

/// The values of these fields of a text.
fn values<'a>(fields: &[Field], mut rest: &'a str) -> Option<Vec<&'a str>> {
    let mut values = Vec::with_capacity(fields.len());
    for field in fields {
        let (value, behind) = field.value(rest)?;
        values.push(value.trim_ascii());
        rest = behind;
    }
    Some(values)
}

impl Field {
    /// The field's value at the start of a text, and the rest after the text `behind`.
    fn value<'a>(&self, text: &'a str) -> Option<(&'a str, &'a str)> {
        if self.behind.is_empty() {
            return Some((text, ""));
        }
        // What clients send stands between quotes, in which servers escape quotes.
        if self.behind.starts_with('"') {
            let (value, rest) = text.split_at_checked(quote(text)?)?;
            return Some((value, after(rest, &self.behind)?));
        }
        occurrences(text, &self.behind).nth(self.holds)
    }
}

/// The occurrences of a pattern's text in a line: the line before and after each.
fn occurrences<'a>(line: &'a str, text: &str) -> impl Iterator<Item = (&'a str, &'a str)> {
    let mut from = 0;
    std::iter::from_fn(move || {
        let mut places = line.get(from..)?.char_indices().map(|(at, _)| from + at);
        let found = places.by_ref().chain([line.len()]).find_map(|at| {
            let (before, rest) = line.split_at_checked(at)?;
            Some((before, after(rest, text)?))
        })?;
        from = line.len() - found.1.len();
        // At its end a line has one blank.
        from += usize::from(found.0.len() == line.len());
        Some(found)
    })
}

/// The rest of a line after a pattern's text; `None` if it does not begin with the text. A blank in
/// the text stands for one or more, or for none at the end of the line.
fn after<'a>(line: &'a str, text: &str) -> Option<&'a str> {
    let mut rest = line;
    let mut blank = false;
    for wanted in text.chars() {
        if wanted != ' ' {
            rest = rest.strip_prefix(wanted)?;
        } else if !blank {
            let behind = rest.trim_start_matches([' ', '\t']);
            if behind.len() == rest.len() && !rest.is_empty() {
                return None;
            }
            rest = behind;
        }
        blank = wanted == ' ';
    }
    Some(rest)
}
