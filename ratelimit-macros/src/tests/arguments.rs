//! Every list of the arguments is complete, and each argument has an effect.

use std::fs;
use std::path::Path;

use crate::parse::arguments::{PARAMETERS, Parameter};
use crate::stages;

/// A function with `arguments`, expanded.
fn expanded(arguments: &str) -> String {
    let function = "async fn f(&self, email: &str, batch: &[u8], plan: Plan, user: &User) -> R {}";
    stages::rate_limit(arguments.parse().unwrap(), function.parse().unwrap()).to_string()
}

/// The same, or `None` if that is an error.
fn accepted(arguments: &str) -> Option<String> {
    Some(expanded(arguments)).filter(|expanded| !expanded.contains("compile_error"))
}

/// An argument that is accepted changes the expansion of the attribute.
#[test]
fn no_argument_is_accepted_and_ignored() {
    // For each argument another value than the example's, and the arguments that it needs.
    let others = [
        vec![("window", r#"window = "59s""#), ("max", "max = 99")],
        vec![
            ("window", r#"window = "59s""#),
            ("max", "max = 99"),
            ("algorithm", r#"algorithm = "leaky_bucket""#),
        ],
        vec![
            ("window", r#"window = "59s""#),
            ("max", "max = 99"),
            ("cost", "cost = 2"),
        ],
        vec![("concurrent", "concurrent = 4")],
        vec![
            ("window", r#"window = "day""#),
            ("max", "max = 99"),
            ("algorithm", r#"algorithm = "fixed_window""#),
        ],
        vec![],
    ];
    for Parameter {
        name,
        example,
        stands_alone,
        ..
    } in PARAMETERS
    {
        let example = example.replace('…', "email");
        let changed = others.iter().any(|others| {
            let without: Vec<_> = others.iter().map(|(_, argument)| *argument).collect();
            let rest = others
                .iter()
                .filter(|(other, _)| other != name)
                .map(|(_, argument)| *argument);
            let with = |argument| {
                rest.clone()
                    .chain([argument])
                    .collect::<Vec<_>>()
                    .join(", ")
            };
            let before = accepted(&without.join(", "));
            let differs =
                |argument| accepted(&with(argument)).is_some_and(|after| Some(after) != before);
            differs(&example) && (!stands_alone || differs(name))
        });
        assert!(
            changed,
            "`{example}` is accepted and ignored, or never accepted"
        );
    }
}

#[test]
fn an_unknown_argument_lists_all_arguments() {
    let names: Vec<_> = PARAMETERS
        .iter()
        .map(|parameter| format!("`{}`", parameter.name))
        .collect();
    let message = format!(
        "unknown argument `banana`: the arguments are {}",
        names.join(", ")
    );
    assert!(expanded(r#"window = "1s", max = 1, banana = 1"#).contains(&message));
}

#[test]
fn the_table_has_a_row_for_each_argument() {
    let rows = include_str!("../arguments.md")
        .lines()
        .filter_map(|row| row.strip_prefix("| `"));
    let listed: Vec<_> = rows
        .map(|row| row.split([' ', '`']).next().unwrap())
        .collect();
    let mut names: Vec<_> = PARAMETERS.iter().map(|parameter| parameter.name).collect();
    let mut sorted = listed.clone();
    sorted.sort_unstable();
    names.sort_unstable();
    assert_eq!(sorted, names);
}

fn of_the_repository(path: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path)).unwrap()
}

#[test]
fn each_argument_is_compiled_and_run() {
    let written = of_the_repository("tests/compiler/ui/pass/every_argument.rs");
    for Parameter {
        name, stands_alone, ..
    } in PARAMETERS
    {
        assert!(
            written.contains(&format!("{name} = ")) || *stands_alone && written.contains(name),
            "{name}"
        );
    }
}

/// Every argument in the README's table is accepted as it is printed.
#[test]
fn the_readme_uses_arguments_that_exist() {
    let readme = of_the_repository("README.md");
    let table = readme
        .split("| to | write |")
        .nth(1)
        .unwrap()
        .split("\n\n")
        .next()
        .unwrap();
    let mut tried = 0;
    for code in table
        .lines()
        .filter_map(|row| row.split(" | ").nth(1))
        .flat_map(|cell| cell.split('`').skip(1).step_by(2))
    {
        let code = code.replace("\\|", "|").replace('…', "Err(error)");
        let rest = match &code {
            code if code.starts_with("limits")
                || code.starts_with("policy")
                || code.starts_with("window") =>
            {
                ""
            }
            code if code.starts_with("max") => r#"window = "60s", "#,
            _ => r#"window = "60s", max = 99, "#,
        };
        let arguments = format!("{rest}{code}");
        assert!(accepted(&arguments).is_some(), "{arguments}");
        tried += 1;
    }
    assert!(tried > 12, "only {tried}");
}
