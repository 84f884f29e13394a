//! Logs whose format `ratelimit-admin replay` does not know, read by `--pattern`.

use std::time::{Duration, Instant};

use crate::logs::{Said, finds_the_client, leaves_out, log, log_of};
use crate::replay::{RULE, failed, replay};
use crate::support::says;

const GIN: &str = "[GIN] 2026/10/10 - 11:55:{s} | 200 |  12.3µs |     {} | GET      \"/a\"";
const OF_GIN: &str = "[GIN] {time} | {status} | {} | {address} | {} \"{path}\"";

#[test]
fn a_pattern_names_the_fields_of_a_log() {
    let by = |pattern: &'static str| ["--pattern", pattern];
    let said = finds_the_client("gin", &by(OF_GIN), log(GIN), "`address`");
    says(&said.all, "times without an offset");
    for (pattern, line) in [
        ("{day}; {time} {key}", "x; 17916333{s} {}"),
        ("{time} {address} {}", "10/Oct/2026:11:55:{s} +0000   {}"),
        ("{time} {address} {}", "Sat Oct 10 11:55:{s} 2026\t{}\tGET"),
        ("{date} {time} {address}", "2026-10-10 11:55:{s} {}"),
        ("{{{time}}} {address}", "{2026-10-10T11:55:{s}Z} {}"),
        ("é{address}é{time}", "é{}é2026-10-10T11:55:{s}Z"),
        ("{address}:{} {time}", "{}:51234 2026-10-10T11:55:{s}Z"),
    ] {
        let field = if pattern.contains("{key}") {
            "`key`"
        } else {
            "`address`"
        };
        finds_the_client(pattern, &["--pattern", pattern], log(line), field);
    }
    let named = [&by("{time} {} {who} {}")[..], &["--key-field", "who"]].concat();
    finds_the_client("named", &named, log("17916333{s} a {} b"), "`who`");
    let refused = [&by(OF_GIN)[..], &["--status", "4xx"]].concat();
    let said = Said::of(&refused, log(GIN));
    says(&said.all, "counted: 0, by their status");
    let paths = [&by(OF_GIN)[..], &["--key-field", "path"]].concat();
    assert_eq!(Said::of(&paths, log(GIN)).keys(), [("/a".to_owned(), 5)]);
    let proxies = ["--trusted-proxies", "10.0.0.0/8"];
    let forwarded = [&by("{time} {address} \"{x-forwarded-for}\"")[..], &proxies].concat();
    let said = Said::of(&forwarded, log("17916333{s} 10.0.0.1 \"{}, 10.0.0.2\""));
    said.finds_three("beside others");
    let docker = log(r#"{"log":"[GIN] 17916333{s} {}\n","time":"2026-10-10T00:00:00Z"}"#);
    finds_the_client("Docker", &by("[GIN] {time} {address}"), docker, "`address`");
}

#[test]
fn what_a_client_sends_shifts_no_field_of_a_pattern() {
    let line = "17916333{s} \"GET /path\" from {} 200";
    let pattern = ["--pattern", "{time} \"{request}\" from {address} {status}"];
    for path in ["\\\" from 192.0.2.99 200", "\\\\\\\" from 192.0.2.99 200"] {
        let sent = log(&line.replace("/path", path));
        finds_the_client(path, &pattern, sent, "`address`");
    }
    for path in ["\" from 192.0.2.99 200 \"", "\""] {
        let sent = log(&line.replace("/path", path));
        leaves_out(path, &pattern, &log(line), &sent);
    }
    let of_gin = ["--pattern", OF_GIN];
    for other in [
        "10.0.0.1 [GIN] {}",
        "==> gin.log <==",
        "[GIN-debug] Listening",
        "{\"a\":1}",
    ] {
        leaves_out(other, &of_gin, &log(GIN), &format!("{other}\n"));
    }
    // The end of a line that was cut, and a whole line.
    leaves_out(
        "a cut line",
        &of_gin,
        &log(GIN),
        &log(&format!("T \"/a\"{GIN}")),
    );
}

/// What a client sends may be long, and hold the text of the pattern again and again.
#[test]
fn a_long_line_is_read_in_time() {
    let start = Instant::now();
    let pattern = "{time} {address} - \"{agent}\" {path}, {}";
    for repeated in [
        "a ",
        "- ",
        " - \"",
        "\" ",
        "\" a, ",
        "9, ",
        "\\",
        "  \t",
        "1.2.3.4, ",
    ] {
        let long = repeated.repeat(64_000 / repeated.len());
        for line in [
            format!("17916333{{s}} {{}} - \"a\" /{long}, b"),
            format!("17916333{{s}} {{}} - \"{long}\" /, b"),
        ] {
            let output = replay(&["--rule", "1/1h", "--pattern", pattern], log(&line));
            assert!(output.status.code().is_some(), "{repeated:?}: {output:?}");
        }
    }
    let took = start.elapsed();
    assert!(took < Duration::from_secs(60), "{took:?}");
}

#[test]
fn a_suggested_pattern_names_nobody() {
    let line = "2026-10-10T11:55:{s}Z web alice@example.com {} user=bob GET /secret?q=carol";
    let error = failed(&RULE, log(line));
    let pattern = "{time} {} {} {address} {}";
    assert!(
        error.ends_with(&format!(": --pattern '{pattern}'\n")),
        "{error}"
    );
    finds_the_client("suggested", &["--pattern", pattern], log(line), "`address`");
    let error = failed(&RULE, log("17916333{s} '$(id)' {} x"));
    says(&error, r": --pattern '{time} '\''$({})'\'' {address} {}'");
    // Lines that are no requests, and a request with other words, suggest nothing.
    let mixed = log("starting 17916333{s} at 10.0.0.1") + &log(line).repeat(3);
    let error = failed(&RULE, mixed);
    says(&error, &format!(": --pattern '{pattern}'"));
    for line in [
        "2026-10-10T11:55:{s}Z no address, but 1.2 and 11:55:{s}",
        "{} 250 no time, but 11:55:{s}",
    ] {
        let error = failed(&RULE, log_of(line, ["203.0.113.7"; 5]));
        assert!(!error.contains("--pattern '"), "{error}");
        says(&error, "--pattern where the fields stand");
    }
}

#[test]
fn a_wrong_pattern_is_an_error_that_says_what_is_wrong() {
    for (pattern, why) in [
        (
            "{time",
            "a field is not closed: a brace of the text is written `{{`",
        ),
        ("{time} }", "a brace of the text is written `}}`"),
        ("{time}{address}", "no text stands in front of `{address}`"),
        ("{time} {a} {a}", "it has two fields `{a}`"),
        (
            "$remote_addr [$time_local]",
            "it has no fields, as in '{time} {address} {}'",
        ),
    ] {
        says(
            &failed(&["--rule", "1/1h", "--pattern", pattern], log(GIN)),
            why,
        );
    }
    for (pattern, why) in [
        ("{time} / {address}", "line 1: it is not as --pattern says"),
        (
            "[GIN] {} | {} | {} | {address} | {}",
            "it has no `time`: say --time-field",
        ),
        (
            "[GIN] {time} | {} | {} | {who} | {}",
            "it has no `key`, nor an address of a known name",
        ),
    ] {
        let error = failed(&["--rule", "1/1h", "--pattern", pattern], log(GIN));
        assert!(error.contains(why), "{pattern}: {error}");
    }
    let both = ["--rule", "1/1h", "--pattern", OF_GIN, "--format", "csv"];
    assert!(failed(&both, log(GIN)).contains("cannot be used with"));
}
