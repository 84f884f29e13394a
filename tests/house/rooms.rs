//! Which file uses which: the top modules of each crate in one order, and no circles within them;
//! and what the runtime hands to the expansions of the macros.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use proc_macro2::TokenStream;
use syn::{Attribute, Item, Visibility};

use crate::assert_only;
use crate::links::workspace;
use crate::source::{Source, Uses, imports, type_name};

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

/// A circle is files of which each uses, over others of them, each other.
fn assert_no_circles(package: &str) {
    let uses = Source::of(package).uses();
    let files = uses.keys().map(String::as_str);
    let reached: BTreeMap<_, _> = files.map(|file| (file, reached(&uses, file))).collect();
    let circles = reached.iter().map(|(file, used)| -> Vec<_> {
        let circle = used.iter().filter(|used| reached[*used].contains(file));
        circle.copied().collect()
    });
    assert_only(circles.filter(|files| !files.is_empty()), []);
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
    assert_no_circles("ratelimit-runtime");
    assert_no_circles("ratelimit-macros");
}

/// What an expansion is given or bound by, and does not name; and two types whose variants are
/// named by arguments.
const UNNAMED: &[&str] = &[
    "Algorithm",
    "AsLimiter",
    "CallPermits",
    "ConstParameter",
    "Count",
    "Guard",
    "OnUnavailable",
    "Outcome",
];

/// The public names of `__private`, but for those that the feature `_tests` brings.
fn handed_to_expansions() -> BTreeSet<String> {
    let is_of_tests = |attribute: &Attribute| {
        attribute.path().is_ident("cfg")
            && attribute
                .parse_args::<TokenStream>()
                .is_ok_and(|condition| condition.to_string().contains("\"_tests\""))
    };
    let mut names = BTreeSet::new();
    let source = Source::of("ratelimit-runtime");
    let modules = source.modules();
    for item in modules
        .filter(|(path, _)| *path == ["__private"])
        .flat_map(|(_, module)| &module.items)
    {
        let (attributes, visibility) = match item {
            Item::Fn(item) => (&item.attrs, &item.vis),
            Item::Struct(item) => (&item.attrs, &item.vis),
            Item::Trait(item) => (&item.attrs, &item.vis),
            Item::Type(item) => (&item.attrs, &item.vis),
            Item::Use(item) => (&item.attrs, &item.vis),
            _ => continue,
        };
        if !matches!(visibility, Visibility::Public(_)) || attributes.iter().any(is_of_tests) {
            continue;
        }
        match item {
            Item::Fn(item) => _ = names.insert(item.sig.ident.to_string()),
            Item::Use(item) => imports(&item.tree, &[], &mut |name, _| names.extend(name)),
            item => names.extend(type_name(item)),
        }
    }
    names
}

#[test]
fn the_runtime_hands_to_expansions_what_they_use_and_nothing_else() {
    let source = Source::of("ratelimit-macros");
    let folder = workspace().join("ratelimit-macros/src");
    let text: String = source
        .modules()
        .map(|(_, module)| fs::read_to_string(folder.join(&module.file)).unwrap())
        .collect();
    let named = text.split("__ratelimit::").skip(1);
    let named: BTreeSet<_> = named
        .filter_map(|text| {
            text.split(|c: char| !c.is_alphanumeric() && c != '_')
                .next()
        })
        .collect();
    let handed = handed_to_expansions();
    assert!(handed.len() > 20, "{handed:?}");
    let unused = handed.iter().map(String::as_str);
    let unused = unused.filter(|name| !named.contains(name));
    assert_only(unused, UNNAMED.to_vec());
}
