//! The rooms, from the top of the stairs to the bottom: each uses only those above it.

use std::fs;
use std::path::Path;

use crate::graph::{self, Graph, words};
use crate::sources::{self, Module};

/// Rooms of one line may use each other, as long as no modules of theirs do so in a circle.
const RUNTIME: &[&[&str]] = &[
    &["key"],
    &["rule"],
    &["decision", "error", "clock", "real_time"],
    &["observe"],
    &["algorithm"],
    &["store"],
    &["client_ip", "response"],
    &["engine"],
    &["limiter"],
    &["adapter"],
    &["__private", "guide", "testkit"],
];

/// Where there are more in one folder, some have in common what a folder of theirs is named after.
const FILES: usize = 10;

const MACROS: &[&[&str]] = &[&["parse"], &["check"], &["plan"], &["expand"]];

fn graph_of(crate_name: &str) -> Graph {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(crate_name).join("src");
    let graph = graph::of(&sources::of_crate(&folder));
    let edges: usize = graph.values().map(std::collections::BTreeSet::len).sum();
    assert!(graph.len() > 30 && edges > graph.len(), "{crate_name}: {} modules, {edges} uses", graph.len());
    graph
}

fn line_of(rooms: &[&[&str]], module: &Module) -> Option<usize> {
    let room = module.first()?;
    rooms.iter().position(|line| line.contains(&room.as_str()))
}

fn assert_one_way(graph: &Graph, rooms: &[&[&str]]) {
    let mut wrong = Vec::new();
    for (module, used) in graph {
        for other in used {
            if let (Some(from), Some(to)) = (line_of(rooms, module), line_of(rooms, other))
                && to > from
            {
                wrong.push(words(&[module.clone(), other.clone()]));
            }
        }
    }
    assert!(wrong.is_empty(), "these use a room below their own:\n{}", wrong.join("\n"));
}

#[test]
fn no_module_is_in_an_import_cycle() {
    for name in ["ratelimit-runtime", "ratelimit-macros"] {
        if let Some(cycle) = graph::cycle(&graph_of(name)) {
            panic!("{name}: {} → and again", words(&cycle));
        }
    }
}

#[test]
fn a_room_of_the_runtime_uses_only_rooms_above_it() {
    let graph = graph_of("ratelimit-runtime");
    let known = |module: &Module| module.is_empty() || line_of(RUNTIME, module).is_some();
    let stray: Vec<_> = graph.keys().filter(|module| !known(module)).collect();
    assert!(stray.is_empty(), "in no room: {stray:?}");
    assert_one_way(&graph, RUNTIME);
}

#[test]
fn a_folder_has_at_most_ten_files() {
    let folder = |name: &str| Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(name).join("src");
    let (mut folders, mut seen) = (vec![folder("ratelimit-runtime"), folder("ratelimit-macros")], 0);
    while let Some(folder) = folders.pop() {
        let (inner, files): (Vec<_>, Vec<_>) =
            fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).partition(|path| path.is_dir());
        let modules = files.iter().filter(|path| path.extension().is_some_and(|extension| extension == "rs")).count();
        assert!(modules <= FILES, "{}: {modules} files", folder.display());
        seen += modules;
        folders.extend(inner);
    }
    assert!(seen > 200, "{seen}");
}

#[test]
fn a_stage_of_the_attribute_uses_only_earlier_ones() {
    assert_one_way(&graph_of("ratelimit-macros"), MACROS);
}
