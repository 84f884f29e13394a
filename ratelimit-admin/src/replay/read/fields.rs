//! [`Fields`]: which fields of a log hold the time, the key and the rest.

use std::borrow::Cow;
use std::collections::HashMap;
use std::net::IpAddr;

use indexmap::{IndexMap, IndexSet};

use super::client::Clients;
use super::record::{Record, same};
use super::{Found, Request};
use crate::replay::arguments::Input;
use crate::replay::time;

/// In microseconds: a field with numbers before 1973 may hold durations, unless no other has times.
const EARLIEST: u64 = 100_000_000_000_000;

/// Names that servers and libraries give to the time.
pub(super) const TIMES: &[&str] = &[
    "StartUTC",
    "msec",
    "time",
    "ts",
    "time_iso8601",
    "time_local",
    "timestamp",
    "@timestamp",
    "@t",
    "t",
    "asctime",
    "date",
    "datetime",
    "start_time",
    "started_at",
    "start",
    "request_time_epoch",
    "request_time",
    "req_time_sec",
    "event_time",
    "eventTimestamp",
    "EdgeStartTimestamp",
    "request_received_timestamp",
    "instant.epochSecond",
    "timeMillis",
    "timeUnixNano",
    "$date",
    "t.$date",
    "__REALTIME_TIMESTAMP",
];

/// The fields with the day and the time of the day.
const DAY_AND_TIME: [&str; 2] = ["date", "time"];

/// The names of the client's address. Addresses that a proxy has found precede the connection's.
const ADDRESSES: &[&str] = &[
    "address",
    "client_ip",
    "client_host",
    "client.ip",
    "client.address",
    "source.ip",
    "cli_ip",
    "c-ip",
    "cs-ip",
    "client",
    "fwd",
    "client_addr",
    "client_address",
    "remote_ip",
    "remote_addr",
    "remote_address",
    "remote_host",
    "remote",
    "downstream_remote_address",
    "source_ip_address",
    "x-forwarded-for",
    "ip",
    "src_ip",
    "source_ips",
    "src",
];

/// The JSON objects, by path, that hold the fields of a request.
const OBJECTS: &[&str] = &[
    "",
    "request.",
    "req.",
    "httpRequest.",
    "fields.",
    "span.",
    "properties.",
    "proxy.",
    "jsonPayload.",
    "contextMap.",
    "attributes.",
];

/// The names of the fields of the client's address.
fn names_of_addresses() -> Vec<String> {
    let names = ADDRESSES.iter();
    let paths = names.flat_map(|name| OBJECTS.iter().map(move |object| format!("{object}{name}")));
    paths.collect()
}

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
    "status_code",
    "response_status",
    "res.statusCode",
    "response.status",
    "properties.httpStatus",
    "properties.httpStatusCode",
    "fields.status",
    "http.response.status_code",
];

/// In audit logs, the id of a request and the field by which its several lines differ.
const STAGES: &[(&str, &str)] = &[("auditID", "stage"), ("request.id", "type")];

/// The names of the fields that a log is read by.
pub(super) struct Fields<'a> {
    pub(super) time: String,
    /// `true` if the time is in the two fields of [`DAY_AND_TIME`].
    is_in_two: bool,
    /// The offset of times in two fields: `Z` where the format says that they are UTC.
    pub(super) offset: &'static str,
    pub(super) key: String,
    kind: Kind,
    /// `true` if a port stands behind each address, of IPv6 without brackets.
    has_ports: bool,
    status: String,
    /// The header in which proxies name the client, if the log has it as a field.
    pub(super) forwarded: Option<String>,
    /// The fields with addresses of other clients.
    pub(super) others: Vec<String>,
    /// The fields that hold other times.
    pub(super) other_times: Vec<String>,
    /// Of [`STAGES`], those by which a request has several lines.
    pub(super) stages: Option<(&'static str, &'static str)>,
    /// The fields to suggest if none of a known name holds the time, or the key.
    instead: String,
    input: &'a Input,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Text,
    Path,
    /// Every key is an address: a line without one is left out.
    Address,
}

/// The name under which most records have a fitting value; of equal ones the first.
fn usual(names: &[String], records: &[&Record<'_>], fits: impl Fn(&str) -> bool) -> Option<String> {
    let counted = names.iter().map(|name| (count(name, records, &fits), name));
    // Of equal ones `max_by_key` takes the last.
    let (count, name) = counted.rev().max_by_key(|(count, _)| *count)?;
    (count > 0).then(|| name.clone())
}

/// The number of records with a fitting value under this name.
fn count(name: &str, records: &[&Record<'_>], fits: impl Fn(&str) -> bool) -> usize {
    let values = records
        .iter()
        .filter_map(|record| value(record, name).ok()?);
    values.filter(|value| fits(value)).count()
}

/// The first of [`names_of_addresses`] in these records, unless another is ten times as frequent.
/// Lines that are no requests may hold the address of the server.
fn usual_address(records: &[&Record<'_>], clients: &Clients) -> Option<(usize, String)> {
    let is_address = |value: &str| clients.named(value).is_some();
    let names = names_of_addresses().into_iter();
    let counted: Vec<_> = names
        .map(|name| (count(&name, records, is_address), name))
        .collect();
    let most = counted
        .iter()
        .map(|(count, _)| *count)
        .max()
        .filter(|most| *most > 0)?;
    let mut frequent = counted.into_iter();
    frequent.find(|(count, _)| count * 10 >= most)
}

/// The field of the key and its kind; `None` if no record has it.
fn key_of(records: &[&Record<'_>], input: &Input, clients: &Clients) -> (Option<String>, Kind) {
    let any = |_: &str| true;
    let Some(name) = &input.key_field else {
        // A few other records may have a field of that name.
        return match (count("key", records, any), usual_address(records, clients)) {
            (keys, Some((addresses, name))) if keys * 2 < addresses => (Some(name), Kind::Address),
            (0, _) => (None, Kind::Address),
            _ => (Some("key".to_owned()), Kind::Text),
        };
    };
    match usual(std::slice::from_ref(name), records, any) {
        Some(name) if name == "path" => (Some(name), Kind::Path),
        Some(name) => (Some(name), Kind::Text),
        None => match name.as_str() {
            "address" => {
                let found = usual_address(records, clients);
                (found.map(|(_, name)| name), Kind::Address)
            }
            "user" => (usual(&owned(USERS), records, any), Kind::Text),
            "path" => (usual(&owned(PATHS), records, any), Kind::Path),
            name => (usual(&header(name), records, any), Kind::Text),
        },
    }
}

/// The keys of the records that have one; of lists of addresses, the clients.
pub(super) fn keys(records: &[&Record<'_>], input: &Input, clients: &Clients) -> Vec<String> {
    let (Some(name), _) = key_of(records, input, clients) else {
        return Vec::new();
    };
    let values = records
        .iter()
        .filter_map(|record| value(record, &name).ok()?);
    let key = |value: Cow<'_, str>| match clients.named(&value) {
        Some(client) => client.key,
        None => value.into_owned(),
    };
    values.map(key).collect()
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
        records: &[&Record<'_>],
        input: &'a Input,
        clients: &Clients,
    ) -> Result<Self, String> {
        let form = input.time_format.as_ref();
        let is_time = |value: &str| time::dated(value, form).is_some_and(|at| at > EARLIEST);
        let is_address = |value: &str| clients.named(value).is_some();
        let both = records.iter().filter_map(|record| {
            let [day, time] = DAY_AND_TIME.map(|name| value(record, name).ok().flatten());
            day.zip(time)
        });
        let both: Vec<_> = both.collect();
        // Where neither is a time of its own, as of the collectors that add one of them.
        let in_two = both
            .iter()
            .filter(|(day, time)| !is_time(day) && !is_time(time));
        let is_in_two = input.time_field.is_none() && in_two.count() * 2 > both.len();
        let time = input.time_field.clone();
        let time = time.or_else(|| usual(&owned(TIMES), records, is_time));
        let status = input.status_field.clone();
        let status = status.or_else(|| usual(&owned(STATUSES), records, |_| true));
        let (key, kind) = key_of(records, input, clients);
        let instead = if time.is_none() && !is_in_two {
            one_of(records, |value| {
                is_time(value) && time::exact(value, form).is_some()
            })
        } else if key.is_none() {
            one_of(records, is_address)
        } else {
            String::new()
        };
        let key = match key {
            Some(key) if input.key_field.is_none() => spelt(records, key),
            Some(key) => key,
            None => absent(records, input)?,
        };
        let mut fields = Self {
            time: time.unwrap_or_else(|| "time".to_owned()),
            is_in_two,
            offset: "",
            key,
            kind,
            has_ports: false,
            status: status.unwrap_or_else(|| "status".to_owned()),
            forwarded: None,
            others: Vec::new(),
            other_times: Vec::new(),
            stages: stages(records),
            instead,
            input,
        };
        if input.time_field.is_none() && !is_in_two {
            fields.other_times = fields.other_times(records);
        }
        if kind == Kind::Text && fields.are_addresses(records, clients) {
            fields.kind = Kind::Address;
        }
        if fields.kind == Kind::Address {
            if !input.trusted_proxies.is_empty() {
                fields.forwarded = usual(&header("x-forwarded-for"), records, is_address)
                    .filter(|name| !same(name, &fields.key))
                    .map(|name| spelt(records, name));
            }
            fields.has_ports = fields.has_ports(records);
        } else if !input.trusted_proxies.is_empty() {
            return Err(format!(
                "`{}` holds no addresses, which --trusted-proxies is for: --key-field names a \
                 field that does",
                fields.key
            ));
        }
        if fields.kind == Kind::Address || input.key_field.is_none() {
            fields.others = fields.others(records, clients);
        }
        Ok(fields)
    }

    /// The fields, other than the key, in which at least a tenth of the records have the address of
    /// another client. Versions such as 2.0.0.0 do not count.
    fn others(&self, records: &[&Record<'_>], clients: &Clients) -> Vec<String> {
        let is_known = |name: &str| {
            let known = [Some(&self.key), self.forwarded.as_ref()];
            known.into_iter().flatten().any(|known| same(known, name))
        };
        let is_version = |name: &str| name.to_ascii_lowercase().ends_with("version");
        let mut counts = IndexMap::<String, usize>::new();
        for record in records {
            let Ok((key, _)) = self.key(record, clients) else {
                continue;
            };
            for (name, value) in record.fields() {
                let named: Option<Vec<_>> = value
                    .split(',')
                    .map(|address| clients.named(address))
                    .collect();
                let is_other = named.is_some_and(|all| all.iter().any(|other| other.key != key));
                if is_other && !is_known(&name) && !is_version(&name) {
                    *counts.entry(name).or_default() += 1;
                }
            }
        }
        let frequent = counts
            .into_iter()
            .filter(|(_, count)| count * 10 >= records.len());
        frequent.map(|(name, _)| name).collect()
    }

    /// The fields of a known name in which one in ten of these records has another time: by a
    /// second or more, as of a collector.
    fn other_times(&self, records: &[&Record<'_>]) -> Vec<String> {
        let at = |record: &Record<'_>, name: &str| {
            let time = value(record, name).ok()??;
            time::dated(&time, self.input.time_format.as_ref()).filter(|at| *at > EARLIEST)
        };
        let is_other = |record: &&&Record<'_>, name: &str| {
            let times = at(record, &self.time).zip(at(record, name));
            times.is_some_and(|(time, other)| time.abs_diff(other) >= 1_000_000)
        };
        let others = TIMES.iter().filter(|name| {
            let count = records.iter().filter(|record| is_other(record, name));
            count.count() * 10 > records.len()
        });
        others
            .map(|name| spelt(records, (*name).to_owned()))
            .collect()
    }

    /// `true` if the keys are addresses: at least one in a field known for addresses, more than
    /// nine tenths in any other field.
    fn are_addresses(&self, records: &[&Record<'_>], clients: &Clients) -> bool {
        let keys: Vec<_> = records
            .iter()
            .filter_map(|record| value(record, &self.key).ok()?)
            .collect();
        let addresses = keys.iter().filter(|key| clients.named(key).is_some());
        let known = names_of_addresses()
            .into_iter()
            .chain(header("x-forwarded-for"));
        let is_known = known.into_iter().any(|name| same(&name, &self.key));
        addresses.count() * 10 > if is_known { 0 } else { keys.len() * 9 }
    }

    /// `true` if more addresses have a port than have none; of IPv6, which both may be, neither.
    fn has_ports(&self, records: &[&Record<'_>]) -> bool {
        let keys = records
            .iter()
            .filter_map(|record| value(record, &self.key).ok()?);
        let (mut with, mut without) = (0, 0);
        for key in keys {
            match key.parse::<IpAddr>() {
                Ok(address) => without += usize::from(address.is_ipv4()),
                Err(_) => with += usize::from(without_port(&key).is_some()),
            }
        }
        with > without
    }

    /// The request of a record.
    pub(super) fn request(
        &self,
        record: &Record<'_>,
        clients: &Clients,
    ) -> Result<Request, String> {
        let input = self.input;
        let time = match day_and_time(record, input, self.offset) {
            Ok(Some(time)) if self.is_in_two => Some(time.into()),
            _ => value(record, &self.time)?,
        };
        let time = time.ok_or_else(|| self.lacks(&self.time, "--time-field"))?;
        let (key, found) = self.key(record, clients)?;
        let text = |name: &str| Ok::<_, String>(value(record, name)?.map(Cow::into_owned));
        Ok(Request {
            time: time.into_owned(),
            key,
            found,
            status: if input.status.is_empty() {
                None
            } else {
                Some(
                    text(&self.status)?
                        .ok_or_else(|| self.lacks(&self.status, "--status-field"))?,
                )
            },
            cost: text(&input.cost_field)?,
            actual_cost: text(&input.actual_cost_field)?,
        })
    }

    fn key(&self, record: &Record<'_>, clients: &Clients) -> Result<(String, Found), String> {
        let Some(key) = value(record, &self.key)? else {
            return Err(match record.get(&self.key)? {
                Some(key) if key.is_empty() && self.key == "key" => "the key is empty".to_owned(),
                _ if self.key == "key" => format!(
                    "it has no `key`, nor an address of a known name: say --key-field{}",
                    self.instead
                ),
                _ => format!("it has no `{}`", self.name_of_key()),
            });
        };
        if self.kind == Kind::Path {
            let path = path(&key, self.key == LINE).filter(|path| !path.is_empty());
            let path = path.ok_or("it has no `path`")?;
            return Ok((path.to_owned(), Found::Text));
        }
        let key = match without_port(&key) {
            Some(address) if self.has_ports => Cow::Owned(address.to_owned()),
            _ => key,
        };
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

    /// The message about a line without this field, which an option names.
    fn lacks(&self, name: &str, option: &str) -> String {
        let first = self.instead.split(',').nth(1);
        // Its first request would be the only one.
        if let Some((list, _)) = first.and_then(|first| first.rsplit_once(".0.")) {
            let list = list.replace(" one of ", ".").replace(".0.", "[].");
            return format!("its requests are a list: jq -c '{list}[]' writes one a line");
        }
        format!("it has no `{name}`: say {option}{}", self.instead)
    }

    /// The name by which the key was asked for.
    fn name_of_key(&self) -> &str {
        self.input.key_field.as_deref().unwrap_or(&self.key)
    }
}

/// The fields by which requests of these records have several lines.
fn stages(records: &[&Record<'_>]) -> Option<(&'static str, &'static str)> {
    STAGES.iter().copied().find(|(id, stage)| {
        let of = |record: &&Record<'_>, name| value(record, name).ok()?.map(Cow::into_owned);
        let mut first = HashMap::new();
        records.iter().any(|record| {
            let known = of(record, id).zip(of(record, stage));
            known.is_some_and(|(id, stage)| *first.entry(id).or_insert(stage.clone()) != stage)
        })
    })
}

/// The name as these records spell it.
fn spelt(records: &[&Record<'_>], name: String) -> String {
    let mut fields = records.iter().flat_map(|record| record.fields());
    let spelt = fields.find(|(known, _)| same(known, &name));
    spelt.map_or(name, |(known, _)| known)
}

/// The name of a key that no record has.
fn absent(records: &[&Record<'_>], input: &Input) -> Result<String, String> {
    let known: Vec<&str> = match records.first() {
        Some(Record::Words(words)) => words.iter().map(|(name, _)| *name).collect(),
        _ => Vec::new(),
    };
    match input.key_field.as_deref() {
        Some(name) if !known.is_empty() && !known.iter().any(|known| same(known, name)) => {
            let known = known.into_iter();
            let names = known.filter(|known| !TIMES.contains(known) && !STATUSES.contains(known));
            let names = names.map(|known| if known == LINE { "path" } else { known });
            let names = names.collect::<Vec<_>>().join(", ");
            Err(format!(
                "this log has no `{name}`: --key-field is one of {names}"
            ))
        }
        Some(name) => Ok(name.to_owned()),
        None if known.contains(&"address") => Ok("address".to_owned()),
        None => Ok("key".to_owned()),
    }
}

/// The fields with fitting values, as text: `, one of a, b`; all fields if none fits.
fn one_of(records: &[&Record<'_>], fits: impl Fn(&str) -> bool) -> String {
    let fields: Vec<_> = records.iter().flat_map(|record| record.fields()).collect();
    let that = |fits: &dyn Fn(&str) -> bool| {
        let names = fields.iter().filter(|(_, value)| fits(value));
        names
            .map(|(name, _)| name.as_str())
            .collect::<IndexSet<_>>()
    };
    let fitting = that(&fits);
    let names = if fitting.is_empty() {
        that(&|_| true)
    } else {
        fitting
    };
    match names.len() {
        0 => String::new(),
        _ => format!(
            ", one of {}",
            names.into_iter().take(10).collect::<Vec<_>>().join(", ")
        ),
    }
}

/// The address in front of a port.
fn without_port(text: &str) -> Option<&str> {
    let (address, port) = text.rsplit_once(':')?;
    (address.parse::<IpAddr>().is_ok() && port.parse::<u16>().is_ok()).then_some(address)
}

/// The time of a record that has day and time in two fields.
fn day_and_time(
    record: &Record<'_>,
    input: &Input,
    offset: &str,
) -> Result<Option<String>, String> {
    let [day, time] = DAY_AND_TIME.map(|name| value(record, name));
    let joined = |(day, time)| match input.time_format {
        None => format!("{day}T{time}{offset}"),
        Some(_) => format!("{day} {time}"),
    };
    Ok(day?.zip(time?).map(joined))
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
