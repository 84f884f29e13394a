//! A file of policies that is followed: half-written, replaced by links, gone. The clock is moved,
//! and each reading happens while it stands still.

use std::fs;
use std::path::{Path, PathBuf};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use crate::support::unique;
use ratelimit_runtime::{Key, Limit, RateLimitError, RateLimiter, Rule};
use tokio::time::{Instant, sleep};

/// A folder that is removed in the end.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        let folder = Self(std::env::temp_dir().join(unique("watching")));
        fs::create_dir(&folder.0).unwrap();
        folder
    }

    /// A file in it, of this text.
    fn write(&self, name: &str, text: &str) -> PathBuf {
        let file = self.0.join(name);
        fs::write(&file, text).unwrap();
        file
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Longer than two readings take to agree on a change, and shorter than three.
const TWO_READINGS: Duration = Duration::from_millis(1_100);

/// Editors of Windows begin files with one.
#[tokio::test(start_paused = true)]
async fn a_file_may_begin_with_a_byte_order_mark() {
    let folder = Folder::new();
    for (name, text) in [
        ("marked.json", "\u{feff}{\"login\": \"7/1m\"}"),
        ("marked.toml", "\u{feff}login = \"7/1m\""),
    ] {
        let limiter = RateLimiter::memory();
        let file = folder.write(name, text);
        limiter.watch_policies(file).await.unwrap();
        assert_eq!(limit(&limiter).await, 7, "{name}");
    }
}

static LOGIN: Rule = Rule::new("login", Limit::per_minute(1)).with_policy("login");

/// The limit that is in force.
async fn limit(limiter: &RateLimiter) -> u64 {
    limiter
        .peek(&LOGIN, &Key::of("alice"))
        .await
        .unwrap()
        .limit()
}

fn alive() -> usize {
    tokio::runtime::Handle::current()
        .metrics()
        .num_alive_tasks()
}

#[tokio::test(start_paused = true)]
async fn a_change_is_in_force_once_two_readings_agree() {
    let folder = Folder::new();
    let file = folder.write("policies.toml", "login = \"2/1m\"\n");
    let (limiter, start) = (RateLimiter::memory(), Instant::now());
    limiter.watch_policies(&file).await.unwrap();
    assert_eq!(
        (limit(&limiter).await, start.elapsed().as_millis()),
        (2, 500)
    );

    // A writer that is slower than the reader, which never sees the same twice until it is done.
    for text in [
        "",
        "login = \"3",
        "login = \"30",
        "login = \"30/1m\"",
        "login = \"30/1m\"\nsearch = \"4/1m\"\n",
    ] {
        folder.write("policies.toml", text);
        sleep(Duration::from_millis(500)).await;
        assert_eq!(limit(&limiter).await, 2, "{text}");
    }
    sleep(TWO_READINGS).await;
    assert_eq!(limit(&limiter).await, 30);
}

#[tokio::test(start_paused = true)]
async fn a_file_that_is_wrong_or_gone_changes_nothing() {
    let folder = Folder::new();
    let file = folder.write("policies.json", r#"{"login": "2/1m"}"#);
    let limiter = RateLimiter::memory();
    limiter.watch_policies(&file).await.unwrap();
    assert_eq!(limit(&limiter).await, 2);
    for wrong in [
        r#"{"login": "0/1m"}"#,
        "{",
        "",
        r#"{"logn": "9/1m"}"#,
        r#"{"login": {"limits": "9/1m", "brust": 5}}"#,
        r#"{"login": "9/1m", "login": "9/1m"}"#,
    ] {
        folder.write("policies.json", wrong);
        sleep(TWO_READINGS).await;
        assert_eq!(limit(&limiter).await, 2, "{wrong}");
    }
    fs::remove_file(&file).unwrap();
    sleep(TWO_READINGS).await;
    assert_eq!(limit(&limiter).await, 2);
    fs::create_dir(&file).unwrap();
    sleep(TWO_READINGS).await;
    assert_eq!(limit(&limiter).await, 2);
    fs::remove_dir(&file).unwrap();
    folder.write(
        "policies.json",
        r#"{"login": {"limits": "3/1m", "overrides": {"<alice>": 30}}}"#,
    );
    sleep(TWO_READINGS).await;
    assert_eq!(limit(&limiter).await, 30);
}

/// A writer that was stopped after it had emptied the file, as by a full disk. No rule has used a
/// policy yet.
#[tokio::test(start_paused = true)]
async fn an_empty_file_changes_nothing() {
    let folder = Folder::new();
    let limiter = RateLimiter::memory();
    let file = folder.write("policies.toml", "login = \"2/1m\"");
    limiter.watch_policies(&file).await.unwrap();
    for (name, empty) in [("a.toml", ""), ("b.toml", "# soon\n"), ("c.json", "{}")] {
        folder.write("policies.toml", empty);
        sleep(TWO_READINGS).await;
        let file = folder.write(name, empty);
        let error = limiter.watch_policies(file).await.unwrap_err();
        assert!(error.to_string().contains("holds no policy"), "{error}");
    }
    assert_eq!(limit(&limiter).await, 2);
}

/// Mounted configuration: the file is a link through a link to a folder, and that is swapped.
#[cfg(unix)]
#[tokio::test(start_paused = true)]
async fn links_that_are_swapped_are_followed() {
    use std::os::unix::fs::symlink;
    let folder = Folder::new();
    let publish = |version: &str, text: &str| {
        fs::create_dir(folder.0.join(version)).unwrap();
        folder.write(&format!("{version}/policies.toml"), text);
        let new = folder.0.join("..data_tmp");
        symlink(version, &new).unwrap();
        fs::rename(new, folder.0.join("..data")).unwrap();
    };
    publish("..1", "login = \"2/1m\"");
    let file = folder.0.join("policies.toml");
    symlink("..data/policies.toml", &file).unwrap();
    let limiter = RateLimiter::memory();
    limiter.watch_policies(&file).await.unwrap();
    assert_eq!(limit(&limiter).await, 2);
    publish("..2", "login = \"3/1m\"");
    fs::remove_dir_all(folder.0.join("..1")).unwrap();
    sleep(TWO_READINGS).await;
    assert_eq!(limit(&limiter).await, 3);
    // A link that leads nowhere for a while.
    fs::remove_dir_all(folder.0.join("..2")).unwrap();
    sleep(TWO_READINGS).await;
    assert_eq!(limit(&limiter).await, 3);
    publish("..3", "login = \"4/1m\"");
    sleep(TWO_READINGS).await;
    assert_eq!(limit(&limiter).await, 4);
}

#[tokio::test(start_paused = true)]
async fn a_task_watches_and_ends_with_the_limiter() {
    let folder = Folder::new();
    let file = folder.write("policies.toml", "login = \"2/1m\"\n");
    let before = alive();
    let limiter = RateLimiter::memory();
    limiter.watch_policies(&file).await.unwrap();
    assert_eq!(alive(), before + 1);
    drop(limiter);
    sleep(TWO_READINGS).await;
    assert_eq!(alive(), before, "nothing is left that reads the file");
}

#[tokio::test(start_paused = true)]
async fn a_wrong_first_file_is_an_error_and_can_be_tried_again() {
    async fn error(limiter: &RateLimiter, file: &Path) -> String {
        let error = limiter.watch_policies(file).await.unwrap_err();
        assert!(
            matches!(error, RateLimitError::Misconfigured(_)),
            "{error:?}"
        );
        error.to_string()
    }
    let folder = Folder::new();
    let limiter = RateLimiter::memory();
    let file = folder.0.join("policies.toml");
    let gone = error(&limiter, &file).await;
    assert!(
        gone.contains(file.to_str().unwrap()) && gone.contains("No such file"),
        "{gone}"
    );
    folder.write("policies.toml", "login = \"2/1 parsec\"");
    assert!(error(&limiter, &file).await.contains("line 1, column 9"));
    // A line is quoted, not all of it.
    folder.write(
        "policies.toml",
        &format!("login = \"2/1{}\"", "x".repeat(100_000)),
    );
    let long = error(&limiter, &file).await;
    assert!(long.contains("`1xxx") && long.len() < 4_100, "{long}");
    assert!(
        error(&limiter, &folder.0.join("policies.yaml"))
            .await
            .contains("neither `.toml` nor `.json`")
    );
    std::os::unix::fs::symlink("/dev/null", folder.0.join("device.toml")).unwrap();
    let device = error(&limiter, &folder.0.join("device.toml")).await;
    assert!(device.contains("it is not a file"), "{device}");
    // What is read of a long file is complete.
    folder.write(
        "long.toml",
        &format!("login = \"2/1m\"\n#{}", "x".repeat(16 * 1024 * 1024)),
    );
    let long = error(&limiter, &folder.0.join("long.toml")).await;
    assert!(long.contains("longer than 16 MiB"), "{long}");
    // A caller that gave up waiting for the first reading does not watch it.
    {
        let first = limiter.watch_policies(&file);
        assert!(
            tokio::time::timeout(Duration::from_millis(100), first)
                .await
                .is_err()
        );
    }
    folder.write("policies.toml", "login = \"2/1m\"");
    limiter.watch_policies(&file).await.unwrap();
    assert_eq!(limit(&limiter).await, 2);
}

#[test]
fn watching_outside_of_a_runtime_is_an_error() {
    let limiter = RateLimiter::memory();
    let mut watching = std::pin::pin!(limiter.watch_policies("policies.toml"));
    let polled = watching
        .as_mut()
        .poll(&mut Context::from_waker(Waker::noop()));
    assert!(
        matches!(&polled, Poll::Ready(Err(error)) if error.to_string().contains("tokio runtime")),
        "{polled:?}"
    );
}
