//! On what it was measured.

use std::fs;
use std::process::Command;

use crate::Failure;
use crate::server::Server;

const LOCK: &str = include_str!("../../Cargo.lock");

/// One paragraph.
pub fn report(server: &Server) -> Result<String, Failure> {
    let cpu = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpu
        .lines()
        .find_map(|line| line.strip_prefix("model name")?.split_once(": "))
        .map_or("?", |(_, at)| at);
    let cores = std::thread::available_parallelism()?;
    let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load = load.split(' ').next().unwrap_or("?");
    let versions: Vec<String> = ["governor", "trypema", "actix-limitation", "redis", "tokio"]
        .into_iter()
        .map(|name| format!("{name} {}", version(name)))
        .collect();
    let cell = if server.has_cell {
        ", redis-cell 0.2.2"
    } else {
        ""
    };
    Ok(format!(
        "{}, {} cores ({}), load {load} at the start; redis-server {}{cell}; {}; {}; this crate at \
         {}.",
        said("date", &["-u", "+%Y-%m-%d"]),
        cores,
        model,
        server.version()?,
        said("rustc", &["--version"]),
        versions.join(", "),
        said("git", &["rev-parse", "--short", "HEAD"]),
    ))
}

/// The highest version of a crate in the lock file.
fn version(name: &str) -> &'static str {
    let entry = |package: &'static str| {
        let mut fields = package.lines();
        let found = fields.next()? == format!("name = \"{name}\"");
        found
            .then(|| fields.next()?.strip_prefix("version = "))
            .flatten()
    };
    LOCK.split("[[package]]\n")
        .filter_map(entry)
        .last()
        .unwrap_or("?")
        .trim_matches('"')
}

fn said(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program)
        .args(arguments)
        .output()
        .map(|output| output.stdout)
        .unwrap_or_default();
    String::from_utf8_lossy(&output).trim().to_owned()
}
