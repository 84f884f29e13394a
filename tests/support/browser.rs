//! [`Browser`]: a headless Chromium, driven over pipes by the protocol of its developer tools.

use std::fs::{self, File};
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::{Value, json};

const NAMES: [&str; 4] = ["chromium", "chromium-browser", "google-chrome", "chrome"];

/// Chromium reads commands from its file descriptor 3 and writes to 4. It ends with the shell's
/// standard input, so with the test process, however that ends.
const LAUNCH: &str = r#"
browser=$1 dir=$2
"$browser" --headless=new --no-sandbox --disable-gpu --hide-scrollbars --no-first-run --user-data-dir="$dir/profile" \
    --remote-debugging-pipe about:blank 3<"$dir/in" 4>"$dir/out" >/dev/null 2>&1 &
pid=$!
read -r _
kill -9 "$pid" 2>/dev/null
wait "$pid" 2>/dev/null
# Processes of the browser that have not ended yet may write files meanwhile.
for _ in 1 2 3 4 5 6 7 8 9; do rm -rf -- "$dir" 2>/dev/null && break; sleep 0.1; done
"#;

pub(crate) struct Browser {
    shell: Child,
    commands: File,
    replies: BufReader<File>,
    next: u64,
    session: String,
    /// What the page has said is wrong, in the order of its events.
    mistakes: Vec<String>,
}

impl Browser {
    /// A browser with one empty page of this size.
    pub(crate) fn start(width: u32, height: u32) -> Self {
        let runs = |name: &&str| {
            let mut command = Command::new(name);
            command
                .arg("--version")
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .status()
                .is_ok_and(|s| s.success())
        };
        let name = NAMES.into_iter().find(runs).unwrap_or_else(|| {
            panic!(
                "this test needs Chromium, and none of {NAMES:?} can be run: install it (Debian: \
                 apt-get install chromium; Ubuntu: snap install chromium; Fedora: dnf install \
                 chromium; Arch: pacman -S chromium)"
            )
        });
        let folder = std::env::temp_dir().join(super::unique("browser"));
        fs::create_dir(&folder).expect("a folder of its own");
        let pipe = |name: &str| -> PathBuf {
            let path = folder.join(name);
            let made = Command::new("mkfifo")
                .arg(&path)
                .status()
                .expect("mkfifo can be run");
            assert!(made.success(), "a pipe is made");
            path
        };
        let (input, output) = (pipe("in"), pipe("out"));
        let shell = Command::new("sh")
            .args(["-c", LAUNCH, "sh", name])
            .arg(&folder)
            .stdin(Stdio::piped())
            .spawn()
            .expect("a shell can be started");
        // Each waits until the other end is opened as well.
        let commands = File::options()
            .write(true)
            .open(input)
            .expect("the browser reads commands");
        let replies = BufReader::new(File::open(output).expect("the browser writes replies"));
        let mut browser = Self {
            shell,
            commands,
            replies,
            next: 0,
            session: String::new(),
            mistakes: Vec::new(),
        };
        let page = browser.call("Target.createTarget", &json!({"url": "about:blank"}));
        let attached = browser.call(
            "Target.attachToTarget",
            &json!({"targetId": page["targetId"], "flatten": true}),
        );
        attached["sessionId"]
            .as_str()
            .expect("a session")
            .clone_into(&mut browser.session);
        let size =
            json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": false});
        browser.call("Emulation.setDeviceMetricsOverride", &size);
        for domain in ["Log.enable", "Runtime.enable"] {
            browser.call(domain, &json!({}));
        }
        browser
    }

    pub(crate) fn open(&mut self, url: &str) {
        self.call("Page.navigate", &json!({"url": url}));
    }

    /// What an expression gives.
    pub(crate) fn eval(&mut self, expression: &str) -> Value {
        let asked = json!({"expression": expression, "awaitPromise": true, "returnByValue": true});
        let mut answer = self.call("Runtime.evaluate", &asked);
        assert!(
            answer.get("exceptionDetails").is_none(),
            "{expression}: {answer}"
        );
        answer["result"]["value"].take()
    }

    /// Until an expression is true.
    pub(crate) fn wait_for(&mut self, condition: &str) {
        let deadline = Instant::now() + Duration::from_secs(30);
        while self.eval(&format!("Boolean({condition})")) != true {
            assert!(
                Instant::now() < deadline,
                "{condition} never came true; the page says {:?}",
                self.mistakes
            );
            thread::sleep(Duration::from_millis(20));
        }
    }

    pub(crate) fn click(&mut self, selector: &str) {
        self.eval(&format!(
            "document.querySelector({}).click()",
            json!(selector)
        ));
    }

    /// Chooses or types a value, as a user who then leaves the field.
    pub(crate) fn fill(&mut self, selector: &str, value: &str) {
        self.eval(&format!(
            "(() => {{
                const field = document.querySelector({});
                field.value = {};
                field.dispatchEvent(new Event('change', {{ bubbles: true }}));
            }})()",
            json!(selector),
            json!(value)
        ));
    }

    /// Exceptions that no script has caught, and files that were not there.
    pub(crate) fn mistakes(&mut self) -> &[String] {
        // Events before this answer have been read.
        self.eval("true");
        &self.mistakes
    }

    /// A picture of the page, as a PNG.
    pub(crate) fn photograph(&mut self) -> Vec<u8> {
        let answer = self.call("Page.captureScreenshot", &json!({"format": "png"}));
        BASE64
            .decode(answer["data"].as_str().expect("a picture"))
            .expect("base64")
    }

    fn call(&mut self, method: &str, params: &Value) -> Value {
        self.next += 1;
        let mut message = json!({"id": self.next, "method": method, "params": params});
        if !self.session.is_empty() {
            message["sessionId"] = json!(self.session);
        }
        let mut bytes = message.to_string().into_bytes();
        bytes.push(0);
        self.commands
            .write_all(&bytes)
            .expect("the browser takes commands");
        loop {
            let mut bytes = Vec::new();
            let read = self
                .replies
                .read_until(0, &mut bytes)
                .expect("the browser answers");
            assert!(read > 0, "the browser has ended");
            bytes.pop();
            let mut reply: Value = serde_json::from_slice(&bytes).expect("JSON");
            // The rest are events.
            let event = &reply["params"];
            match reply["method"].as_str() {
                Some("Runtime.exceptionThrown") => {
                    self.mistakes.push(event["exceptionDetails"].to_string());
                }
                Some("Log.entryAdded") if event["entry"]["level"] == "error" => {
                    self.mistakes.push(event["entry"].to_string());
                }
                _ => {}
            }
            if reply["id"] == self.next {
                assert!(reply.get("error").is_none(), "{method}: {reply}");
                return reply["result"].take();
            }
        }
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        drop(self.shell.stdin.take());
        let _ = self.shell.wait();
    }
}
