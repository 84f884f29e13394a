//! `examples/playground`, in a browser.

use serde_json::{Value, json};

use crate::support::browser::Browser;
use crate::{Service, command, request};

/// What a lane shows: how many dots were admitted and refused, how many at most in a window, and
/// whether that warns.
fn lane(browser: &mut Browser, index: usize) -> Value {
    browser.eval(&format!(
        "(() => {{
            const lane = document.querySelectorAll('.lane')[{index}];
            return {{
                algorithm: lane.querySelector('select').value,
                allowed: lane.querySelectorAll('circle.allowed').length,
                refused: lane.querySelectorAll('circle.refused').length,
                most: +lane.querySelector('.most').textContent,
                warns: [...lane.querySelector('.most-of').classList].filter((name) => name !== 'most-of'),
            }};
        }})()"
    ))
}

fn opened(playground: &Service) -> Browser {
    let mut browser = Browser::start(1120, 940);
    browser.open(&format!("http://127.0.0.1:{}", playground.port));
    browser.wait_for("document.body?.dataset.ready");
    browser
}

/// `RATELIMIT_PHOTOGRAPH=docs/playground.png` keeps the picture that the README shows.
#[test]
#[ignore = "needs Chromium; scripts/test.sh --all runs it"]
fn the_edge_of_a_fixed_window_lets_twice_as_many_through_and_the_sliding_one_does_not() {
    let playground = Service::started(&mut command("playground"));
    let mut browser = opened(&playground);
    browser.click("#edge");
    browser.wait_for("document.body.dataset.edge");
    browser.wait_for("document.querySelectorAll('circle').length === 22");
    let photograph = browser.photograph();
    assert!(photograph.starts_with(b"\x89PNG"), "a picture");
    if let Some(path) = std::env::var_os("RATELIMIT_PHOTOGRAPH") {
        std::fs::write(path, &photograph).expect("the picture is kept");
    }
    // 1, then 5 shortly before the window ends, then 5 when the next has begun.
    let sliding = lane(&mut browser, 0);
    assert_eq!(sliding["algorithm"], "sliding_window");
    assert_eq!(
        (&sliding["allowed"], &sliding["refused"]),
        (&json!(6), &json!(5)),
        "{sliding}"
    );
    assert_eq!(
        (&sliding["most"], &sliding["warns"]),
        (&json!(5), &json!([])),
        "{sliding}"
    );
    let fixed = lane(&mut browser, 1);
    assert_eq!(fixed["algorithm"], "fixed_window");
    assert_eq!(
        (&fixed["allowed"], &fixed["refused"]),
        (&json!(10), &json!(1)),
        "{fixed}"
    );
    // More than max, and no more than a fixed window may admit.
    assert_eq!(
        (&fixed["most"], &fixed["warns"]),
        (&json!(9), &json!(["above-max"])),
        "{fixed}"
    );
    let status = browser.eval("document.querySelector('#status').textContent");
    assert!(
        status
            .as_str()
            .is_some_and(|text| text.contains("fixed_window admitted 9")),
        "{status}"
    );
    assert_eq!(browser.mistakes(), [""; 0]);
}

/// The text of a part of a lane.
fn says(index: usize, part: &str) -> String {
    format!("document.querySelectorAll('.lane')[{index}].querySelector('{part}').textContent")
}

#[test]
#[ignore = "needs Chromium; scripts/test.sh --all runs it"]
fn each_control_of_the_page_does_what_it_says() {
    let playground = Service::started(&mut command("playground"));
    let mut browser = opened(&playground);
    let says = |browser: &mut Browser, index, part: &str, text: &str| {
        browser.wait_for(&format!("{} === '{text}'", says(index, part)));
    };

    // Of each algorithm the page has a description, a bound and an attribute.
    for (algorithm, most, arguments) in [
        ("sliding_counter", 8, ""),
        ("fixed_window", 9, ""),
        ("token_bucket", 9, ", burst = 5"),
        ("leaky_bucket", 9, ", burst = 5"),
        ("sliding_window", 5, ""),
    ] {
        browser.fill(".lane select", algorithm);
        says(&mut browser, 0, ".bound", &format!("of {most} possible"));
        let attribute = format!(
            "#[rate_limit(key = \"<email>\", window = \"4s\", max = 5, \
             algorithm = \"{algorithm}\"{arguments})]"
        );
        says(&mut browser, 0, ".attribute", &attribute);
        browser.wait_for(&format!("{}.length > 20", self::says(0, ".about")));
    }

    browser.fill("[name=window]", "60");
    browser.fill("[name=block]", "30");
    says(&mut browser, 0, ".remaining", "5 of 5");
    browser.click("#fire-one");
    for index in 0..2 {
        says(&mut browser, index, ".remaining", "4 of 5");
        says(&mut browser, index, ".block", "none");
    }
    browser.click("#fire-burst");
    for index in 0..2 {
        says(&mut browser, index, ".current", "5");
        browser.wait_for(&format!(
            "{}.startsWith('no. 1: ')",
            self::says(index, ".block")
        ));
    }

    browser.fill("[name=block]", "");
    browser.fill("[name=concurrent]", "2");
    says(&mut browser, 0, ".calls", "0 of 2");
    for calls in 1..=2 {
        browser.click("#begin");
        says(&mut browser, 1, ".calls", &format!("{calls} of 2"));
    }
    browser.click("#begin");
    browser.wait_for("document.querySelectorAll('circle.refused').length === 2");
    says(&mut browser, 0, ".retry", "a call ends");
    browser.click(".lane .end");
    says(&mut browser, 0, ".calls", "1 of 2");
    says(&mut browser, 1, ".calls", "2 of 2");

    browser.fill("[name=concurrent]", "");
    browser.fill("[name=window]", "2");
    browser.wait_for("document.querySelectorAll('circle').length === 0");
    // What was admitted once stays the most, when its window is over.
    browser.click("#fire-burst");
    says(&mut browser, 0, ".most", "5");
    says(&mut browser, 0, ".current", "0");
    browser.click("#fire-one");
    says(&mut browser, 0, ".current", "1");
    says(&mut browser, 0, ".most", "5");
    assert_eq!(
        browser.eval("document.querySelectorAll('circle.refused').length"),
        0
    );
    browser.click("#steady");
    browser.wait_for("document.querySelectorAll('circle.refused').length > 1");
    browser.click("#steady");
    assert_eq!(
        browser.eval("document.querySelector('#steady').getAttribute('aria-pressed')"),
        "false"
    );
    browser.click("#reset");
    browser.wait_for("document.querySelectorAll('circle').length === 0");

    browser.click(".lane .copy");
    browser.wait_for(&format!("{} !== 'copy'", self::says(0, ".copy")));
    assert_eq!(browser.mistakes(), [""; 0]);
}

#[test]
fn a_wrong_policy_is_a_bad_request_that_says_why() {
    let playground = Service::started(&mut command("playground"));
    let body = r#"[{"policy":{"limits":"5/1m","algorithm":"slidng_window"}}]"#;
    let reply = request(playground.port, "POST", "/lanes", "application/json", body);
    assert_eq!(reply.status, 422);
    assert!(reply.body.contains("slidng_window"), "{}", reply.body);
}
