//! Settings: arguments that are known at compile time, and part of the rule as they are.

use syn::LitStr;

use crate::check::rule::block;
use crate::check::rule::limits::algorithm::Algorithm;
use crate::check::rule::limits::zone;
use crate::check::values::duration;
use crate::check::values::keywords::Keywords;
use crate::diagnostics::Diagnostics;
use crate::duration::{Bounds, HOUR, MILLISECOND, MINUTE, SECOND};
use crate::parse::arguments::Arguments;

/// A setting of the rule. The method of the runtime's `Rule` that takes it is called `with_` and
/// its name.
pub(crate) struct Setting {
    pub(crate) name: &'static str,
    pub(crate) value: SettingValue,
}

pub(crate) enum SettingValue {
    Micros(u64),
    /// Two durations, of which the second is longer.
    Range(u64, u64),
    /// A variant of an enum of the runtime.
    Variant(&'static str, &'static str),
    Text(LitStr),
}

/// 1 ms to 1 h.
pub(crate) const WAIT: Bounds = Bounds {
    shortest: MILLISECOND,
    longest: HOUR,
    usual: "s",
};

/// 1 ms to 60 s.
pub(crate) const TIMEOUT: Bounds = Bounds {
    shortest: MILLISECOND,
    longest: MINUTE,
    usual: "ms",
};

/// 10 ms to 10 s.
pub(crate) const PREFETCH: Bounds = Bounds {
    shortest: 10 * MILLISECOND,
    longest: 10 * SECOND,
    usual: "ms",
};

/// 5 s to 1 h.
const LEASE: Bounds = Bounds {
    shortest: 5 * SECOND,
    longest: HOUR,
    usual: "s",
};

/// The answers to a call while the store gives none.
const ANSWERS: Keywords<&str> = Keywords {
    argument: "on_unavailable",
    noun: "answer",
    values: &[("allow", "Allow"), ("deny", "Deny"), ("local", "Local")],
    synonyms: &[
        ("allow", &["open", "failopen"]),
        ("deny", &["closed", "failclosed"]),
        ("local", &["memory"]),
    ],
    or: None,
};

/// The settings that are given, in the order in which expansions show them. A wrong setting is
/// reported and left out.
pub(crate) fn read(
    arguments: &Arguments,
    algorithm: Option<Algorithm>,
    diagnostics: &mut Diagnostics,
) -> Vec<Setting> {
    let Arguments {
        algorithm: named,
        block,
        wait,
        prefetch,
        lease,
        timeout,
        on_unavailable,
        zone,
        ..
    } = arguments;
    let algorithm = named
        .as_ref()
        .and(algorithm)
        .map(|algorithm| SettingValue::Variant("Algorithm", algorithm.variant));
    let zone = diagnostics
        .read(zone.as_ref(), zone::read)
        .map(SettingValue::Text);
    let block = diagnostics.read(block.as_ref(), block::read);
    let on_unavailable = diagnostics.read(on_unavailable.as_ref(), |answer| ANSWERS.read(answer));
    let mut duration = |argument: &Option<_>, bounds| {
        let micros = diagnostics.read(argument.as_ref(), |text| duration::read(text, bounds));
        micros.map(SettingValue::Micros)
    };
    let (wait, timeout) = (duration(wait, &WAIT), duration(timeout, &TIMEOUT));
    let (prefetch, lease) = (duration(prefetch, &PREFETCH), duration(lease, &LEASE));
    let (block_name, block) = match block {
        Some((first, Some(longest))) => {
            ("growing_block", Some(SettingValue::Range(first, longest)))
        }
        fixed => (
            "block",
            fixed.map(|(duration, _)| SettingValue::Micros(duration)),
        ),
    };
    let settings = [
        ("algorithm", algorithm),
        ("zone", zone),
        (block_name, block),
        ("wait", wait),
        ("prefetch", prefetch),
        ("lease", lease),
        ("timeout", timeout),
        (
            "on_unavailable",
            on_unavailable.map(|answer| SettingValue::Variant("OnUnavailable", answer)),
        ),
    ];
    settings
        .into_iter()
        .filter_map(|(name, value)| {
            Some(Setting {
                name,
                value: value?,
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse::arguments::Argument;

    #[test]
    fn on_unavailable_takes_its_keywords() {
        for (keyword, variant) in ANSWERS.values {
            let argument = Argument::of(&format!("\"{keyword}\""));
            assert_eq!(ANSWERS.read(&argument), Ok(*variant));
        }
        ANSWERS.assert_synonyms_are_sound();
    }
}
