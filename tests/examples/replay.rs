//! `ratelimit-admin replay`, against results worked out by hand.

use std::fmt::Write as _;
use std::io::Write as _;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use ratelimit_conformance::ALGORITHMS;
use ratelimit_runtime::store::{Request, Store as _};
use ratelimit_runtime::testkit::FakeClock;
use ratelimit_runtime::{Limit, MemoryStore};

use crate::support::random::{Random, seed};
use crate::support::says;
use crate::{File, admin_program};

/// Runs the program with this log on its standard input.
pub(crate) fn replay(arguments: &[&str], log: impl AsRef<[u8]>) -> Output {
    let mut command = Command::new(admin_program());
    let command = command
        .arg("replay")
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut process = command.spawn().expect("replay can be started");
    let mut stdin = process.stdin.take().expect("piped");
    let log = log.as_ref().to_owned();
    // A program that has failed reads no more.
    let writer = std::thread::spawn(move || drop(stdin.write_all(&log)));
    let output = process.wait_with_output().expect("it ends");
    writer.join().expect("a writer");
    output
}

pub(crate) fn printed(arguments: &[&str], log: impl AsRef<[u8]>) -> String {
    let output = replay(arguments, log);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stderr}");
    assert!(
        stderr.is_empty(),
        "no progress bar where there is no terminal: {stderr}"
    );
    String::from_utf8(output.stdout).expect("text")
}

/// The error of a run that failed.
pub(crate) fn failed(arguments: &[&str], log: impl AsRef<[u8]>) -> String {
    let output = replay(arguments, log);
    assert!(
        !output.status.success() && output.stdout.is_empty(),
        "{output:?}"
    );
    String::from_utf8(output.stderr).expect("text")
}

/// The cells of a rule's row in the first table: refused, share, keys refused, share of keys,
/// longest wait.
fn row(printed: &str, rule: &str) -> Vec<String> {
    rows(printed, rule)
        .into_iter()
        .next()
        .unwrap_or_else(|| panic!("no row of {rule}: {printed}"))
}

/// The cells behind a rule, of all its rows.
pub(crate) fn rows(printed: &str, rule: &str) -> Vec<Vec<String>> {
    let cells = |line: &str| {
        line.trim_matches('|')
            .split(" | ")
            .map(|cell| cell.trim().to_owned())
            .collect::<Vec<_>>()
    };
    printed
        .lines()
        .map(cells)
        .filter(|row| row.len() > 1 && row[0] == rule)
        .map(|row| row[1..].to_vec())
        .collect()
}

fn number(cell: &str) -> u64 {
    cell.replace(',', "").parse().expect("a number")
}

pub(crate) const RULE: [&str; 2] = ["--rule", "1/1h"];

const RULES: [&str; 6] = [
    "--rule",
    "2/10s",
    "--rule",
    "fixed_window 2/10s",
    "--rule",
    "token_bucket 2/10s burst 3",
];

fn with_rules<'a>(arguments: &[&'a str]) -> Vec<&'a str> {
    [&RULES, arguments].concat()
}

/// Requests around the end of a window that begins at 0: a fixed one admits 9, 10 and 10.5, a
/// sliding one only two of them.
const EDGE: &str = "time,key,cost\n0,alice,1.0\n9,alice,1\n9.5,alice,1\n10,alice,1\n10.5,alice,1\n11,alice,1\n11,bob,2\n";

#[test]
fn refusals_are_those_worked_out_by_hand() {
    let printed = printed(&RULES, EDGE);
    assert!(
        printed.starts_with(
            "requests: 7, keys: 2, from 1970-01-01T00:00:00Z to 1970-01-01T00:00:11Z\n"
        ),
        "{printed}"
    );
    // 9.5 waits for 0 to leave at 10; 10.5 and 11 for 9 to leave at 19.
    assert_eq!(
        row(&printed, "2/10s"),
        ["3", "42.86 %", "1", "50.00 %", "9s"]
    );
    // 9.5 waits for the window to end at 10; 11 for the next one, at 20.
    assert_eq!(
        row(&printed, "fixed_window 2/10s"),
        ["2", "28.57 %", "1", "50.00 %", "9s"]
    );
    // A token comes every 5 s. At 9 it holds 3 again, at 9.5 it holds 2.1, at 10 it holds 1.2, at
    // 10.5 and 11 it holds 0.3 and 0.4: one is whole after 3.5 s, said as 4, and after 3.
    assert_eq!(
        row(&printed, "token_bucket 2/10s burst 3"),
        ["2", "28.57 %", "1", "50.00 %", "4s"]
    );
    // The keys it refuses most: requests, refused.
    let worst = &rows(&printed, "2/10s")[1];
    assert_eq!(worst[1..], ["6", "3", "50.00 %"]);
}

/// For any algorithm and log: a service that counts in memory would have refused the same.
#[tokio::test]
async fn refusals_are_those_of_the_store_in_memory() {
    let (mut random, mut log, mut at) = (Random::new(seed()), "time,key,cost\n".to_owned(), 0);
    let requests: Vec<_> = (0..400)
        .map(|_| {
            (
                random.below(2_000_000),
                random.below(3),
                1 + random.below(3),
            )
        })
        .collect();
    for (after, key, cost) in &requests {
        at += after;
        let _ = writeln!(
            log,
            "{}.{:06},user{key},{cost}",
            at / 1_000_000,
            at % 1_000_000
        );
    }
    for algorithm in ALGORITHMS {
        let rule = format!("{algorithm} 5/10s");
        let clock = FakeClock::new();
        let (store, limits) = (
            MemoryStore::new().with_clock(clock.clone()),
            [Limit::new(5, Duration::from_secs(10))],
        );
        let mut count = 0;
        for (after, key, cost) in &requests {
            clock.advance(Duration::from_micros(*after));
            let key = key.to_string();
            let verdict = store
                .acquire(Request::new(key.as_bytes(), *algorithm, &limits).with_cost(*cost))
                .await
                .unwrap();
            count += u64::from(!verdict.allowed);
        }
        assert_eq!(
            number(&row(&printed(&["--rule", &rule], &log), &rule)[0]),
            count,
            "{rule}"
        );
        assert!((20..380).contains(&count), "{rule}: {count}");
    }
}

/// Access logs write whole seconds. A client that keeps to a limit is never refused.
#[test]
fn requests_a_whole_window_apart_find_that_the_others_have_left() {
    let seconds = (0..60).flat_map(|second| [second; 5]);
    let log: String = seconds.fold("time,key\n".to_owned(), |mut log, second| {
        let _ = writeln!(log, "{second},alice\n{second},bob");
        log
    });
    for rule in ["5/1s", "6/1s", "10/2s", "50/10s, 5/1s", "fixed_window 5/1s"] {
        let printed = printed(&["--rule", rule], &log);
        assert_eq!(row(&printed, rule)[0], "0", "{rule}: {printed}");
        says(
            &printed,
            "requests: 600, keys: 2, from 1970-01-01T00:00:00Z to 1970-01-01T00:00:59Z",
        );
    }
    let printed = printed(&["--rule", "4/1s"], &log);
    assert_eq!(row(&printed, "4/1s")[0], "120", "{printed}");
}

/// Two a day, by the clock of Berlin: midnight is at 23:00 UTC in winter.
#[test]
fn quotas_of_the_calendar_end_at_the_midnights_of_the_log() {
    let hours = ["21:00", "21:30", "22:59", "23:00", "23:01"];
    let log: Vec<_> = hours
        .iter()
        .map(|hour| format!("2019-01-31T{hour}:00Z,alice"))
        .collect();
    let of = |zone: &str| ["fixed_window 2/day zone", zone].join(" ");
    let [utc, berlin] = [of("UTC"), of("Europe/Berlin")];
    let printed = printed(
        &[
            "--rule",
            &utc,
            "--rule",
            &berlin,
            "--rule",
            "fixed_window 2/1d",
        ],
        log.join("\n"),
    );
    assert_eq!(
        row(&printed, &utc),
        ["3", "60.00 %", "1", "100.00 %", "1h 1m"]
    );
    assert_eq!(
        row(&printed, &berlin),
        ["1", "20.00 %", "1", "100.00 %", "1m"]
    );
    assert_eq!(
        row(&printed, "fixed_window 2/1d"),
        ["3", "60.00 %", "1", "100.00 %", "22h 1m"]
    );
    // A clock that was not set does not move them.
    let unset = [&["1970-01-01T00:00:05Z,alice".to_owned()], &log[..]].concat();
    let unset = self::printed(&["--rule", &utc], unset.join("\n"));
    assert_eq!(row(&unset, &utc)[0], "3", "{unset}");
}

#[test]
fn blocks_and_costs_above_the_limit_refuse_too() {
    let log = "0,alice\n1,alice\n2,alice\n12,alice\n13,bob,3\n";
    let printed = printed(&["--rule", "2/10s block 1m"], log);
    // 2 is refused, and 12 by the block until 62. Three never fit into two.
    assert_eq!(row(&printed, "2/10s block 1m")[..3], ["3", "60.00 %", "2"]);
    assert_eq!(row(&printed, "2/10s block 1m")[4], "1m");
    says(
        &printed,
        "2/10s block 1m: 1 of the refused cost more than it ever admits",
    );
}

/// A field of that name may hold something else, as may the third column of CSV without a header.
#[test]
fn costs_are_said_where_they_are_not_one() {
    let note = "\nrequests cost what `cost` says\n";
    for (log, is_noted) in [
        ("0,a,0\n1,a,1\n", true),
        ("0,a,200\n1,a\n", true),
        ("0,a,1\n1,a\n", false),
    ] {
        let printed = printed(&RULE, log);
        assert_eq!(printed.contains(note), is_noted, "{log}: {printed}");
    }
}

#[test]
fn actual_costs_are_paid_by_later_requests() {
    let log = "time,key,cost,actual_cost\n0,alice,2,15\n5,alice,1,\n10,alice,9,1\n11,alice,9,9\n12,alice,1,1\n";
    // 5 waits for the debt to leave at 10. What 10 did not cost is free, and 12 waits until 20.
    assert_eq!(
        row(&printed(&["--rule", "10/10s"], log), "10/10s")[..2],
        ["2", "40.00 %"]
    );
    let json = "{\"time\": 0, \"key\": \"a\", \"spent\": 20}\n{\"time\": 9, \"key\": \"a\"}\n";
    let renamed = printed(&["--rule", "10/10s", "--actual-cost-field", "spent"], json);
    assert_eq!(row(&renamed, "10/10s")[..2], ["1", "50.00 %"]);
}

#[test]
fn csv_and_json_lines_in_any_spelling_of_time_say_the_same() {
    let header_elsewhere = "x,cost,email,at\n,1,alice,2026-01-01T00:00:00Z\n,,alice,2026-01-01T01:00:09+01:00\n,,alice,2026-01-01T00:00:09.5Z\n\
        ,,alice,1767225610\n,,alice,1767225610.5\n,,alice,1767225611000\n,2,bob,1767225611000000\n";
    let json = EDGE.lines().skip(1).map(|line| {
        let fields: Vec<&str> = line.split(',').collect();
        format!(
            "{{\"cost\":{},\"other\":[],\"key\":\"{}\",\"time\":{}}}\n",
            fields[2], fields[1], fields[0]
        )
    });
    let json: String = json.collect();
    let millis = json
        .replace("9}", "9000}")
        .replace("10}", "10000}")
        .replace("11}", "11000}")
        .replace(".5}", "500}");
    let same = printed(&with_rules(&["--show-keys"]), EDGE);
    assert!(same.contains("alice"), "{same}");
    let (crlf, no_newline) = (EDGE.replace('\n', "\r\n"), EDGE.trim_end());
    let no_header = EDGE.split_once('\n').unwrap().1;
    let shuffled: String = EDGE
        .lines()
        .rev()
        .filter(|line| !line.starts_with("time"))
        .fold(String::new(), |mut all, line| {
            let _ = writeln!(all, "{line}");
            all
        });
    let file = File::new("log.jsonl", &format!("\n{json}\n"));
    for (arguments, log) in [
        (with_rules(&["--show-keys"]), no_header),
        (with_rules(&["--show-keys"]), no_newline),
        (with_rules(&["--show-keys"]), crlf.as_str()),
        (with_rules(&["--show-keys"]), json.as_str()),
        (
            with_rules(&["--show-keys", "--format", "json"]),
            json.as_str(),
        ),
        (
            with_rules(&["--show-keys", "--time-format", "ms"]),
            millis.as_str(),
        ),
        (with_rules(&["--show-keys", file.path()]), ""),
    ] {
        assert_eq!(printed(&arguments, log), same, "{arguments:?} {log}");
    }
    let renamed = ["--show-keys", "--time-field", "at", "--key-field", "email"];
    let renamed = printed(&with_rules(&renamed), header_elsewhere);
    says(
        &renamed,
        "from 2026-01-01T00:00:00Z to 2026-01-01T00:00:11Z",
    );
    let renamed = renamed.replace("key: `email`", "key: `key`");
    assert_eq!(
        renamed.split_once('\n').unwrap().1,
        same.split_once('\n').unwrap().1
    );
    // The first and the last two have one time, and change places: nothing else differs.
    let shuffled = printed(&with_rules(&["--show-keys"]), &shuffled);
    says(
        &shuffled,
        "out of order: 5; all are replayed in the order of their times",
    );
    assert_eq!(row(&shuffled, "2/10s"), row(&same, "2/10s"));
}

#[test]
fn bad_lines_are_counted_and_the_first_is_named() {
    let rule = ["--rule", "1/1m"];
    for (log, why) in [
        (
            "time,key\n0,a\n-1,a\n",
            "line 3: the time `-1` is not between 1970 and 5138",
        ),
        (
            "time,key\n0,a\n\n\n2026-01-01,a\n",
            "line 5: `2026-01-01` is not a time",
        ),
        (
            "time,key\r\n0,a\r\n\r\n\r\nnever,a\r\n1,a\r\n",
            "line 5: `never` is not a time",
        ),
        ("0,a\n\n1,a\nnever,a", "line 4: `never` is not a time"),
        (
            "{\"time\":0,\"key\":\"a\"}\n{\"time\":0\n",
            "line 2: it is not a JSON object, at column",
        ),
    ] {
        let printed = printed(&rule, log);
        assert!(
            printed.contains(&format!("lines left out: 1; the first is {why}")),
            "{log}: {printed}"
        );
    }
    for (log, why) in [
        (
            "time,key,cost\n0,a,1.5\n",
            "line 2: the cost `1.5` is not a whole number: --cost-field names its field",
        ),
        ("time,key,cost\n0,,1\n", "line 2: the key is empty"),
        (
            "time,key\n0\n",
            "line 2: it has 1 columns, and the header has 2",
        ),
        (
            "when,who\n0,a\n",
            "line 1: it is no header with a column `time`, nor does it begin with a time",
        ),
        (
            "time,who\n0,a\n",
            "line 2: it has no `key`, nor an address of a known name: say --key-field, one of \
             time, who",
        ),
        ("{\"time\":0}\n", "line 1: it has no `key`"),
        (
            "{\"records\":[{\"time\":\"2026-10-10T11:55:10Z\",\"ip\":\"192.0.2.1\"},{}]}\n",
            "line 1: its requests are a list: jq -c '.records[]' writes one a line",
        ),
        (
            "{\"a\":[{\"b\":[{\"at\":\"2026-10-10T11:55:10Z\"}]}]}\n",
            "line 1: its requests are a list: jq -c '.a[].b[]' writes one a line",
        ),
        (
            "{\"time\":0,\"key\":{\"a\":1}}\n",
            "line 1: `key` is neither text nor a number",
        ),
        ("time,key\n", "there is no request in the log"),
        (
            "time,key\nnever,a\n0,\n",
            "no line of 2 can be read; line 2: `never` is not a time",
        ),
    ] {
        let error = failed(&rule, log);
        assert!(
            error.starts_with("error: ") && error.contains(why),
            "{log}: {error}"
        );
    }
    let error = failed(&rule, "time,key,cost\n0,alice@example.com,x\n");
    assert!(!error.contains("alice"), "no error shows a key: {error}");
    says(
        &failed(&[&rule[..], &["/no/such/log.csv"]].concat(), ""),
        "/no/such/log.csv: ",
    );
}

#[test]
fn what_is_asked_for_and_cannot_be_done_is_an_error() {
    for (status, why) in [
        (
            "401",
            "the header has no column `status`, which --status asks for",
        ),
        (
            "99",
            "a status is a number from 100 to 599, or a class such as 5xx",
        ),
    ] {
        says(&failed(&["--rule", "1/1h", "--status", status], EDGE), why);
    }
    let error = failed(&["--rule", "gcra 5/1m"], EDGE);
    assert!(
        error.contains("'gcra 5/1m'") && error.contains("unknown algorithm \"gcra\""),
        "{error}"
    );
    assert!(failed(&[], EDGE).contains("Usage"), "a rule is needed");
    // What would change nothing, or refuse nothing.
    for setting in [
        "wait 2m",
        "prefetch 1s",
        "shadow",
        "timeout 1s",
        "on_unavailable deny",
        "concurrent 2",
        "lease 10s",
    ] {
        let error = failed(&["--rule", &format!("1/1h {setting}")], EDGE);
        let word = setting.split(' ').next().unwrap_or(setting);
        says(&error, &format!("leave `{word}` out"));
    }
}

/// Equal times of a key get different microseconds, which neither hide the last request nor let the
/// replay fall behind.
#[test]
fn heavy_requests_at_almost_one_time_keep_the_times_of_the_log() {
    let log = "time,key,cost\n0,a,500\n0.0001,a,500\n0.0003,b,1\n";
    let chart = File::new("almost.svg", "");
    let report = printed(&["--rule", "9/1m", "--svg", chart.path()], log);
    says(&report, "to 1970-01-01T00:00:00.0003Z");
    let mut log = "time,key,cost\n".to_owned();
    for request in 0..20_000 {
        let _ = writeln!(log, "{},a,1000", f64::from(request) / 2_000.0);
    }
    // Twice what it admits, for ten seconds.
    let rule = "fixed_window 1000000/1s";
    let report = printed(&["--rule", rule], &log);
    let refused: f64 = row(&report, rule)[1]
        .trim_end_matches(" %")
        .parse()
        .unwrap();
    assert!((40.0..=50.0).contains(&refused), "{report}");
}

#[test]
fn keys_are_hidden_unless_asked_for() {
    let log = "time,key\n0,alice@example.com\n1,alice@example.com\n2,alice@example.com\n0,\u{1b}]|\n1,\u{1b}]|\n";
    let hidden = printed(&["--rule", "1/1m"], log);
    assert!(!hidden.contains("alice"), "{hidden}");
    let first = &rows(&hidden, "1/1m")[1];
    assert!(
        first[0].starts_with('#') && first[0].len() == 17,
        "{hidden}"
    );
    assert_ne!(
        rows(&printed(&["--rule", "1/1m"], log), "1/1m")[1][0],
        first[0],
        "a secret of each run"
    );
    let shown = printed(&["--rule", "1/1m", "--show-keys"], log);
    assert_eq!(
        rows(&shown, "1/1m")[1],
        ["alice@example.com", "3", "2", "66.67 %"]
    );
    assert!(
        !shown.contains('\u{1b}'),
        "nothing that steers a terminal: {shown:?}"
    );
    let one = printed(&["--rule", "1/1m", "--worst", "1"], log);
    assert_eq!(
        rows(&one, "1/1m").len(),
        2,
        "the summary and one key: {one}"
    );
}

/// The colours of the long lines of a chart, and its texts.
fn chart(arguments: &[&str], log: &str) -> (Vec<String>, Vec<String>) {
    let file = File::new("chart.svg", "");
    printed(&[arguments, &["--svg", file.path()]].concat(), log);
    let svg = file.read();
    let svg = roxmltree::Document::parse(&svg).expect("well-formed XML");
    assert_eq!(svg.root_element().tag_name().name(), "svg");
    let lines = svg
        .descendants()
        .filter(|node| node.has_tag_name("polyline"));
    let of_rules = lines.filter(|line| {
        line.attribute("points")
            .is_some_and(|points| points.matches(',').count() > 50)
    });
    let colors = of_rules
        .filter_map(|line| line.attribute("stroke"))
        .map(str::to_owned)
        .collect();
    let texts = svg
        .descendants()
        .filter(|node| node.has_tag_name("text"))
        .filter_map(|text| text.text());
    (colors, texts.map(|text| text.trim().to_owned()).collect())
}

#[test]
fn the_chart_has_a_line_for_each_rule_and_names_units() {
    let rules = [RULES.as_slice(), &["--rule", "sliding_counter 5/1m, 50/1h"]].concat();
    let sample = [&["--sample", "5000"], &rules[..]].concat();
    let (mut colors, texts) = chart(&sample, "");
    for rule in rules.iter().skip(1).step_by(2) {
        assert_eq!(
            texts.iter().filter(|text| text == rule).count(),
            1,
            "{rule}: {texts:?}"
        );
    }
    assert_eq!(colors.len(), 4, "a line for each rule");
    colors.sort_unstable();
    colors.dedup();
    assert_eq!(colors.len(), 4, "each in a colour of its own");
    for part in ["% of the requests", "each ", "UTC"] {
        assert!(
            texts.iter().any(|text| text.contains(part)),
            "{part}: {texts:?}"
        );
    }
    let nowhere = replay(
        &[&sample[..], &["--svg", "/no/such/folder/chart.svg"]].concat(),
        "",
    );
    assert_eq!(nowhere.status.code(), Some(2));
    assert!(
        String::from_utf8_lossy(&nowhere.stderr).contains("cannot write /no/such/folder/chart.svg")
    );
}

#[test]
fn small_shares_can_be_read_from_the_chart() {
    // Ten a second, of which one in all is refused: 1 of the 100 in its slice.
    let log = (0..10_000).fold("time,key\n".to_owned(), |mut log, tenth| {
        let key = if tenth < 6 { 0 } else { tenth };
        let _ = writeln!(
            log,
            "{}.{},user{key}",
            1_767_258_000 + tenth / 10,
            tenth % 10
        );
        log
    });
    let (_, texts) = chart(&["--rule", "5/1h"], &log);
    // The axis of shares, from the bottom.
    let mut ticks: Vec<f64> = texts
        .iter()
        .filter_map(|text| text.strip_suffix(" %")?.parse().ok())
        .collect();
    ticks.sort_unstable_by(f64::total_cmp);
    assert!(
        ticks.len() > 3 && ticks.last().is_some_and(|last| *last <= 2.0),
        "{texts:?}"
    );
    assert!(
        ticks.windows(2).all(|pair| pair[0] < pair[1]),
        "each tick says a share of its own: {texts:?}"
    );
    assert!(
        texts.iter().any(|text| text.contains("0.01 %")),
        "the share in all: {texts:?}"
    );
}

/// A store in memory has room for 100,000 keys unless it is told otherwise, and counts those beyond
/// together.
#[test]
fn more_keys_than_a_store_holds_are_still_counted_each_for_itself() {
    let log: String = (0..150_000).fold("time,key\n".to_owned(), |mut log, key| {
        let _ = writeln!(log, "{}.{:03},user{key}", key / 1000, key % 1000);
        log
    });
    let log = log + "150,user0\n";
    let printed = printed(&RULE, &log);
    says(&printed, "keys: 150,000");
    assert_eq!(row(&printed, "1/1h")[..3], ["1", "< 0.01 %", "1"]);
}

#[test]
fn a_sample_can_be_replayed_as_a_log() {
    let sample = printed(&["--sample", "1000"], "");
    assert_eq!(sample.lines().count(), 1001);
    assert_eq!(
        sample,
        printed(&["--sample", "1000"], ""),
        "the same whenever it is asked for"
    );
    let rules = [
        "--rule",
        "2/1m",
        "--rule",
        "leaky_bucket 2/1m",
        "--show-keys",
    ];
    let by_itself = printed(&[&["--sample", "1000"], &rules[..]].concat(), "");
    assert_eq!(by_itself, printed(&rules, &sample));
    assert!(number(&row(&by_itself, "2/1m")[0]) > 0, "{by_itself}");
}

#[test]
fn only_answers_that_are_asked_for_use_up_a_limit() {
    let login = |second: u64, status: u16| format!("{second},a,{status}\n");
    let log: String = "time,key,status\n".to_owned()
        + &[
            (0, 200),
            (1, 401),
            (2, 200),
            (3, 403),
            (4, 200),
            (5, 401),
            (61, 401),
            (62, 200),
            (63, 200),
        ]
        .map(|(second, status)| login(second, status))
        .concat();
    // 1 and 3 use it up: 4 and 5 are refused, whatever they would have been; at 61 the first has
    // left.
    let printed = printed(&["--rule", "2/1m", "--status", "401,403"], &log);
    assert_eq!(row(&printed, "2/1m")[0], "3", "4, 5 and 62: {printed}");
    says(&printed, "counted: 4, by their status");
    // What counts nothing makes nothing behind it late: a whole window after 0, it has left.
    let behind = "time,key,status\n0,a,200\n0,a,401\n60,a,200\n";
    let behind = self::printed(&["--rule", "1/1m", "--status", "401"], behind);
    assert_eq!(row(&behind, "1/1m")[0], "0", "{behind}");
    let class = self::printed(&["--rule", "2/1m", "--status", "4xx"], &log);
    assert_eq!(row(&class, "2/1m"), row(&printed, "2/1m"));
}
