//! The access logs of nginx and Apache, in the formats `common` and `combined`.
//!
//! Data from the client stands between quotes, in which the servers escape quotes (`\"`, `\x22`). A
//! user name may hold spaces and brackets, so the time is the text in front of the first quote.

use std::borrow::Cow;
use std::io::{self, BufRead};

use super::{Fields, Read, bad, client, each_line, path};
use crate::replay::arguments::Input;

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Common,
    Combined,
}

impl Kind {
    /// The format of a line, if it is a line of an access log.
    pub(super) fn of(line: &str) -> Option<Self> {
        let line = Line::of(line)?;
        Some(if line.agent.is_some() {
            Self::Combined
        } else {
            Self::Common
        })
    }

    /// The fields that can be a key.
    fn keys(self) -> &'static [&'static str] {
        match self {
            Self::Common => &["address", "user", "path"],
            Self::Combined => &[
                "address",
                "user",
                "path",
                "referer",
                "user-agent",
                "x-forwarded-for",
            ],
        }
    }
}

pub(super) fn read(
    from: impl BufRead,
    input: &Input,
    kind: Kind,
    read: &mut Read,
) -> io::Result<()> {
    let name = input
        .key_field
        .as_deref()
        .unwrap_or("address")
        .to_ascii_lowercase()
        .replace('_', "-");
    let Some(key) = kind.keys().iter().find(|key| **key == name) else {
        return Err(bad(format!(
            "this log has no `{name}`: --key-field is one of {}",
            kind.keys().join(", ")
        )));
    };
    each_line(from, |number, line| {
        let line = std::str::from_utf8(line).map_err(|_| "it is not UTF-8".to_owned());
        let fields = line.and_then(|line| {
            let line = Line::of(line).ok_or("it is not a line of an access log")?;
            if kind == Kind::Combined && line.agent.is_none() {
                return Err("it has no referer and user agent".to_owned());
            }
            let key = line.key(key).ok_or_else(|| format!("it has no `{key}`"))?;
            Ok(Fields {
                time: line.time.into(),
                key,
                status: Some(line.status.into()),
                ..Fields::default()
            })
        });
        read.line(number, input, fields);
    })
}

/// `ADDRESS IDENT USER [TIME] "REQUEST" STATUS SIZE`, then `"REFERER" "USER AGENT"` and one more
/// field.
struct Line<'a> {
    address: &'a str,
    user: &'a str,
    time: &'a str,
    request: &'a str,
    status: &'a str,
    referer: Option<&'a str>,
    agent: Option<&'a str>,
    forwarded_for: Option<&'a str>,
}

impl<'a> Line<'a> {
    fn of(line: &'a str) -> Option<Self> {
        let (head, rest) = line.split_at_checked(quote(line)?)?;
        let (who, time) = head.trim_end().strip_suffix(']')?.rsplit_once('[')?;
        let (address, rest_of_who) = who.split_once(' ')?;
        let (_ident, user) = rest_of_who.split_once(' ')?;
        let (request, rest) = quoted(rest)?;
        let mut numbers = rest.trim_start().splitn(3, ' ');
        let (status, _size, rest) = (
            numbers.next()?,
            numbers.next()?,
            numbers.next().unwrap_or_default(),
        );
        if !status.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        let mut rest = rest;
        let mut next = || {
            let (text, behind) = quoted(rest)?;
            rest = behind;
            Some(text)
        };
        let (referer, agent, forwarded_for) = (next(), next(), next());
        Some(Self {
            address,
            user: user.trim_end(),
            time,
            request,
            status,
            referer,
            agent,
            forwarded_for,
        })
    }

    /// The value of a field, if it is not empty.
    fn key(&self, name: &str) -> Option<Cow<'a, str>> {
        let text = match name {
            "address" => return Some(client(self.address.into())),
            "user" => self.user,
            "path" => path(self.request.split(' ').nth(1)?),
            "referer" => self.referer?,
            "user-agent" => self.agent?,
            _ => self.forwarded_for?,
        };
        (text != "-" && !text.is_empty()).then_some(text.into())
    }
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
