//! Lines of words: the access logs of nginx, Apache, Traefik, Envoy, `HAProxy`, the balancers of
//! AWS and Heroku, and logs of `name=value`.
//!
//! Data from the client stands between quotes, in which the servers escape quotes (`\"`, `\x22`).

use std::borrow::Cow;
use std::cmp::Reverse;

use super::client::Clients;
use super::fields::LINE;
use super::record::{Record, same};
use crate::replay::time;

type Words<'a> = Vec<(&'a str, Cow<'a, str>)>;

fn record<'a>(fields: impl IntoIterator<Item = (&'a str, &'a str)>) -> Record<'a> {
    let words = fields.into_iter().map(|(name, value)| (name, value.into()));
    Record::Words(words.collect())
}

/// `ADDRESS IDENT USER [TIME] "REQUEST" STATUS SIZE`, then `"REFERER" "USER AGENT"` and one more
/// field. In front of the address there may be words of a fixed number: a virtual host, or what a
/// collector of logs adds. A user name may hold spaces and brackets, so the time is the text in
/// front of the first quote.
pub(super) struct Access<'a> {
    head: &'a str,
    time: &'a str,
    request: &'a str,
    status: &'a str,
    pub(super) quoted: Vec<&'a str>,
}

impl<'a> Access<'a> {
    pub(super) fn of(line: &'a str) -> Option<Self> {
        let (head, time, request, rest) = start(line)?;
        let mut numbers = rest.trim_start().splitn(3, ' ');
        let (status, _size) = (numbers.next()?, numbers.next()?);
        let rest = numbers.next().unwrap_or_default();
        // Between the size and the referer, servers can write durations.
        let first = rest.find('"').and_then(|at| rest.get(at..));
        let mut rest = first.unwrap_or_default();
        let texts = std::iter::from_fn(|| {
            let (text, behind) = quoted(rest)?;
            rest = behind;
            Some(text)
        });
        (is_status(status) && !head.is_empty()).then(|| Self {
            head,
            time,
            request,
            status,
            quoted: texts.take(3).collect(),
        })
    }

    /// The fields, if the address is this word of the line; without one, if what stands behind it
    /// is not of the format.
    pub(super) fn record(self, word: usize, clients: &Clients) -> Record<'a> {
        let (address, behind) = list_at(self.head, word);
        let is_format = is_format(behind, clients);
        let (address, behind) = if is_format {
            (address, behind)
        } else {
            ("", "")
        };
        let user = behind
            .trim_start()
            .split_once(' ')
            .map_or("", |(_ident, user)| user);
        let fields = [
            ("address", address),
            ("user", user.trim()),
            (LINE, self.request),
            ("time", self.time),
            ("status", self.status),
        ];
        let names = ["referer", "user-agent", "x-forwarded-for"];
        record(fields.into_iter().chain(names.into_iter().zip(self.quoted)))
    }

    /// The first word that is an address, and behind which the words are those of the format.
    pub(super) fn address(&self, clients: &Clients) -> Option<usize> {
        let words = self.head.split_ascii_whitespace().count();
        (0..words).find(|word| {
            let (list, behind) = list_at(self.head, *word);
            is_format(behind, clients) && clients.named(list).is_some()
        })
    }
}

/// Whether these words can stand behind the address.
fn is_format(behind: &str, clients: &Clients) -> bool {
    let mut words = behind.split_ascii_whitespace();
    match (words.next(), words.count()) {
        (None | Some("-"), _) | (Some(_), 1) => true,
        (Some(user), users) => users == 0 && clients.named(user).is_none(),
    }
}

/// Which word of most of these lines is the client's address. What the client sends stands behind
/// it, so the first that can be it is the one.
pub(super) fn address(lines: &[&str], clients: &Clients) -> Option<usize> {
    let lines = lines.iter().filter_map(|line| Access::of(line));
    let found: Vec<usize> = lines.filter_map(|line| line.address(clients)).collect();
    let votes = |word: usize| found.iter().filter(|found| **found == word).count();
    found
        .iter()
        .copied()
        .max_by_key(|word| (votes(*word), Reverse(*word)))
}

/// The list of addresses that begins with this word of a text, and the text behind it. A comma ends
/// all but its last word.
fn list_at(text: &str, word: usize) -> (&str, &str) {
    let mut start = text.trim_ascii_start();
    for _ in 0..word {
        let word = start.find(|c: char| c.is_ascii_whitespace());
        start = word.and_then(|end| start.get(end..)).unwrap_or_default();
        start = start.trim_ascii_start();
    }
    let mut end = 0;
    loop {
        let rest = start.get(end..).unwrap_or_default();
        let blank = rest.len() - rest.trim_ascii_start().len();
        let rest = rest.trim_ascii_start();
        let word = rest.split_ascii_whitespace().next().unwrap_or_default();
        end += blank + word.len();
        if !word.ends_with(',') {
            break;
        }
    }
    start.split_at_checked(end).unwrap_or((start, ""))
}

/// `[TIME] "REQUEST" STATUS FLAGS … "X-FORWARDED-FOR" "USER AGENT" "ID" "AUTHORITY" "UPSTREAM" …`
///
/// Envoy escapes no quotes that a client sends, so a line with more of them is not read.
pub(super) fn envoy(line: &str) -> Option<Record<'_>> {
    let (_, time, request, rest) = start(line)?;
    let status = rest.split_ascii_whitespace().next()?;
    let words = split(rest);
    let is_row = |pair: &[(&str, bool)]| pair.iter().all(|(_, quoted)| *quoted);
    let texts = words.get(words.windows(2).position(is_row)?..)?;
    let (texts, behind) = texts.split_first_chunk::<5>()?;
    let [forwarded, agent, _id, authority, _upstream] = texts.map(|(text, _)| text);
    let is_whole = is_row(texts)
        && !behind
            .iter()
            .any(|(word, quoted)| *quoted || word.contains('"'));
    (is_status(status) && is_whole).then(|| {
        record([
            ("x-forwarded-for", forwarded),
            (LINE, request),
            ("user-agent", agent),
            ("authority", authority),
            ("time", time),
            ("status", status),
        ])
    })
}

/// `ADDRESS:PORT [TIME] FRONTEND BACKEND/SERVER TIMERS STATUS BYTES … "REQUEST"`
pub(super) fn haproxy(line: &str) -> Option<Record<'_>> {
    let (head, rest) = line.split_once(" [")?;
    let (time, rest) = rest.split_once("] ")?;
    // Of IPv6 there are no brackets around the address.
    let (address, _port) = head.rsplit(' ').next()?.rsplit_once(':')?;
    let mut words = rest.split_ascii_whitespace();
    let (_frontend, backend, timers) = (words.next()?, words.next()?, words.next()?);
    let status = words.next()?;
    let (_, request) = rest.split_once('"')?;
    (backend.contains('/') && timers.contains('/') && is_status(status)).then(|| {
        record([
            ("address", address),
            (LINE, request.trim_end_matches('"')),
            ("time", time),
            ("status", status),
        ])
    })
}

/// `TYPE TIME BALANCER CLIENT:PORT TARGET:PORT … STATUS … "REQUEST" "USER AGENT" …`
pub(super) fn alb(line: &str) -> Option<Record<'_>> {
    let words: Vec<&str> = split(line).into_iter().map(|(word, _)| word).collect();
    let [_type, time, _balancer, client, ..] = words.as_slice() else {
        return None;
    };
    let (status, request, agent) = (words.get(8)?, words.get(12)?, words.get(13)?);
    let is_one = time.ends_with('Z') && time::micros(time, None).is_ok() && is_status(status);
    is_one.then(|| {
        record([
            ("client", *client),
            (LINE, *request),
            ("user-agent", *agent),
            ("time", *time),
            ("status", *status),
        ])
    })
}

/// `TIME … name=value name="value"`
pub(super) fn pairs(line: &str) -> Option<Record<'_>> {
    let mut fields: Words<'_> = Vec::new();
    let mut time = None;
    for (word, quoted) in split(line) {
        match word.split_once('=') {
            Some((name, value)) if !quoted && is_name(name) => {
                fields.push((name, value.trim_matches('"').into()));
            }
            _ if time.is_none() && word.contains('T') && time::micros(word, None).is_ok() => {
                time = Some(word);
            }
            _ => {}
        }
    }
    if !fields.iter().any(|(name, _)| same(name, "time")) {
        fields.extend(time.map(|time| ("time", time.into())));
    }
    (fields.len() > 2).then_some(Record::Words(fields))
}

fn is_name(text: &str) -> bool {
    let in_name = |c: char| c.is_ascii_alphanumeric() || "_-.@".contains(c);
    !text.is_empty() && text.chars().all(in_name)
}

/// `true` if this is a status, or stands for one where the client was not answered.
fn is_status(text: &str) -> bool {
    let is_answer = text.len() == 3 && text.bytes().all(|byte| byte.is_ascii_digit());
    is_answer || matches!(text, "-" | "-1" | "0")
}

/// `HEAD [TIME] "REQUEST" REST`
fn start(line: &str) -> Option<(&str, &str, &str, &str)> {
    let (head, rest) = line.split_at_checked(quote(line)?)?;
    let (head, time) = head.trim_end().strip_suffix(']')?.rsplit_once('[')?;
    let (request, rest) = quoted(rest)?;
    Some((head.trim(), time, request, rest))
}

/// The words of a line, and whether each stood between quotes. Of `name="a b"`, one word.
fn split(line: &str) -> Vec<(&str, bool)> {
    let mut words = Vec::new();
    let mut rest = line.trim_ascii();
    while !rest.is_empty() {
        if let Some((word, behind)) = quoted(rest) {
            words.push((word, true));
            rest = behind.trim_ascii_start();
            continue;
        }
        let mut end = rest.find(' ').unwrap_or(rest.len());
        let value = rest.find("=\"").filter(|at| *at < end);
        if let Some(at) = value
            && let Some((_, behind)) = rest.get(at + 1..).and_then(quoted)
        {
            end = rest.len() - behind.len();
        }
        let (word, behind) = rest.split_at_checked(end).unwrap_or((rest, ""));
        words.push((word, false));
        rest = behind.trim_ascii_start();
    }
    words
}

/// The text between the next two quotes, and the text after them.
fn quoted(text: &str) -> Option<(&str, &str)> {
    let text = text.trim_start().strip_prefix('"')?;
    let end = quote(text)?;
    Some((text.get(..end)?, text.get(end + 1..)?))
}

/// The index of the next quote that is not escaped.
fn quote(text: &str) -> Option<usize> {
    let mut escaped = false;
    text.bytes().position(|byte| {
        let found = byte == b'"' && !escaped;
        escaped = byte == b'\\' && !escaped;
        found
    })
}
