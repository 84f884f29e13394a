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

/// `RATELIMIT_PHOTOGRAPH=docs/playground.png` keeps the picture that the README shows.
#[test]
#[ignore = "needs Chromium"]
fn the_edge_of_a_fixed_window_lets_twice_as_many_through_and_the_sliding_one_does_not() {
    let playground = Service::started(&mut command("playground"));
    let mut browser = Browser::start(1120, 940);
    browser.open(&format!("http://127.0.0.1:{}", playground.port));
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
}

#[test]
fn a_wrong_policy_is_a_bad_request_that_says_why() {
    let playground = Service::started(&mut command("playground"));
    let body = r#"[{"policy":{"limits":"5/1m","algorithm":"slidng_window"}}]"#;
    let reply = request(playground.port, "POST", "/lanes", "application/json", body);
    assert_eq!(reply.status, 422);
    assert!(reply.body.contains("slidng_window"), "{}", reply.body);
}
