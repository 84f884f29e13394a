//! Which file uses which: the top modules of each crate in one order, and no circles within them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use crate::assert_only;
use crate::source::{Source, Uses};

/// Each uses only those above it. Modules of one line may use each other.
const RUNTIME: &[&[&str]] = &[
    &["parse_error"],
    &["key"],
    &["rule"],
    &["decision", "error", "clock", "pace", "real_time"],
    &["observe"],
    &["algorithm"],
    &["store"],
    &["client_ip", "response"],
    &["engine"],
    &["limiter"],
    &["adapter"],
    &["private", "guide", "testkit"],
];

const MACROS: &[&[&str]] = &[&["parse"], &["check"], &["plan"], &["expand"]];

/// Circles that are there today: files of which each uses, over others of them, each other.
const CIRCLES_OF_THE_RUNTIME: &[&[&str]] = &[
    &[
        "adapter/axum.rs",
        "adapter/client_ip.rs",
        "adapter/tonic.rs",
    ],
    &["limiter/builder.rs", "limiter/mod.rs"],
    &["rule/calendar/mod.rs", "rule/calendar/period.rs"],
    &["store/built_in.rs", "store/mod.rs"],
    &[
        "store/redis/batcher/flight.rs",
        "store/redis/batcher/mod.rs",
        "store/redis/batcher/queue.rs",
        "store/redis/batcher/sending.rs",
    ],
    &[
        "store/redis/cluster/mod.rs",
        "store/redis/cluster/refresh.rs",
    ],
    &[
        "store/redis/link/mod.rs",
        "store/redis/link/sentinel.rs",
        "store/redis/link/upkeep.rs",
        "store/redis/link/upstream.rs",
    ],
    &[
        "store/redis/scripts/answer.rs",
        "store/redis/scripts/call.rs",
    ],
    &[
        "store/redis/settings/deployment.rs",
        "store/redis/settings/mod.rs",
        "store/redis/settings/server.rs",
        "store/redis/settings/tls.rs",
    ],
];

const CIRCLES_OF_THE_MACROS: &[&[&str]] = &[&[
    "check/function/async_trait.rs",
    "check/function/body.rs",
    "check/function/scope.rs",
]];

fn assert_one_way(package: &str, order: &[&[&str]]) {
    let place = |file: &str| {
        let top = Path::new(file.split('/').next().unwrap()).file_stem()?;
        order
            .iter()
            .position(|line| line.contains(&top.to_str().unwrap()))
    };
    let uses = Source::of(package).uses();
    let all = uses
        .iter()
        .flat_map(|(file, used)| used.iter().map(move |used| (file, used)));
    assert!(all.clone().count() > 100, "{package}: {uses:?}");
    let wrong: Vec<_> = all
        .filter(|(file, used)| place(file).is_some_and(|own| place(used) > Some(own)))
        .collect();
    assert!(wrong.is_empty(), "use a module below their own: {wrong:#?}");
}

/// The files that one uses, and those that these use.
fn reached<'a>(uses: &'a Uses, from: &'a str) -> BTreeSet<&'a str> {
    let (mut reached, mut next) = (BTreeSet::new(), vec![from]);
    while let Some(file) = next.pop() {
        let others = uses.get(file).into_iter().flatten().map(String::as_str);
        next.extend(others.filter(|other| reached.insert(*other)));
    }
    reached
}

fn assert_no_circles(package: &str, exceptions: &[&[&str]]) {
    let uses = Source::of(package).uses();
    let files = uses.keys().map(String::as_str);
    let reached: BTreeMap<_, _> = files.map(|file| (file, reached(&uses, file))).collect();
    let circles = reached.iter().map(|(file, used)| -> Vec<_> {
        let circle = used.iter().filter(|used| reached[*used].contains(file));
        circle.copied().collect()
    });
    let exceptions = exceptions.iter().map(|files| files.to_vec());
    assert_only(circles.filter(|files| !files.is_empty()), exceptions);
}

#[test]
fn a_module_of_the_runtime_uses_only_modules_above_it() {
    assert_one_way("ratelimit-runtime", RUNTIME);
}

#[test]
fn a_stage_of_the_attribute_uses_only_earlier_ones() {
    assert_one_way("ratelimit-macros", MACROS);
}

#[test]
fn no_files_use_each_other() {
    assert_no_circles("ratelimit-runtime", CIRCLES_OF_THE_RUNTIME);
    assert_no_circles("ratelimit-macros", CIRCLES_OF_THE_MACROS);
}
