//! [`Override`]: the numbers of a single key, in place of a policy's, for a customer that gets more
//! or is suspended.

use std::collections::{HashMap, HashSet};
use std::net::IpAddr;

use smallvec::SmallVec;

use crate::key::{ExactIp, Key, KeyPart, is_canonical};
use crate::rule::algorithm::Algorithm;
use crate::rule::limit::Limit;

/// Other numbers for one key of a [`Policy`](super::Policy): `max`, `burst`, or both. The windows,
/// which are part of stored keys, and all other settings of the policy stay.
///
/// ```
/// use ratelimit_runtime::{Key, Limit, Override, Policy};
///
/// let export = Policy::new(Limit::per_hour(10)).with_override(&Key::of("acme"), Override::max(100));
/// # let _ = export;
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Deserialize),
    serde(from = "crate::rule::text::Numbers")
)]
pub struct Override {
    /// The `max` of each limit; empty to keep them all.
    max: SmallVec<[u64; 2]>,
    burst: Option<u64>,
}

impl Override {
    /// Replaces the `max` of a policy with one limit; one with several is refused when it is set. A
    /// `max` of 0 suspends the key: every call is refused.
    #[must_use]
    pub fn max(max: u64) -> Self {
        Self::max_of_each([max])
    }

    /// Replaces the `max` of each limit of a policy, in order. A policy with another number of
    /// limits is refused when it is set.
    #[must_use]
    pub fn max_of_each(max: impl IntoIterator<Item = u64>) -> Self {
        Self {
            max: max.into_iter().collect(),
            burst: None,
        }
    }

    /// Replaces the burst, at least 1, and keeps the `max`. A policy without a bucket algorithm, or
    /// with several limits, is refused when it is set.
    #[must_use]
    pub fn burst(burst: u64) -> Self {
        Self {
            max: SmallVec::new(),
            burst: Some(burst),
        }
    }

    /// Replaces the burst, at least 1, as well as the `max`. A policy that has no bucket algorithm,
    /// or has several limits, is refused when it is set.
    #[must_use]
    pub fn with_burst(mut self, burst: u64) -> Self {
        self.burst = Some(burst);
        self
    }
}

impl Override {
    /// Puts the numbers in place of those of `limits`.
    pub(in crate::rule) fn apply(&self, limits: &mut [Limit]) {
        for (limit, max) in limits.iter_mut().zip(&self.max) {
            *limit = limit.with_max(*max);
        }
        if let (Some(limit), Some(burst)) = (limits.first_mut(), self.burst) {
            *limit = limit.with_burst(burst);
        }
    }

    /// `Ok` if the override fits a policy with this number of limits; else the mistake.
    pub(in crate::rule) fn check(&self, algorithm: Algorithm, limits: usize) -> Result<(), String> {
        if self.max.is_empty() && self.burst.is_none() {
            return Err("it changes nothing: write `max`, `burst` or both".to_owned());
        }
        if !self.max.is_empty() && self.max.len() != limits {
            return Err(format!(
                "write one `max` for each limit of the policy, in their order: {limits}"
            ));
        }
        match self.burst {
            Some(_) if !algorithm.has_burst() => Err(algorithm.lacks_burst()),
            Some(_) if limits != 1 => Err("`burst` goes with one limit".to_owned()),
            Some(0) => Err("a burst of 0 refuses every call: write 1 or more".to_owned()),
            _ => Ok(()),
        }
    }
}

/// The overrides of a policy, by the rendered key before it is hashed.
pub(crate) type Overrides = HashMap<Key, Override>;

/// `Ok` if all overrides fit a policy with this number of limits; else the mistake in one of them,
/// always the same one.
pub(super) fn check(
    overrides: &Overrides,
    algorithm: Algorithm,
    limits: usize,
) -> Result<(), String> {
    let faults = overrides.iter().filter_map(|(key, values)| {
        let text = key.as_str();
        let fault = check_key(text)
            .and_then(|()| values.check(algorithm, limits))
            .err()?;
        Some(format!(
            "the override of `{}`: {fault}",
            text.escape_debug()
        ))
    });
    faults.chain(twice(overrides)).min().map_or(Ok(()), Err)
}

/// The mistakes in addresses that have two overrides, in two notations.
fn twice(overrides: &Overrides) -> impl Iterator<Item = String> {
    let mut known = HashSet::new();
    // IPv4 is written in one way, and the /64 of an address may have another override.
    let keys = overrides.keys().filter(|key| {
        let text = key.as_str();
        text.contains(':') && !text.contains("/64")
    });
    keys.filter_map(move |key| {
        let exact = with_addresses(key, ExactIp);
        let is_known = exact != *key && overrides.contains_key(&exact);
        let message = format!(
            "the override of `{}`: there is one already, in another notation",
            exact.as_str().escape_debug()
        );
        (is_known || !known.insert(exact)).then_some(message)
    })
}

/// The parts of a rendered key, the sign that ends each, and `true` for a part in brackets.
fn items(rendered: &str) -> impl Iterator<Item = (&str, &str, bool)> {
    const ENDS: [char; 5] = ['<', '>', '(', ')', ','];
    let mut in_value = false;
    rendered.split_inclusive(ENDS).map(move |part| {
        let item = part.strip_suffix(ENDS).unwrap_or(part);
        let (item, end) = part.split_at(item.len());
        let is_of_value = in_value;
        in_value = end != ">" && (in_value || end == "<");
        (item, end, is_of_value)
    })
}

/// The meaning of an item of a key, if it is an address.
enum Addressed {
    /// An address, or the /64 of a subscriber.
    Host(IpAddr),
    /// A network, which no call has as its key.
    Network,
}

fn addressed(item: &str) -> Option<Addressed> {
    let Some((address, prefix)) = item.split_once('/') else {
        return Some(Addressed::Host(item.parse().ok()?));
    };
    let (address, prefix) = (address.parse().ok()?, prefix.parse::<u8>().ok()?);
    let is_subscriber = prefix == 64 && rendering(&address).ends_with("/64>");
    Some(if is_subscriber {
        Addressed::Host(address)
    } else {
        Addressed::Network
    })
}

fn rendering(value: &impl KeyPart) -> String {
    Key::of(value).as_str().to_owned()
}

/// The key as a call renders it, with each address in it rendered by `value`.
fn with_addresses<T: KeyPart>(key: &Key, value: impl Fn(IpAddr) -> T) -> Key {
    let mut rendered = String::new();
    for (item, end, is_of_value) in items(key.as_str()) {
        match addressed(item) {
            Some(Addressed::Host(address)) if is_of_value => {
                let address = rendering(&value(address));
                rendered.push_str(address.trim_matches(['<', '>']));
            }
            _ => rendered.push_str(item),
        }
        rendered.push_str(end);
    }
    Key::from_rendered(&rendered).unwrap_or_else(|_| key.clone())
}

/// Adds the keys that calls from these addresses render: by subscriber, and by exact address.
pub(super) fn add_renderings(overrides: &mut Overrides) {
    let mut added = HashMap::<Key, Option<Override>>::new();
    for (key, values) in &*overrides {
        // IPv4 is written in one way.
        if !key.as_str().contains(':') {
            continue;
        }
        let of_subscriber = with_addresses(key, |address| address);
        for rendered in [of_subscriber, with_addresses(key, ExactIp)] {
            let known = added
                .entry(rendered)
                .or_insert_with(|| Some(values.clone()));
            if known.as_ref() != Some(values) {
                *known = None;
            }
        }
    }
    for (key, values) in added {
        if let Some(values) = values {
            overrides.entry(key).or_insert(values);
        }
    }
}

/// The key that `ratelimit-admin list` shows as `text`: its rendering, with characters that control
/// a terminal as `\u{…}`. No rendering holds a brace, so these escapes can be undone.
#[cfg(feature = "serde")]
pub(in crate::rule) fn key_as_listed(text: &str) -> Result<Key, String> {
    let mut parts = text.split(r"\u{");
    let mut rendered: String = parts.next().into_iter().collect();
    for part in parts {
        let code = part.split_once('}').and_then(|(digits, rest)| {
            let code = u32::from_str_radix(digits, 16)
                .ok()
                .and_then(char::from_u32)?;
            Some((code, rest))
        });
        match code {
            Some((code, rest)) => rendered.extend([code.to_string().as_str(), rest]),
            None => rendered.extend([r"\u{", part]),
        }
    }
    check_key(&rendered)?;
    Key::from_rendered(&rendered).map_err(|error| error.to_string())
}

/// `Ok` if a call may have this key; else the mistake.
fn check_key(text: &str) -> Result<(), String> {
    let in_brackets = format!("<{text}>");
    let mut networks = items(text).filter(|(item, _, of_value)| {
        *of_value && matches!(addressed(item), Some(Addressed::Network))
    });
    if let Some((network, ..)) = networks.next() {
        Err(format!(
            "no call has the network {network} as its key: write an override for each address, of \
             IPv6 for each /64"
        ))
    } else if is_canonical(text) {
        Ok(())
    } else if text.strip_prefix('#').is_some_and(|hex| hex.len() == 32) {
        Err("this key is hashed: write what it was before".to_owned())
    } else if !text.is_empty() && is_canonical(&in_brackets) {
        Err(format!(
            "no call has this key: did you mean `{in_brackets}`?"
        ))
    } else {
        Err(
            "no call has this key: write it as `ratelimit-admin list` shows it, each value in its \
             brackets: `<acme>/<7>`"
                .to_owned(),
        )
    }
}
