//! Lines of words: the access logs of nginx, Apache, Traefik, Envoy, `HAProxy`, the balancers of
//! AWS and Heroku, and logs of `name=value`.
//!
//! Data from the client stands between quotes, in which the servers escape quotes (`\"`, `\x22`).

use std::borrow::Cow;
use std::cmp::Reverse;
use std::fmt;
use std::sync::LazyLock;

use super::client::{Clients, ends};
use super::fields::{LINE, TIMES};
use super::record::{Record, same};
use crate::replay::time;

type Words<'a> = Vec<(&'a str, Cow<'a, str>)>;

/// The fields of a format, with the words in front of them and behind them.
fn record<'a>(
    fields: impl IntoIterator<Item = (&'a str, &'a str)>,
    front: &'a str,
    behind: impl IntoIterator<Item = &'a str>,
) -> Record<'a> {
    let fields = fields.into_iter().map(|(name, value)| (name, value.into()));
    let mut fields = fields.collect();
    add_others(&mut fields, &WORDS, front.split_ascii_whitespace());
    add_others(&mut fields, &BEHIND, behind);
    Record::Words(fields)
}

/// `ADDRESS IDENT USER [TIME] "REQUEST" STATUS SIZE`, then `"REFERER" "USER AGENT"` and others. A
/// fixed number of words may precede the address: a virtual host, or words of a log collector. A
/// user name may hold spaces and brackets, so the last brackets before the first quote hold the
/// time. If no words precede the time, the address follows it.
pub(super) struct Access<'a> {
    head: &'a str,
    time: &'a str,
    request: &'a str,
    status: &'a str,
    /// The rest of the line after the request.
    rest: &'a str,
    /// `true` if words stand between the time and the request.
    has_middle: bool,
    /// `true` if the head is the words between the time and the request.
    is_after_time: bool,
    pub(super) quoted: Vec<&'a str>,
    /// The words behind the size that are not quoted.
    behind: Vec<&'a str>,
}

impl<'a> Access<'a> {
    pub(super) fn of(line: &'a str) -> Option<Self> {
        let (mut head, mut time, middle, request, rest) = start(line)?;
        let is_after_time = head.is_empty();
        if is_after_time {
            head = middle;
        }
        if !middle.is_empty() {
            time = bracketed(time)?;
        }
        // Between the size and the referer, servers can write durations.
        let numbers = rest.get(..rest.find('"').unwrap_or(rest.len()))?;
        let mut numbers = numbers.split_ascii_whitespace();
        let first = numbers.next()?;
        // Loki's gateway writes the status in front of the request.
        let second = numbers.next();
        let (status, size) = second.map_or((middle, first), |second| (first, second));
        let is_number = size
            .bytes()
            .all(|byte| byte.is_ascii_digit() || byte == b'.');
        let is_size = is_number || size == "-";
        let (mut quoted, mut behind) = (Vec::new(), Vec::new());
        for (word, is_quoted) in split(rest)
            .into_iter()
            .skip(1 + usize::from(second.is_some()))
        {
            let words = if is_quoted { &mut quoted } else { &mut behind };
            words.push(word);
        }
        (is_status(status) && is_size && !head.is_empty()).then_some(Self {
            head,
            time,
            request,
            status,
            rest,
            has_middle: !middle.is_empty(),
            is_after_time,
            quoted,
            behind,
        })
    }

    /// `true` if this line was cut and another request's line begins within it: its address and its
    /// time would be of different requests.
    pub(super) fn is_joined(&self, place: Option<Place>, clients: &Clients) -> bool {
        place.is_some_and(|place| self.has_two_heads(place, clients))
            || times(self.rest)
                .any(|behind| self.has_middle || behind.trim_start().starts_with('"'))
    }

    fn has_two_heads(&self, Place { word, behind, .. }: Place, clients: &Clients) -> bool {
        let (_, rest) = list_at(self.head, word);
        let mut words: Vec<&str> = rest.split_ascii_whitespace().collect();
        let is_other = behind < 2 && words.len() != behind;
        // Older ingresses of Kubernetes write `- [LIST] - USER`.
        let is_list = |words: &[&str]| matches!(words, [first, ..] if first.starts_with('['));
        if words.get(1..).is_some_and(is_list)
            && let Some(end) = words.iter().skip(1).position(|word| !word.ends_with(','))
            && words.get(end + 1).is_some_and(|word| word.ends_with(']'))
        {
            words.drain(..=end + 1);
        }
        let is_time = |word: &&str| {
            let begun = word.strip_prefix('[');
            begun.is_some_and(|word| word.starts_with(|c: char| c.is_ascii_digit()))
        };
        let ends_as_address = |word: &str| ends(word).any(|end| clients.named(end).is_some());
        let mut pairs = words.windows(2).skip(1);
        is_other
            || words.iter().filter(|word| **word == "-").count() > 2
            || words.iter().any(is_time)
            || pairs.any(|pair| matches!(pair, [word, "-"] if ends_as_address(word)))
    }

    /// The fields, with this word of the line as the address; without an address if the words after
    /// it do not fit the format.
    pub(super) fn record(self, word: usize, texts: Texts, clients: &Clients) -> Record<'a> {
        let (mut address, mut behind) = list_at(self.head, word);
        let count = |text: &str| text.split_ascii_whitespace().count();
        let last = count(self.head) - count(behind);
        if !is_format(behind, clients) {
            (address, behind) = ("", "");
        }
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
        let quoted = QUOTED.iter().zip(self.quoted).enumerate();
        let quoted = quoted.map(|(at, (name, text))| (texts.name(at).unwrap_or(name), text));
        let numbered = WORDS.iter().zip(self.head.split_ascii_whitespace());
        let mut is_in_list = false;
        let others = numbered.enumerate().filter_map(|(at, (name, other))| {
            let is_first = !std::mem::replace(&mut is_in_list, other.ends_with(','));
            let is_other = is_first && (at < word || at >= last);
            is_other.then(|| (&**name, list_at(self.head, at).0))
        });
        record(
            fields.into_iter().chain(quoted).chain(others),
            "",
            self.behind,
        )
    }

    /// The first word that is an address followed by words of the format.
    fn address(&self, clients: &Clients) -> Option<Place> {
        let words = 0..self.head.split_ascii_whitespace().count();
        words
            .map(|word| (word, list_at(self.head, word)))
            .find_map(|(word, (list, rest))| {
                let is_one = is_format(rest, clients) && clients.named(list).is_some();
                let behind = rest.split_ascii_whitespace().count();
                let is_after_time = self.is_after_time;
                is_one.then_some(Place {
                    word,
                    behind,
                    is_after_time,
                })
            })
    }
}

/// The names of places of a line, such as `word-1`.
type Names = LazyLock<Vec<String>>;

/// The names of the other words in front of the time.
static WORDS: Names = Names::new(|| numbered("word"));

/// The names of the words behind the fields of the format.
static BEHIND: Names = Names::new(|| numbered("behind"));

/// The names of the texts behind the request.
static QUOTED: Names = Names::new(|| numbered("quoted"));

/// The names of the headers that `HAProxy` has captured.
static CAPTURED: Names = Names::new(|| numbered("captured"));

/// The most places of a kind that have names.
const MOST_PLACES: usize = 40;

fn numbered(of: &str) -> Vec<String> {
    let numbers = 1..=MOST_PLACES;
    numbers.map(|number| format!("{of}-{number}")).collect()
}

/// Adds the words that belong to no field of the format, each under its place, or under its name in
/// `name="value"` and `name:"value"`: servers escape the quotes that clients send.
fn add_others<'a>(
    fields: &mut Words<'a>,
    names: &'static [String],
    words: impl IntoIterator<Item = &'a str>,
) {
    for (name, word) in names.iter().zip(words) {
        let pair = word.split_once("=\"").or_else(|| word.split_once(":\""));
        // A field of the format, and what others are taken by, is not replaced.
        let own = pair.map(|(own, _)| own).filter(|own| {
            let taken = fields.iter().map(|(known, _)| *known);
            let mut taken = taken.chain(["key"]).chain(TIMES.iter().copied());
            is_name(own) && !taken.any(|known| same(known, own))
        });
        let bare_pair = || word.split_once('=').filter(|(own, _)| is_name(own));
        let value = pair.or_else(bare_pair).map_or(word, |(_, value)| value);
        fields.push((own.unwrap_or(name), bare(value).into()));
    }
}

/// The names and values of the words in front of another format.
pub(super) fn in_front(text: &str) -> Vec<(&str, Cow<'_, str>)> {
    let mut words = Vec::new();
    add_others(&mut words, &WORDS, text.split_ascii_whitespace());
    words
}

/// A word without punctuation around it. IPv6 may end with two colons.
fn bare(word: &str) -> &str {
    let word = word.trim_matches(['(', ')', '[', ']', '"', ',', ';']);
    let end = word.strip_suffix(':').filter(|end| !end.ends_with(':'));
    end.unwrap_or(word)
}

/// What the texts behind the requests of a log are.
#[derive(Clone, Copy)]
pub(super) struct Texts {
    has_referer: bool,
    /// `true` if the third one is `x-forwarded-for`.
    has_forwarded: bool,
}

impl Texts {
    /// By most of these lines: the first text is a referer unless it is another, the third one is
    /// `x-forwarded-for` if it is the last one and ends with an address.
    pub(super) fn of(lines: &[&str], clients: &Clients) -> Self {
        let lines: Vec<_> = lines.iter().filter_map(|line| Access::of(line)).collect();
        let most = |is_so: &dyn Fn(&Access<'_>) -> Option<bool>| {
            let found: Vec<_> = lines.iter().filter_map(is_so).collect();
            found.iter().filter(|is_so| **is_so).count() * 2 >= found.len()
        };
        let is_empty = |text: &str| matches!(text, "" | "-");
        Self {
            has_referer: most(&|access| {
                let first = access.quoted.first();
                Some(first.is_none_or(|text| is_empty(text) || text.contains("://")))
            }),
            has_forwarded: most(&|access| {
                let third = access.quoted.get(2).filter(|text| !is_empty(text))?;
                Some(access.quoted.len() == 3 && clients.named(third).is_some())
            }),
        }
    }

    fn name(self, at: usize) -> Option<&'static str> {
        let names = ["referer", "user-agent", "x-forwarded-for"];
        let name = names.get(at).filter(|_| at < 2 || self.has_forwarded);
        name.copied().filter(|_| self.has_referer)
    }
}

/// `true` if this is a line of an access log in another order, or was cut.
pub(super) fn is_other(line: &str) -> bool {
    start(line).is_some_and(|(_, time, ..)| bracketed(time).is_some())
}

/// `true` if these words can follow the address.
fn is_format(behind: &str, clients: &Clients) -> bool {
    let mut words = behind.split_ascii_whitespace();
    match (words.next(), words.count()) {
        (None | Some("-"), _) | (Some(_), 1) => true,
        (Some(user), users) => users == 0 && clients.named(user).is_none(),
    }
}

/// The place of the client's address among the words of a line.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    /// The index of the word.
    pub(super) word: usize,
    /// The number of words behind it.
    behind: usize,
    /// `true` if the address follows the time.
    is_after_time: bool,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let of = if self.is_after_time {
            "behind the time"
        } else {
            "of a line"
        };
        write!(f, "word {} {of}", self.word + 1)
    }
}

/// The most frequent place of the client's address in these lines. Text that a client sends follows
/// the address, so of equal places the first one counts.
pub(super) fn address(lines: &[&str], clients: &Clients) -> Option<Place> {
    let lines = lines.iter().filter_map(|line| Access::of(line));
    let found: Vec<Place> = lines.filter_map(|line| line.address(clients)).collect();
    let votes = |word: usize| found.iter().filter(|found| found.word == word).count();
    let equal = |place: &Place| found.iter().filter(|found| *found == place).count();
    found
        .iter()
        .copied()
        .max_by_key(|place| (votes(place.word), Reverse(place.word), equal(place)))
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
    let (_, time, "", request, rest) = start(line)? else {
        return None;
    };
    let status = rest.split_ascii_whitespace().next()?;
    let words = split(rest);
    let is_row = |pair: &[(&str, bool)]| pair.iter().all(|(_, quoted)| *quoted);
    let texts = words.get(words.windows(2).position(is_row)?..)?;
    let (texts, behind) = texts.split_first_chunk::<5>()?;
    let [forwarded, agent, _id, authority, upstream] = texts.map(|(text, _)| text);
    let is_whole = times(rest).next().is_none()
        && is_row(texts)
        && !behind
            .iter()
            .any(|(word, quoted)| *quoted || word.contains('"'));
    (is_status(status) && is_whole).then(|| {
        let fields = [
            ("x-forwarded-for", forwarded),
            (LINE, request),
            ("user-agent", agent),
            ("authority", authority),
            ("upstream", upstream),
            ("time", time),
            ("status", status),
        ];
        record(fields, "", behind.iter().map(|(word, _)| *word))
    })
}

/// `ADDRESS:PORT [TIME] FRONTEND BACKEND/SERVER TIMERS STATUS BYTES … {CAPTURED|HEADERS} "REQUEST"`
pub(super) fn haproxy(line: &str) -> Option<Record<'_>> {
    let (head, rest) = line.split_once(" [")?;
    let (time, rest) = rest.split_once("] ")?;
    // Of IPv6 there are no brackets around the address.
    let (front, address) = head.rsplit_once(' ').unwrap_or(("", head));
    let (address, _port) = address.rsplit_once(':')?;
    let mut words = rest.split_ascii_whitespace();
    let (_frontend, backend, timers) = (words.next()?, words.next()?, words.next()?);
    let status = words.next()?;
    let (middle, request) = rest.split_once('"')?;
    // Those of the request, and those of the response.
    let captured = middle.split(" {").skip(1).flat_map(|text| {
        let end = text.rfind('}').unwrap_or(text.len());
        text.get(..end).unwrap_or_default().split('|')
    });
    let (request, behind) = request.split_once('"').unwrap_or((request, ""));
    let is_one = backend.contains('/') && timers.contains('/') && times(rest).next().is_none();
    (is_one && is_status(status)).then(|| {
        let fields = [
            ("address", address),
            (LINE, request),
            ("time", time),
            ("status", status),
        ];
        let headers = CAPTURED.iter().map(|name| &**name).zip(captured);
        let fields = fields.into_iter().chain(headers);
        record(fields, front, behind.split_ascii_whitespace())
    })
}

/// `[TYPE] TIME BALANCER CLIENT:PORT TARGET:PORT … STATUS … "REQUEST" "USER AGENT" …`
pub(super) fn alb(line: &str) -> Option<Record<'_>> {
    let words: Vec<&str> = split(line).into_iter().map(|(word, _)| word).collect();
    let is_exact = |word: &&str| word.ends_with('Z') && time::exact(word, None).is_some();
    let at = words.iter().take(2).position(is_exact)?;
    let [time, balancer, client, target, ..] = words.get(at..)? else {
        return None;
    };
    let word = |behind: usize| words.get(at + behind).copied();
    let (status, request, agent) = (word(7)?, word(11)?, word(12)?);
    // A line that was cut goes on with the next one. A URL may name the balancer.
    let is_one = line.matches(&format!("Z {balancer} ")).count() == 1;
    let (client, _port) = client.rsplit_once(':')?;
    (is_one && is_status(status)).then(|| {
        let fields = [
            ("client", client),
            (LINE, request),
            ("user-agent", agent),
            ("time", *time),
            ("status", status),
            ("target", *target),
        ];
        record(fields, "", words.iter().skip(at + 13).copied())
    })
}

/// `TIME … client @ID ADDRESS#PORT (NAME): … query: …` of BIND. The name is what the client asks.
pub(super) fn bind(line: &str) -> Option<Record<'_>> {
    let (head, rest) = line.split_once("client ")?;
    let rest = match rest.strip_prefix('@') {
        Some(rest) => rest.split_once(' ')?.1,
        None => rest,
    };
    let (address, rest) = rest.split_once('#')?;
    let (_port, rest) = rest.split_once(" (")?;
    let ends_time = |&(at, _): &(usize, &str)| {
        let time = head.get(..at).map(str::trim_end);
        time.is_some_and(|time| time::dated(time, None).is_some())
    };
    // The category and the severity may stand behind the time.
    let time = head.match_indices(' ').find(ends_time)?.0;
    let is_one = rest.contains("): ") && rest.contains("query: ");
    is_one.then(|| {
        let (time, words) = head.split_at_checked(time).unwrap_or_default();
        let fields = [("address", address), ("time", time)];
        // The address of the server.
        record(fields, words, rest.rsplit(' ').next())
    })
}

/// `TIME … name=value name="value"`, also as `span{name=value}:`.
pub(super) fn pairs(line: &str) -> Option<Record<'_>> {
    let (mut fields, mut others): (Words<'_>, _) = (Vec::new(), Vec::new());
    let mut time = None;
    for (word, quoted) in split(line) {
        let pair = word.split_once('=').filter(|_| !quoted);
        let pair = pair.map(|(name, value)| (name.rsplit('{').next().unwrap_or(name), value));
        match pair {
            Some((name, value)) if is_name(name) => {
                let value = value
                    .strip_suffix(':')
                    .filter(|value| value.ends_with('}'))
                    .unwrap_or(value);
                let value = value.trim_end_matches(['}', ',']).trim_matches('"');
                fields.push((name, value.into()));
            }
            _ if time.is_none() && word.contains('T') && time::exact(word, None).is_some() => {
                time = Some(word);
            }
            _ => others.push(word),
        }
    }
    if !fields.iter().any(|(name, _)| same(name, "time")) {
        fields.extend(time.map(|time| ("time", time.into())));
    }
    let is_whole = fields.len() > 2 && !begins_again(line);
    add_others(&mut fields, &WORDS, others);
    is_whole.then_some(Record::Words(fields))
}

/// `true` if a line was cut and the next one continues it: both begin alike up to the second `=`,
/// but for numbers.
fn begins_again(line: &str) -> bool {
    let mut shape = line.to_owned();
    let mut last = ' ';
    shape.retain(|c| !(std::mem::replace(&mut last, c).is_ascii_digit() && c.is_ascii_digit()));
    let shape = shape.replace(|c: char| c.is_ascii_digit(), "0");
    let beginning = shape
        .match_indices('=')
        .nth(1)
        .and_then(|(at, _)| shape.get(..=at));
    beginning.is_some_and(|beginning| shape.matches(beginning).count() > 1)
}

fn is_name(text: &str) -> bool {
    let in_name = |c: char| c.is_ascii_alphanumeric() || "_-.@".contains(c);
    !text.is_empty() && text.chars().all(in_name)
}

/// `true` if this is a status, or stands for one where the client was not answered.
pub(super) fn is_status(text: &str) -> bool {
    let is_answer = text.len() == 3 && text.bytes().all(|byte| byte.is_ascii_digit());
    is_answer || matches!(text, "-" | "-1" | "0")
}

/// `HEAD [TIME] MIDDLE "REQUEST" REST`
fn start(line: &str) -> Option<(&str, &str, &str, &str, &str)> {
    let (head, rest) = line.split_at_checked(quote(line)?)?;
    let (head, middle) = head.rsplit_once(']')?;
    let (head, time) = head.rsplit_once('[')?;
    let (request, rest) = quoted(rest)?;
    Some((head.trim(), time, middle.trim(), request, rest))
}

/// The time in brackets, behind which other words may stand.
fn bracketed(text: &str) -> Option<&str> {
    let texts = [text, text.split(' ').next().unwrap_or_default()];
    texts
        .into_iter()
        .find(|text| text.contains(':') && time::dated(text, None).is_some())
}

/// The texts behind each time in brackets.
fn times(text: &str) -> impl Iterator<Item = &str> {
    text.match_indices(']').filter_map(|(at, _)| {
        let (before, behind) = text.split_at_checked(at)?;
        bracketed(before.rsplit_once('[')?.1)?;
        behind.get(1..)
    })
}

/// The words of a line, and whether each stood between quotes. Of `name="a b"` and `name:"a b"`,
/// one word.
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
        let word = rest.get(..end).unwrap_or_default();
        let value = word.find("=\"").or_else(|| word.find(":\""));
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
pub(super) fn quoted(text: &str) -> Option<(&str, &str)> {
    let text = text.trim_start().strip_prefix('"')?;
    let end = quote(text)?;
    Some((text.get(..end)?, text.get(end + 1..)?))
}

/// The index of the next quote that is not escaped.
pub(super) fn quote(text: &str) -> Option<usize> {
    let mut escaped = false;
    text.bytes().position(|byte| {
        let found = byte == b'"' && !escaped;
        escaped = byte == b'\\' && !escaped;
        found
    })
}
