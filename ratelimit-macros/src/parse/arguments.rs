//! The arguments of one attribute, and the table of all arguments.

use syn::{Expr, Ident};

/// An argument and its name as written. Without a value, as `shadow` may be, it means `true`.
pub(crate) struct Argument {
    pub(crate) name: Ident,
    pub(crate) value: Expr,
}

#[cfg(test)]
impl Argument {
    /// An argument with the value `text`.
    #[allow(clippy::unwrap_used, reason = "tests")]
    pub(crate) fn of(text: &str) -> Self {
        Self {
            name: syn::parse_quote!(x),
            value: syn::parse_str(text).unwrap(),
        }
    }
}

/// The properties of an argument, given or not.
pub(crate) struct Parameter {
    pub(crate) name: &'static str,
    /// The names of the argument in other limiters.
    pub(crate) synonyms: &'static [&'static str],
    /// The argument as a message shows it.
    pub(crate) example: &'static str,
    /// `true` if the name without a value means `true`.
    pub(crate) stands_alone: bool,
    /// Sets the argument.
    pub(crate) set: fn(&mut Arguments, Argument),
}

macro_rules! arguments {
    (@stands_alone) => { false };
    (@stands_alone stands_alone) => { true };
    ($($field:ident: $name:literal, $example:literal, synonyms [$($synonym:literal),*] $(, $stands_alone:ident)?;)*) => {
        /// The arguments of one attribute.
        #[derive(Default)]
        pub(crate) struct Arguments {
            $(pub(crate) $field: Option<Argument>,)*
        }

        /// Every argument, in the order in which messages list them.
        pub(crate) const PARAMETERS: &[Parameter] = &[$(Parameter {
            name: $name,
            synonyms: &[$($synonym),*],
            example: $example,
            stands_alone: arguments!(@stands_alone $($stands_alone)?),
            set: |arguments, argument| arguments.$field = Some(argument),
        }),*];
    };
}

// A new argument is one line here, and one in `arguments.md`. Later stages give it a meaning;
// `tests::arguments` tries that it has one.
arguments! {
    key: "key", "key = \"<email>\"", synonyms ["by", "id"];
    window: "window", "window = \"60s\"", synonyms ["per", "period", "interval", "duration", "time", "seconds"];
    max: "max", "max = 3", synonyms ["limit", "rate", "requests", "times"];
    when: "when", "when = !user.is_admin", synonyms ["condition"];
    name: "name", "name = \"send_code\"", synonyms [];
    limiter: "limiter", "limiter = self.limiter", synonyms ["store"];
    on_refused: "on_refused", "on_refused = |error| …", synonyms ["error", "message", "response"];
    on_unavailable: "on_unavailable", "on_unavailable = \"deny\"", synonyms ["fail_open"];
    timeout: "timeout", "timeout = \"50ms\"", synonyms [];
    shadow: "shadow", "shadow = …", synonyms ["dry_run"], stands_alone;
    limits: "limits", "limits = [\"3/60s\", \"20/1d\"]", synonyms ["rates", "quotas"];
    policy: "policy", "policy = \"login\"", synonyms [];
    algorithm: "algorithm", "algorithm = \"token_bucket\"", synonyms ["strategy"];
    burst: "burst", "burst = 10", synonyms ["capacity"];
    cost: "cost", "cost = 5", synonyms ["weight"];
    actual_cost: "actual_cost", "actual_cost = |result| …", synonyms [];
    concurrent: "concurrent", "concurrent = 5", synonyms ["concurrency", "max_concurrent", "max_in_flight", "in_flight", "parallel"];
    zone: "zone", "zone = \"Europe/Berlin\"", synonyms ["timezone", "time_zone", "tz"];
    lease: "lease", "lease = \"30s\"", synonyms ["ttl"];
    count: "count", "count = \"err\"", synonyms ["outcome"];
    block: "block", "block = \"10m\"", synonyms ["ban", "penalty"];
    wait: "wait", "wait = \"2s\"", synonyms ["max_wait"];
    prefetch: "prefetch", "prefetch = \"100ms\"", synonyms ["read_ahead"];
    krate: "crate", "crate = ::path", synonyms [];
}

/// The argument called `name`.
pub(crate) fn find(name: &str) -> Option<&'static Parameter> {
    PARAMETERS.iter().find(|parameter| parameter.name == name)
}

/// The argument that other limiters call `name`.
pub(crate) fn find_synonym(name: &str) -> Option<&'static Parameter> {
    PARAMETERS
        .iter()
        .find(|parameter| parameter.synonyms.contains(&name))
}

/// Words of other limiters for the opposite of `when`.
pub(crate) const OPPOSITES_OF_WHEN: [&str; 4] = ["exempt_when", "skip", "skip_if", "unless"];

/// The window of a rate that other limiters write as an argument: `per_second = 3`, `rps = 3`.
pub(crate) fn window_of_rate(name: &str) -> Option<&'static str> {
    const RATES: [(&str, &str, &str); 4] = [
        ("second", "rps", "1s"),
        ("minute", "rpm", "1m"),
        ("hour", "rph", "1h"),
        ("day", "rpd", "1d"),
    ];
    let unit = name.split_once("per_").map(|(_, unit)| unit);
    let found = RATES
        .into_iter()
        .find(|(word, short, _)| unit == Some(word) || name == *short);
    found.map(|(_, _, window)| window)
}

/// The names of all arguments.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    PARAMETERS.iter().map(|parameter| parameter.name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_means_one_argument() {
        let mut words: Vec<_> = names()
            .chain(
                PARAMETERS
                    .iter()
                    .flat_map(|parameter| parameter.synonyms)
                    .copied(),
            )
            .collect();
        let all = words.len();
        words.sort_unstable();
        words.dedup();
        assert_eq!(words.len(), all, "{words:?}");
    }
}
