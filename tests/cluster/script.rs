//! `scripts/cluster.sh`, which starts and ends servers on the machine of a developer.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::support::redis::free_port;

/// Numbers of processes are used again, and files can be written by others.
#[test]
fn a_process_that_is_no_node_of_the_cluster_is_not_ended() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let port = free_port();
    let folder = root.join(format!("target/cluster-{port}"));
    fs::create_dir_all(folder.join(port.to_string())).unwrap();
    let mut innocent = Command::new("sleep").arg("60").spawn().unwrap();
    fs::write(
        folder.join(format!("{port}/pid")),
        innocent.id().to_string(),
    )
    .unwrap();

    let stop = Command::new(root.join("scripts/cluster.sh"))
        .arg("stop")
        .env("CLUSTER_PORT", port.to_string())
        .output();
    let ended = innocent.try_wait().unwrap();
    let _ = (innocent.kill(), innocent.wait());
    let stop = stop.unwrap();
    assert!(
        stop.status.success(),
        "{}",
        String::from_utf8_lossy(&stop.stderr)
    );
    assert_eq!(ended, None, "it was ended");
    assert!(!folder.exists());
}
