//! Durations are read in two crates, with messages of their own: both read the same.

#[path = "../../ratelimit-macros/src/duration.rs"]
#[allow(dead_code, reason = "the file of another crate")]
mod of_the_attribute;

use ratelimit_runtime::Limit;

const NUMBERS: [&str; 9] = ["", "0", "1", "007", "60", "1.5", "-3", "٣", "99999999999999999999"];

const UNITS: [&str; 37] = [
    "us",
    "µs",
    "usec",
    "usecs",
    "ms",
    "msec",
    "msecs",
    "millisecond",
    "milliseconds",
    "s",
    "sec",
    "secs",
    "second",
    "seconds",
    "m",
    "min",
    "mins",
    "minute",
    "minutes",
    "h",
    "hr",
    "hrs",
    "hour",
    "hours",
    "d",
    "day",
    "days",
    "w",
    "week",
    "weeks",
    "",
    "M",
    "month",
    "y",
    "ns",
    "S",
    "fortnights",
];

const SPACES: [&str; 2] = ["", " "];

/// Every number with every unit, alone and behind another duration.
fn texts() -> impl Iterator<Item = String> {
    let one = |number: &'static str| {
        UNITS.iter().flat_map(move |unit| SPACES.iter().map(move |space| format!("{number}{space}{unit}")))
    };
    let all = NUMBERS.into_iter().flat_map(one);
    all.flat_map(|text| ["", "2h", "1s ", "366d"].map(|before| format!("{before}{text}")))
}

#[test]
fn attributes_and_policies_read_the_same_durations() {
    let (mut read, mut refused) = (0, 0);
    for text in texts() {
        let attribute = of_the_attribute::parse(&text, &of_the_attribute::WINDOW).ok();
        // A word alone is a unit of the calendar, which a duration is not.
        let policy = format!("1/{text}").parse::<Limit>().ok().filter(|limit| limit.calendar_unit().is_none());
        let policy = policy.map(|limit| limit.window().as_micros());
        assert_eq!(attribute.map(u128::from), policy, "{text:?}");
        *(if policy.is_some() { &mut read } else { &mut refused }) += 1;
    }
    assert!(read > 300 && refused > 300, "{read} read, {refused} refused");
}
