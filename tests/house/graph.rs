//! Which module uses which, and whether any uses itself in the end.

use std::collections::{BTreeMap, BTreeSet};

use crate::sources::{Module, Source};

/// The modules that each module uses.
pub(super) type Graph = BTreeMap<Module, BTreeSet<Module>>;

pub(super) fn of(sources: &BTreeMap<Module, Source>) -> Graph {
    let uses = |(module, source): (&Module, &Source)| {
        let mut used: BTreeSet<Module> = source.names.iter().filter_map(|path| definer(sources, path, 16)).collect();
        used.remove(module);
        (module.clone(), used)
    };
    sources.iter().map(uses).collect()
}

/// The module that defines what a path names, through whatever hands it on.
fn definer(sources: &BTreeMap<Module, Source>, path: &[String], depth: usize) -> Option<Module> {
    let longest =
        (0..=path.len()).rev().find(|&at| path.get(..at).is_some_and(|module| sources.contains_key(module)))?;
    let (module, rest) = path.split_at_checked(longest)?;
    let source = sources.get(module)?;
    let Some(item) = rest.first() else { return Some(module.to_vec()) };
    if item == "*" || source.items.contains(item) || depth == 0 {
        return Some(module.to_vec());
    }
    for (name, target) in &source.reexports {
        if name == item {
            return definer(sources, target, depth - 1);
        }
    }
    for (name, target) in &source.reexports {
        let Some((_, base)) = target.split_last().filter(|_| name == "*") else { continue };
        if sources.get(base).is_some_and(|source| source.items.contains(item)) {
            return Some(base.to_vec());
        }
    }
    // A macro, a variant, or something that a macro defines.
    Some(module.to_vec())
}

/// A cycle, if there is one: each module uses the next, and the last the first.
pub(super) fn cycle(graph: &Graph) -> Option<Vec<Module>> {
    let mut done = BTreeSet::new();
    graph.keys().find_map(|start| visit(graph, start, &mut Vec::new(), &mut done))
}

fn visit(graph: &Graph, module: &Module, way: &mut Vec<Module>, done: &mut BTreeSet<Module>) -> Option<Vec<Module>> {
    if let Some(at) = way.iter().position(|earlier| earlier == module) {
        return way.get(at..).map(<[Module]>::to_vec);
    }
    if done.contains(module) {
        return None;
    }
    way.push(module.clone());
    let found = graph.get(module).into_iter().flatten().find_map(|next| visit(graph, next, way, done));
    way.pop();
    done.insert(module.clone());
    found
}

pub(super) fn words(modules: &[Module]) -> String {
    let path = |module: &Module| if module.is_empty() { "the root".to_owned() } else { module.join("::") };
    modules.iter().map(path).collect::<Vec<_>>().join(" → ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sources::source;

    fn crate_of(files: &[(&str, &str)]) -> BTreeMap<Module, Source> {
        let read = |(path, text): &(&str, &str)| {
            let module: Module = path.split("::").filter(|segment| !segment.is_empty()).map(str::to_owned).collect();
            let source = source(&module, &syn::parse_file(text).unwrap().items);
            (module, source)
        };
        files.iter().map(read).collect()
    }

    #[test]
    fn a_circle_is_found_also_through_what_is_handed_on() {
        let two = [("a", "use crate::b::B; pub struct A;"), ("b", "pub struct B; fn f() { crate::a::g() }")];
        assert_eq!(words(&cycle(&of(&crate_of(&two))).unwrap()), "a → b");
        let handed_on = [
            ("", "pub use a::A;"),
            ("a", "pub use self::inner::A; mod inner;"),
            ("a::inner", "use crate::b::B; pub struct A;"),
            ("b", "use crate::A; pub struct B;"),
        ];
        assert_eq!(words(&cycle(&of(&crate_of(&handed_on))).unwrap()), "a::inner → b");
        let parent_and_child =
            [("a", "use self::inner::A; pub struct B;"), ("a::inner", "use super::B; pub struct A;")];
        assert!(cycle(&of(&crate_of(&parent_and_child))).is_some());
    }

    #[test]
    fn what_flows_one_way_is_no_circle() {
        let chain = [
            ("", "pub use a::A;"),
            ("a", "mod inner; pub use self::inner::A;"),
            ("a::inner", "use super::super::b::B; pub struct A;"),
            ("b", "pub struct B; #[cfg(test)] mod tests { use crate::A; }"),
        ];
        assert_eq!(cycle(&of(&crate_of(&chain))), None);
    }
}
