//! `window`: over how long calls are counted, by the clock or by the calendar.

use crate::check::rule::limits::algorithm::Algorithm;
use crate::check::values::duration;
use crate::duration::{DAY, HOUR, WINDOW, unit as unit_of_time};
use crate::literal::as_str;
use crate::parse::arguments::Argument;
use crate::suggest::nearest;

/// Over how long calls are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Window {
    Micros(u64),
    Calendar(Unit),
}

/// A unit of the calendar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Unit {
    /// The word that attributes write.
    pub(crate) word: &'static str,
    /// The name of the variant in the runtime.
    pub(crate) variant: &'static str,
    /// The longest such unit where no clock is set, in microseconds.
    micros: u64,
    /// The most similar time without a calendar.
    span: &'static str,
}

const UNITS: [Unit; 5] = [
    Unit {
        word: "hour",
        variant: "Hour",
        micros: HOUR,
        span: "1h",
    },
    Unit {
        word: "day",
        variant: "Day",
        micros: DAY,
        span: "1d",
    },
    Unit {
        word: "week",
        variant: "Week",
        micros: 7 * DAY,
        span: "7d",
    },
    Unit {
        word: "month",
        variant: "Month",
        micros: 31 * DAY,
        span: "30d",
    },
    Unit {
        word: "year",
        variant: "Year",
        micros: 366 * DAY,
        span: "365d",
    },
];

impl Window {
    /// The window that `text` spells by the calendar: a word without a number, if it is one.
    ///
    /// # Errors
    ///
    /// A word that is no unit, or has a zone behind it; the error says the right text.
    pub(crate) fn by_calendar(text: &str) -> Result<Option<Self>, String> {
        let text = text.trim();
        if let Some(unit) = UNITS.iter().find(|unit| unit.word == text) {
            return Ok(Some(Self::Calendar(*unit)));
        }
        if let Some((word, zone)) = text.split_once('@')
            && UNITS.iter().any(|unit| unit.word == word)
        {
            return Err(format!(
                "a time zone is an argument of its own: write \"{word}\", and `zone = \"{zone}\"` \
                 beside it"
            ));
        }
        if text.len() < 3 || !text.chars().all(char::is_alphabetic) {
            return Ok(None);
        }
        let meant = nearest(text, UNITS.iter().map(|unit| unit.word));
        match UNITS.iter().find(|unit| Some(unit.word) == meant) {
            Some(Unit { word, span, .. }) => Err(format!(
                "unknown unit `{text}`: write \"{word}\" for one of the calendar, or a time such \
                 as \"{span}\""
            )),
            None if unit_of_time(text).is_some() => Ok(None),
            None => Err(format!(
                "`{text}` is no window: write a time such as \"60s\", or one of the \
                 calendar: \"hour\", \"day\", \"week\", \"month\" or \"year\""
            )),
        }
    }

    /// The longest that the window can be where no clock is set, in microseconds.
    pub(crate) fn micros(self) -> u64 {
        match self {
            Self::Micros(micros) | Self::Calendar(Unit { micros, .. }) => micros,
        }
    }

    /// The error for the window under this algorithm.
    pub(crate) fn fault(self, algorithm: Algorithm) -> Option<String> {
        match self {
            Self::Calendar(Unit { word, span, .. }) if !algorithm.keeps_calendars => Some(format!(
                "a calendar {word} is counted by a fixed window: write \
                 `algorithm = \"fixed_window\"`, or \"{span}\" for a time that may begin at any \
                 moment"
            )),
            _ => None,
        }
    }
}

/// The value of `window`.
pub(crate) fn read(argument: &Argument) -> Result<Window, String> {
    if let Some(literal) = as_str(&argument.value)
        && let Some(window) = Window::by_calendar(&literal.value())?
    {
        return Ok(window);
    }
    duration::read(argument, &WINDOW).map(Window::Micros)
}
