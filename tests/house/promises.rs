//! `tests/PROMISES.md` leads from a promise to its tests: each that it names is there, each module
//! of tests is named, and each argument of the attribute has a row.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use proc_macro2::{Delimiter, TokenStream, TokenTree};

use crate::assert_only;
use crate::links::{read, workspace};

const PAGE: &str = "tests/PROMISES.md";
/// The cases of which `conformance!` makes tests.
const SUITE: &str = "tests/conformance/src/suite.rs";

/// Promises of the page for which it names no test yet.
const WITHOUT_TEST: &[&str] = &[];

/// A program of tests.
struct Target {
    /// `tests::stores`: the package without `ratelimit-`, and the target.
    name: String,
    root: PathBuf,
    /// Without one, its cases are named by strings and in `cases!`.
    has_harness: bool,
}

fn targets() -> Vec<Target> {
    let workspace_manifest: toml::Table = read("Cargo.toml").parse().unwrap();
    let members = workspace_manifest["workspace"]["members"]
        .as_array()
        .unwrap();
    let targets = members
        .iter()
        .flat_map(|member| targets_of(member.as_str().unwrap()));
    targets.collect()
}

fn targets_of(member: &str) -> Vec<Target> {
    let folder = workspace().join(member);
    let manifest: toml::Table = read(folder.join("Cargo.toml")).parse().unwrap();
    let package = &manifest["package"];
    let package_name = package["name"].as_str().unwrap();
    let package_name = package_name.trim_start_matches("ratelimit-");
    let target = |name: &str, root: PathBuf, has_harness| Target {
        name: format!("{package_name}::{name}"),
        root,
        has_harness,
    };
    let mut targets = Vec::new();
    let lib = folder.join("src/lib.rs");
    if lib.exists() {
        targets.push(target("lib", lib, true));
    }
    let declared = manifest.get("test").and_then(|tests| tests.as_array());
    for declared in declared.into_iter().flatten() {
        let path = folder.join(declared["path"].as_str().unwrap());
        let has_harness = declared.get("harness").is_none();
        targets.push(target(
            declared["name"].as_str().unwrap(),
            path,
            has_harness,
        ));
    }
    // What cargo finds by itself.
    if package.get("autotests").is_none()
        && let Ok(files) = fs::read_dir(folder.join("tests"))
    {
        for file in files.map(|file| file.unwrap().path()) {
            let name = file.file_stem().unwrap().to_str().unwrap().to_owned();
            targets.push(target(&name, file, true));
        }
    }
    targets
}

/// Collects the names of tests: functions with an attribute `test`, also in the arguments of
/// macros such as `proptest!`, and what `conformance!` makes.
struct Reader<'a> {
    tests: BTreeSet<String>,
    cases: &'a [String],
    has_harness: bool,
}

impl Reader<'_> {
    fn read_file(&mut self, file: &Path, is_root: bool, module: &str) {
        let tokens = fs::read_to_string(file).unwrap().parse().unwrap();
        let folder = if is_root || file.ends_with("mod.rs") {
            file.parent().unwrap().to_owned()
        } else {
            file.with_extension("")
        };
        self.read(tokens, &folder, module);
    }

    fn read(&mut self, tokens: TokenStream, folder: &Path, module: &str) {
        let tokens: Vec<_> = tokens.into_iter().collect();
        let mut attributes = Vec::new();
        let mut at = 0;
        while let Some(token) = tokens.get(at) {
            at += 1;
            let next = tokens.get(at);
            match (token.to_string().as_str(), next, tokens.get(at + 1)) {
                ("#", Some(TokenTree::Group(attribute)), _) => {
                    attributes.push(attribute.stream().to_string());
                    at += 1;
                }
                ("fn", Some(TokenTree::Ident(name)), _) => {
                    if attributes.iter().any(|attribute| is_test(attribute)) {
                        self.tests.insert(format!("{module}::{name}"));
                    }
                    attributes.clear();
                }
                ("mod", Some(TokenTree::Ident(name)), Some(body)) => {
                    at += 2;
                    let inner = format!("{module}::{name}");
                    let folder = folder.join(name.to_string());
                    match body {
                        TokenTree::Group(body) => self.read(body.stream(), &folder, &inner),
                        // A file of several modules has no tests.
                        _ if attributes.iter().any(|it| it.starts_with("path")) => {}
                        _ => self.read_module(&folder, &inner),
                    }
                    attributes.clear();
                }
                ("conformance", Some(_), Some(TokenTree::Group(arguments))) => {
                    let arguments = arguments.stream().to_string();
                    let (name, _) = arguments.split_once(',').unwrap();
                    let case = |case| format!("{module}::{}::{case}", name.trim());
                    self.tests.extend(self.cases.iter().map(case));
                }
                ("cases", Some(_), Some(TokenTree::Group(cases))) if !self.has_harness => {
                    let cases = cases.stream().to_string().replace(' ', "");
                    let cases = cases.split(',').filter(|case| !case.is_empty());
                    self.tests
                        .extend(cases.map(|case| format!("{module}::{case}")));
                }
                _ => {}
            }
            match token {
                TokenTree::Group(group) => {
                    self.read(group.stream(), folder, module);
                    if group.delimiter() == Delimiter::Brace {
                        attributes.clear();
                    }
                }
                TokenTree::Literal(literal) if !self.has_harness => {
                    self.read_name(&literal.to_string(), module);
                }
                _ => {}
            }
        }
    }

    fn read_module(&mut self, folder: &Path, module: &str) {
        let files = [folder.with_extension("rs"), folder.join("mod.rs")];
        // Only a macro names a module without a file.
        if let Some(file) = files.iter().find(|file| file.exists()) {
            self.read_file(file, false, module);
        }
    }

    /// `"standalone::frozen_briefly"`: a case that is a row of a table has its whole name.
    fn read_name(&mut self, literal: &str, module: &str) {
        let name = literal.trim_matches('"');
        let is_part = |part: &str| part.chars().all(|c| c == '_' || c.is_ascii_lowercase());
        if name.contains("::") && name.split("::").all(is_part) {
            let target: Vec<_> = module.split("::").take(2).collect();
            self.tests.insert(format!("{}::{name}", target.join("::")));
        }
    }
}

/// `test`, `tokio::test(start_paused = true)`.
fn is_test(attribute: &str) -> bool {
    let path = attribute.split(['(', '=']).next().unwrap();
    path.split("::").last().unwrap().trim() == "test"
}

fn all_tests() -> BTreeSet<String> {
    let suite = read(SUITE);
    let case = |line: &str| {
        let (case, _) = line.trim().split_once(" [")?;
        let (_, name) = case.split_once("::")?;
        (!name.contains('$')).then(|| name.to_owned())
    };
    let cases: Vec<_> = suite.lines().filter_map(case).collect();
    assert!(cases.len() > 50, "{cases:?}");
    let mut tests = BTreeSet::new();
    for target in targets() {
        let mut reader = Reader {
            tests: BTreeSet::new(),
            cases: &cases,
            has_harness: target.has_harness,
        };
        reader.read_file(&target.root, true, &target.name);
        tests.append(&mut reader.tests);
    }
    tests
}

/// The cells of each row of the tables, without their headers.
fn rows(page: &str) -> Vec<Vec<&str>> {
    let lines: Vec<_> = page.lines().collect();
    let is_row = |at: &usize| {
        let is_header = lines.get(at + 1).is_some_and(|next| is_rule(next));
        lines[*at].starts_with('|') && !is_rule(lines[*at]) && !is_header
    };
    let cells = |at: usize| -> Vec<_> {
        let inner = lines[at].trim_matches('|');
        inner.split(" | ").map(str::trim).collect()
    };
    (0..lines.len()).filter(is_row).map(cells).collect()
}

fn is_rule(line: &str) -> bool {
    line.starts_with("| ---")
}

/// What stands between backticks.
fn code(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

/// What the last cells of the rows name: tests, and files.
fn named(page: &str) -> BTreeSet<String> {
    let rows = rows(page);
    let names = rows.iter().flat_map(|row| code(row.last().unwrap()));
    names.map(str::to_owned).collect()
}

/// `tests::stores::algorithms`; `tests::flood` of a test that stands in no module.
fn module_of(test: &str) -> String {
    let parts: Vec<_> = test.split("::").collect();
    parts[..3.min(parts.len() - 1)].join("::")
}

#[test]
fn each_test_of_a_promise_exists() {
    let (page, tests) = (read(PAGE), all_tests());
    assert!(tests.len() > 1_000, "only {} tests are found", tests.len());
    let named = named(&page);
    assert!(named.len() > 150, "only {} tests are named", named.len());
    let is_there = |name: &&String| {
        tests.contains(*name) || !name.contains("::") && workspace().join(name).exists()
    };
    let missing: Vec<_> = named.iter().filter(|name| !is_there(name)).collect();
    assert!(
        missing.is_empty(),
        "{PAGE} names tests or files that are not there; were they renamed? {missing:#?}"
    );
}

#[test]
fn each_module_of_tests_holds_a_promise() {
    let of = |tests: BTreeSet<String>| -> BTreeSet<_> {
        let tests = tests.iter().filter(|name| name.contains("::"));
        tests.map(|test| module_of(test)).collect()
    };
    let (all, named) = (of(all_tests()), of(named(&read(PAGE))));
    let missing: Vec<_> = all.difference(&named).collect();
    assert!(
        missing.is_empty(),
        "{PAGE} has no promise for these modules of tests: {missing:#?}"
    );
}

#[test]
fn each_promise_has_a_test() {
    let page = read(PAGE);
    let (mut promise, mut without) = ("", BTreeSet::new());
    for row in rows(&page) {
        if !row[0].is_empty() {
            promise = row[0];
            without.insert(promise);
        }
        if code(row.last().unwrap()).next().is_some() {
            without.remove(promise);
        }
    }
    assert_only(without, WITHOUT_TEST.iter().copied());
}

#[test]
fn each_argument_of_the_attribute_has_a_promise() {
    let (page, table) = (read(PAGE), read("ratelimit-macros/src/arguments.md"));
    // `policy = "login"`, `policy = plan.policy()`; and `"1m..1h"`, another value of the same.
    let arguments = |text| -> BTreeSet<String> {
        let rows = rows(text);
        let codes = rows.iter().flat_map(|row| code(row[0]));
        let names = codes.map(|code| code.split(" =").next().unwrap());
        let names = names.filter(|name| !name.starts_with('"'));
        names.map(str::to_owned).collect()
    };
    let (promised, expected) = (arguments(&page), arguments(&table));
    assert!(expected.len() > 20, "{expected:?}");
    let missing: Vec<_> = expected.difference(&promised).collect();
    assert!(missing.is_empty(), "{PAGE} has no row for {missing:?}");
}
