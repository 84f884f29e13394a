//! `algorithm`: how calls are counted.

use crate::check::values::keywords::Keywords;
use crate::parse::arguments::Argument;

/// The properties of an algorithm that the attribute knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Algorithm {
    /// The name of the variant in the runtime.
    pub(crate) variant: &'static str,
    /// `true` for a bucket, which may admit more at once than over a window.
    pub(crate) has_burst: bool,
    /// `true` if the windows may be calendar periods.
    pub(crate) keeps_calendars: bool,
    /// The most admitted in an interval of one window, in multiples of the limit: around a window's
    /// start it may exceed 1.
    pub(crate) times_at_an_edge: u64,
}

impl Algorithm {
    /// `true` if it keeps each unit of a cost by itself.
    pub(crate) fn is_log(self) -> bool {
        self.variant == "SlidingWindow"
    }

    const fn window(variant: &'static str, times_at_an_edge: u64) -> Self {
        Self {
            variant,
            has_burst: false,
            keeps_calendars: false,
            times_at_an_edge,
        }
    }

    const fn bucket(variant: &'static str) -> Self {
        Self {
            variant,
            has_burst: true,
            keeps_calendars: false,
            times_at_an_edge: 1,
        }
    }
}

/// The algorithm where none is given.
pub(crate) const DEFAULT: Algorithm = Algorithm::window("SlidingWindow", 1);

const ALGORITHMS: Keywords<Algorithm> = Keywords {
    argument: "algorithm",
    noun: "algorithm",
    values: &[
        ("sliding_window", DEFAULT),
        ("sliding_counter", Algorithm::window("SlidingCounter", 2)),
        (
            "fixed_window",
            Algorithm {
                keeps_calendars: true,
                ..Algorithm::window("FixedWindow", 2)
            },
        ),
        ("token_bucket", Algorithm::bucket("TokenBucket")),
        ("leaky_bucket", Algorithm::bucket("LeakyBucket")),
    ],
    synonyms: &[
        (
            "sliding_window",
            &[
                "log",
                "sliding",
                "slidinglog",
                "slidingwindowlog",
                "rolling",
                "rollingwindow",
            ],
        ),
        ("sliding_counter", &["slidingwindowcounter"]),
        (
            "fixed_window",
            &["counter", "fixed", "fixedcounter", "fixedwindowcounter"],
        ),
        ("token_bucket", &["token", "tokens", "bucket"]),
        ("leaky_bucket", &["leaky", "gcra"]),
    ],
    or: None,
};

pub(crate) fn read(argument: &Argument) -> Result<Algorithm, String> {
    ALGORITHMS.read(argument)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_algorithm_has_its_keyword() {
        for (keyword, algorithm) in ALGORITHMS.values {
            assert_eq!(
                read(&Argument::of(&format!("\"{keyword}\""))),
                Ok(*algorithm)
            );
        }
        ALGORITHMS.assert_synonyms_are_sound();
    }
}
