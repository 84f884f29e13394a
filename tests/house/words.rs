//! One word for one thing, and one type for one name, in what the two crates declare.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use syn::visit::{self, Visit};
use syn::{Ident, Visibility};

use crate::comments::files;

/// Words that no identifier and no file name has in it, what is written instead, and where that
/// holds, if not everywhere.
const BANNED: &[(&[&str], &str, &str)] = &[
    (&["ban", "bans", "banned", "banning"], "block, blocked", ""),
    (&["patience", "patient", "patiently", "hopeful"], "wait, timeout, or what it is due for", ""),
    (&["keeper", "keepers"], "fallback, supervisor", ""),
    (&["endpoint", "endpoints", "target", "targets"], "node", "store/redis"),
    (&["way", "ways"], "router, protocol, layout, operation", ""),
    (&["kinds"], "operation, protocol, layout", "store/redis"),
    (&["room", "rooms"], "limit, in-flight limit, capacity, free", ""),
    (&["cells"], "counters", ""),
    (&["nobody", "somebody", "whoever"], "caller, client, task, server: who it is", ""),
];

/// What users look for by such a name: the trait `Endpoint` of poem, and the source of a decision
/// that nothing has made, which is a label of metrics, too.
const PUBLIC: [&str; 2] = ["RateLimitEndpoint", "Nobody"];

/// What the files of a crate declare: each identifier with the files, each type that other modules
/// see as well.
#[derive(Default)]
struct Declared {
    file: String,
    identifiers: BTreeMap<String, BTreeSet<String>>,
    types: BTreeMap<String, Vec<String>>,
}

impl Declared {
    fn of_crate(name: &str) -> Self {
        let mut declared = Self::default();
        for (path, text) in files(&[&format!("{name}/src")], &["rs"]) {
            declared.file.clone_from(&path);
            let stem = Path::new(&path).file_stem().unwrap().to_str().unwrap();
            let stem = if stem == "mod" { path.rsplit('/').nth(1).unwrap() } else { stem };
            declared.declare(stem);
            declared.visit_file(&syn::parse_file(&text).unwrap_or_else(|error| panic!("{path}: {error}")));
        }
        assert!(declared.identifiers.len() > 500 && declared.types.len() > 50, "{name}: nothing was read");
        declared
    }

    fn declare(&mut self, name: &str) {
        self.identifiers.entry(name.to_owned()).or_default().insert(self.file.clone());
    }

    fn declare_type(&mut self, name: &Ident, visibility: &Visibility) {
        if !matches!(visibility, Visibility::Inherited) {
            self.types.entry(name.to_string()).or_default().push(self.file.clone());
        }
    }

    /// What is wrong with the identifiers that have a banned word in them.
    fn banned(&self) -> Vec<String> {
        let mut wrong = Vec::new();
        for (name, files) in self.identifiers.iter().filter(|(name, _)| !PUBLIC.contains(&name.as_str())) {
            let words = words(name);
            for (banned, instead, place) in BANNED {
                let Some(word) = words.iter().find(|word| banned.contains(&word.as_str())) else { continue };
                if let Some(file) = files.iter().find(|file| file.contains(place)) {
                    wrong.push(format!("`{word}` in `{name}` of {file}: write {instead}"));
                }
            }
        }
        wrong
    }
}

/// `InFlight`, `in_flight` and `IN_FLIGHT` are two words each.
fn words(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut last = '_';
    for c in name.chars() {
        if c == '_' || (c.is_uppercase() && last.is_lowercase()) {
            words.push(String::new());
        }
        if c != '_' {
            words.last_mut().unwrap().extend(c.to_lowercase());
        }
        last = c;
    }
    words
}

impl<'a> Visit<'a> for Declared {
    fn visit_signature(&mut self, it: &'a syn::Signature) {
        self.declare(&it.ident.to_string());
        visit::visit_signature(self, it);
    }

    fn visit_pat_ident(&mut self, it: &'a syn::PatIdent) {
        self.declare(&it.ident.to_string());
        visit::visit_pat_ident(self, it);
    }

    fn visit_field(&mut self, it: &'a syn::Field) {
        if let Some(name) = &it.ident {
            self.declare(&name.to_string());
        }
        visit::visit_field(self, it);
    }

    fn visit_variant(&mut self, it: &'a syn::Variant) {
        self.declare(&it.ident.to_string());
        visit::visit_variant(self, it);
    }

    fn visit_item_const(&mut self, it: &'a syn::ItemConst) {
        self.declare(&it.ident.to_string());
        visit::visit_item_const(self, it);
    }

    fn visit_impl_item_const(&mut self, it: &'a syn::ImplItemConst) {
        self.declare(&it.ident.to_string());
        visit::visit_impl_item_const(self, it);
    }

    fn visit_item_static(&mut self, it: &'a syn::ItemStatic) {
        self.declare(&it.ident.to_string());
        visit::visit_item_static(self, it);
    }

    fn visit_item_mod(&mut self, it: &'a syn::ItemMod) {
        self.declare(&it.ident.to_string());
        visit::visit_item_mod(self, it);
    }

    fn visit_item_macro(&mut self, it: &'a syn::ItemMacro) {
        if let Some(name) = &it.ident {
            self.declare(&name.to_string());
        }
        visit::visit_item_macro(self, it);
    }

    fn visit_item_struct(&mut self, it: &'a syn::ItemStruct) {
        self.declare(&it.ident.to_string());
        self.declare_type(&it.ident, &it.vis);
        visit::visit_item_struct(self, it);
    }

    fn visit_item_enum(&mut self, it: &'a syn::ItemEnum) {
        self.declare(&it.ident.to_string());
        self.declare_type(&it.ident, &it.vis);
        visit::visit_item_enum(self, it);
    }

    fn visit_item_trait(&mut self, it: &'a syn::ItemTrait) {
        self.declare(&it.ident.to_string());
        self.declare_type(&it.ident, &it.vis);
        visit::visit_item_trait(self, it);
    }

    fn visit_item_type(&mut self, it: &'a syn::ItemType) {
        self.declare(&it.ident.to_string());
        self.declare_type(&it.ident, &it.vis);
        visit::visit_item_type(self, it);
    }
}

const CRATES: [&str; 2] = ["ratelimit-macros", "ratelimit-runtime"];

#[test]
fn no_identifier_has_two_words_for_one_thing() {
    let found: Vec<_> = CRATES.iter().flat_map(|name| Declared::of_crate(name).banned()).collect();
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn no_two_types_of_a_crate_have_one_name() {
    let found = CRATES.iter().flat_map(|name| {
        let several = Declared::of_crate(name).types.into_iter().filter(|(_, files)| files.len() > 1);
        several.map(|(name, files)| format!("`{name}` is a type in {}: each needs its own name", files.join(" and ")))
    });
    let found: Vec<_> = found.collect();
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn a_banned_word_is_found_wherever_it_is_declared() {
    let text = "
        pub struct Wait { patience: u8 }
        enum E { Banned }
        const SOME_WAY: u8 = 0;
        mod room;
        fn f(keeper: u8) { let (held, nobody) = (1, 2); let waylay = target_os(); }
        trait T { fn ban(); }
        macro_rules! cells { () => {} }";
    let mut declared = Declared { file: "src/f.rs".to_owned(), ..Declared::default() };
    declared.visit_file(&syn::parse_file(text).unwrap());
    let found = declared.banned();
    let expected = ["Banned", "SOME_WAY", "ban", "cells", "keeper", "nobody", "patience", "room"];
    assert_eq!(found.len(), expected.len(), "{found:?}");
    assert!(found.iter().zip(expected).all(|(why, name)| why.contains(&format!("`{name}`"))), "{found:?}");
    assert_eq!(declared.types.keys().collect::<Vec<_>>(), ["Wait"]);
    assert_eq!(words("InFlightLimit"), ["in", "flight", "limit"]);
}
