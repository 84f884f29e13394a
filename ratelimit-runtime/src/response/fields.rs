//! Decisions as the header fields `RateLimit-Policy` and `RateLimit` of
//! draft-ietf-httpapi-ratelimit-headers-10.

#[cfg(feature = "_layer")]
use std::collections::HashMap;
use std::fmt::Write as _;
use std::time::Duration;

use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};
#[cfg(feature = "_layer")]
use sfv::{BareItem, List, ListEntry, Parser};
use sfv::{Integer, KeyRef, ListSerializer, StringRef, key_ref, string_ref};
use smallvec::SmallVec;

use super::names::PublicNames;
use crate::decision::{Decision, Measure, Source, whole_seconds};
#[cfg(feature = "_layer")]
use crate::observe::Observation;

/// The name of a header field, in lower case, and its value.
pub(crate) type Field = (&'static str, String);

/// The parameters of a quota, and of what is left of it.
const Q: &KeyRef = key_ref("q");
const R: &KeyRef = key_ref("r");

/// The most rules that a layer reports; a handler may have checked more.
#[cfg(feature = "_layer")]
const MOST: usize = 10;

/// The most bytes of names in `RateLimit-Policy`, in which each limit repeats that of its rule. One
/// rule of 8 limits always has room.
#[cfg(feature = "_layer")]
const MOST_BYTES: usize = 1_024;

/// One limit of a rule, as clients see it.
struct Quota {
    index: usize,
    max: u64,
    /// The window; `None` for a calendar quota, whose periods differ in length.
    seconds: Option<u64>,
    /// The cost admitted at once, if that is not `max`.
    burst: Option<u64>,
    /// `true` for a limit on calls in flight, which has no window.
    in_flight: bool,
}

/// A rule that took part in a response, and its decision.
struct Item<'a> {
    decision: &'a Decision,
    /// The rule's name for clients.
    name: &'a str,
    quotas: SmallVec<[Quota; 2]>,
    /// `true` if the remaining cost is final.
    is_settled: bool,
    /// `true` if the response is this refusal.
    #[cfg(feature = "_layer")]
    is_answer: bool,
}

impl<'a> Item<'a> {
    /// The item of a decision alone: it knows only the limit that decided, and no `max` of a bucket
    /// with a burst. `None` if clients do not see the rule.
    fn of_decision(decision: &'a Decision, names: &PublicNames) -> Option<Self> {
        let name = names.of(decision.rule())?;
        let mut quotas = SmallVec::new();
        if decision.measure != Measure::Burst {
            let index = decision.limit_index();
            let seconds =
                (decision.measure != Measure::Calendar).then(|| whole_seconds(decision.window()));
            quotas.push(Quota {
                index,
                max: decision.limit(),
                seconds,
                burst: None,
                in_flight: decision.is_in_flight_limit(),
            });
        }
        Some(Self {
            decision,
            name,
            quotas,
            is_settled: true,
            #[cfg(feature = "_layer")]
            is_answer: false,
        })
    }

    /// The item of a decision by the limits of an observed one of its rule.
    #[cfg(feature = "_layer")]
    fn of_observed(
        decision: &'a Decision,
        observation: &Observation,
        names: &PublicNames,
    ) -> Option<Self> {
        let of_decision = Self::of_decision(decision, names)?;
        let quota = |(index, limit): (usize, &crate::rule::Limit)| {
            let capacity = observation.algorithm().capacity(limit);
            let burst = (capacity != limit.max()).then_some(capacity);
            let seconds = limit
                .calendar_unit()
                .is_none()
                .then(|| whole_seconds(limit.window()));
            Quota {
                index,
                max: limit.max(),
                seconds,
                burst,
                in_flight: false,
            }
        };
        let mut quotas: SmallVec<[Quota; 2]> =
            observation.limits().iter().enumerate().map(quota).collect();
        if decision.is_in_flight_limit() {
            quotas.extend(of_decision.quotas);
        }
        Some(Self {
            quotas,
            is_settled: !decision.is_allowed() || observation.is_settled(),
            ..of_decision
        })
    }

    /// `true` if the remaining cost is known: a store was asked, and nothing is settled later.
    fn is_known(&self) -> bool {
        self.decision.source() != Source::Nobody && self.is_settled
    }

    /// The place of the item among others: of the first, clients have to know most.
    #[cfg(feature = "_layer")]
    fn rank(&self) -> impl Ord + use<> {
        let decision = self.decision;
        let is_known = self.is_known();
        (
            !self.is_answer,
            decision.is_allowed(),
            !is_known,
            decision.remaining(),
        )
    }
}

/// The rules of a response and their standings.
pub(crate) struct Standings<'a>(Vec<Item<'a>>);

impl<'a> Standings<'a> {
    /// The standings after these decisions. If the response is a refusal, this is its decision,
    /// which may be missing among them.
    #[cfg(feature = "_layer")]
    pub(crate) fn after(
        observations: &'a [Observation],
        answer: Option<&'a Decision>,
        names: &PublicNames,
    ) -> Self {
        let of_all = observations.iter().filter_map(|observation| {
            Item::of_observed(observation.decision(), observation, names)
        });
        let of_answer = answer.and_then(|answer| {
            let mut known = observations
                .iter()
                .filter(|known| known.decision().rule == answer.rule);
            let item = match known.next() {
                // What was observed knows all limits of the rule.
                Some(known) => Item::of_observed(answer, known, names)?,
                None => Item::of_decision(answer, names)?,
            };
            Some(Item {
                is_answer: true,
                ..item
            })
        });
        let mut standings = Self(Vec::new());
        for item in of_all.chain(of_answer) {
            standings.add(item);
        }
        while !standings.has_room() {
            let ranks = standings.0.iter().map(Item::rank).enumerate();
            let Some((last, _)) = ranks.max_by(|(_, one), (_, other)| one.cmp(other)) else {
                break;
            };
            let _ = standings.0.remove(last);
        }
        standings
    }

    /// Adds an item, unless a stricter one has its name: of several, that matters to the client.
    #[cfg(feature = "_layer")]
    fn add(&mut self, item: Item<'a>) {
        match self.0.iter_mut().find(|known| known.name == item.name) {
            Some(known) if item.rank() < known.rank() => *known = item,
            Some(_) => {}
            None => self.0.push(item),
        }
    }

    /// Leaves out the rule `refused`, whose refusal a layer further in has told of, and those of
    /// which lines of `RateLimit` from such layers report less left, or as much: a rule's limits
    /// and what is left of them come from one layer.
    #[cfg(feature = "_layer")]
    pub(crate) fn yield_to<'l>(
        &mut self,
        further_in: impl Iterator<Item = &'l [u8]>,
        refused: Option<&str>,
    ) {
        let further_in: List = further_in.flat_map(parse).collect();
        self.0.retain(|item| {
            let name = name(item.name, item.decision.limit_index());
            let own = i64::try_from(item.decision.remaining()).ok();
            let is_stricter = |entry: &ListEntry| {
                let left = match entry {
                    ListEntry::Item(item) => item.params.get(R).and_then(BareItem::as_integer),
                    ListEntry::InnerList(_) => None,
                };
                item.is_known() && own < left.map(i64::from)
            };
            let mut named = further_in
                .iter()
                .filter(|entry| name_of(entry) == Some(&name));
            refused != Some(item.name) && named.all(is_stricter)
        });
    }

    #[cfg(feature = "_layer")]
    fn has_room(&self) -> bool {
        let bytes = |item: &Item<'_>| item.name.len() * item.quotas.len();
        let used: usize = self.0.iter().map(bytes).sum();
        self.0.len() <= 1 || self.0.len() <= MOST && used <= MOST_BYTES
    }

    /// The known decision that is closest to a refusal.
    pub(crate) fn strictest(&self) -> Option<&'a Decision> {
        let known = self
            .0
            .iter()
            .filter(|item| item.is_known())
            .map(|item| item.decision);
        known.reduce(|a, b| if b.is_stricter_than(a) { b } else { a })
    }

    /// The header fields `RateLimit-Policy` and `RateLimit`.
    pub(crate) fn fields(&self) -> Vec<Field> {
        const W: &KeyRef = key_ref("w");
        const QU: &KeyRef = key_ref("qu");
        const IN_FLIGHT: &StringRef = string_ref("concurrent-requests");
        const BURST: &KeyRef = key_ref("burst");
        const T: &KeyRef = key_ref("t");
        let (mut policies, mut standings) = (ListSerializer::new(), ListSerializer::new());
        for item @ Item {
            decision,
            name: rule,
            quotas,
            ..
        } in &self.0
        {
            for Quota {
                index,
                max,
                seconds,
                burst,
                in_flight,
            } in quotas
            {
                let name = name(rule, *index);
                let Some(name) = string(&name) else { continue };
                let policy = policies.bare_item(name).parameter(Q, integer(*max));
                if *in_flight {
                    let _ = policy.parameter(QU, IN_FLIGHT);
                    continue;
                }
                let policy = match seconds {
                    Some(seconds) => policy.parameter(W, integer(*seconds)),
                    None => policy,
                };
                if let Some(burst) = burst {
                    let _ = policy.parameter(BURST, integer(*burst));
                }
            }
            if item.is_known() {
                let name = name(rule, decision.limit_index());
                let Some(name) = string(&name) else { continue };
                let standing = standings
                    .bare_item(name)
                    .parameter(R, integer(decision.remaining()));
                if let Some(seconds) = reset(decision) {
                    let _ = standing.parameter(T, integer(seconds));
                }
            }
        }
        let mut fields = Vec::new();
        fields.extend(policies.finish().map(|value| ("ratelimit-policy", value)));
        fields.extend(standings.finish().map(|value| ("ratelimit", value)));
        fields
    }
}

/// The fields of a refusal, made of its decision alone.
pub(super) fn of_refusal(decision: &Decision, names: &PublicNames, legacy: bool) -> Vec<Field> {
    let standings = Standings(Item::of_decision(decision, names).into_iter().collect());
    let mut fields = standings.fields();
    fields.extend(
        standings
            .strictest()
            .filter(|_| legacy)
            .into_iter()
            .flat_map(legacy_fields),
    );
    fields
}

/// The fields `X-RateLimit-*`, which older clients read.
pub(crate) fn legacy_fields(decision: &Decision) -> impl Iterator<Item = Field> {
    let counts = [
        ("x-ratelimit-limit", decision.limit().to_string()),
        ("x-ratelimit-remaining", decision.remaining().to_string()),
    ];
    counts
        .into_iter()
        .chain(reset(decision).map(|seconds| ("x-ratelimit-reset", seconds.to_string())))
}

/// The seconds until the limit of an admitted call is unused, or a refused call would be admitted,
/// as in `Retry-After`; `None` if that is not known.
fn reset(decision: &Decision) -> Option<u64> {
    // Units of one moment are a microsecond apart in a sliding window of 60 s: that is 60, not 61.
    let reset = || {
        decision
            .reset_after()
            .saturating_sub(Duration::from_millis(1))
    };
    let reset = if decision.is_allowed() {
        Some(reset())
    } else {
        decision.retry_after()
    };
    // When a call in flight ends is not known.
    reset
        .filter(|_| !decision.is_in_flight_limit())
        .map(whole_seconds)
}

/// A structured string holds printable ASCII; `%` is encoded so that no two names become one.
const ENCODED: &AsciiSet = &CONTROLS.add(b'%');

/// The name of a rule's limit, which begins with the rule's public name.
pub(super) fn name(rule: &str, index: usize) -> String {
    let mut name = utf8_percent_encode(rule, ENCODED).to_string();
    if index > 0 {
        let _ = write!(name, "/{}", index + 1);
    }
    name
}

/// The members of a line; none if it is no list, as in earlier drafts.
#[cfg(feature = "_layer")]
fn parse(line: &[u8]) -> List {
    Parser::new(line).parse().unwrap_or_default()
}

/// The list of the lines that layers further in and the handler have written, followed by `own`. A
/// name stands once in it, with its last item.
#[cfg(feature = "_layer")]
pub(crate) fn joined<'l>(further_in: impl Iterator<Item = &'l [u8]>, own: String) -> String {
    let mut further_in = further_in.flat_map(parse).peekable();
    if further_in.peek().is_none() {
        return own;
    }
    let (mut list, mut places) = (List::new(), HashMap::new());
    for entry in further_in.chain(parse(own.as_bytes())) {
        let place = match name_of(&entry) {
            Some(name) => *places.entry(name.to_owned()).or_insert(list.len()),
            None => list.len(),
        };
        match list.get_mut(place) {
            Some(known) => *known = entry,
            None => list.push(entry),
        }
    }
    let mut line = ListSerializer::new();
    line.members(&list);
    line.finish().unwrap_or(own)
}

/// The name of a policy; `None` of anything else that a handler may have written.
#[cfg(feature = "_layer")]
fn name_of(entry: &ListEntry) -> Option<&str> {
    match entry {
        ListEntry::Item(item) => item.bare_item.as_string().map(StringRef::as_str),
        ListEntry::InnerList(_) => None,
    }
}

fn string(name: &str) -> Option<&StringRef> {
    let string = StringRef::from_str(name);
    debug_assert!(string.is_ok(), "a name is printable ASCII");
    string.ok()
}

/// `value` as a structured integer, of at most 15 digits.
fn integer(value: u64) -> Integer {
    i64::try_from(value)
        .ok()
        .and_then(|value| Integer::try_from(value).ok())
        .unwrap_or(Integer::MAX)
}
