//! [`Override`]: what single keys get in place of a policy's numbers.

use std::collections::HashMap;

use smallvec::SmallVec;

use crate::key::{Key, is_canonical};
use crate::rule::algorithm::Algorithm;
use crate::rule::limit::Limit;

/// Other numbers for one key of a [`Policy`](super::Policy): `max`, `burst`, or both. Windows stay,
/// because buckets are stored under them, and so does all else that a policy says.
///
/// ```
/// use ratelimit_runtime::{Key, Limit, Override, Policy};
///
/// let export = Policy::new(Limit::per_hour(10)).with_override(&Key::of("acme"), Override::max(100));
/// # let _ = export;
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Deserialize), serde(from = "crate::rule::text::Numbers"))]
pub struct Override {
    /// One for each limit, or none where they stay.
    max: SmallVec<[u64; 2]>,
    burst: Option<u64>,
}

impl Override {
    /// Another `max`, of a policy with one limit.
    #[must_use]
    pub fn max(max: u64) -> Self {
        Self::max_of_each([max])
    }

    /// Another `max` for each limit of a policy, in their order.
    #[must_use]
    pub fn max_of_each(max: impl IntoIterator<Item = u64>) -> Self {
        Self { max: max.into_iter().collect(), burst: None }
    }

    /// Another burst, of a policy with one limit and a bucket algorithm; its `max` stays.
    #[must_use]
    pub fn burst(burst: u64) -> Self {
        Self { max: SmallVec::new(), burst: Some(burst) }
    }

    /// The same with another burst as well.
    #[must_use]
    pub fn with_burst(mut self, burst: u64) -> Self {
        self.burst = Some(burst);
        self
    }
}

impl Override {
    /// Puts the numbers in the place of those of `limits`.
    pub(in crate::rule) fn apply(&self, limits: &mut [Limit]) {
        for (limit, max) in limits.iter_mut().zip(&self.max) {
            *limit = limit.with_max(*max);
        }
        if let (Some(limit), Some(burst)) = (limits.first_mut(), self.burst) {
            *limit = limit.with_burst(burst);
        }
    }

    /// What is wrong with it for a policy of so many limits.
    fn fault(&self, algorithm: Algorithm, limits: usize) -> Option<String> {
        if self.max.is_empty() && self.burst.is_none() {
            return Some("it changes nothing: write `max`, `burst` or both".to_owned());
        }
        if !self.max.is_empty() && self.max.len() != limits {
            return Some(match limits {
                1 => "the policy has one limit, so write one `max`".to_owned(),
                limits => format!("the policy has {limits} limits, so write {limits} values of `max`, in their order"),
            });
        }
        if self.max.contains(&0) {
            return Some("a `max` of 0 refuses every call: write 1 or more, or block the key".to_owned());
        }
        burst_fault(self.burst, algorithm, limits)
    }
}

/// What is wrong with a burst where there are so many limits.
pub(in crate::rule) fn burst_fault(burst: Option<u64>, algorithm: Algorithm, limits: usize) -> Option<String> {
    if !algorithm.has_burst() {
        let buckets = Algorithm::ALL.iter().filter(|algorithm| algorithm.has_burst());
        let buckets: Vec<_> = buckets.map(|algorithm| algorithm.row().name).collect();
        return burst.map(|_| format!("only the buckets have a burst: it goes with {}", buckets.join(" and ")));
    }
    match burst? {
        _ if limits != 1 => Some("`burst` goes with one limit".to_owned()),
        0 => Some("a burst of 0 refuses every call: write 1 or more".to_owned()),
        _ => None,
    }
}

/// The overrides of a policy, by rendered key: what it is before it is hashed.
pub(crate) type Overrides = HashMap<Key, Override>;

/// What is wrong with one of them, for a policy of so many limits. Of several, it is always the same
/// one.
pub(super) fn fault(overrides: &Overrides, algorithm: Algorithm, limits: usize) -> Option<String> {
    let faults = overrides.iter().filter_map(|(key, values)| {
        let text = key.as_str();
        let fault = key_fault(text).or_else(|| values.fault(algorithm, limits))?;
        Some(format!("the override of `{}`: {fault}", text.escape_debug()))
    });
    faults.min()
}

/// The key that `admin list` shows as `text`: rendered, with what would steer a terminal as
/// `\u{…}`. No rendering holds a brace, so that can be taken back.
#[cfg(feature = "serde")]
pub(in crate::rule) fn key_as_listed(text: &str) -> Result<Key, String> {
    let mut parts = text.split(r"\u{");
    let mut rendered = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let code = part.split_once('}').and_then(|(digits, rest)| {
            let code = u32::from_str_radix(digits, 16).ok().and_then(char::from_u32)?;
            Some((code, rest))
        });
        match code {
            Some((code, rest)) => rendered.extend([code.to_string().as_str(), rest]),
            None => rendered.extend([r"\u{", part]),
        }
    }
    let fault = key_fault(&rendered);
    fault.map_or_else(|| Key::from_rendered(&rendered).map_err(|error| error.to_string()), Err)
}

/// What is wrong with the key of an override, which no call would ever have.
fn key_fault(text: &str) -> Option<String> {
    const AS_LISTED: &str = "write the key as `admin list` shows it, each value in its brackets: `<acme>/<7>`";
    if is_canonical(text) {
        return None;
    }
    let in_brackets = format!("<{text}>");
    Some(if text.strip_prefix('#').is_some_and(|hex| hex.len() == 32) {
        "this key is hashed: write what it was before".to_owned()
    } else if !text.is_empty() && is_canonical(&in_brackets) {
        format!("no call has this key: did you mean `{in_brackets}`?")
    } else {
        format!("no call has this key: {AS_LISTED}")
    })
}
