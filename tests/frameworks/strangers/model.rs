//! What strangers are owed, counted in the plainest way; and whether an answer is that.

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;
use std::time::Duration;

use sfv::{BareItem, List, ListEntry, Parser};

use super::requests::Stranger;

/// Of both rules.
const WINDOW: Duration = Duration::from_secs(10);
pub(crate) const PER_ADDRESS: usize = 3;
pub(crate) const PER_KEY: usize = 4;

/// A response, of any framework.
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) fields: Vec<(String, Vec<u8>)>,
    pub(crate) body: Vec<u8>,
}

impl fmt::Debug for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}: {}", self.status, self.body.escape_ascii())?;
        self.fields.iter().try_for_each(|(name, value)| writeln!(f, "    {name}: {}", value.escape_ascii()))
    }
}

impl Answer {
    fn lines(&self, name: &str) -> Vec<&str> {
        let lines = self.fields.iter().filter(|(other, _)| other == name);
        lines.map(|(_, value)| str::from_utf8(value).unwrap()).collect()
    }

    /// A list of structured fields, as the names of its items and their numbers.
    fn list(&self, name: &str) -> Result<BTreeMap<String, BTreeMap<String, i64>>, String> {
        let whole = self.lines(name).join(", ");
        if whole.is_empty() {
            return Ok(BTreeMap::new());
        }
        let list: List = Parser::new(&whole).parse().map_err(|error| format!("{name}: {whole}: {error}"))?;
        let mut items = BTreeMap::new();
        for entry in list {
            let ListEntry::Item(item) = entry else { return Err(format!("{whole}: a list in a list")) };
            let BareItem::String(rule) = item.bare_item else { return Err(format!("{whole}: no name")) };
            let mut numbers = BTreeMap::new();
            for (key, value) in item.params {
                let BareItem::Integer(value) = value else { return Err(format!("{whole}: no number")) };
                numbers.insert(sfv::Key::to_string(&key), value.into());
            }
            if items.insert(rule.as_str().to_owned(), numbers).is_some() {
                return Err(format!("{whole}: {} twice", rule.as_str()));
            }
        }
        Ok(items)
    }
}

/// What became of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Outcome {
    Served,
    RefusedByAddress,
    RefusedByKey,
    NoKey,
    UnknownPeer,
}

#[derive(Default)]
pub(crate) struct Tally(BTreeMap<Outcome, u32>);

impl Tally {
    pub(crate) fn add(&mut self, outcome: Outcome) {
        *self.0.entry(outcome).or_default() += 1;
    }

    /// A model that never saw a refusal has shown nothing.
    pub(crate) fn assert_all_happened(&self) {
        assert_eq!(self.0.len(), 5, "{self}");
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.0)
    }
}

/// When which subscriber, and which key, was admitted.
#[derive(Default)]
pub(crate) struct Model {
    now: Duration,
    addresses: BTreeMap<Vec<u8>, Vec<Duration>>,
    keys: BTreeMap<Vec<u8>, Vec<Duration>>,
}

/// How a limit stands after a request: what is left, or how long to wait.
type Standing = Result<usize, Duration>;

fn admit(log: &mut Vec<Duration>, max: usize, now: Duration) -> Standing {
    log.retain(|at| now.saturating_sub(*at) < WINDOW);
    if log.len() >= max {
        return Err((log[0] + WINDOW).saturating_sub(now));
    }
    log.push(now);
    Ok(max - log.len())
}

/// One subscriber: an IPv4 address, also as IPv6, behind NAT64 or by 6to4; else a /64.
fn subscriber(address: IpAddr) -> Vec<u8> {
    let v6 = match address {
        IpAddr::V4(v4) => return v4.octets().to_vec(),
        IpAddr::V6(v6) => v6.octets(),
    };
    let nat64 = [0, 0x64, 0xff, 0x9b, 0, 0, 0, 0, 0, 0, 0, 0];
    match v6 {
        _ if v6[..12] == nat64 => v6[12..].to_vec(),
        _ if v6[..2] == [0x20, 0x02] => v6[2..6].to_vec(),
        _ => v6[..8].to_vec(),
    }
}

/// The key of a request, if it has one.
fn key(stranger: &Stranger) -> Option<Vec<u8>> {
    let values: Vec<_> = stranger.lines("x-api-key").map(<[u8]>::trim_ascii).collect();
    (values.len() == 1 && !values[0].is_empty()).then(|| values[0].to_vec())
}

/// Whether the client reads statuses of gRPC.
fn speaks_grpc(stranger: &Stranger) -> bool {
    let kind = stranger.lines("content-type").next().unwrap_or_default().to_ascii_lowercase();
    let rest = kind.strip_prefix(b"application/grpc");
    let is_grpc = rest.is_some_and(|rest| rest.is_empty() || matches!(rest[0], b'+' | b';'));
    stranger.method == "POST" && stranger.version == 3 && is_grpc
}

impl Model {
    pub(crate) fn advance(&mut self, pause: Duration) {
        self.now += pause;
    }

    /// Whether an answer is the one that the stranger is owed.
    pub(crate) fn check(
        &mut self,
        stranger: &Stranger,
        answer: &Answer,
        methods_are_grpc: bool,
    ) -> Result<Outcome, String> {
        let (mut by_address, mut by_key) = (None, None);
        let outcome = 'decided: {
            if stranger.peer.is_none() {
                break 'decided Outcome::UnknownPeer;
            }
            let log = self.addresses.entry(subscriber(stranger.client)).or_default();
            by_address = Some(admit(log, PER_ADDRESS, self.now));
            if let Some(Err(_)) = by_address {
                break 'decided Outcome::RefusedByAddress;
            }
            let Some(key) = key(stranger) else { break 'decided Outcome::NoKey };
            by_key = Some(admit(self.keys.entry(key).or_default(), PER_KEY, self.now));
            if let Some(Err(_)) = by_key { Outcome::RefusedByKey } else { Outcome::Served }
        };
        let is_method = matches!(outcome, Outcome::NoKey | Outcome::RefusedByKey);
        let in_grpc = speaks_grpc(stranger) || (methods_are_grpc && is_method);
        status(outcome, stranger, answer, in_grpc).map_err(|why| format!("{why}; owed: {outcome:?}"))?;
        told(answer, [("address", by_address, PER_ADDRESS), ("key", by_key, PER_KEY)])?;
        Ok(outcome)
    }
}

fn status(outcome: Outcome, stranger: &Stranger, answer: &Answer, in_grpc: bool) -> Result<(), String> {
    if outcome == Outcome::Served {
        let wanted = stranger.lines("x-want").next().unwrap_or(b"200");
        let client = stranger.client.to_canonical().to_string();
        return match (answer.lines("x-client").as_slice(), answer.status.to_string().as_bytes() == wanted) {
            ([named], true) if *named == client => Ok(()),
            (named, _) => Err(format!("the client is {client}, not {named:?}, or the status is another")),
        };
    }
    let (over_http, in_trailers) = match outcome {
        Outcome::RefusedByAddress | Outcome::RefusedByKey => (429, "8"),
        Outcome::NoKey => (400, "3"),
        Outcome::UnknownPeer | Outcome::Served => (500, "13"),
    };
    let says_so =
        answer.status == over_http || (in_grpc && answer.status == 200 && answer.lines("grpc-status") == [in_trailers]);
    if !answer.lines("x-client").is_empty() || !says_so {
        return Err("the handler ran, or the status is another".to_owned());
    }
    if answer.lines("cache-control") == ["no-store"] { Ok(()) } else { Err("a cache may keep it".to_owned()) }
}

/// Whether fields say how these limits stand, of their names, and say no more.
fn told(answer: &Answer, limits: [(&str, Option<Standing>, usize); 2]) -> Result<(), String> {
    let (mut policies, mut standings) = (answer.list("ratelimit-policy")?, answer.list("ratelimit")?);
    let mut wait = None;
    for (name, standing, max) in limits {
        let (policy, told) = (policies.remove(name), standings.remove(name));
        let Some(standing) = standing else { continue };
        let (Some(policy), Some(told)) = (policy, told) else { return Err(format!("nothing is said of {name}")) };
        let left = standing.unwrap_or(0);
        if (policy["q"], policy["w"], told["r"]) != (i64::try_from(max).unwrap(), 10, i64::try_from(left).unwrap()) {
            return Err(format!("{name} has {left} of {max} left, not {policy:?}, {told:?}"));
        }
        wait = wait.or(standing.err());
    }
    if !policies.is_empty() || !standings.is_empty() {
        return Err(format!("more is said than that: {policies:?}, {standings:?}"));
    }
    let seconds = wait.map(|wait| wait.as_millis().div_ceil(1_000).to_string());
    let expected: Vec<_> = seconds.iter().map(String::as_str).collect();
    let told = answer.lines("retry-after");
    if told == expected { Ok(()) } else { Err(format!("retry-after is {told:?}, not {expected:?}")) }
}
