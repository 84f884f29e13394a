//! [`Name`]: the name of a rule, derived from a path, escaped for keys, and interned for decisions.

use std::borrow::{Borrow, Cow};
use std::collections::HashSet;
use std::fmt::{self, Write as _};
use std::hash::{Hash, Hasher};
use std::sync::{LazyLock, Mutex, PoisonError};

#[cfg(feature = "metrics")]
use once_cell::sync::OnceCell;

use super::algorithm::Algorithm;
use super::limit::Limit;

/// The version of the format of stored keys. A prefix must not hold it as a segment.
pub(crate) const FORMAT: &str = "rl1";

/// The most bytes of a name that is given, as the attribute has it: keys, logs, metrics and header
/// fields repeat it.
pub(crate) const MAX_NAME: usize = 128;

/// A given name, cut one character above [`MAX_NAME`], so that it is still too long.
pub(super) fn bounded(name: &str) -> &str {
    let end = name.char_indices().nth(MAX_NAME + 1);
    end.and_then(|(end, _)| name.get(..end)).unwrap_or(name)
}

/// The name in a path like `<shop::A as shop::T>::send::{{closure}}::__RatelimitHere`: without
/// closures and the last segment, in characters that need no escape: `<shop.A+as+shop.T>.send`.
/// Newer compilers than Rust 1.88 write lifetimes too: without them, counts go on with another one.
/// Attributes stacked below the first add `#2`, `#3`…
pub(crate) fn from_type_path(path: &str, nth: u8) -> String {
    let path = path
        .rsplit_once("::")
        .map_or(path, |(function, _anchor)| function);
    let lifetimes = ["'_, ", "'_ ", "'_", "<>"].into_iter();
    let path = lifetimes.fold(path.to_owned(), |path, written| path.replace(written, ""));
    let mut name = String::with_capacity(path.len());
    for (index, segment) in path.split("::").enumerate() {
        if let Some(lowered) = segment.strip_prefix("{{") {
            // `{{closure}}`, `{{constant}}`: how the body was lowered, not where it is.
            name.push_str(lowered.split_once("}}").map_or("", |(_, after)| after));
        } else {
            name.extend([if index > 0 { "." } else { "" }, segment]);
        }
    }
    let mut name = name.replace(' ', "+").replace('{', "(").replace('}', ")");
    if nth > 1 {
        let _ = write!(name, "#{nth}");
    }
    name
}

/// The name as a key holds it: nothing in it ends the name, or is a hash tag for a cluster.
pub(crate) fn escape(name: &str) -> Cow<'_, str> {
    escape_also(name, ':')
}

/// [`escape`]s `name`, and the character `other` as well.
fn escape_also(name: &str, other: char) -> Cow<'_, str> {
    let special = |c: char| matches!(c, ':' | '%' | '{' | '}') || c == other || c.is_control();
    if !name.contains(special) {
        return Cow::Borrowed(name);
    }
    let mut escaped = String::with_capacity(name.len() + 8);
    for c in name.chars() {
        if special(c) {
            for byte in c.encode_utf8(&mut [0; 4]).bytes() {
                let _ = write!(escaped, "%{byte:02X}");
            }
        } else {
            escaped.push(c);
        }
    }
    Cow::Owned(escaped)
}

/// Adds the beginning of every stored key of a rule, after the prefix: the format, the algorithm
/// with its windows, and the name.
pub(crate) fn push_head(
    out: &mut String,
    algorithm: Algorithm,
    limits: &[Limit],
    escaped_name: &str,
) {
    out.push_str(FORMAT);
    out.push(':');
    out.push_str(algorithm.row().tag);
    for (index, limit) in limits.iter().enumerate() {
        out.push(if index == 0 { '-' } else { '+' });
        let _ = match limit.by_calendar() {
            None => write!(out, "{}", Window(limit.window_us())),
            Some(calendar) => write!(
                out,
                "{}@{}",
                calendar.unit,
                escape_also(calendar.zone_name(), '+')
            ),
        };
    }
    out.push(':');
    out.push_str(escaped_name);
    out.push(':');
}

/// Adds the beginning of the stored keys of a rule's calls in flight, after the prefix.
pub(crate) fn push_in_flight_head(out: &mut String, escaped_name: &str) {
    out.push_str(FORMAT);
    out.push_str(":cc:");
    out.push_str(escaped_name);
    out.push(':');
}

/// A window in microseconds, written in the largest of `s`, `ms` and `us` that holds it whole, so
/// that `60s` and `1m` give one key.
struct Window(u64);

impl fmt::Display for Window {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            us if us % 1_000_000 == 0 => write!(f, "{}s", us / 1_000_000),
            us if us % 1_000 == 0 => write!(f, "{}ms", us / 1_000),
            us => write!(f, "{us}us"),
        }
    }
}

/// The most names that are interned; names made at run time must not fill the memory.
const MAX_NAMES: usize = 16_384;

static NAMES: LazyLock<Mutex<HashSet<Name>>> = LazyLock::new(Mutex::default);

/// The name of a rule as decisions show it: small, and valid for as long as the process runs.
#[derive(Clone, Copy)]
pub(crate) struct Name(&'static Interned);

struct Interned {
    text: &'static str,
    #[cfg(feature = "metrics")]
    series: OnceCell<Series>,
}

/// The metric series of a name.
#[cfg(feature = "metrics")]
type Series = Box<[OnceCell<metrics::Key>]>;

impl Interned {
    const fn new(text: &'static str) -> Self {
        Self {
            text,
            #[cfg(feature = "metrics")]
            series: OnceCell::new(),
        }
    }
}

/// The name that stands for all names beyond [`MAX_NAMES`].
static OTHER: Interned = Interned::new(Name::OTHER);

impl Name {
    /// The text that stands for all names beyond [`MAX_NAMES`].
    pub(crate) const OTHER: &str = "(other)";

    /// The interned form of `name`.
    pub(crate) fn intern(name: &str) -> Self {
        let mut names = NAMES.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = names.get(name) {
            return *known;
        }
        if names.len() >= MAX_NAMES {
            return Self(&OTHER);
        }
        let text: &'static str = Box::leak(name.to_owned().into_boxed_str());
        let name = Self(Box::leak(Box::new(Interned::new(text))));
        names.insert(name);
        name
    }

    pub(crate) fn as_str(self) -> &'static str {
        self.0.text
    }

    /// The metric series of this name; empty until the first count.
    #[cfg(feature = "metrics")]
    #[inline]
    pub(crate) fn series(self) -> &'static OnceCell<Series> {
        &self.0.series
    }
}

/// Names are looked up by their text.
impl Borrow<str> for Name {
    fn borrow(&self) -> &str {
        self.0.text
    }
}

impl PartialEq for Name {
    fn eq(&self, other: &Self) -> bool {
        self.0.text == other.0.text
    }
}

impl Eq for Name {}

impl Hash for Name {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.text.hash(state);
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.0.text, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two compilers write the path of one function: counts go on with the newer one.
    #[test]
    fn the_name_of_a_function_does_not_depend_on_the_lifetimes_that_a_compiler_writes() {
        for (by_1_88, by_1_95, name) in [
            ("a::L::f::H", "a::L<'_>::f::H", "a.L.f"),
            ("a::L<_>::f::H", "a::L<'_, '_, _>::f::H", "a.L<_>.f"),
            (
                "<fn(&u8) -> a::L as a::T>::f::H",
                "<fn(&'_ u8) -> a::L<'_> as a::T>::f::H",
                "<fn(&u8)+->+a.L+as+a.T>.f",
            ),
            (
                "<dyn a::D<> as a::T>::f::H",
                "<dyn a::D<'_> as a::T>::f::H",
                "<dyn+a.D+as+a.T>.f",
            ),
        ] {
            assert_eq!(from_type_path(by_1_88, 1), name);
            assert_eq!(from_type_path(by_1_95, 1), name);
        }
    }
}
