//! docs/grafana-dashboard.json can be imported, and asks for nothing that does not exist.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::documented::{file, metrics, values};
use crate::samples::base;

/// What an expression of Prometheus names.
#[derive(Debug, Default)]
struct Names {
    metrics: BTreeSet<String>,
    /// In selectors, with the value or the alternatives they are compared with; the metric comes
    /// first.
    selected: Vec<(String, String, String)>,
    /// In `by (…)`.
    grouped: BTreeSet<String>,
}

/// A word, a text in quotation marks, or a single character.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Token {
    Word(String),
    Text(String),
    Sign(char),
}

fn tokens(expression: &str) -> Vec<Token> {
    let (mut tokens, mut chars) = (Vec::new(), expression.chars().peekable());
    while let Some(c) = chars.next() {
        let is_of_word = |c: &char| c.is_ascii_alphanumeric() || "_:$.".contains(*c);
        if is_of_word(&c) {
            let mut word = c.to_string();
            while let Some(c) = chars.next_if(is_of_word) {
                word.push(c);
            }
            tokens.push(Token::Word(word));
        } else if c == '"' {
            tokens.push(Token::Text(
                chars.by_ref().take_while(|c| *c != '"').collect(),
            ));
        } else if !c.is_whitespace() {
            tokens.push(Token::Sign(c));
        }
    }
    tokens
}

fn names(expression: &str) -> Names {
    let (mut names, tokens) = (Names::default(), tokens(expression));
    let mut open = Vec::new();
    let (mut metric, mut groups) = (String::new(), false);
    for (at, token) in tokens.iter().enumerate() {
        let next = tokens.get(at + 1);
        match token {
            Token::Sign(c @ ('(' | '{' | '[')) => open.push(*c),
            Token::Sign(c @ (')' | '}' | ']')) => {
                let opened = open.pop();
                assert!(
                    matches!(
                        (opened, c),
                        (Some('('), ')') | (Some('{'), '}') | (Some('['), ']')
                    ),
                    "{expression}"
                );
                groups &= *c != ')';
            }
            Token::Word(word) if open.last() == Some(&'{') => {
                let value = tokens[at + 1..].iter().find_map(|token| match token {
                    Token::Text(text) => Some(text.clone()),
                    _ => None,
                });
                names
                    .selected
                    .push((metric.clone(), word.clone(), value.unwrap()));
            }
            Token::Word(word) if word == "by" => {
                assert_eq!(next, Some(&Token::Sign('(')), "{expression}");
                groups = true;
            }
            Token::Word(word) if groups => {
                names.grouped.insert(word.clone());
            }
            Token::Word(word) if word.starts_with("ratelimit") => {
                metric.clone_from(word);
                names.metrics.insert(word.clone());
            }
            _ => {}
        }
    }
    assert!(open.is_empty(), "not closed: {expression}");
    names
}

/// Whether all that an expression names is there.
fn check(expression: &str) {
    let (names, documented, values) = (names(expression), metrics(), values());
    assert!(
        !names.metrics.is_empty(),
        "it asks for nothing: {expression}"
    );
    for series in &names.metrics {
        let metric = documented
            .get(base(series))
            .unwrap_or_else(|| panic!("there is no {series}: {expression}"));
        assert_eq!(
            metric.kind == "histogram",
            base(series) != series,
            "{series}: {expression}"
        );
        let is_bucket = series.ends_with("_bucket");
        for label in &names.grouped {
            assert!(
                metric.labels.contains(label) || is_bucket && label == "le",
                "{series} has no {label}"
            );
        }
    }
    for (series, label, value) in &names.selected {
        assert!(
            documented[base(series)].labels.contains(label),
            "{series} has no {label}"
        );
        for value in value.split('|').filter(|value| !value.starts_with('$')) {
            assert!(
                values[label].contains(value),
                "{label} is never {value}: {expression}"
            );
        }
    }
}

fn dashboard() -> Value {
    serde_json::from_str(&file("docs/grafana-dashboard.json")).unwrap()
}

/// The panels, those inside of rows too.
fn panels(of: &Value) -> Vec<&Value> {
    let panels = of["panels"].as_array().into_iter().flatten();
    panels
        .flat_map(|panel| std::iter::once(panel).chain(self::panels(panel)))
        .collect()
}

#[test]
fn every_expression_of_the_dashboard_names_metrics_and_labels_that_exist() {
    let dashboard = dashboard();
    let mut asked = BTreeSet::new();
    for panel in panels(&dashboard)
        .into_iter()
        .filter(|panel| panel["type"] != "row")
    {
        let title = panel["title"].as_str().unwrap();
        assert!(
            panel["description"]
                .as_str()
                .is_some_and(|text| !text.is_empty()),
            "{title} is not explained"
        );
        let targets = panel["targets"]
            .as_array()
            .unwrap_or_else(|| panic!("{title} asks for nothing"));
        assert!(!targets.is_empty(), "{title} asks for nothing");
        for target in targets {
            let expression = target["expr"].as_str().unwrap();
            check(expression);
            asked.extend(
                names(expression)
                    .metrics
                    .iter()
                    .map(|series| base(series).to_owned()),
            );
            assert_eq!(target["datasource"]["uid"], "${datasource}", "{title}");
        }
        assert_eq!(panel["datasource"]["uid"], "${datasource}", "{title}");
    }
    assert_eq!(
        asked,
        metrics().into_keys().collect(),
        "each metric is shown"
    );
}

#[test]
fn the_dashboard_can_be_imported() {
    let dashboard = dashboard();
    assert!(dashboard["id"].is_null(), "an id is that of one Grafana");
    assert!(dashboard["schemaVersion"].as_u64().unwrap() >= 36);
    let variables = dashboard["templating"]["list"].as_array().unwrap();
    let variable = |name: &str| {
        variables
            .iter()
            .find(|variable| variable["name"] == name)
            .unwrap()
    };
    assert_eq!(
        (
            &variable("datasource")["type"],
            &variable("datasource")["query"]
        ),
        (&"datasource".into(), &"prometheus".into())
    );
    let query = variable("rule")["query"]["query"].as_str().unwrap();
    assert_eq!(query, "label_values(ratelimit_decisions_total, rule)");
    assert!(
        metrics()["ratelimit_decisions_total"]
            .labels
            .contains("rule")
    );
    let panels = panels(&dashboard);
    let ids: BTreeSet<_> = panels
        .iter()
        .map(|panel| panel["id"].as_u64().unwrap())
        .collect();
    assert_eq!(ids.len(), panels.len(), "no two panels have one id");
    let mut used: BTreeSet<String> = BTreeSet::new();
    for word in file("docs/grafana-dashboard.json").split('$').skip(1) {
        used.insert(
            word.trim_start_matches('{')
                .chars()
                .take_while(|c| c.is_alphanumeric() || *c == '_')
                .collect(),
        );
    }
    used.remove("__rate_interval");
    used.remove("__all");
    assert_eq!(used, ["datasource", "rule"].map(str::to_owned).into());
}

#[test]
fn every_alert_names_metrics_and_labels_that_exist() {
    let text = file("docs/prometheus-alerts.yml");
    let mut lines = text.lines().peekable();
    let mut alerts = 0;
    while let Some(line) = lines.next() {
        let Some(first) = line.trim().strip_prefix("expr: ") else {
            continue;
        };
        let mut expression = first.trim_start_matches('|').to_owned();
        while let Some(more) = lines.next_if(|line| !line.trim().starts_with("for: ")) {
            expression.push_str(more.trim());
            expression.push(' ');
        }
        check(&expression);
        alerts += 1;
    }
    assert_eq!(alerts, text.matches("- alert:").count());
    assert!(alerts >= 5);
}
