//! What the modules of a crate declare, and what they name: read from their sources.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path as FilePath;

use syn::visit::{self, Visit};
use syn::{Attribute, Item, ItemMod, ItemUse, Path, UseTree, Visibility};

/// A module by its path in the crate; the root is empty.
pub(super) type Module = Vec<String>;

/// One file's module.
#[derive(Debug, Default)]
pub(super) struct Source {
    /// What it defines itself.
    pub(super) items: BTreeSet<String>,
    /// What it hands on, under which name.
    pub(super) reexports: Vec<(String, Vec<String>)>,
    /// What it names: absolute paths.
    pub(super) names: BTreeSet<Vec<String>>,
    /// Modules of its own in other files that are tests.
    tests: BTreeSet<String>,
}

/// The modules of the crate whose sources are in this folder.
pub(super) fn of_crate(folder: &FilePath) -> BTreeMap<Module, Source> {
    let mut sources = BTreeMap::new();
    read(folder, &Vec::new(), &mut sources);
    // Tests may use what they like.
    let tests: Vec<Module> = sources.iter().flat_map(|(module, source)| source.paths_of_tests(module)).collect();
    sources.retain(|module, _| !tests.iter().any(|test| module.starts_with(test)));
    sources
}

impl Source {
    fn paths_of_tests(&self, module: &Module) -> Vec<Module> {
        self.tests.iter().map(|name| module.iter().chain([name]).cloned().collect()).collect()
    }
}

fn read(folder: &FilePath, module: &Module, sources: &mut BTreeMap<Module, Source>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let stem = path.file_stem().unwrap().to_string_lossy().into_owned();
        let named = |name: &str| module.iter().cloned().chain([name.to_owned()]).collect::<Module>();
        if stem == "fuzzing" {
            // Tests, which may use what they like.
        } else if path.is_dir() {
            read(&path, &named(&stem), sources);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let module = match stem.as_str() {
                "lib" | "mod" => module.clone(),
                // Its file has the plain name.
                "private" => named("__private"),
                other => named(other),
            };
            let text = fs::read_to_string(&path).unwrap();
            let file = syn::parse_file(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            sources.insert(module.clone(), source(&module, &file.items));
        }
    }
}

/// What a module with these items is about. Tests may use what they like.
pub(super) fn source(module: &[String], items: &[Item]) -> Source {
    let mut reader = Reader { module: module.to_vec(), source: Source::default() };
    for item in items {
        if let Some(name) = name_of(item) {
            reader.source.items.insert(name);
        }
        reader.visit_item(item);
    }
    reader.source
}

fn name_of(item: &Item) -> Option<String> {
    let name = match item {
        Item::Const(item) => &item.ident,
        Item::Enum(item) => &item.ident,
        Item::Fn(item) => &item.sig.ident,
        Item::Static(item) => &item.ident,
        Item::Struct(item) => &item.ident,
        Item::Trait(item) => &item.ident,
        Item::Type(item) => &item.ident,
        Item::Union(item) => &item.ident,
        _ => return None,
    };
    Some(name.to_string())
}

struct Reader {
    module: Module,
    source: Source,
}

impl Reader {
    /// The path from the root of the crate, if it is one of this crate.
    fn absolute(&self, path: &[String]) -> Option<Vec<String>> {
        let (first, rest) = path.split_first()?;
        let mut base = match first.as_str() {
            "crate" => Vec::new(),
            "self" => self.module.clone(),
            "super" => self.module.split_last()?.1.to_vec(),
            _ => return None,
        };
        for segment in rest {
            if segment == "super" {
                base.pop()?;
            } else {
                base.push(segment.clone());
            }
        }
        Some(base)
    }

    fn tree(&mut self, tree: &UseTree, path: &mut Vec<String>, handed_on: bool) {
        match tree {
            UseTree::Path(step) => {
                path.push(step.ident.to_string());
                self.tree(&step.tree, path, handed_on);
                path.pop();
            }
            UseTree::Group(group) => {
                for tree in &group.items {
                    self.tree(tree, path, handed_on);
                }
            }
            UseTree::Name(name) => self.used(path, &name.ident.to_string(), &name.ident.to_string(), handed_on),
            UseTree::Rename(name) => self.used(path, &name.ident.to_string(), &name.rename.to_string(), handed_on),
            UseTree::Glob(_) => self.used(path, "*", "*", handed_on),
        }
    }

    fn used(&mut self, path: &[String], item: &str, name: &str, handed_on: bool) {
        let mut path = path.to_vec();
        if item != "self" {
            path.push(item.to_owned());
        }
        // A name that a child module declares may be used without `self`.
        let of_child = || self.absolute(&[vec!["self".to_owned()], path.clone()].concat());
        let Some(absolute) = self.absolute(&path).or_else(|| if handed_on { of_child() } else { None }) else { return };
        if handed_on {
            self.source.reexports.push((name.to_owned(), absolute));
        } else {
            self.source.names.insert(absolute);
        }
    }
}

impl Visit<'_> for Reader {
    fn visit_item_mod(&mut self, item: &ItemMod) {
        if !is_test(&item.attrs) {
            visit::visit_item_mod(self, item);
        } else if item.content.is_none() {
            self.source.tests.insert(item.ident.to_string());
        }
    }

    fn visit_item_use(&mut self, item: &ItemUse) {
        let handed_on = !matches!(item.vis, Visibility::Inherited);
        self.tree(&item.tree, &mut Vec::new(), handed_on);
    }

    /// `pub(super)` says who may use an item, and uses nothing.
    fn visit_visibility(&mut self, _: &Visibility) {}

    fn visit_path(&mut self, path: &Path) {
        let segments: Vec<String> = path.segments.iter().map(|segment| segment.ident.to_string()).collect();
        if let Some(absolute) = self.absolute(&segments) {
            self.source.names.insert(absolute);
        }
        visit::visit_path(self, path);
    }
}

fn is_test(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        attribute.path().is_ident("cfg")
            && attribute.parse_args::<syn::Ident>().is_ok_and(|condition| condition == "test")
    })
}
