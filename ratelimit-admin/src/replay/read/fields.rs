//! [`Fields`]: which fields of a log hold the time, the key and the rest.

use std::borrow::Cow;

use super::client::Clients;
use super::record::{Record, same};
use super::{Found, Request};
use crate::replay::arguments::Input;
use crate::replay::time;

/// In microseconds: a field with numbers before 1973 may hold durations, unless no other has times.
const EARLIEST: u64 = 100_000_000_000_000;

/// Names that servers and libraries give to the time.
const TIMES: &[&str] = &[
    "time",
    "ts",
    "time_iso8601",
    "time_local",
    "msec",
    "timestamp",
    "@timestamp",
    "start_time",
    "EdgeStartTimestamp",
    "StartUTC",
    "datetime",
];

/// To the client's address. Those that a proxy has made out come before that of the connection.
const ADDRESSES: &[&str] = &[
    "address",
    "request.client_ip",
    "request.remote_ip",
    "client_ip",
    "httpRequest.remoteIp",
    "ClientIP",
    "ClientHost",
    "fields.client_ip",
    "span.client_ip",
    "client.ip",
    "source.ip",
    "c-ip",
    "client",
    "fwd",
    "remote_addr",
    "remote_ip",
    "remoteAddress",
    "req.remoteAddress",
    "fields.remote_addr",
    "downstream_remote_address",
    "x-forwarded-for",
    "ip",
];

const USERS: &[&str] = &[
    "user",
    "user_id",
    "remote_user",
    "cs-username",
    "ClientUsername",
    "user.name",
];

const PATHS: &[&str] = &[
    "path",
    "request.uri",
    "request_uri",
    "uri",
    "req.url",
    "cs-uri-stem",
    "url.path",
    "RequestPath",
    "ClientRequestURI",
    "ClientRequestPath",
    "httpRequest.requestUrl",
    LINE,
];

/// The name of the request line: `GET /path HTTP/1.1`.
pub(super) const LINE: &str = "request";

const STATUSES: &[&str] = &[
    "status",
    "sc-status",
    "response_code",
    "EdgeResponseStatus",
    "DownstreamStatus",
    "httpRequest.status",
    "res.statusCode",
    "response.status",
    "fields.status",
    "http.response.status_code",
];

/// The names of the fields that a log is read by.
pub(super) struct Fields<'a> {
    time: String,
    pub(super) key: String,
    kind: Kind,
    status: String,
    /// The header in which proxies name the client, if it is a field of its own.
    pub(super) forwarded: Option<String>,
    input: &'a Input,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Text,
    Path,
    /// Every key is an address: a line without one is left out.
    Address,
}

/// Which of these names most of the records have a value of; the first of those that are equal.
fn usual(names: &[String], records: &[Record<'_>], fits: impl Fn(&str) -> bool) -> Option<String> {
    let counted = names.iter().map(|name| (count(name, records, &fits), name));
    // Of equal ones `max_by_key` takes the last.
    let (count, name) = counted.rev().max_by_key(|(count, _)| *count)?;
    (count > 0).then(|| name.clone())
}

/// How many of the records have a value of this name that fits.
fn count(name: &str, records: &[Record<'_>], fits: impl Fn(&str) -> bool) -> usize {
    let values = records
        .iter()
        .filter_map(|record| value(record, name).ok()?);
    values.filter(|value| fits(value)).count()
}

/// The first of [`ADDRESSES`] in these records, unless another is ten times as frequent. Lines that
/// are no requests may hold the address of the server.
fn usual_address(records: &[Record<'_>], clients: &Clients) -> Option<String> {
    let is_address = |value: &str| clients.named(value).is_some();
    let usual = usual(&owned(ADDRESSES), records, is_address)?;
    let most = count(&usual, records, is_address);
    let is_frequent = |name: &&&str| count(name, records, is_address) * 10 >= most;
    ADDRESSES
        .iter()
        .find(is_frequent)
        .map(|name| (*name).to_owned())
}

/// The value of a field, if it has one.
fn value<'a>(record: &'a Record<'_>, name: &str) -> Result<Option<Cow<'a, str>>, String> {
    let value = record.get(name)?;
    Ok(value.filter(|value| !value.is_empty() && value != "-"))
}

fn owned(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

/// The names of a header field.
fn header(name: &str) -> Vec<String> {
    let mut names = vec![name.to_owned()];
    for of in [
        "request.headers.",
        "req.headers.",
        "headers.",
        "http_",
        "request_",
    ] {
        names.push(format!("{of}{name}"));
    }
    names.push(format!("cs({name})"));
    if name.eq_ignore_ascii_case("x-forwarded-for") {
        names.push("fwd".to_owned());
    }
    if same(name, "user-agent") {
        names.extend(owned(&[
            "httpRequest.userAgent",
            "ClientRequestUserAgent",
            "user_agent.original",
        ]));
    }
    names
}

impl<'a> Fields<'a> {
    /// The fields of a log with these records.
    ///
    /// # Errors
    ///
    /// If the key is to be a field that the log has not.
    pub(super) fn of(
        records: &[Record<'_>],
        input: &'a Input,
        clients: &Clients,
    ) -> Result<Self, String> {
        let any = |_: &str| true;
        let unit = input.time_unit;
        let is_time = |value: &str| time::micros(value, unit).is_ok_and(|at| at > EARLIEST);
        let named = |given: &Option<String>, known: &[&str]| match given {
            Some(name) => name.clone(),
            None => usual(&owned(known), records, any)
                .unwrap_or_else(|| known.first().copied().unwrap_or_default().to_owned()),
        };
        let time = input.time_field.clone();
        let time = time.or_else(|| usual(&owned(TIMES), records, is_time));
        let is_address = |value: &str| clients.named(value).is_some();
        let (key, kind) = match &input.key_field {
            None => match usual(&["key".to_owned()], records, any) {
                Some(name) => (Some(name), Kind::Text),
                None => (usual_address(records, clients), Kind::Address),
            },
            Some(name) => match usual(std::slice::from_ref(name), records, any) {
                Some(name) if name == "path" => (Some(name), Kind::Path),
                Some(name) => (Some(name), Kind::Text),
                None => match name.as_str() {
                    "address" => (usual_address(records, clients), Kind::Address),
                    "user" => (usual(&owned(USERS), records, any), Kind::Text),
                    "path" => (usual(&owned(PATHS), records, any), Kind::Path),
                    name => (usual(&header(name), records, any), Kind::Text),
                },
            },
        };
        let key = match key {
            Some(key) => key,
            None => absent(records, input)?,
        };
        let mut fields = Self {
            time: named(&time, TIMES),
            key,
            kind,
            status: named(&input.status_field, STATUSES),
            forwarded: None,
            input,
        };
        if kind == Kind::Text && fields.are_addresses(records, clients) {
            fields.kind = Kind::Address;
        }
        if input.trusted_proxies.is_empty() {
            return Ok(fields);
        }
        if fields.kind == Kind::Address {
            fields.forwarded = usual(&header("x-forwarded-for"), records, is_address)
                .filter(|name| *name != fields.key);
        } else {
            return Err(format!(
                "`{}` holds no addresses, which --trusted-proxies is for",
                fields.key
            ));
        }
        Ok(fields)
    }

    /// `true` if the keys are addresses: any of them in a field that is known for addresses, in
    /// another more than nine of ten.
    fn are_addresses(&self, records: &[Record<'_>], clients: &Clients) -> bool {
        let keys: Vec<_> = records
            .iter()
            .filter_map(|record| value(record, &self.key).ok()?)
            .collect();
        let addresses = keys.iter().filter(|key| clients.named(key).is_some());
        let known = owned(ADDRESSES)
            .into_iter()
            .chain(header("x-forwarded-for"));
        let is_known = known.into_iter().any(|name| same(&name, &self.key));
        addresses.count() * 10 > if is_known { 0 } else { keys.len() * 9 }
    }

    /// The request of a record.
    pub(super) fn request(
        &self,
        record: &Record<'_>,
        clients: &Clients,
    ) -> Result<Request, String> {
        let input = self.input;
        let time =
            value(record, &self.time)?.ok_or_else(|| format!("it has no `{}`", self.time))?;
        let (key, found) = self.key(record, clients)?;
        let text = |name: &str| Ok::<_, String>(value(record, name)?.map(Cow::into_owned));
        Ok(Request {
            time: time.into_owned(),
            key,
            found,
            status: if input.status.is_empty() {
                None
            } else {
                Some(text(&self.status)?.ok_or_else(|| format!("it has no `{}`", self.status))?)
            },
            cost: text(&input.cost_field)?,
            actual_cost: text(&input.actual_cost_field)?,
        })
    }

    fn key(&self, record: &Record<'_>, clients: &Clients) -> Result<(String, Found), String> {
        let Some(key) = value(record, &self.key)? else {
            return Err(match record.get(&self.key)? {
                Some(key) if key.is_empty() && self.input.key_field.is_none() => {
                    "the key is empty".to_owned()
                }
                _ if self.key == "key" => {
                    "it has no `key`, nor an address of a known name: say --key-field".to_owned()
                }
                _ => format!("it has no `{}`", self.name_of_key()),
            });
        };
        if self.kind == Kind::Path {
            let path = path(&key, self.key == LINE).filter(|path| !path.is_empty());
            let path = path.ok_or("it has no `path`")?;
            return Ok((path.to_owned(), Found::Text));
        }
        let forwarded = match &self.forwarded {
            Some(name) => value(record, name)?,
            None => None,
        };
        let list = match forwarded {
            // The address of the connection is the last hop.
            Some(forwarded) => Cow::Owned(format!("{forwarded}, {key}")),
            None => key,
        };
        let is_list = list.contains(',');
        // Another text may end with what looks like an address.
        let client = if is_list && self.kind != Kind::Address {
            None
        } else {
            clients.named(&list)
        };
        match client {
            Some(client) if client.is_proxy => Ok((client.key, Found::Proxy)),
            Some(client) if is_list => Ok((client.key, Found::InList)),
            Some(client) => Ok((client.key, Found::Address)),
            None if self.kind == Kind::Address => {
                Err(format!("its `{}` is no address", self.name_of_key()))
            }
            None => Ok((list.into_owned(), Found::Text)),
        }
    }

    /// The name by which the key was asked for.
    fn name_of_key(&self) -> &str {
        self.input.key_field.as_deref().unwrap_or(&self.key)
    }
}

/// The name of a key that no record has.
fn absent(records: &[Record<'_>], input: &Input) -> Result<String, String> {
    let name = input.key_field.as_deref();
    let known: Vec<&str> = records
        .first()
        .into_iter()
        .flat_map(Record::names)
        .filter(|known| !TIMES.contains(known) && !STATUSES.contains(known))
        .map(|known| if known == LINE { "path" } else { known })
        .collect();
    match name {
        Some(name) if !known.is_empty() && !known.iter().any(|known| same(known, name)) => {
            Err(format!(
                "this log has no `{name}`: --key-field is one of {}",
                known.join(", ")
            ))
        }
        Some(name) => Ok(name.to_owned()),
        None if known.contains(&"address") => Ok("address".to_owned()),
        None => Ok("key".to_owned()),
    }
}

/// The path of a request's target, without the query; `None` if a request line has none.
fn path(target: &str, is_line: bool) -> Option<&str> {
    let target = if is_line {
        target.split(' ').nth(1)?
    } else {
        target
    };
    let target = match target.split_once("://") {
        Some((_scheme, rest)) => rest.find('/').and_then(|at| rest.get(at..)).unwrap_or("/"),
        None => target,
    };
    target.split('?').next()
}
