//! A crate as its compiler sees it: modules without those of tests, and which file uses which.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use proc_macro2::{TokenStream, TokenTree};
use syn::visit::{self, Visit};
use syn::{Attribute, Item, ItemMod, UseTree, Visibility};

use crate::links::workspace;

/// Where the items of a module stand, and what its names stand for.
pub(crate) struct Module {
    /// The path of the file, within `src`.
    pub(crate) file: String,
    pub(crate) items: Vec<Item>,
    names: BTreeMap<String, Vec<String>>,
    globs: Vec<Vec<String>>,
}

pub(crate) type Uses = BTreeMap<String, BTreeSet<String>>;

pub(crate) struct Source {
    root: PathBuf,
    /// By the segments of the path behind `crate`. A module can stand twice: with a feature and
    /// without it.
    pub(crate) modules: BTreeMap<Vec<String>, Vec<Module>>,
}

impl Source {
    pub(crate) fn of(package: &str) -> Self {
        let (root, modules) = (workspace().join(package).join("src"), BTreeMap::new());
        let mut source = Self { root, modules };
        source.read_file("lib.rs", &[]);
        assert!(source.modules.len() > 20, "{package}");
        source
    }

    fn read_file(&mut self, file: &str, path: &[String]) {
        let text = fs::read_to_string(self.root.join(file)).unwrap();
        self.read_items(file, syn::parse_file(&text).unwrap().items, path);
    }

    fn read_items(&mut self, file: &str, items: Vec<Item>, path: &[String]) {
        let mut module = Module {
            file: file.to_owned(),
            items,
            names: BTreeMap::new(),
            globs: Vec::new(),
        };
        let mut imports = Imports(&mut module.names, &mut module.globs);
        module
            .items
            .iter()
            .for_each(|item| imports.visit_item(item));
        for item in &module.items {
            if let Item::Mod(child) = item
                && !is_test(&child.attrs)
            {
                let path = [path, &[child.ident.to_string()]].concat();
                match &child.content {
                    Some((_, items)) => self.read_items(file, items.clone(), &path),
                    None => self.read_file(&self.file_of(file, child), &path),
                }
            }
        }
        self.modules.entry(path.to_vec()).or_default().push(module);
    }

    fn file_of(&self, parent: &str, child: &ItemMod) -> String {
        let parent = Path::new(parent);
        let stem = parent.file_stem().unwrap();
        let folder = if stem == "mod" || stem == "lib" {
            parent.parent().unwrap().to_owned()
        } else {
            parent.with_extension("")
        };
        let name = child.ident.to_string();
        let files = [format!("{name}.rs"), format!("{name}/mod.rs"), {
            // `#[path = "private.rs"] mod __private;`
            format!("{}.rs", name.trim_start_matches('_'))
        }];
        let mut files = files.map(|file| folder.join(file)).into_iter();
        let file = files.find(|file| self.root.join(file).exists()).unwrap();
        file.to_str().unwrap().to_owned()
    }

    /// The files that hold the item that a path in `module` stands for: none where it is another
    /// crate's, or a module.
    fn files_of(&self, module: &[String], path: &[String], depth: usize) -> BTreeSet<String> {
        // Two modules can import all of each other.
        let (Some((first, rest)), true) = (path.split_first(), depth < 16) else {
            return BTreeSet::new();
        };
        match first.as_str() {
            "crate" => return self.files_of(&[], rest, depth),
            "self" => return self.files_of(module, rest, depth),
            "super" => return self.files_of(&module[..module.len() - 1], rest, depth),
            _ => {}
        }
        let child = [module, &path[..1]].concat();
        if self.modules.contains_key(&child) {
            return self.files_of(&child, rest, depth);
        }
        let of = |held: &Module| {
            if held.items.iter().any(|item| is_called(item, first)) {
                return BTreeSet::from([held.file.clone()]);
            }
            let import = held.names.get(first).into_iter().cloned();
            let globs = held.globs.iter().map(|glob| [glob, &path[..1]].concat());
            import
                .chain(globs)
                .filter(|import| import != path)
                .flat_map(|import| self.files_of(module, &[&import, rest].concat(), depth + 1))
                .collect()
        };
        self.modules[module].iter().flat_map(of).collect()
    }

    /// For each file, the files whose items it names. What it only hands on it does not use.
    pub(crate) fn uses(&self) -> Uses {
        let mut uses = Uses::new();
        for (path, module) in self.modules() {
            let mut names = Names(BTreeSet::new());
            module.items.iter().for_each(|item| names.visit_item(item));
            let files = names.0.iter().flat_map(|name| self.files_of(path, name, 0));
            uses.entry(module.file.clone())
                .or_default()
                .extend(files.filter(|file| *file != module.file));
        }
        uses
    }

    pub(crate) fn modules(&self) -> impl Iterator<Item = (&[String], &Module)> {
        let modules = self.modules.iter();
        modules.flat_map(|(path, modules)| modules.iter().map(|module| (path.as_slice(), module)))
    }
}

fn is_test(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        attribute.path().is_ident("cfg") && attribute.parse_args::<syn::Ident>().is_ok()
    })
}

pub(crate) fn type_name(item: &Item) -> Option<String> {
    let name = match item {
        Item::Struct(item) => &item.ident,
        Item::Enum(item) => &item.ident,
        Item::Union(item) => &item.ident,
        Item::Trait(item) => &item.ident,
        Item::Type(item) => &item.ident,
        _ => return None,
    };
    Some(name.to_string())
}

fn is_called(item: &Item, name: &str) -> bool {
    let own = match item {
        Item::Fn(item) => &item.sig.ident,
        Item::Const(item) => &item.ident,
        Item::Static(item) => &item.ident,
        Item::Macro(item) => return item.ident.as_ref().is_some_and(|own| own == name),
        _ => return type_name(item).is_some_and(|own| own == name),
    };
    own == name
}

/// Each path that a tree of imports stands for, with the name that it gets here: `None` for `*`.
pub(crate) fn imports(
    tree: &UseTree,
    before: &[String],
    each: &mut impl FnMut(Option<String>, Vec<String>),
) {
    let path = |name: &syn::Ident| [before, &[name.to_string()]].concat();
    match tree {
        UseTree::Path(tree) => imports(&tree.tree, &path(&tree.ident), each),
        UseTree::Group(group) => {
            group
                .items
                .iter()
                .for_each(|tree| imports(tree, before, each));
        }
        UseTree::Name(name) if name.ident == "self" => {
            each(before.last().cloned(), before.to_vec());
        }
        UseTree::Name(name) => each(Some(name.ident.to_string()), path(&name.ident)),
        UseTree::Rename(name) => each(Some(name.rename.to_string()), path(&name.ident)),
        UseTree::Glob(_) => each(None, before.to_vec()),
    }
}

/// What a module imports, also in its functions.
struct Imports<'a>(
    &'a mut BTreeMap<String, Vec<String>>,
    &'a mut Vec<Vec<String>>,
);

impl<'a> Visit<'a> for Imports<'_> {
    fn visit_item_use(&mut self, item: &'a syn::ItemUse) {
        imports(&item.tree, &[], &mut |name, path| match name {
            Some(name) => _ = self.0.insert(name, path),
            None => self.1.push(path),
        });
    }

    fn visit_item_mod(&mut self, _: &'a ItemMod) {}
}

/// Each path that a module names.
struct Names(BTreeSet<Vec<String>>);

impl<'a> Visit<'a> for Names {
    fn visit_item_use(&mut self, item: &'a syn::ItemUse) {
        if matches!(item.vis, Visibility::Inherited) {
            imports(&item.tree, &[], &mut |_, path| _ = self.0.insert(path));
        }
    }

    fn visit_item_mod(&mut self, _: &'a ItemMod) {}

    fn visit_path(&mut self, path: &'a syn::Path) {
        let segments = path.segments.iter();
        self.0
            .insert(segments.map(|segment| segment.ident.to_string()).collect());
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, called: &'a syn::Macro) {
        self.tokens(called.tokens.clone());
        visit::visit_macro(self, called);
    }
}

impl Names {
    /// Each `a::b`, as the arguments of a macro have no other syntax in common.
    fn tokens(&mut self, tokens: TokenStream) {
        let (mut path, mut colons) = (Vec::new(), 0);
        for token in tokens {
            match token {
                TokenTree::Punct(punct) if punct.as_char() == ':' => colons += 1,
                TokenTree::Ident(name) => {
                    if colons != 2 {
                        self.0.insert(std::mem::take(&mut path));
                    }
                    path.push(name.to_string());
                    colons = 0;
                }
                TokenTree::Group(group) => self.tokens(group.stream()),
                _ => _ = self.0.insert(std::mem::take(&mut path)),
            }
        }
        self.0.insert(path);
    }
}
