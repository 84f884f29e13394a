//! What reaches the terminal of an operator: text that servers, files and other programs wrote must
//! not control it.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;

use crate::admin::{admin, fails, says, says_in_part};
use crate::replay::failed;
use crate::support::redis::RedisServer;

fn assert_quiet(printed: &str, shown: &str) {
    assert!(
        printed.contains(shown) && !printed.contains('\u{1b}'),
        "{printed:?}"
    );
}

#[test]
fn an_error_steers_no_terminal() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("redis://{}/", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for connection in listener.incoming() {
            let mut connection = connection.unwrap();
            let mut bytes = [0; 4096];
            while matches!(connection.read(&mut bytes), Ok(1..)) {
                // It may be gone.
                let _ = connection.write_all(&b"-ERR \x1b[2J\r\n".repeat(9));
            }
        }
    });
    let peek = ["peek", "login", "alice", "--limits", "5/1h", "--url", &url];
    assert_quiet(&fails(2, &peek), r"\u{1b}[2J");
    let no_file = ["--rule", "1/1h", "no\u{1b}[2J"];
    assert_quiet(&failed(&no_file, ""), r"error: no\u{1b}[2J: No such file");
}

#[test]
fn the_name_of_a_rule_steers_no_terminal() {
    let server = RedisServer::start();
    let name = "wild\u{1b}[2J";
    for command in [
        &["list", name, "--limits", "5/1h"][..],
        &["in-flight", name],
    ] {
        let printed = says(&[command, &["--url", &server.url()]].concat());
        assert_quiet(&printed, r"of wild\u{1b}[2J are ");
    }
}

/// A listing without keys is not one in which all were left out.
#[test]
fn keys_that_are_all_left_out_are_stored() {
    let server = RedisServer::start();
    server.cli(&["SET", "rl1:sw-3600s:login:<alice>", "1"]);
    let list = ["list", "login", "--limits", "5/1h", "--url", &server.url()];
    let printed = says_in_part(&list);
    assert!(
        printed.starts_with("0 keys of login\nthe key "),
        "{printed}"
    );
}

#[test]
fn a_foreign_name_of_any_length_is_cut() {
    let server = RedisServer::start();
    let long = "x".repeat(70_000);
    for key in [
        format!("rl1:sw-60s:{long}:<a>"),
        format!("{long}:rl1:sw-60s:api:<a>"),
        format!("rl1:sw-1y{long}:api:<a>"),
        format!("rl1:fw-day@{long}:api:<a>"),
    ] {
        server.cli(&["SET", &key, "1"]);
    }
    let output = admin(&["rules", "--url", &server.url()]);
    let printed = String::from_utf8(output.stdout).unwrap();
    let longest = printed.lines().map(|line| line.chars().count()).max();
    assert!(
        longest.is_some_and(|longest| longest < 1_000),
        "{longest:?}"
    );
    assert!(printed.contains("xxx…"), "{printed}");
}
