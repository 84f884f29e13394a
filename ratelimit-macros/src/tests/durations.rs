//! What the attribute makes of the texts in `tests/engine/durations.txt`, where a test of the
//! runtime finds what policies make of them.

use std::fs;

use crate::duration::UNITS;
use crate::stages;

const TABLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/engine/durations.txt");

/// The value of `argument = "text"` in the expansion, in microseconds; `None` if that is an error.
fn value(argument: &str, text: &str) -> Option<String> {
    let arguments = match argument {
        "window" => format!("window = {text:?}, max = 1, algorithm = \"fixed_window\""),
        "limits" => format!("limits = [{text:?}], algorithm = \"fixed_window\""),
        "lease" => format!("concurrent = 1, lease = {text:?}"),
        _ => format!("window = \"366d\", max = 1, {argument} = {text:?}"),
    };
    let function = "async fn f() -> R {}";
    let expanded = stages::rate_limit(arguments.parse().unwrap(), function.parse().unwrap());
    let expanded = expanded.to_string().replace(' ', "");
    if expanded.contains("compile_error!") {
        return None;
    }
    let plain = expanded
        .replace("::core::time::Duration::from_micros(", "")
        .replace("u64)", "");
    let is_limit = matches!(argument, "window" | "limits");
    // `Limit::new(…)`, `Limit::calendar(…)`, `with_block(…)`, `with_growing_block(…)` and so on.
    let method = if is_limit {
        "Limit::".to_owned()
    } else {
        format!("{argument}(")
    };
    let (_, behind) = plain.split_once(&method).unwrap();
    let (value, _) = behind.split_once(')').unwrap();
    let value = value.rsplit('(').next().unwrap();
    if !is_limit {
        return Some(value.replace(',', ".."));
    }
    let (max, window) = value.split_once("u64,").unwrap();
    let window = window
        .replace("__ratelimit::CalendarUnit::", "")
        .to_lowercase();
    Some(if argument == "window" {
        window
    } else {
        format!("{max}/{window}")
    })
}

#[test]
fn the_attribute_reads_durations_and_limits_as_the_table_says() {
    let table = fs::read_to_string(TABLE).unwrap();
    let rows = table
        .lines()
        .filter(|row| row.contains(" |") && !row.starts_with('#'));
    let mut texts = Vec::new();
    for row in rows {
        let columns: Vec<_> = row.split('|').map(str::trim).collect();
        let expected = Some(columns[2].to_owned()).filter(|value| value != "refused");
        assert_eq!(value(columns[0], columns[1]), expected, "{row}");
        texts.push(columns[1].to_owned());
    }
    for (_, names) in UNITS {
        for name in names {
            let has_unit =
                |text: &String| text.trim_start_matches(|c: char| !c.is_alphabetic()) == *name;
            assert!(
                texts.iter().any(has_unit),
                "no row has the unit `{name}` alone"
            );
        }
    }
}
