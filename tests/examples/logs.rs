//! Logs as servers, balancers and collectors write them, read by `ratelimit-admin replay`.

use std::io::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use flate2::write::GzEncoder;

use crate::File;
use crate::replay::{RULE, failed, printed, replay, rows};
use crate::support::says;

/// The report of `replay` on a log: the requests, the field of the key, the keys that a rule of one
/// an hour refuses, and the lines that were left out.
pub(crate) struct Said {
    pub(crate) all: String,
}

impl Said {
    pub(crate) fn of(arguments: &[&str], log: impl AsRef<[u8]>) -> Self {
        let rule = ["--rule", "1/1h", "--show-keys"];
        Self {
            all: printed(&[&rule, arguments].concat(), log),
        }
    }

    /// The keys, with the number of requests of each.
    pub(crate) fn keys(&self) -> Vec<(String, u64)> {
        rows(&self.all, "1/1h")[1..]
            .iter()
            .map(|row| (row[0].clone(), row[1].parse().expect("a number")))
            .collect()
    }

    /// The three requests of one client are found.
    pub(crate) fn finds_three(&self, name: &str) {
        let three = ("203.0.113.7".to_owned(), 3);
        assert_eq!(self.keys(), [three], "{name}: {}", self.all);
    }

    pub(crate) fn left_out(&self) -> Option<&str> {
        self.all
            .lines()
            .find(|line| line.starts_with("lines left out: "))
    }

    /// The other fields that hold addresses.
    pub(crate) fn others(&self) -> String {
        let mut lines = self.all.lines();
        let others = lines.find_map(|line| line.strip_prefix("addresses also stand in "));
        let names = others.map(|line| line.split(':').next().unwrap_or_default());
        names.unwrap_or_default().replace('`', "")
    }

    pub(crate) fn taken(&self) -> &str {
        let mut lines = self.all.lines();
        let line = lines.find(|line| line.starts_with("key: "));
        line.unwrap_or_else(|| panic!("no field of the key: {}", self.all))
    }
}

/// The addresses of five requests, three of them of one client.
const CLIENTS: [&str; 5] = [
    "203.0.113.7",
    "198.51.100.9",
    "203.0.113.7",
    "192.0.2.44",
    "203.0.113.7",
];

/// A log of these clients: `{}` is the address, `{s}` the second.
pub(crate) fn log(line: &str) -> String {
    log_of(line, CLIENTS)
}

pub(crate) fn log_of(line: &str, clients: [&str; 5]) -> String {
    let lines = (10_u8..).zip(clients).map(|(second, client)| {
        let second = f32::from(second).to_string();
        line.replace("{s}", &second).replace("{}", client) + "\n"
    });
    lines.collect()
}

/// The three requests of one client are found, and no line is left out.
pub(crate) fn finds_the_client(
    name: &str,
    arguments: &[&str],
    log: impl AsRef<[u8]>,
    field: &str,
) -> Said {
    let said = Said::of(arguments, log);
    said.finds_three(name);
    assert!(
        said.all
            .starts_with("requests: 5, keys: 3, from 2026-10-10T11:55:10"),
        "{name}: {}",
        said.all
    );
    assert_eq!(said.left_out(), None, "{name}");
    assert_eq!(
        said.taken(),
        format!("key: {field}, such as 203.0.113.7, 198.51.100.9, 192.0.2.44"),
        "{name}"
    );
    said
}

pub(crate) const COMBINED: &str = concat!(
    r#"{} - - [10/Oct/2026:13:55:{s} +0200] "GET /a HTTP/1.1" 200 12 "#,
    r#""https://example.com/?q=a, b" "Mozilla/5.0 (X11; rv:1.0)""#
);

/// The requests of an access log: address, user, request, status, agent.
const REQUESTS: [[&str; 5]; 4] = [
    [
        "203.0.113.7",
        "alice",
        "GET /a?x=1 HTTP/1.1",
        "200",
        "curl/8",
    ],
    ["2001:db8:1:2::3", "-", "POST /a HTTP/1.1", "401", "curl/8"],
    [
        "2001:db8:1:2:ffff::4",
        "a [b] c",
        "POST /b HTTP/2.0",
        "401",
        "curl \\x22q\\x22",
    ],
    ["203.0.113.7", "alice", "\\x16\\x03", "400", "-"],
];

/// These requests: `{s}` is the second, `{uri}` a part of the `{request}`.
fn access(line: &str) -> String {
    let requests = (36..).zip(REQUESTS).map(|(second, fields)| {
        let second = second.to_string();
        let names = ["{address}", "{user}", "{request}", "{status}", "{agent}"];
        let uri = fields[2].split(' ').nth(1).unwrap_or_default();
        let rest = [("{s}", &*second), ("{uri}", uri)];
        names
            .into_iter()
            .zip(fields)
            .chain(rest)
            .fold(line.to_owned(), |line, (name, field)| {
                line.replace(name, field)
            })
            + "\n"
    });
    let all: String = requests.collect();
    if line.starts_with('{') {
        all.replace('\\', "\\\\")
    } else {
        all
    }
}

const COMMON: &str = "{address} - {user} [10/Oct/2026:13:55:{s} +0200] \"{request}\" {status} 12";
const WITH_AGENT: &str =
    "{address} - {user} [10/Oct/2026:13:55:{s} +0200] \"{request}\" {status} 12 \"-\" \"{agent}\"";
/// A line of nginx by `log_format … escape=json`, and of Caddy by the encoder `json`.
const NGINX: &str = concat!(
    r#"{"time_local":"10/Oct/2026:13:55:{s} +0200","remote_addr":"{address}","#,
    r#""remote_user":"{user}","request":"{request}","status":"{status}","#,
    r#""http_user_agent":"{agent}"}"#
);
const CADDY: &str = concat!(
    r#"{"ts":17916333{s}.25,"request":{"remote_ip":"127.0.0.1","client_ip":"{address}","#,
    r#""uri":"{uri}","headers":{"User-Agent":["{agent}"]}},"user_id":"{user}","status":{status}}"#
);

#[test]
fn the_fields_of_an_access_log_may_be_keys() {
    let keys = |arguments: &[&str], line: &str| Said::of(arguments, access(line)).keys();
    let two = |name: &str| (name.to_owned(), 2);
    for line in [COMMON, WITH_AGENT, NGINX, CADDY] {
        let said = Said::of(&[], access(line));
        // An IPv6 address counts by its /64, as in services.
        assert_eq!(
            said.keys(),
            [two("203.0.113.7"), two("2001:db8:1:2::/64")],
            "{line}"
        );
        says(&said.all, "requests: 4, keys: 2, from 2026-10-10T11:55:36");
        assert_eq!(said.left_out(), None, "{line}");
        assert_eq!(
            keys(&["--key-field", "user"], line),
            [two("alice")],
            "{line}"
        );
        let by_path = Said::of(&["--key-field", "path"], access(line));
        assert_eq!(by_path.keys(), [two("/a")], "{line}");
        says(
            &by_path.all,
            "lines left out: 1; the first is line 4: it has no `path`",
        );
        if line != COMMON {
            assert_eq!(
                keys(&["--key-field", "User-Agent"], line),
                [two("curl/8")],
                "{line}"
            );
        }
    }
    for (flag, line) in [
        ("common", WITH_AGENT),
        ("combined", WITH_AGENT),
        ("json", CADDY),
    ] {
        assert_eq!(keys(&["--format", flag], line).len(), 2, "{flag}");
    }
    for (arguments, why) in [
        (
            ["--key-field", "email"],
            "this log has no `email`: --key-field is one of address, user, path",
        ),
        (
            ["--format", "combined"],
            "no line of 4 can be read; line 1: it has no referer and user agent",
        ),
    ] {
        says(&failed(&[RULE, arguments].concat(), access(COMMON)), why);
    }
    let some = format!("{}nonsense\n{}", access(WITH_AGENT), access(COMMON));
    let why = "lines left out: 5; the first is line 5: it is not a line of an access log";
    says(&printed(&RULE, some), why);
}

/// Logs of servers, balancers and networks. Behind `##` stand the name, the field of the client
/// (in access logs with its word) and, behind `also`, other fields that hold addresses; or, behind
/// `pattern`, the pattern that its error suggests, which finds the client (in `address`, or in the
/// field behind `key`); or, behind `error`, why
/// the log cannot be read. A line with `{s}` is that of a request.
const SERVERS: &str = include_str!("server_logs.txt");

/// Access logs with whatever stands around them.
const ACCESS: &str = include_str!("access_logs.txt");

/// The name of each of these logs, what is said of it, and its lines.
fn each(logs: &'static str) -> impl Iterator<Item = (&'static str, &'static str, &'static str)> {
    logs.split("## ").skip(1).map(|section| {
        let (title, lines) = section.split_once('\n').expect("lines");
        let (name, said) = title.split_once(": ").expect("a field");
        (name, said, lines)
    })
}

/// A pattern, the field of the client in it, and other fields that hold addresses.
fn pattern_of(said: &str) -> (&str, &str, &str) {
    let (said, others) = said.split_once(", also ").unwrap_or((said, ""));
    let (pattern, field) = said.split_once(", key ").unwrap_or((said, "address"));
    (pattern, field, others)
}

/// The log, and the line of a request in it.
fn log_with(lines: &str) -> (String, &str) {
    let of_requests = |line: &&str| line.contains("{s}");
    let requests = |line: &str| {
        if of_requests(&line) {
            log(line)
        } else {
            format!("{line}\n")
        }
    };
    let line = lines.lines().find(of_requests).expect("a request");
    (lines.lines().map(requests).collect(), line)
}

#[test]
fn headers_that_haproxy_has_captured_are_fields() {
    let log = log(concat!(
        "Oct 10 11:55:{s} lb haproxy[14389]: 10.0.0.3:33317 [10/Oct/2026:11:55:{s}.655] web~ ",
        "static/srv1 10/0/30/69/109 200 2750 - - ---- 1/1/1/1/0 0/0 {example.com|{}|curl (x)} {|} ",
        "\"GET /a HTTP/1.1\""
    ));
    assert_eq!(Said::of(&[], &log).others(), "captured-2");
    let said = finds_the_client(
        "captured",
        &["--key-field", "captured-2"],
        &log,
        "`captured-2`",
    );
    assert_eq!(said.others(), "address");
    // It writes -1 where it has answered nothing.
    let said = Said::of(&["--status", "2xx"], log.replace(" 200 ", " -1 "));
    says(&said.all, "counted: 0, by their status");
}

/// A collector adds times of its own, and may gather many requests.
#[test]
fn fields_with_other_times_are_named() {
    let log = log(r#"{"time":"2026-10-10T11:56:00Z","ts":17916333{s}.25,"ip":"{}"}"#);
    let note = "time: `time`; other times stand in `ts`: --time-field takes one of them";
    let all = Said::of(&[], &log).all;
    assert!(all.lines().any(|line| line == note), "{all}");
    let said = finds_the_client("ts", &["--time-field", "ts"], &log, "`ip`");
    assert!(!said.all.contains("other times"), "{}", said.all);
}

/// IPv6 stands with brackets or without.
#[test]
fn the_port_of_a_client_of_alb_is_no_part_of_its_address() {
    let log = log_of(
        concat!(
            "https 2026-10-10T11:55:{s}.186641Z app/web/50dc {}:52817 10.0.0.1:80 0.086 0.048 ",
            "0.037 200 200 0 57 \"GET https://x:443/a HTTP/1.1\" \"curl\" - -"
        ),
        [
            "2001:db8::1",
            "[2001:db8::2]",
            "2001:db8:0:0:3::",
            "192.0.2.1",
            "2001:db8:1::",
        ],
    );
    let keys = [("2001:db8::/64".to_owned(), 3)];
    let said = Said::of(&[], log);
    assert_eq!(said.keys(), keys, "{}", said.all);
    assert_eq!(said.left_out(), None);
}

#[test]
fn the_client_is_found_in_logs_of_servers_balancers_and_networks() {
    let mut count = 0;
    for (name, said, lines) in each(SERVERS).chain(each(ACCESS)) {
        let (log, _) = log_with(lines);
        if let Some(why) = said.strip_prefix("error ") {
            let error = failed(&RULE, log);
            assert!(error.contains(why), "{name}: {error}");
        } else if let Some(said) = said.strip_prefix("pattern ") {
            let (pattern, field, others) = pattern_of(said);
            let error = failed(&RULE, &log);
            let suggested = format!("this reads it: --pattern '{pattern}'\n");
            assert!(error.ends_with(&suggested), "{name}: {error}");
            let arguments = ["--pattern", pattern, "--key-field", field];
            let said = finds_the_client(name, &arguments, log, &format!("`{field}`"));
            assert_eq!(said.others(), others, "{name}");
        } else {
            let (field, others) = said.split_once(", also ").unwrap_or((said, ""));
            let field = match field.split_once(' ') {
                Some((field, place)) => format!("`{field}`, {place}"),
                None => format!("`{field}`"),
            };
            let said = finds_the_client(name, &[], log, &field);
            assert_eq!(said.others(), others, "{name}");
        }
        count += 1;
    }
    assert_eq!(count, 188);
    // An unbracketed IPv6 address, and its port.
    let line = concat!(
        "{}:56789 [10/Oct/2026:11:55:{s}.655] in web/a 1/0/3/6/10 200 27 ",
        "- - ---- 1/1/1/1/0 0/0 \"GET / HTTP/1.1\""
    );
    let clients = [
        "2001:db8:1:2:3:4:5:6",
        "2001:db8:1:2::9",
        "192.0.2.1",
        "192.0.2.2",
        "192.0.2.3",
    ];
    let said = Said::of(&[], log_of(line, clients));
    assert_eq!(said.keys(), [("2001:db8:1:2::/64".to_owned(), 2)]);
    let clients = [
        "2001:db8::a:b:c:d:5123",
        "203.0.113.7:1",
        "2001:db8::1:51234",
        "192.0.2.1:1",
        "192.0.2.2:1",
    ];
    let said = Said::of(&[], log_of(COMBINED, clients));
    assert_eq!(said.keys(), [("2001:db8::/64".to_owned(), 2)]);
}

#[test]
fn an_access_log_in_another_order_is_not_read_as_if_it_were_in_the_usual_one() {
    let line = r#"{} - - [10/Oct/2026:11:55:{s} +0000] "GET /a HTTP/1.1" SIZE 200 "-" "curl/8""#;
    let of = |size: &str| log(&line.replace("SIZE", size));
    // Of a line that a client has made long, each blank may end a field.
    let long = of("12").replace("/a ", &format!("/{}", "a ".repeat(100_000)));
    let error = failed(&["--rule", "1/1h"], of("12") + &of("404") + &long);
    let pattern =
        r#"this reads it: --pattern '{address} {} {} [{time}] "{request}" {} {status} "{}'"#;
    assert!(error.trim_end().ends_with(pattern), "{error}");
}

#[test]
fn times_without_a_year_or_a_date_are_completed_in_the_order_of_the_lines() {
    let year = "of times without a year, the first is taken for the last one before now";
    let sshd = "{time} {} {}[{}]: {} {} {} {} {} {address} {}";
    let fiber = "{time} | {} | {} | {address} | {}";
    for (pattern, line, said) in [
        (
            sshd,
            "Oct 10 11:55:{s} web sshd[812]: Failed password for root from {} port 1 ssh2",
            year,
        ),
        (
            fiber,
            "11:55:{s} | 200 |  1ms | {} | GET | / | -",
            "of times without a date",
        ),
    ] {
        let error = failed(&["--rule", "1/1h"], log(line));
        assert!(
            error.ends_with(&format!("this reads it: --pattern '{pattern}'\n")),
            "{error}"
        );
        let read = Said::of(&["--pattern", pattern], log(line));
        assert_eq!(read.keys(), [("203.0.113.7".to_owned(), 3)], "{line}");
        assert!(
            read.all.contains("T11:55:10Z") && read.all.contains(said),
            "{}",
            read.all
        );
    }
    let new_year = concat!(
        "{\"ip\":\"192.0.2.1\",\"time\":\"Dec 31 23:59:58\"}\n",
        "{\"ip\":\"192.0.2.1\",\"time\":\"Jan  1 00:00:03\"}\n"
    );
    let read = Said::of(&[], new_year);
    assert!(read.all.contains("-12-31T23:59:58Z to "), "{}", read.all);
    assert!(read.all.contains("-01-01T00:00:03Z\n") && !read.all.contains("out of order"));
}

#[test]
fn a_time_that_is_ambiguous_is_read_by_its_format() {
    let form = ["--time-format", "%m/%d/%Y %I:%M:%S %p"];
    let csv = "date,time,ip\n".to_owned() + &log("10/10/2026,11:55:{s} AM,{}");
    let error = failed(&["--rule", "1/1h"], &csv);
    assert!(
        error.contains("; --time-format says how it is written"),
        "{error}"
    );
    finds_the_client("in two columns", &form, csv, "`ip`");
    let json = log(r#"{"ip":"{}","time":"10/10/2026 11:55:{s} AM"}"#);
    finds_the_client("JSON", &form, &json, "`ip`");
    let error = failed(&["--rule", "1/1h", "--time-format", "%d.%m.%Y"], json);
    let why = "line 1: `10/10/2026 11:55:10 AM` is not as --time-format says";
    assert!(error.contains(why), "{error}");
    let line = "10/10/2026 11:55:{s} AM {} GET /a";
    let error = failed(&["--rule", "1/1h"], log(line));
    let how = "and the month stands first, this reads it: --pattern '{time} {address} {}' \
               --time-format '%m/%d/%Y %I:%M:%S %p'\n";
    assert!(error.ends_with(how), "{error}");
    let pattern = ["--pattern", "{time} {address} {}"];
    finds_the_client(
        "text",
        &[&pattern[..], &form].concat(),
        log(line),
        "`address`",
    );
    let error = failed(&["--rule", "1/1h", "--time-format", "mm/dd"], log(line));
    assert!(
        error.contains("it is s, ms, us, ns, or such as '%m/%d/%Y %H:%M:%S'"),
        "{error}"
    );
}

#[test]
fn logs_are_read_as_docker_stores_them_and_as_arrays() {
    let docker = |line: &str| {
        let inner = serde_json::to_string(&format!("{line}\n")).unwrap();
        format!("{{\"log\":{inner},\"stream\":\"stdout\",\"time\":\"2026-10-10T00:00:00Z\"}}\n")
    };
    let wrapped = |log: String| log.lines().map(docker).collect::<String>();
    finds_the_client(
        "Docker",
        &[],
        wrapped(log(COMBINED)),
        "`address`, word 1 of a line",
    );
    let json = log(r#"{"ip":"{}","time":"2026-10-10T11:55:{s}Z"}"#);
    finds_the_client("Docker, JSON", &[], wrapped(json.clone()), "`ip`");
    let collected = wrapped(log(COMBINED)).replace("{\"log\"", "{\"time\":\"x\",\"log\"");
    let collected = collected.replace(",\"time\":\"2026-10-10T00:00:00Z\"", "");
    finds_the_client(
        "a collector",
        &[],
        &collected,
        "`address`, word 1 of a line",
    );
    let relay = |address: &str| {
        collected.replace("\"time\"", &format!("\"client\":\"{address}\",\"time\""))
    };
    finds_the_client(
        "its address",
        &[],
        relay("10.0.0.5"),
        "`address`, word 1 of a line",
    );
    let other = "{\"ip\":\"192.0.2.9\",\"time\":\"2026-10-10T11:55:10Z\"}\n";
    leaves_out("an object of another program", &[], &collected, other);
    let twice = wrapped(log(
        r#"{"log":"{} - - [10/Oct/2026:11:55:{s} +0000] \"GET /\" 200 1"}"#,
    ));
    finds_the_client(
        "Docker, and a collector",
        &[],
        twice,
        "`address`, word 1 of a line",
    );
    says(
        &failed(&RULE, "{\n  \"time\": 1,\n  \"ip\": \"192.0.2.1\"\n}\n"),
        "where the line ends: each object has a line, as by `jq -c`",
    );
    for array in [
        format!("[\n  {}\n]\n", json.trim().replace('\n', ",\n  ")),
        format!("[{}]", json.trim().replace('\n', ",")),
        format!(" [{}]", json.trim().replace('\n', ",").replace(',', ",\n")),
    ] {
        finds_the_client("an array", &[], &array, "`ip`");
        finds_the_client("a mark", &[], format!("\u{feff}{array}"), "`ip`");
        // A reader gets the bytes of such members one by one, as from a pipe.
        let bytes = array.as_bytes().chunks(1).flat_map(gzip);
        finds_the_client("one by one", &[], bytes.collect::<Vec<_>>(), "`ip`");
    }
}

#[test]
fn fields_of_json_are_named_by_paths() {
    let line = concat!(
        r#"{"at":{"ns":17916333{s}000000000},"res":{"code":429},"list":[{"who":"{}"}],"#,
        r#""req":{"headers":{"X-Forwarded-For":"{}"},"ips":["10.0.0.1","{}"]}}"#
    );
    let time = ["--time-field", "at.ns", "--time-format", "ns"];
    for field in [
        "req.headers.x-forwarded-for",
        "req.ips.1",
        "list.0.who",
        "x-forwarded-for",
    ] {
        let said = Said::of(&[&time[..], &["--key-field", field]].concat(), log(line));
        said.finds_three(field);
        says(&said.all, "from 2026-10-10T11:55:10Z");
    }
    let status = [
        "--key-field",
        "list.0.who",
        "--status-field",
        "res.code",
        "--status",
        "2xx",
    ];
    let said = Said::of(&[&time[..], &status].concat(), log(line));
    says(&said.all, "counted: 0, by their status");
    for (unit, zeros) in [
        ("s", ""),
        ("ms", "000"),
        ("us", "000000"),
        ("ns", "000000000"),
    ] {
        let line = format!(r#"{{"ip":"{{}}","t":"17916333{{s}}{zeros}"}}"#);
        for unit in [&["--time-format", unit][..], &[]] {
            let arguments = [&["--time-field", "t"], unit].concat();
            finds_the_client(zeros, &arguments, log(&line), "`ip`");
        }
    }
}

#[test]
fn behind_proxies_the_client_is_the_one_that_the_service_counts() {
    let xff = COMBINED.replace("{}", "10.0.0.1") + r#" "192.0.2.66, {}, 10.1.2.3""#;
    let head = COMBINED.replace("{}", "192.0.2.66, {}, 10.1.2.3");
    let json = concat!(
        r#"{"time":"2026-10-10T11:55:{s}Z","remote_addr":"10.0.0.1","#,
        r#""http_x_forwarded_for":"192.0.2.66, {}, 10.1.2.3"}"#
    );
    let csv = "2026-10-10T11:55:{s}Z,\"192.0.2.66, {}, 10.1.2.3\"";
    let caddy = concat!(
        r#"{"ts":17916333{s},"request":{"remote_ip":"10.0.0.1","#,
        r#""headers":{"X-Forwarded-For":["192.0.2.66","{}, 10.1.2.3"]}}}"#
    );
    let iis = concat!(
        "#Fields: date time c-ip x-forwarded-for\n",
        "2026-10-10 11:55:10 10.0.0.1 192.0.2.66,+{},+10.1.2.3"
    );
    let proxies = ["--trusted-proxies", "10.0.0.0/8,192.0.2.200"];
    let named = [&proxies[..], &["--key-field", "x-forwarded-for"]].concat();
    for (name, line, arguments) in [
        ("the address, and a field", xff.as_str(), &proxies[..]),
        ("the field by its name", &xff, &named),
        ("a list for the address", &head, &proxies),
        ("JSON", json, &proxies),
        ("JSON by its name", json, &named),
        ("CSV", csv, &proxies),
        ("Caddy", caddy, &proxies),
        ("IIS", iis, &proxies),
    ] {
        let said = Said::of(arguments, log(line));
        said.finds_three(name);
        assert_eq!(said.left_out(), None, "{name}");
    }
    let said = Said::of(&proxies, log(&xff));
    says(
        &said.all,
        "\nbehind the trusted proxies: `x-forwarded-for`\n",
    );
    let said = Said::of(&proxies, log(json));
    says(
        &said.all,
        "\nbehind the trusted proxies: `http_x_forwarded_for`\n",
    );
    // What no proxy names is counted under the proxy, as in the service, and said so.
    let unnamed = log_of(
        &xff,
        ["unknown", "203.0.113.7", "-", "203.0.113.7", "203.0.113.7"],
    );
    let said = Said::of(&proxies, unnamed);
    assert_eq!(
        said.keys(),
        [("203.0.113.7".to_owned(), 3), ("10.1.2.3".to_owned(), 2)]
    );
    says(
        &said.all,
        "in 2 requests it is the address of a proxy, which names no client",
    );
    // What was sent by a client that is no proxy is not read.
    let direct = COMBINED.to_owned() + r#" "192.0.2.66""#;
    finds_the_client(
        "direct",
        &proxies,
        log(&direct),
        "`address`, word 1 of a line",
    );

    let said = Said::of(&[], log(&head));
    assert_eq!(said.keys(), [("10.1.2.3".to_owned(), 5)]);
    says(
        &said.all,
        "lists of addresses, of which the last one is taken; --trusted-proxies says",
    );
    says(
        &failed(
            &[&RULE[..], &["--trusted-proxies", "10.0.0.0/99"]].concat(),
            log(&xff),
        ),
        "10.0.0.0/99",
    );
    let useless = [&RULE[..], &["--key-field", "path"], &proxies].concat();
    says(
        &failed(&useless, log(&xff)),
        "`request` holds no addresses, which --trusted-proxies is for",
    );
}

#[test]
fn a_line_without_an_address_is_left_out_and_counted() {
    for (clients, why) in [
        (
            ["-", "203.0.113.7", "203.0.113.7", "unix:", "203.0.113.7"],
            "lines left out: 2; the first is line 1: it has no `address`",
        ),
        (
            [
                "203.0.113.7",
                "unix:",
                "203.0.113.7",
                "client.example.com",
                "203.0.113.7",
            ],
            "lines left out: 2; the first is line 2: its `address` is no address",
        ),
    ] {
        let said = Said::of(&[], log_of(COMBINED, clients));
        said.finds_three("beside others");
        assert_eq!(said.left_out(), Some(why));
    }
    let unknown = log(r#"{"time":"2026-10-10T11:55:{s}Z","whence":"{}"}"#);
    says(
        &failed(&RULE, &unknown),
        "line 1: it has no `key`, nor an address of a known name: say --key-field",
    );
    finds_the_client("named", &["--key-field", "whence"], &unknown, "`whence`");
    // Behind a socket only the proxy's field has one.
    let socket = log(&(COMBINED.replace("{}", "unix:") + r#" "{}""#));
    finds_the_client("a socket", &[], &socket, "`x-forwarded-for`");
    says(
        &failed(&RULE, log(&COMBINED.replace("{}", "unix:"))),
        "no line of 5 can be read; line 1: its `address` is no address",
    );
    let unknown = log_of(
        r#"{"time":"2026-10-10T11:55:{s}Z","remote_addr":"{}"}"#,
        ["203.0.113.7", "unknown", "203.0.113.7", "203.0.113.7", ""],
    );
    let said = Said::of(&[], unknown);
    said.finds_three("beside others");
    assert_eq!(
        said.left_out(),
        Some("lines left out: 2; the first is line 2: its `remote_addr` is no address")
    );
}

#[test]
fn the_field_of_the_key_is_said_and_its_samples_hide_the_client() {
    let hidden = printed(
        &RULE,
        log_of(
            COMBINED,
            [
                "203.0.113.7",
                "2001:db8:1:2::3",
                "192.0.2.1",
                "192.0.2.2",
                "192.0.2.3",
            ],
        ),
    );
    let line = "key: `address`, word 1 of a line, such as 203.0.113.*, 2001:db8:1:*, 192.0.2.*\n";
    assert!(
        hidden.contains(line) && !hidden.contains("203.0.113.7"),
        "{hidden}"
    );
    let users = log_of(
        r#"{"time":"2026-10-10T11:55:{s}Z","user":"{}@example.com"}"#,
        ["a", "b", "c", "d", "e"],
    );
    let hidden = printed(&["--rule", "1/1h", "--key-field", "user"], &users);
    assert!(
        hidden.contains("key: `user`\n") && !hidden.contains("@example"),
        "{hidden}"
    );
    let shown = printed(
        &["--rule", "1/1h", "--key-field", "user", "--show-keys"],
        &users,
    );
    says(
        &shown,
        "key: `user`, such as a@example.com, b@example.com, c@example.com\n",
    );
}

#[test]
fn a_line_that_is_not_of_the_log_does_not_decide_its_format() {
    let json = r#"{"ip":"{}","time":"2026-10-10T11:55:{s}Z"}"#;
    let pairs = "time=2026-10-10T11:55:{s}Z status=200 ip={}";
    for (line, field) in [
        (COMBINED, "`address`, word 1 of a line"),
        (json, "`ip`"),
        (pairs, "`ip`"),
    ] {
        for first in [
            "==> /var/log/nginx/access.log <==",
            "Server listening on port 8080, waiting",
            "1 HTTP/1.1\" 200 12 \"-\" \"curl/8\"",
            "\u{1b}[32mINFO\u{1b}[0m starting",
            "{\"cut\":",
        ] {
            let log = format!("{first}\n{}", log(line));
            let said = Said::of(&[], log);
            said.finds_three(first);
            assert!(
                said.taken().starts_with(&format!("key: {field}")),
                "{first}: {}",
                said.all
            );
            let left_out = said.left_out().unwrap_or_default();
            assert!(
                left_out.starts_with("lines left out: 1; the first is line 1: "),
                "{}",
                said.all
            );
        }
    }
    for header in ["time,key\n", ""] {
        let csv = log("2026-10-10T11:55:{s}Z,{}");
        let said = Said::of(&[], format!("==> log.csv <==\n{header}{csv}"));
        said.finds_three(header);
        assert!(said.left_out().is_some(), "{header}");
    }
    says(
        &failed(&RULE, "some text\nand more of it\n"),
        "--format names the format",
    );
}

/// `tracing` writes colours everywhere, gin only to a terminal.
#[test]
fn the_colours_of_a_terminal_are_no_part_of_a_line() {
    let tracing = concat!(
        "\u{1b}[2m2026-10-10T11:55:{s}Z\u{1b}[0m \u{1b}[32m INFO\u{1b}[0m ",
        "\u{1b}[1mrequest\u{1b}[0m\u{1b}[1m{\u{1b}[0m",
        "\u{1b}[3mstatus\u{1b}[0m\u{1b}[2m=\u{1b}[0m200 ",
        "\u{1b}[3mclient_ip\u{1b}[0m\u{1b}[2m=\u{1b}[0m{}",
        "\u{1b}[1m}\u{1b}[0m\u{1b}[2m:\u{1b}[0m done",
    );
    finds_the_client("tracing", &[], log(tracing), "`client_ip`");
    let gin = "[GIN] 2026/10/10 - 11:55:{s} |\u{1b}[97;42m 200 \u{1b}[0m| 1ms | {} | GET \"/a\"";
    let error = failed(&RULE, log(gin));
    let pattern = "[{}] {time} | {} | {} | {address} | {}";
    assert!(
        error.ends_with(&format!("--pattern '{pattern}'\n")),
        "{error}"
    );
    finds_the_client("gin", &["--pattern", pattern], log(gin), "`address`");
}

#[test]
fn hostile_lines_are_left_out_and_control_no_terminal() {
    let mut log = log(COMBINED).into_bytes();
    let endless = format!(
        "203.0.113.7 - - [{}] \"GET / HTTP/1.1\" 200 1",
        "x".repeat(1 << 20)
    );
    log.extend(b"203.0.113.7 - - [\x1b]0;title\x07] \"GET / HTTP/1.1\" 200 1 \"-\" \"-\"\n");
    for hostile in [
        endless.as_bytes(),
        b"\0\0\0\0",
        b"\"",
        b"[",
        b"[]\"\" 200 1",
        b"{",
        b"\xff\xfe",
        b"a=1 b=2 c=\"",
        b"\x1b[2J",
    ] {
        log.extend([hostile, b"\n"].concat());
    }
    // Each end of a word would be tried as an address, for hours.
    for second in 10..20 {
        let user = "a".repeat(200_000);
        let line = format!("192.0.2.9 - {user} - x [10/Oct/2026:13:55:{second} +0200]");
        log.extend(format!("{line} \"GET / HTTP/1.1\" 401 1 \"-\" \"-\"\n").bytes());
    }
    // Bytes that are not UTF-8 are in many user agents.
    log.extend(b"203.0.113.7 - - [10/Oct/2026:13:55:50 +0200] ");
    log.extend(b"\"GET /\xff\0 HTTP/1.1\" 200 1 \"-\" \"\xe9\"");
    let said = Said::of(&[], &log);
    let keys = [("192.0.2.9".to_owned(), 10), ("203.0.113.7".to_owned(), 4)];
    assert_eq!(said.keys(), keys, "{}", said.all);
    let left_out = said.left_out().unwrap_or_default();
    assert!(
        left_out.starts_with("lines left out: 10; the first is line 6: "),
        "{left_out}"
    );
    assert!(
        !said.all.contains('\u{1b}') && left_out.contains("\\u{1b}"),
        "{left_out}"
    );
    let json = [
        &b"{\"time\":1,\"ip\":\"203.0.113.7\",\"agent\":\"\xe9\"}\n"[..],
        b"{\"time\":2,\"ip\":\"203.0.113.7\"}\n",
    ];
    assert_eq!(
        Said::of(&[], json.concat()).keys(),
        [("203.0.113.7".to_owned(), 2)]
    );
    let endless = format!("{}\n{}\n", "x".repeat(1 << 20), "y".repeat(1 << 20));
    says(
        &failed(&RULE, endless),
        "no line of 2 can be read; line 1: it is longer than 256 KiB",
    );
}

#[test]
fn one_quotation_mark_of_csv_ends_with_its_line() {
    let csv = b"time,key,note\n1,a,\"\n2,a,\"x, \"\"y\"\"\"\n3,a,\"open\n4,\"a\",\xff\"\n5,\"a,\n";
    let said = Said::of(&[], csv);
    assert_eq!(said.keys(), [("a".to_owned(), 4)], "{}", said.all);
    says(&said.all, "requests: 4, keys: 1");
    let why = "lines left out: 1; the first is line 6: it has 2 columns, and the header has 3";
    assert_eq!(said.left_out(), Some(why));
    // What a client sends may have lines of its own.
    let csv = "time,note,key\n".to_owned() + &log("2026-10-10T11:55:{s}Z,curl,{}");
    let sent = log("2026-10-10T11:55:{s}Z,\"a \"\"b\"\"\n2026-10-10T11:55:{s}Z,c,192.0.2.9\n\",{}");
    leaves_out("a field of three lines", &[], &csv, &sent);
    let long = ["2026-10-10T11:55:10Z,\"", &"\n1,c,192.0.2.9".repeat(900)].concat();
    leaves_out("a field without an end", &[], &csv, &long);
}

/// Lines that would name another client are left out and counted.
pub(crate) fn leaves_out(name: &str, arguments: &[&str], log: &str, lines: &str) {
    let said = Said::of(arguments, format!("{log}{lines}"));
    let (count, left_out) = (lines.lines().count(), said.left_out().unwrap_or_default());
    assert!(
        said.keys() == [("203.0.113.7".to_owned(), 3)]
            && said.all.starts_with("requests: 5, keys: 3, ")
            && left_out.starts_with(&format!("lines left out: {count}; ")),
        "{name}: {}",
        said.all
    );
}

#[test]
fn what_a_client_sends_is_not_taken_for_another_client() {
    let list = log(&COMBINED.replace("{}", "192.0.2.9 192.0.2.8, {}"));
    leaves_out("blanks in a list", &[], &log(COMBINED), &list);
    // Envoy escapes no quotes.
    let envoy = concat!(
        r#"[2026-10-10T11:55:{s}.123Z] "GET /a HTTP/1.1" 200 - 0 12 5 4 "{}" "agent" "#,
        r#""cc21d9b0" "example.com" "10.0.35.28:80""#
    );
    let istio = envoy.replace("200 -", "200 - - - \"-\"") + " inbound|80|| 127.0.0.6:1 - default";
    for line in [envoy, &istio] {
        for agent in [
            "192.0.2.99\" \"x",
            "192.0.2.99\" 0 \"b",
            "a\"b",
            "a\" \"b\" \"c\" x \"d",
        ] {
            let sent = log(&line.replace("agent", agent));
            leaves_out(agent, &[], &log(line), &sent);
        }
    }
    let proxies = ["--trusted-proxies", "192.0.2.0/24"];
    let pairs = log("time=2026-10-10T11:55:{s}Z a=b \"x-forwarded-for=203.0.113.8\" ip={}");
    finds_the_client("a quoted pair", &proxies, pairs, "`ip`");
    let access = COMBINED.to_owned() + " x-forwarded-for=192.0.2.9";
    let said = finds_the_client(
        "a bare pair",
        &proxies,
        log(&access),
        "`address`, word 1 of a line",
    );
    assert_eq!(said.others(), "behind-1");
    let router = concat!(
        r#"2026-10-10T11:55:{s}.5+00:00 heroku[router]: at=info path="/path" fwd="{}" "#,
        r#"dyno=web.1 status=200 time=2026-10-10T11:55:{s}Z"#
    );
    let sent = log(&router.replace("/path", r#"/" fwd="192.0.2.9"#));
    leaves_out("a second field", &[], &log(router), &sent);
    let body = log(&(COMBINED.to_owned() + r#" {"ip":"192.0.2.99","time":1}"#));
    finds_the_client("a body", &[], body, "`address`, word 1 of a line");
    let json = log(r#"{"ip":"{}","time":"2026-10-10T11:55:{s}Z"}"#);
    let quoted = "refused: {\"ip\":\"192.0.2.99\",\"time\":1}\n";
    leaves_out("an error that quotes a body", &[], &json, quoted);
}

#[test]
fn a_user_name_of_blanks_does_not_say_how_other_lines_are_read() {
    let blank = COMBINED
        .replace("- - [", "-   [")
        .replace("{}", "192.0.2.9");
    let said = Said::of(&[], blank.replace("{s}", "10") + "\n" + &log(COMBINED));
    said.finds_three("beside it");
    assert_eq!(said.left_out(), None, "{}", said.all);
}

#[test]
fn the_other_fields_with_addresses_are_said_and_can_be_taken() {
    let agent = r#" "GET /a HTTP/1.1" 200 12 "-" "curl/8""#;
    let access = |head: &str| format!("{head} [10/Oct/2026:11:55:{{s}} +0000]{agent}");
    let (first, second) = (access("{} 10.0.0.1 - -"), access("192.0.2.1 {} -"));
    let (ingress, forwarded) = (access("10.0.0.1 - [{}] - -"), access("10.0.0.1 - -"));
    let istio = concat!(
        r#"{"start_time":"2026-10-10T11:55:{s}.123Z","downstream_remote_address":"10.0.0.9:0","#,
        r#""upstream_host":"10.0.0.9:80","x_forwarded_for":"{}"}"#
    );
    let iis = "#Fields: date time c-ip X-Forwarded-For\n2026-10-10 11:55:{s} 10.0.0.5 {}";
    for (line, field) in [
        (first.as_str(), "word-1"),
        (&second, "word-2"),
        (&ingress, "word-3"),
        (&(forwarded + r#" "{}""#), "x-forwarded-for"),
        (istio, "x_forwarded_for"),
        (iis, "X-Forwarded-For"),
        (
            r#"{"time":"2026-10-10T11:55:{s}Z","client":"10.0.0.5","a":[{"b":"{}"}]}"#,
            "a.0.b",
        ),
    ] {
        let said = Said::of(&[], log(line));
        assert_eq!(said.others(), field, "{}", said.all);
        assert!(!said.all.contains("203.0.113.7"), "{}", said.all);
        finds_the_client(
            field,
            &["--key-field", field],
            log(line),
            &format!("`{field}`"),
        );
    }
    // A list that the proxy itself ends.
    let (head, text) = ("{}, 10.1.0.3 10.0.0.1 - -", r#" "{}, 10.0.0.1""#);
    for (line, field) in [
        (access(head), "word-1"),
        (access("10.0.0.1 - -") + text, "x-forwarded-for"),
        (istio.replace("{}", "{}, 10.0.0.9"), "x_forwarded_for"),
    ] {
        let said = Said::of(&[], log(&line));
        assert_eq!(said.others(), field, "{}", said.all);
        assert!(!said.all.contains("203.0.113.7"), "{}", said.all);
        let arguments = ["--key-field", field, "--trusted-proxies", "10.0.0.0/8"];
        Said::of(&arguments, log(&line)).finds_three(field);
    }
    // A log of audits has lines of each stage.
    let kubernetes = r#"{"auditID":"{s}","stage":"{}","sourceIPs":["192.0.2.1"],"#.to_owned()
        + r#""requestReceivedTimestamp":"2026-10-10T11:55:00Z"}"#;
    let vault = r#"{"time":"2026-10-10T11:55:00Z","type":"{}","request":{"id":"{s}","#.to_owned()
        + r#""remote_address":"192.0.2.1"}}"#;
    for (line, said) in [
        (kubernetes, "one `auditID`: leave the lines of one `stage`"),
        (vault, "one `request.id`: leave the lines of one `type`"),
    ] {
        let one = log_of(&line, ["last"; 5]);
        assert!(!Said::of(&[], &one).all.contains(said));
        let both = Said::of(&[], log_of(&line, ["first"; 5]) + "\n" + &one);
        assert!(both.all.contains(said), "{}", both.all);
    }
    // A host that some clients send as a list is not what proxies have added.
    let host = access("192.0.2.1 - -") + r#" "{}""#;
    let hosts = [
        "example.com",
        "203.0.113.7",
        "x, 203.0.113.7",
        "a.com",
        "b.com",
    ];
    let said = Said::of(&["--trusted-proxies", "192.0.2.0/24"], log_of(&host, hosts));
    assert_eq!(said.keys(), [("192.0.2.1".to_owned(), 5)], "{}", said.all);
    assert_eq!(said.others(), "quoted-3");
    let two =
        r#"{"time":"2026-10-10T11:55:{s}Z","ip":"{}","client_ip":"{}","agent":"a, 10.0.0.1"}"#;
    let keys = r#"{"time":"2026-10-10T11:55:{s}Z","key":"a","ip":"{}"}"#;
    assert_eq!(Said::of(&[], log(keys)).others(), "ip");
    assert_eq!(
        Said::of(&[], log(two)).others(),
        "",
        "the same client, and a text"
    );
}

#[test]
fn a_name_that_an_object_has_twice_leaves_its_line_out() {
    let json = log(r#"{"ip":"{}","time":"2026-10-10T11:55:{s}Z","user":{"id":1}}"#);
    for twice in [
        r#"{"ip":"192.0.2.99","ip":"{}","time":"2026-10-10T11:55:{s}Z"}"#,
        r#"{"ip":"{}","ip":"192.0.2.99","time":"2026-10-10T11:55:{s}Z"}"#,
        r#"{"ip":"{}","IP":"192.0.2.99","time":"2026-10-10T11:55:{s}Z"}"#,
        r#"{"ip":"{}","time":"2026-10-10T11:55:{s}Z","user":{"id":1,"id":2}}"#,
        r#"app: {"ip":"{}","time":"2026-10-10T11:55:{s}Z","time":1}"#,
    ] {
        leaves_out(twice, &[], &json, &log(twice));
    }
    let objects = json.trim().replace('\n', ",") + r#",{"ip":"192.0.2.99","ip":"192.0.2.98"}"#;
    let said = Said::of(&[], format!("[{objects}]"));
    let left_out = "lines left out: 1; the first is object 6: it has several fields `ip`";
    assert_eq!(said.left_out(), Some(left_out));
    said.finds_three("beside others");
}

#[test]
fn a_cut_line_that_goes_on_with_the_next_one_is_left_out() {
    let joined = |name: &str, arguments: &[&str], before: &str, line: &str| {
        let first = line.replace("{s}", "15").replace("{}", "192.0.2.99");
        let next = line.replace("{s}", "16").replace("{}", "192.0.2.98");
        // Behind the address: from a beginning of the next word on.
        let address = first.rfind("192.0.2.99").unwrap_or_default();
        let word = first
            .get(address..)
            .and_then(|rest| rest.find([' ', ',', '\t']));
        let from = word.map_or(first.len(), |end| address + end + 3);
        let step = ((first.len() - from) / 3).max(1);
        let cuts = (from..=first.len()).step_by(step);
        let cuts = cuts.filter_map(|at| Some([first.get(..at)?, &next, "\n"].concat()));
        let cuts: String = cuts.collect();
        leaves_out(name, arguments, before, &cuts);
    };
    for (name, said, lines) in each(SERVERS) {
        let (log, line) = log_with(lines);
        if let Some(said) = said.strip_prefix("pattern ") {
            let (pattern, field, _) = pattern_of(said);
            let arguments = ["--pattern", pattern, "--key-field", field];
            joined(name, &arguments, &log, line);
        } else if !said.starts_with("error ") {
            joined(name, &[], &log, line);
        }
    }
    for line in [
        COMBINED,
        "{} - - [10/Oct/2026:13:55:{s} +0200] \"GET /a HTTP/1.1\" 200 -",
    ] {
        joined(line, &[], &log(line), line);
    }
    for head in [
        "192.0.2.99 - ",
        "192.0.2.99 - a",
        "192.0.2.99 - - ",
        "192.0.2.99 - x [10/Oct",
    ] {
        leaves_out(
            head,
            &[],
            &log(COMBINED),
            &log(&format!("{head}{COMBINED}")),
        );
    }
}

#[test]
fn lines_of_other_columns_are_left_out() {
    let proxy = format!("10.0.0.5 {COMBINED}");
    leaves_out("one word more", &[], &log(COMBINED), &log(&proxy));
    let w3c = "#Fields: date time c-ip sc-status\n".to_owned();
    let w3c = w3c + &log("2026-10-10 11:55:{s} {} 200");
    let with_server = log("2026-10-10 11:55:{s} 10.0.0.4 {} 200");
    leaves_out("one column more", &[], &w3c, &with_server);
    let said = Said::of(&[], format!("{with_server}{w3c}"));
    let left_out = "lines left out: 5; the first is line 1: there is no line `#Fields:` above it";
    assert_eq!(said.left_out(), Some(left_out), "{}", said.all);
    let csv = "time,agent,key\n".to_owned() + &log("2026-10-10T11:55:{s}Z,curl,{}");
    let comma = log("2026-10-10T11:55:{s}Z,Mozilla (KHTML, like Gecko),{}");
    leaves_out("a comma", &[], &csv, &comma);
    let list = log("2026-10-10T11:55:{s}Z,curl,192.0.2.99, {}");
    leaves_out("a list without quotes", &[], &csv, &list);
    finds_the_client("a comma more", &[], csv.replace('\n', ",\n"), "`key`");
    let headless = log("2026-10-10T11:55:{s}Z,{},1");
    let more = log("2026-10-10T11:55:{s}Z,192.0.2.99,1,{}");
    leaves_out("no header", &[], &headless, &more);
    says(
        &failed(&RULE, more),
        "it has 4 columns, and no header that names them",
    );
    // What is behind the comma is a fraction of the second.
    let fraction = log("2026-10-10T11:55:{s}Z,123 INFO {}:51234 GET /a");
    says(
        &failed(&RULE, fraction),
        "it is no header with a column `time`, nor does it begin",
    );
    // The header of another log that was added to this one.
    let turned = "key,agent,time\n".to_owned() + &log("{},curl,2026-10-10T11:55:{s}Z");
    let said = Said::of(&[], format!("{csv}{turned}"));
    assert_eq!(
        said.keys()[0],
        ("203.0.113.7".to_owned(), 6),
        "{}",
        said.all
    );
    assert_eq!(said.left_out(), None);
}

#[test]
fn a_value_that_is_the_name_of_a_column_makes_no_header() {
    for (header, line) in [
        ("\"time\",\"key\"\n", "\"2026-10-10T11:55:{s}Z\",\"{}\""),
        ("time;key\n", "\"2026-10-10T11:55:{s}Z\";{}"),
        ("time,key\n", "[10/Oct/2026:11:55:{s} +0000],{}"),
        ("time,key\n", "Sat Oct 10 11:55:{s} 2026,{}"),
        ("", "2026-10-10T11:55:{s}Z,{}"),
    ] {
        let sent = log_of(line, ["Date", "time", "t", "start", "@timestamp"]);
        let all = format!("{header}{sent}{}", log(line));
        let said = Said::of(&[], all);
        said.finds_three(line);
        assert_eq!(said.left_out(), None, "{line}");
        says(&said.all, "requests: 10, keys: 8, ");
    }
}

#[test]
fn a_field_of_addresses_has_no_other_clients_whoever_names_it() {
    let line = r#"{"time":"2026-10-10T11:55:{s}Z","remote_addr":"{}","http_x_forwarded_for":"{}"}"#;
    let some = [
        "203.0.113.7",
        "unknown",
        "203.0.113.7",
        "unix:",
        "203.0.113.7",
    ];
    for field in ["remote_addr", "x-forwarded-for", "http_x_forwarded_for"] {
        let said = Said::of(&["--key-field", field], log_of(line, some));
        said.finds_three(field);
        let left_out =
            format!("lines left out: 2; the first is line 2: its `{field}` is no address");
        assert_eq!(said.left_out(), Some(&*left_out));
    }
    let json = log(r#"{"ip":"10.0.0.5","client_ip":"{}","time":"2026-10-10T11:55:{s}Z"}"#);
    let others = "{\"ip\":\"10.0.0.5\",\"time\":1}\n".repeat(20);
    leaves_out("lines that are no requests", &[], &json, &others);
    leaves_out(
        "a key of another program",
        &[],
        &json,
        "{\"key\":\"a\",\"time\":1}\n",
    );
    let day = "{\"date\":\"2026-10-10\",\"time\":\"no time\",\"client_ip\":\"192.0.2.9\"}\n";
    leaves_out(
        "a time in two fields",
        &[],
        &json.replace("\"ip\"", "\"date\":1,\"ip\""),
        day,
    );
    let names = log_of(
        r#"{"time":"2026-10-10T11:55:{s}Z","client":"{}"}"#,
        ["a"; 5],
    );
    let said = Said::of(&["--key-field", "client"], names);
    assert_eq!(said.keys(), [("a".to_owned(), 5)], "of a name, a text");
}

#[test]
fn times_without_an_offset_are_taken_for_utc_and_said_so() {
    let note = "\ntimes without an offset are taken for UTC\n";
    for (time, is_noted) in [
        ("2026-10-10T11:55:{s}Z", false),
        ("2026-10-10 13:55:{s}.5 +0200", false),
        ("2026-10-10 13:55:{s}.5 +02:00", false),
        ("[10/Oct/2026:13:55:{s} +0200]", false),
        ("Sat, 10 Oct 2026 11:55:{s} GMT", false),
        ("2026-10-10 11:55:{s}.5", true),
        ("Oct 10, 2026 @ 11:55:{s}.5", true),
        ("202610101155{s}", true),
        ("202610101155{s}123", true),
        ("2026-10-10 11:55:{s},123", true),
        ("11:55:{s}\",\"date\":\"2026-10-10", true),
        ("11:55:{s}+00:00\",\"date\":\"2026-10-10", false),
        ("2026/10/10 11:55:{s}", true),
        ("10/Oct/2026 11:55:{s}", true),
    ] {
        let line = format!(r#"{{"time":"{time}","ip":"{{}}"}}"#);
        let said = finds_the_client(time, &[], log(&line), "`ip`");
        assert_eq!(said.all.contains(note), is_noted, "{time}: {}", said.all);
    }
}

#[test]
fn a_duration_is_no_time() {
    for duration in ["0.123", "\"12ms\"", "\"0.005\""] {
        let line =
            format!(r#"{{"time":{duration},"timestamp":"2026-10-10T11:55:{{s}}Z","ip":"{{}}"}}"#);
        finds_the_client(duration, &[], log(&line), "`ip`");
    }
    finds_the_client(
        "relative",
        &["--time-field", "t"],
        log(r#"{"t":17916333{s},"time":1,"ip":"{}"}"#),
        "`ip`",
    );
}

#[test]
fn several_logs_are_merged_in_the_order_of_their_times() {
    let (first, second) = (
        File::new("first.log", &log(COMBINED)),
        File::new(
            "second.jsonl",
            "{\"ts\":1791633311,\"ip\":\"192.0.2.44\"}\nnonsense\n",
        ),
    );
    let standard_input = "1791633320,192.0.2.44\n";
    let said = Said::of(&[first.path(), "-", second.path()], standard_input);
    assert!(
        said.all.starts_with(
            "requests: 7, keys: 3, from 2026-10-10T11:55:10Z to 2026-10-10T11:55:20Z\n"
        ),
        "{}",
        said.all
    );
    assert_eq!(said.keys().len(), 2, "{}", said.all);
    assert!(
        !said.all.contains("out of order"),
        "each is in order: {}",
        said.all
    );
    let left_out = format!(
        "lines left out: 1; the first is {}: line 2: ",
        second.path()
    );
    assert!(
        said.left_out()
            .is_some_and(|line| line.starts_with(&left_out)),
        "{}",
        said.all
    );
    for field in [
        "key: `address`, word 1 of a line, ",
        "key: `key`, such as 192.0.2.44\n",
        "key: `ip`, such as 192.0.2.44\n",
    ] {
        says(&said.all, field);
    }
    says(
        &failed(&["--rule", "1/1h", first.path(), "/no/such.log"], ""),
        "/no/such.log: ",
    );
}

fn gzip(bytes: impl AsRef<[u8]>) -> Vec<u8> {
    let mut gzip = GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(bytes.as_ref()).unwrap();
    gzip.finish().unwrap()
}

/// `log(COMBINED)` as `bzip2 -9` and `zstd -19` write it, in base64: neither is built for a test.
const BZIP2: &str = "\
    QlpoOTFBWSZTWfx1fC0AAKxfgAAQUG//+oLCxEo6Zv1QMAEYAYDRkNBhANANNAAGA0ZDQYQDQDTQAAikmp6hkT1PUa\
    aaHqNMjahoNokk3JCaU0JEW9VvZqicWptTKmdN6TS5NiXJ7JpS4EzpCZkgTWk0teuQ0CWybVwTxTenJLE4pRNCXpem\
    maSQiSaUiEvSAKkqmliUS2WCTlDglaVGVgfMkpfTIlaVpRklIYQvpkSMyWJoSprjKckxSgbkjWmROSWJgm1LkhKk9U\
    wSE+E4JRNSUTBP1OaZE7U+0mlE0J0SpOaYpzTemKYp7pwTFLUzpRJpzTonFLE/xdyRThQkPx1fC0A=";
const ZSTD: &str = "\
    KLUv/QRotQQAUokeGEDbAafHMP1XDTHIuoe7ypSsaJaoinSMCYdxHJ3bO+dn2v37kV6YB67g/U1qWucfC6w3grcwBN\
    eRuvZyltieEsLi2LUXkuKmehg3J4mi37X5rXu29/uxdV2T3bC9IulazT37YP0bBGmMb5LsGaNdhf2zwipt/Le34TkI\
    AAiTcIFNr8AsrDBxgkUawsR4glmiAPcFK2Gupw==";

#[test]
fn logs_are_decompressed_by_their_first_bytes() {
    let log = log(COMBINED);
    // As rotated logs that were joined.
    let (first, rest) = log.split_once('\n').unwrap();
    let joined = [gzip(first), gzip("\n"), gzip(rest)].concat();
    let [bzip2, zstd] = [BZIP2, ZSTD].map(|bytes| BASE64.decode(bytes).unwrap());
    for (name, bytes) in [
        ("gzip", gzip(&log)),
        ("gzip, joined", joined),
        ("bzip2", bzip2),
        ("zstd", zstd),
    ] {
        finds_the_client(name, &[], &bytes, "`address`, word 1 of a line");
        let cut = failed(&RULE, &bytes[..bytes.len() - 5]);
        assert!(cut.starts_with("error: standard input: "), "{name}: {cut}");
    }
    // A copy by blocks is padded; a disk that was full leaves whatever was there before.
    for (behind, count) in [(&[0; 512][..], 512), (b"\x1f", 1), (b"garbage", 7)] {
        let output = replay(&RULE, [&gzip(&log), behind].concat());
        let (printed, said) = (&output.stdout, String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "{said}");
        says(&String::from_utf8_lossy(printed), "requests: 5, keys: 3");
        let left_out = format!("standard input: {count} bytes behind the end of its gzip");
        says(&said, &left_out);
    }
}

#[test]
fn records_in_one_object_are_read() {
    let records = log(r#"{"eventTime":"2026-10-10T11:55:{s}Z","sourceIPAddress":"{}"}"#);
    let records = records.trim().replace('\n', ",");
    let (first, rest) = records.split_once("},").unwrap();
    let first = format!("{first}}}");
    for (name, log) in [
        ("CloudTrail", format!("{{\"Records\":[{records}]}}")),
        (
            "joined",
            format!("{{\"Records\":[{first}]}}\n{{\"Records\":[{rest}]}}"),
        ),
        (
            "spread",
            format!("{{\n  \"Records\": [\n{records}\n]\n}}\n"),
        ),
    ] {
        finds_the_client(name, &[], &log, "`sourceIPAddress`");
        finds_the_client(name, &[], gzip(&log), "`sourceIPAddress`");
    }
}

#[test]
fn queries_of_bind_have_their_clients() {
    let query = "client @0x7f1c {}#53412 (example.com): query: example.com IN A +E(0)K (10.0.0.1)";
    for (name, line) in [
        ("BIND", format!("10-Oct-2026 11:55:{{s}} {query}")),
        (
            "with severity",
            format!("10-Oct-2026 11:55:{{s}} queries: info: {query}"),
        ),
        (
            "before 9.11",
            format!("10-Oct-2026 11:55:{{s}} {}", query.replace("@0x7f1c ", "")),
        ),
        (
            "with a view",
            format!(
                "10-Oct-2026 11:55:{{s}} {}",
                query.replace("): query", "): view internal: query")
            ),
        ),
    ] {
        finds_the_client(name, &[], log(&line), "`address`");
    }
    // A name is what a client has sent.
    let sent = "10-Oct-2026 11:55:{s} client 203.0.113.7#5 (a client 192.0.2.9#7 (b): query: b): ";
    let said = Said::of(&[], log(&format!("{sent}query: x IN A +")));
    assert_eq!(said.keys(), [("203.0.113.7".to_owned(), 5)]);
}

#[test]
fn what_cannot_be_decompressed_is_named_with_what_to_do() {
    for (start, what) in [
        (
            &b"\xfd7zXZ\0"[..],
            "compressed by xz, which replay does not read: xz -dc FILE |",
        ),
        (b"\x04\x22\x4d\x18", "compressed by lz4"),
        (
            b"PK\x03\x04",
            "an archive, which replay does not read: unpack it",
        ),
        (
            b"\xff\xfe1\0",
            "UTF-16, which replay does not read: iconv -f UTF-16",
        ),
    ] {
        says(&failed(&RULE, start), what);
    }
}

#[test]
fn a_log_that_is_given_twice_is_counted_once() {
    let file = File::new("access.log", &log(COMBINED));
    let copy = File::new("copy.log", &log(COMBINED));
    let (folder, name) = file.path().rsplit_once('/').unwrap();
    let other = format!("{folder}/./{name}");
    for files in [&other, file.path(), copy.path()].map(|second| [file.path(), second]) {
        let said = Said::of(&files, "");
        assert!(
            said.all.starts_with("requests: 5, keys: 3, "),
            "{}",
            said.all
        );
        let note = format!("given twice, and counted once: {}\n", files[1]);
        says(&said.all, &note);
    }
}

#[test]
fn a_text_that_holds_addresses_is_no_list_of_them() {
    let agents = log_of(
        r#"{"time":"2026-10-10T11:55:{s}Z","agent":"{}"}"#,
        [
            "curl, 192.0.2.1",
            "wget, 192.0.2.1",
            "wget, 192.0.2.1",
            "x",
            "::ffff:192.0.2.1",
        ],
    );
    let said = Said::of(&["--key-field", "agent"], agents);
    assert_eq!(said.keys(), [("wget, 192.0.2.1".to_owned(), 2)]);
    says(&said.all, "requests: 5, keys: 4");
}
