//! [`Zone`]: a time zone of the database, by its name.

use std::collections::HashMap;
use std::num::NonZeroU16;
use std::sync::{LazyLock, PoisonError, RwLock};

/// A time zone: which of those that this process has used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Zone(NonZeroU16);

/// A zone that has been used.
struct Entry {
    /// In the spelling of the database.
    name: &'static str,
    #[cfg(feature = "calendar")]
    zone: jiff::tz::TimeZone,
}

#[derive(Default)]
struct Zones {
    /// By their number less one.
    entries: Vec<Entry>,
    /// By all the spellings that were asked for, of which the database has a bounded number.
    by_name: HashMap<&'static str, Zone>,
}

/// The longest name, in bytes.
const LONGEST: usize = 64;

/// Files beside the zones, which each machine has of its own: processes would count one day under
/// one key, and not agree when it begins.
#[cfg(feature = "calendar")]
const OF_THE_MACHINE: [&str; 2] = ["localtime", "posixrules"];

static ZONES: LazyLock<RwLock<Zones>> = LazyLock::new(RwLock::default);

impl Zone {
    /// The zone of this [`number`](Self::number); 0 is none.
    pub(super) const fn of_number(number: u32) -> Option<Self> {
        #[allow(clippy::cast_possible_truncation, reason = "a number of 16 bits")]
        match NonZeroU16::new(number as u16) {
            Some(number) => Some(Self(number)),
            None => None,
        }
    }

    #[allow(clippy::cast_lossless, reason = "`From` is not const")]
    pub(super) const fn number(self) -> u32 {
        self.0.get() as u32
    }

    /// The zone that the database has under this name, in any case.
    ///
    /// # Errors
    ///
    /// What is wrong with the name, and what to do.
    pub(crate) fn named(name: &str) -> Result<Self, String> {
        if let Some(zone) = ZONES.read().unwrap_or_else(PoisonError::into_inner).by_name.get(name) {
            return Ok(*zone);
        }
        Self::find(name)
    }

    #[cfg(not(feature = "calendar"))]
    fn find(name: &str) -> Result<Self, String> {
        Err(format!(
            "the time zone `{}` takes the feature `calendar` of ratelimit-runtime: turn it on, or leave the zone out",
            shown(name)
        ))
    }

    #[cfg(feature = "calendar")]
    fn find(name: &str) -> Result<Self, String> {
        let unknown = || {
            format!(
                "unknown time zone `{}`: write a name of the tz database, such as \"Europe/Berlin\", \
                 \"America/New_York\" or \"UTC\"",
                shown(name)
            )
        };
        // A name is a few words of ASCII; the database is a folder of files.
        let is_name = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'/' | b'_' | b'-' | b'+');
        if name.is_empty() || name.len() > LONGEST || !name.bytes().all(is_name) {
            return Err(unknown());
        }
        let zone = jiff::tz::TimeZone::get(name).map_err(|_| unknown())?;
        let canonical = zone.iana_name().filter(|name| !OF_THE_MACHINE.contains(name)).ok_or_else(unknown)?;
        let mut zones = ZONES.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = zones.by_name.get(canonical).copied() {
            // Other spellings are looked up each time: there are as many as one likes.
            return Ok(known);
        }
        let number = u16::try_from(zones.entries.len() + 1).ok().and_then(NonZeroU16::new).ok_or_else(unknown)?;
        let name: &'static str = Box::leak(canonical.to_owned().into_boxed_str());
        zones.entries.push(Entry { name, zone });
        zones.by_name.insert(name, Self(number));
        Ok(Self(number))
    }

    /// Its name, in the spelling of the database.
    pub(crate) fn name(self) -> &'static str {
        self.with(|entry| entry.name).unwrap_or("UTC")
    }

    /// Its rules.
    #[cfg(feature = "calendar")]
    pub(super) fn rules(self) -> jiff::tz::TimeZone {
        self.with(|entry| entry.zone.clone()).unwrap_or(jiff::tz::TimeZone::UTC)
    }

    fn with<T>(self, read: impl FnOnce(&Entry) -> T) -> Option<T> {
        let zones = ZONES.read().unwrap_or_else(PoisonError::into_inner);
        zones.entries.get(usize::from(self.0.get()) - 1).map(read)
    }
}

/// A name that is not known, for a message.
fn shown(name: &str) -> String {
    name.chars().take(LONGEST).flat_map(char::escape_debug).collect()
}
