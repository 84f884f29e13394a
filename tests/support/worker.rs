//! [`Worker`]: a process of its own that uses a limiter.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::Duration;

/// The longest time until a worker prints its next line.
const LONGEST: Duration = Duration::from_secs(60);

/// A worker process (`bin/worker.rs`), killed if the test ends before it does.
#[derive(Debug)]
pub(crate) struct Worker {
    child: Child,
    /// The lines that it prints.
    out: Receiver<String>,
}

impl Worker {
    pub(crate) fn start(args: &[&str]) -> Self {
        Self::start_in(&[], args)
    }

    /// In an environment that also has these variables.
    pub(crate) fn start_in(environment: &[(&str, &str)], args: &[&str]) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_worker"))
            .envs(environment.iter().copied())
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let printed = BufReader::new(child.stdout.take().unwrap());
        let (lines, out) = mpsc::channel();
        thread::spawn(move || {
            printed
                .lines()
                .map_while(Result::ok)
                .try_for_each(|line| lines.send(line))
        });
        Self { child, out }
    }

    /// The next line that it prints.
    pub(crate) fn line(&mut self) -> String {
        self.out.recv_timeout(LONGEST).unwrap()
    }

    /// All that it prints until it ends.
    pub(crate) fn rest(&mut self) -> String {
        self.out.iter().collect::<Vec<_>>().join("\n")
    }

    /// Ends its standard input, which workers take as a sign: to begin, or to end.
    pub(crate) fn go(&mut self) {
        drop(self.child.stdin.take());
    }

    /// The number of the process.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Sends it a signal: `STOP`, `CONT`.
    #[cfg(unix)]
    pub(crate) fn signal(&self, signal: &str) {
        let sent = Command::new("kill")
            .args([&format!("-{signal}"), &self.child.id().to_string()])
            .status();
        assert!(sent.unwrap().success());
    }

    /// Kills the process (SIGKILL), and gives what it had printed.
    pub(crate) fn kill(mut self) -> String {
        self.child.kill().unwrap();
        self.rest()
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
