//! `examples/playground`, in a browser.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};

use crate::example;
use crate::support::browser::Browser;

struct Playground {
    process: Child,
    url: String,
}

impl Playground {
    fn start() -> Self {
        let mut command = Command::new(example("playground"));
        let mut process = command.env("PORT", "0").stdout(Stdio::piped()).spawn().expect("it can be started");
        let mut line = String::new();
        BufReader::new(process.stdout.take().expect("piped")).read_line(&mut line).expect("a line");
        let url = line.trim().strip_prefix("open ").expect("the address").to_owned();
        Self { process, url }
    }

    fn port(&self) -> u16 {
        self.url.rsplit(':').next().and_then(|port| port.parse().ok()).expect("a port")
    }
}

impl Drop for Playground {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// What a lane shows: how many dots were admitted and refused, and how the meters read.
fn lane(browser: &mut Browser, index: usize) -> Value {
    browser.eval(&format!(
        "(() => {{
            const lane = document.querySelectorAll('.lane')[{index}];
            const text = (name) => lane.querySelector(name).textContent;
            return {{
                algorithm: lane.querySelector('select').value,
                allowed: lane.querySelectorAll('circle.allowed').length,
                refused: lane.querySelectorAll('circle.refused').length,
                most: +text('.most'),
                warns: lane.querySelector('.most-of').classList.contains('too-many'),
                remaining: text('.remaining'),
                retry: text('.retry'),
            }};
        }})()"
    ))
}

/// `RATELIMIT_PHOTOGRAPH=docs/playground.png` keeps the picture that the README shows.
#[test]
fn the_edge_of_a_fixed_window_lets_twice_as_many_through_and_the_sliding_one_does_not() {
    let playground = Playground::start();
    let Some(mut browser) = Browser::start(1120, 890) else { return };
    browser.open(&playground.url);
    browser.wait_for("document.body?.dataset.ready");
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
    assert_eq!((&sliding["allowed"], &sliding["refused"]), (&json!(6), &json!(5)), "{sliding}");
    assert_eq!((&sliding["most"], &sliding["warns"]), (&json!(5), &json!(false)), "{sliding}");
    let fixed = lane(&mut browser, 1);
    assert_eq!(fixed["algorithm"], "fixed_window");
    assert_eq!((&fixed["allowed"], &fixed["refused"]), (&json!(10), &json!(1)), "{fixed}");
    assert_eq!((&fixed["most"], &fixed["warns"]), (&json!(9), &json!(true)), "{fixed}");
    assert_eq!(fixed["remaining"], "0");
    assert_ne!(sliding["retry"], "now", "the last one is refused: {sliding}");
}

#[test]
fn what_is_chosen_is_what_is_limited() {
    let playground = Playground::start();
    let Some(mut browser) = Browser::start(1120, 890) else { return };
    browser.open(&playground.url);
    browser.wait_for("document.body?.dataset.ready");
    browser.eval(
        "(() => {
            const form = document.querySelector('#limit').elements;
            [form.max.value, form.window.value, form.burst.value] = ['2', '30', '3'];
            const select = document.querySelector('select');
            select.value = 'token_bucket';
            select.dispatchEvent(new Event('change', { bubbles: true }));
        })()",
    );
    let policy = "document.querySelector('.policy').textContent";
    browser.wait_for(&format!("{policy}.includes('\"2/30s\"') && {policy}.includes('burst = 3')"));
    browser.wait_for("document.querySelector('#burst-size').textContent === '2'");
    for _ in 0..2 {
        browser.click("#fire-burst");
    }
    browser.wait_for("document.querySelectorAll('circle').length === 8");
    let bucket = lane(&mut browser, 0);
    assert_eq!((&bucket["allowed"], &bucket["refused"]), (&json!(3), &json!(1)), "a burst of 3: {bucket}");
    let fixed = lane(&mut browser, 1);
    assert_eq!((&fixed["allowed"], &fixed["refused"]), (&json!(2), &json!(2)), "{fixed}");
    // What cannot be is said, and nothing is lost.
    browser.eval("document.querySelector('#limit').elements.cost.value = '50'");
    browser.click("#fire-one");
    browser.wait_for("!document.querySelector('#problem').hidden");
    let problem = browser.eval("document.querySelector('#problem').textContent");
    assert!(problem.as_str().is_some_and(|text| text.contains("cost")), "{problem}");
    assert_eq!(browser.eval("document.querySelectorAll('circle').length"), json!(8));
}

#[test]
fn a_wrong_policy_is_a_bad_request_that_says_why() {
    let playground = Playground::start();
    let body = r#"[{"limits":"5/1m","algorithm":"slidng_window"}]"#;
    let reply = crate::request(playground.port(), "POST", "/lanes", "application/json", body);
    assert_eq!(reply.status, 422);
    assert!(reply.body.contains("slidng_window"), "{}", reply.body);
}
