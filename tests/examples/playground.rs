//! `examples/playground`, in a browser.

use serde_json::{Value, json};

use crate::support::browser::Browser;
use crate::{Service, command, request};

/// The page in a window of this size; `None` where there is no browser.
fn opened(width: u32, height: u32) -> Option<(Service, Browser)> {
    let playground = Service::started(&mut command("playground"));
    let mut browser = Browser::start(width, height)?;
    browser.open(&format!("http://127.0.0.1:{}", playground.port));
    browser.wait_for("document.body?.dataset.ready");
    Some((playground, browser))
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
                warns: [...lane.querySelector('.most-of').classList].filter((name) => name !== 'most-of'),
                remaining: text('.remaining'),
                retry: text('.retry'),
            }};
        }})()"
    ))
}

/// Keeps a picture of the page where this variable says.
fn keep(browser: &mut Browser, variable: &str) {
    let photograph = browser.photograph();
    assert!(photograph.starts_with(b"\x89PNG"), "a picture");
    if let Some(path) = std::env::var_os(variable) {
        std::fs::write(path, &photograph).expect("the picture is kept");
    }
}

/// `RATELIMIT_PHOTOGRAPH=docs/playground.png` keeps the picture that the README shows.
#[test]
fn the_edge_of_a_fixed_window_lets_twice_as_many_through_and_the_sliding_one_does_not() {
    let Some((_playground, mut browser)) = opened(1120, 940) else { return };
    browser.click("#edge");
    browser.wait_for("document.body.dataset.edge");
    browser.wait_for("document.querySelectorAll('circle').length === 22");
    keep(&mut browser, "RATELIMIT_PHOTOGRAPH");
    // 1, then 5 shortly before the window ends, then 5 when the next has begun.
    let sliding = lane(&mut browser, 0);
    assert_eq!(sliding["algorithm"], "sliding_window");
    assert_eq!((&sliding["allowed"], &sliding["refused"]), (&json!(6), &json!(5)), "{sliding}");
    assert_eq!((&sliding["most"], &sliding["warns"]), (&json!(5), &json!([])), "{sliding}");
    let fixed = lane(&mut browser, 1);
    assert_eq!(fixed["algorithm"], "fixed_window");
    assert_eq!((&fixed["allowed"], &fixed["refused"]), (&json!(10), &json!(1)), "{fixed}");
    // More than max, and no more than a fixed window may admit.
    assert_eq!((&fixed["most"], &fixed["warns"]), (&json!(9), &json!(["above-max"])), "{fixed}");
    let status = browser.eval("document.querySelector('#status').textContent");
    assert!(status.as_str().is_some_and(|text| text.contains("fixed_window admitted 9")), "{status}");
}

#[test]
fn the_meters_say_how_the_next_request_would_fare() {
    let Some((_playground, mut browser)) = opened(1120, 940) else { return };
    set(&mut browser, &[("max", "2"), ("window", "60")]);
    // As many as pass: the last one is admitted, and the next one is not.
    browser.click("#fire-burst");
    browser.wait_for("document.querySelectorAll('circle').length === 4");
    for index in 0..2 {
        browser.wait_for(&meters(index, "remaining.startsWith('0') && retry.endsWith(' s')"));
    }
    // They go on by themselves.
    set(&mut browser, &[("window", "1")]);
    browser.click("#fire-burst");
    browser.wait_for("document.querySelectorAll('circle').length === 4");
    for index in 0..2 {
        browser.wait_for(&meters(index, "remaining === '2 of 2' && retry === 'now'"));
    }
    // What costs more than there ever is waits for nothing, and is no mistake of the page.
    set(&mut browser, &[("cost", "3")]);
    browser.click("#fire-one");
    browser.wait_for("document.querySelectorAll('circle.refused').length === 2");
    browser.wait_for(&meters(0, "remaining === '2 of 2' && retry === 'never'"));
}

/// An expression about what the meters of a lane read.
fn meters(index: usize, condition: &str) -> String {
    format!(
        "(() => {{
            const lane = document.querySelectorAll('.lane')[{index}];
            const [remaining, retry] = ['.remaining', '.retry'].map((name) => lane.querySelector(name).textContent);
            return {condition};
        }})()"
    )
}

/// Fills in the form, and waits until it is in force.
fn set(browser: &mut Browser, values: &[(&str, &str)]) {
    for (name, value) in values {
        browser.eval(&format!("document.querySelector('#limit').elements.{name}.value = '{value}'"));
    }
    browser.eval("document.querySelectorAll('circle').forEach((dot) => dot.remove())");
    browser.eval("document.querySelectorAll('.remaining').forEach((meter) => { meter.textContent = 'old'; })");
    browser.eval("document.querySelector('#limit').dispatchEvent(new Event('change', { bubbles: true }))");
    browser.wait_for("[...document.querySelectorAll('.remaining')].every((meter) => meter.textContent !== 'old')");
}

/// As they are pasted.
mod pasted {
    use ratelimit_runtime::RateLimitError;
    use ratelimit_runtime::rate_limit;

    #[rate_limit(key = "<email>", window = "4s", max = 5, algorithm = "sliding_window")]
    pub(super) async fn one(email: &str) -> Result<(), RateLimitError> {
        let _ = email;
        Ok(())
    }

    #[rate_limit(key = "<email>", window = "1500ms", max = 2, algorithm = "token_bucket", burst = 7, cost = 3)]
    pub(super) async fn other(email: &str) -> Result<(), RateLimitError> {
        let _ = email;
        Ok(())
    }

    #[rate_limit(key = "<email>", window = "1s", max = 2, algorithm = "fixed_window", block = "2s..8s", concurrent = 3)]
    pub(super) async fn third(email: &str) -> Result<(), RateLimitError> {
        let _ = email;
        Ok(())
    }
}

#[tokio::test]
async fn the_snippet_can_be_pasted() {
    let limiter = ratelimit_runtime::RateLimiter::memory();
    limiter.scope(pasted::one("alice")).await.expect("admitted");
    limiter.scope(pasted::other("alice")).await.expect("admitted");
    limiter.scope(pasted::third("alice")).await.expect("admitted");
    let Some((_playground, mut browser)) = opened(1120, 940) else { return };
    let snippet = "document.querySelector('.attribute').textContent";
    let is_pasted = |snippet: &Value| {
        let snippet = snippet.as_str().expect("text");
        include_str!("playground.rs").lines().any(|line| line.trim() == snippet)
    };
    let first = browser.eval(snippet);
    assert!(is_pasted(&first), "{first}");
    // Where the clipboard is not allowed it is selected instead.
    browser.click(".copy");
    browser.wait_for("['copied', 'selected'].includes(document.querySelector('.copy').textContent)");
    browser.eval("document.querySelector('select').value = 'token_bucket'");
    set(&mut browser, &[("max", "2"), ("window", "1.5"), ("burst", "7"), ("cost", "3")]);
    let second = browser.eval(snippet);
    assert!(is_pasted(&second), "{second}");
    browser.eval("document.querySelector('select').value = 'fixed_window'");
    let blocks = [("window", "1"), ("cost", "1"), ("block", "2"), ("longest", "8"), ("concurrent", "3")];
    set(&mut browser, &blocks);
    let third = browser.eval(snippet);
    assert!(is_pasted(&third), "{third}");
}

/// What a meter of the first lane reads, as an expression.
fn reads(meter: &str) -> String {
    format!("document.querySelector('.lane {meter}').textContent")
}

#[test]
fn a_block_grows_with_each_offence() {
    let Some((_playground, mut browser)) = opened(1120, 940) else { return };
    assert_eq!(browser.eval("document.querySelector('.of-block').hidden"), json!(true), "there is none");
    set(&mut browser, &[("max", "1"), ("window", "0.2"), ("block", "0.5"), ("longest", "1.5")]);
    for (number, longest) in [("no. 1", 0.5), ("no. 2", 1.0), ("no. 3", 1.5), ("no. 4", 1.5)] {
        for _ in 0..2 {
            browser.click("#fire-one");
        }
        browser.wait_for(&format!("{}.startsWith('{number}')", reads(".block")));
        let width =
            "[...document.querySelectorAll('.lane:first-child .timeline rect.block')].at(-1).getAttribute('width')";
        let window = "document.querySelector('.lane .timeline rect.window').getAttribute('width')";
        let lasts = browser.eval(&format!("{width} / {window} * 0.2")).as_f64().expect("a number");
        assert!((longest - 0.3..=longest + 0.001).contains(&lasts), "{number} lasts {lasts} s, and not {longest} s");
        browser.click("#fire-one");
        if number == "no. 3" {
            keep(&mut browser, "RATELIMIT_PHOTOGRAPH_BLOCK");
        }
        browser.wait_for(&format!("{} === 'none'", reads(".block")));
    }
    let blocks = browser.eval("document.querySelectorAll('.lane:first-child rect.block').length");
    assert!(blocks.as_u64().is_some_and(|blocks| (1..=4).contains(&blocks)), "what is seen no more is gone: {blocks}");
}

#[test]
fn calls_are_in_flight_until_a_click_ends_them() {
    let Some((_playground, mut browser)) = opened(1120, 940) else { return };
    assert_eq!(browser.eval("document.querySelector('#begin').disabled"), json!(true), "nothing limits them");
    set(&mut browser, &[("max", "50"), ("window", "60"), ("concurrent", "2")]);
    for _ in 0..3 {
        browser.click("#begin");
    }
    browser.wait_for("document.querySelectorAll('circle').length === 6");
    let lane_of = lane(&mut browser, 0);
    assert_eq!((&lane_of["allowed"], &lane_of["refused"]), (&json!(2), &json!(1)), "{lane_of}");
    browser.wait_for(&format!("{} === '2 of 2' && {} === 'a call ends'", reads(".calls"), reads(".retry")));
    keep(&mut browser, "RATELIMIT_PHOTOGRAPH_CALLS");
    // A request is a call that ends at once: it needs a place as well.
    browser.click("#fire-one");
    browser.wait_for("document.querySelectorAll('circle.refused').length === 4");
    browser.click(".lane:first-child .end");
    browser.wait_for(&format!("{} === '1 of 2' && {} === 'now'", reads(".calls"), reads(".retry")));
    browser.click("#fire-one");
    browser.wait_for("document.querySelectorAll('.lane:first-child circle.allowed').length === 3");
    let other = lane(&mut browser, 1);
    assert_eq!((&other["allowed"], &other["refused"]), (&json!(2), &json!(3)), "no call of it has ended: {other}");
    // To start afresh ends them all.
    set(&mut browser, &[("concurrent", "3")]);
    browser.wait_for(&format!("{} === '0 of 3'", reads(".calls")));
}

#[test]
fn a_wrong_policy_is_a_bad_request_that_says_why() {
    let playground = Service::started(&mut command("playground"));
    let body = r#"[{"policy":{"limits":"5/1m","algorithm":"slidng_window"}}]"#;
    let reply = request(playground.port, "POST", "/lanes", "application/json", body);
    assert_eq!(reply.status, 422);
    assert!(reply.body.contains("slidng_window"), "{}", reply.body);
}
