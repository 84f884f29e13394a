//! The top modules of each crate, in the order in which they may use each other: each uses only
//! those above it.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use syn::visit::{self, Visit};
use syn::{Attribute, Item, UseTree};

use crate::links::workspace;

/// Modules of one line may use each other.
const RUNTIME: &[&[&str]] = &[
    &["parse_error"],
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
    &["private", "guide", "testkit"],
];

const MACROS: &[&[&str]] = &[&["parse"], &["check"], &["plan"], &["expand"]];

/// Where a file names others: the first segment behind `crate`, of a path or an import.
struct Names {
    used: Vec<String>,
}

impl Names {
    fn tree(&mut self, tree: &UseTree, is_of_crate: bool) {
        match tree {
            UseTree::Path(path) if is_of_crate => self.used.push(path.ident.to_string()),
            UseTree::Path(path) if path.ident == "crate" => self.tree(&path.tree, true),
            UseTree::Name(name) if is_of_crate => self.used.push(name.ident.to_string()),
            UseTree::Rename(name) if is_of_crate => self.used.push(name.ident.to_string()),
            UseTree::Group(group) => group
                .items
                .iter()
                .for_each(|tree| self.tree(tree, is_of_crate)),
            _ => {}
        }
    }
}

impl<'a> Visit<'a> for Names {
    fn visit_item(&mut self, item: &'a Item) {
        // Tests may use what they like.
        if !matches!(item, Item::Mod(module) if is_test(&module.attrs)) {
            visit::visit_item(self, item);
        }
    }

    fn visit_item_use(&mut self, item: &'a syn::ItemUse) {
        self.tree(&item.tree, false);
    }

    fn visit_path(&mut self, path: &'a syn::Path) {
        let mut segments = path.segments.iter();
        if let (Some(first), Some(second)) = (segments.next(), segments.next())
            && first.ident == "crate"
        {
            self.used.push(second.ident.to_string());
        }
        visit::visit_path(self, path);
    }
}

fn is_test(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        attribute.path().is_ident("cfg") && attribute.parse_args::<syn::Ident>().is_ok()
    })
}

/// What the root of a crate hands on, by the module that it is of.
fn handed_on(root: &syn::File) -> BTreeMap<String, String> {
    fn names(tree: &UseTree, module: &str, into: &mut BTreeMap<String, String>) {
        match tree {
            UseTree::Path(path) => names(&path.tree, module, into),
            UseTree::Group(group) => group
                .items
                .iter()
                .for_each(|tree| names(tree, module, into)),
            UseTree::Name(name) => _ = into.insert(name.ident.to_string(), module.to_owned()),
            UseTree::Rename(name) => _ = into.insert(name.rename.to_string(), module.to_owned()),
            UseTree::Glob(_) => {}
        }
    }
    let mut all = BTreeMap::new();
    for item in &root.items {
        if let Item::Use(item) = item
            && let UseTree::Path(path) = &item.tree
        {
            names(&path.tree, &path.ident.to_string(), &mut all);
        }
    }
    all
}

/// The modules of tests that a file declares and others hold, by their paths without an extension.
fn tests_of(file: &syn::File, path: &Path) -> Vec<PathBuf> {
    let folder = if path.ends_with("mod.rs") || path.ends_with("lib.rs") {
        path.parent().unwrap().to_owned()
    } else {
        path.with_extension("")
    };
    let tests = file.items.iter().filter_map(|item| match item {
        Item::Mod(module) if is_test(&module.attrs) => Some(folder.join(module.ident.to_string())),
        _ => None,
    });
    tests
        .flat_map(|test| [test.with_extension("rs"), test])
        .collect()
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    entries
        .flat_map(|path| {
            if path.is_dir() {
                files(&path)
            } else {
                vec![path]
            }
        })
        .collect()
}

fn assert_one_way(name: &str, order: &[&[&str]]) {
    let source = workspace().join(name).join("src");
    let parse = |path: &Path| syn::parse_file(&fs::read_to_string(path).unwrap()).unwrap();
    let handed_on = handed_on(&parse(&source.join("lib.rs")));
    let place = |module: &str| order.iter().position(|line| line.contains(&module));
    let files = files(&source)
        .into_iter()
        .filter(|path| path.extension().is_some_and(|kind| kind == "rs"));
    let files: Vec<_> = files.map(|path| (parse(&path), path)).collect();
    let tests: Vec<PathBuf> = files
        .iter()
        .flat_map(|(file, path)| tests_of(file, path))
        .collect();
    let (mut wrong, mut uses) = (Vec::new(), 0);
    for (file, path) in files
        .iter()
        .filter(|(_, path)| !tests.iter().any(|test| path.starts_with(test)))
    {
        let within = path.strip_prefix(&source).unwrap();
        let top = Path::new(within.iter().next().unwrap())
            .file_stem()
            .unwrap()
            .to_str()
            .unwrap();
        let Some(own) = place(top) else { continue };
        let mut names = Names { used: Vec::new() };
        names.visit_file(file);
        for used in names.used {
            let module = handed_on.get(&used).unwrap_or(&used);
            let module = if module == "__private" {
                "private"
            } else {
                module
            };
            uses += 1;
            if place(module).is_some_and(|other| other > own) {
                wrong.push(format!(
                    "{} uses {used}, which is of {module}",
                    within.display()
                ));
            }
        }
    }
    assert!(uses > 20, "{name}: {uses} uses were read");
    assert!(
        wrong.is_empty(),
        "these use a module below their own:\n{}",
        wrong.join("\n")
    );
}

#[test]
fn a_module_of_the_runtime_uses_only_modules_above_it() {
    assert_one_way("ratelimit-runtime", RUNTIME);
}

#[test]
fn a_stage_of_the_attribute_uses_only_earlier_ones() {
    assert_one_way("ratelimit-macros", MACROS);
}
