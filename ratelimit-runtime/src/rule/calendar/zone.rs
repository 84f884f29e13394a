//! [`Zone`]: a time zone of the tz database, by its name. A process looks each up once and keeps
//! it, so that a limit that names one is `Copy`.

use std::fmt;
use std::hash::{Hash, Hasher};
#[cfg(feature = "calendar")]
use std::sync::{PoisonError, RwLock};

/// A time zone that this process has used. Such zones are never freed.
#[derive(Clone, Copy)]
pub(crate) struct Zone(&'static NamedZone);

/// The name and the rules of a zone.
struct NamedZone {
    /// The name in the spelling of the database.
    name: &'static str,
    #[cfg(feature = "calendar")]
    rules: jiff::tz::TimeZone,
}

/// The longest name of a zone, in bytes.
const LONGEST: usize = 64;

/// Files beside the zones that differ from machine to machine: processes would count one day under
/// one key, but disagree about its beginning.
#[cfg(feature = "calendar")]
const OF_THE_MACHINE: [&str; 2] = ["localtime", "posixrules"];

/// The zones that were used. The database bounds their number.
#[cfg(feature = "calendar")]
static KNOWN: RwLock<Vec<Zone>> = RwLock::new(Vec::new());

impl Zone {
    /// The zone with this name in the database, in any case.
    ///
    /// # Errors
    ///
    /// If there is none: the error names the mistake, and what to write instead.
    #[cfg(not(feature = "calendar"))]
    pub(crate) fn named(name: &str) -> Result<Self, String> {
        Err(format!(
            "the time zone `{}` takes the feature `calendar` of ratelimit-runtime: turn it on, or leave the zone out",
            shown(name)
        ))
    }

    #[cfg(feature = "calendar")]
    pub(crate) fn named(name: &str) -> Result<Self, String> {
        let among = |known: &[Self], name: &str| {
            known
                .iter()
                .find(|zone| zone.name().eq_ignore_ascii_case(name))
                .copied()
        };
        if let Some(zone) = among(&KNOWN.read().unwrap_or_else(PoisonError::into_inner), name) {
            return Ok(zone);
        }
        let rules = find(name).ok_or_else(|| unknown(name))?;
        let name = rules
            .iana_name()
            .filter(|name| !OF_THE_MACHINE.contains(name))
            .ok_or_else(|| unknown(name))?;
        let mut known = KNOWN.write().unwrap_or_else(PoisonError::into_inner);
        // Another thread may have added it meanwhile.
        Ok(among(&known, name).unwrap_or_else(|| {
            let name: &'static str = Box::leak(name.to_owned().into_boxed_str());
            let zone = Self(Box::leak(Box::new(NamedZone {
                name,
                rules: rules.clone(),
            })));
            known.push(zone);
            zone
        }))
    }

    /// The name in the spelling of the database.
    pub(crate) fn name(self) -> &'static str {
        self.0.name
    }

    /// The rules that set the zone's clock.
    #[cfg(feature = "calendar")]
    pub(super) fn rules(self) -> jiff::tz::TimeZone {
        self.0.rules.clone()
    }
}

/// The rules of a zone in the database, a folder of files: only names are looked up.
#[cfg(feature = "calendar")]
fn find(name: &str) -> Option<jiff::tz::TimeZone> {
    let is_name =
        |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'/' | b'_' | b'-' | b'+');
    let may_be = !name.is_empty() && name.len() <= LONGEST && name.bytes().all(is_name);
    may_be.then(|| jiff::tz::TimeZone::get(name).ok()).flatten()
}

#[cfg(feature = "calendar")]
fn unknown(name: &str) -> String {
    format!(
        "unknown time zone `{}`: write a name of the tz database, such as \"Europe/Berlin\", \"America/New_York\" or \"UTC\"",
        shown(name)
    )
}

/// The beginning of an unknown name, for a message.
fn shown(name: &str) -> String {
    name.chars()
        .take(LONGEST)
        .flat_map(char::escape_debug)
        .collect()
}

// Each name has one `NamedZone`.
impl PartialEq for Zone {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self.0, other.0)
    }
}

impl Eq for Zone {}

impl Hash for Zone {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name().hash(state);
    }
}

impl fmt::Debug for Zone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
