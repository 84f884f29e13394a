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
#[cfg_attr(
    feature = "serde",
    derive(serde::Deserialize),
    serde(from = "crate::rule::text::Numbers")
)]
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
        Self {
            max: max.into_iter().collect(),
            burst: None,
        }
    }

    /// Another burst, of a policy with one limit and a bucket algorithm; its `max` stays.
    #[must_use]
    pub fn burst(burst: u64) -> Self {
        Self {
            max: SmallVec::new(),
            burst: Some(burst),
        }
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

    /// Whether it fits a policy of so many limits; else the mistake.
    fn check(&self, algorithm: Algorithm, limits: usize) -> Result<(), String> {
        if self.max.is_empty() && self.burst.is_none() {
            return Err("it changes nothing: write `max`, `burst` or both".to_owned());
        }
        if !self.max.is_empty() && self.max.len() != limits {
            return Err(format!(
                "write one `max` for each limit of the policy, in their order: {limits}"
            ));
        }
        if self.max.contains(&0) {
            return Err(
                "a `max` of 0 refuses every call: write 1 or more, or block the key".to_owned(),
            );
        }
        check_burst(self.burst, algorithm, limits)
    }
}

/// Whether there may be such a burst beside so many limits; else the mistake.
pub(in crate::rule) fn check_burst(
    burst: Option<u64>,
    algorithm: Algorithm,
    limits: usize,
) -> Result<(), String> {
    match burst {
        Some(_) if !algorithm.has_burst() => Err(format!(
            "`{algorithm}` has no burst: only the bucket algorithms have one"
        )),
        Some(_) if limits != 1 => Err("`burst` goes with one limit".to_owned()),
        Some(0) => Err("a burst of 0 refuses every call: write 1 or more".to_owned()),
        _ => Ok(()),
    }
}

/// The overrides of a policy, by the rendered key before it is hashed.
pub(crate) type Overrides = HashMap<Key, Override>;

/// Whether all of them fit a policy of so many limits; else the mistake in one of them, always the
/// same one.
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
    faults.min().map_or(Ok(()), Err)
}

/// The key that `admin list` shows as `text`: its rendering, with characters that steer a terminal
/// as `\u{…}`. No rendering holds a brace, so these escapes can be undone.
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

/// Whether a call may have this key; else the mistake.
fn check_key(text: &str) -> Result<(), String> {
    let in_brackets = format!("<{text}>");
    if is_canonical(text) {
        Ok(())
    } else if text.strip_prefix('#').is_some_and(|hex| hex.len() == 32) {
        Err("this key is hashed: write what it was before".to_owned())
    } else if !text.is_empty() && is_canonical(&in_brackets) {
        Err(format!(
            "no call has this key: did you mean `{in_brackets}`?"
        ))
    } else {
        Err("no call has this key: write it as `admin list` shows it, each value in its brackets: `<acme>/<7>`"
            .to_owned())
    }
}
