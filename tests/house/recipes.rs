//! The programs that people copy give no key that many clients share because something is missing.

use std::fs;
use std::path::{Path, PathBuf};

use syn::visit::{self, Visit};

/// Where programs are shown: documents, and the comments and code of these folders.
const SHOWN: [&str; 5] = ["README.md", "README.zh-CN.md", "examples", "ratelimit-runtime/src", "ratelimit-macros/src"];

/// A key that is made like this may be empty, `None`, or one for all.
const MERGES: [&str; 6] =
    [".unwrap_or", ".ok()", ".map_or", "get::<ConnectInfo", ".headers().get(", ".into_iter().next()"];

/// A program, and where it is shown.
type Program = (PathBuf, String);

fn files(path: &Path) -> Vec<PathBuf> {
    if path.is_file() {
        return vec![path.to_owned()];
    }
    fs::read_dir(path).unwrap().flat_map(|entry| files(&entry.unwrap().path())).collect()
}

/// The programs between the fences of a text, those of other languages left out.
fn fenced(text: &str) -> Vec<String> {
    let mut programs = Vec::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        let Some(language) = line.trim_start().strip_prefix("```") else { continue };
        let is_hidden = |line: &str| line == "#" || line.starts_with("# ");
        let shown = |line: &str| if is_hidden(line) { line.replacen('#', "", 1) } else { line.to_owned() };
        let block: Vec<_> =
            lines.by_ref().take_while(|line| !line.trim_start().starts_with("```")).map(shown).collect();
        if language.is_empty() || language.starts_with("rust") || language.starts_with("no_run") {
            programs.push(block.join("\n"));
        }
    }
    programs
}

fn programs() -> Vec<Program> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut all = Vec::new();
    for path in SHOWN.iter().flat_map(|shown| files(&root.join(shown))) {
        let extension = path.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
        let is_example = path.components().any(|part| part.as_os_str() == "examples");
        if !matches!(extension, "md" | "rs") {
            continue;
        }
        let text = fs::read_to_string(&path).unwrap();
        if is_example && extension == "rs" {
            all.push((path, text));
        } else if extension == "md" {
            all.extend(fenced(&text).into_iter().map(|program| (path.clone(), program)));
        } else {
            let comment = |line: &str| {
                let line = line.trim_start();
                let text = line.strip_prefix("///").or_else(|| line.strip_prefix("//!"))?;
                Some(text.strip_prefix(' ').unwrap_or(text).to_owned())
            };
            let text: Vec<_> = text.lines().filter_map(comment).collect();
            all.extend(fenced(&text.join("\n")).into_iter().map(|program| (path.clone(), program)));
        }
    }
    all
}

/// The functions that are limited by an argument that may be `None`.
#[derive(Default)]
struct Limited {
    functions: usize,
    wrong: Vec<String>,
}

impl Limited {
    fn look(&mut self, attributes: &[syn::Attribute], signature: &syn::Signature) {
        let keys = attributes.iter().filter(|attribute| attribute.path().is_ident("rate_limit")).filter_map(key);
        for key in keys {
            self.functions += 1;
            for input in &signature.inputs {
                let syn::FnArg::Typed(argument) = input else { continue };
                let syn::Pat::Ident(name) = &*argument.pat else { continue };
                let named = ['>', '.', ':'].iter().any(|end| key.contains(&format!("<{}{end}", name.ident)));
                let syn::Type::Path(kind) = &*argument.ty else { continue };
                if named && kind.path.segments.last().is_some_and(|last| last.ident == "Option") {
                    self.wrong.push(format!("`{}` of `{}`", name.ident, signature.ident));
                }
            }
        }
    }
}

/// The template of an attribute.
fn key(attribute: &syn::Attribute) -> Option<String> {
    let mut tokens = attribute.meta.require_list().ok()?.tokens.clone().into_iter();
    tokens.find(|token| matches!(token, proc_macro2::TokenTree::Ident(name) if name == "key"))?;
    Some(tokens.nth(1)?.to_string())
}

impl<'a> Visit<'a> for Limited {
    fn visit_item_fn(&mut self, function: &'a syn::ItemFn) {
        self.look(&function.attrs, &function.sig);
        visit::visit_item_fn(self, function);
    }

    fn visit_impl_item_fn(&mut self, function: &'a syn::ImplItemFn) {
        self.look(&function.attrs, &function.sig);
        visit::visit_impl_item_fn(self, function);
    }
}

/// What is given to `rule` of a layer.
fn rules(program: &str) -> impl Iterator<Item = &str> {
    program.split(".rule(").skip(1).map(|rest| {
        let mut depth = 1_i32;
        let end = rest.find(|c| {
            depth += i32::from(c == '(') - i32::from(c == ')');
            depth == 0
        });
        rest.split_at(end.unwrap()).0
    })
}

#[test]
fn no_layer_that_is_shown_has_a_key_that_may_be_missing() {
    let programs = programs();
    let layers: Vec<_> =
        programs.iter().flat_map(|(path, program)| rules(program).map(move |rule| (path, rule))).collect();
    assert!(layers.len() >= 8, "{} layers", layers.len());
    for (path, rule) in layers {
        let merges: Vec<_> = MERGES.iter().filter(|merges| rule.contains(**merges)).collect();
        assert!(merges.is_empty(), "{}: {merges:?} in\n{rule}", path.display());
    }
}

#[test]
fn no_function_that_is_shown_is_limited_by_what_may_be_none() {
    let mut limited = Limited::default();
    for (path, program) in programs() {
        if !program.contains("rate_limit(") {
            continue;
        }
        let file = syn::parse_file(&program).or_else(|_| syn::parse_file(&format!("async fn main() {{ {program}\n}}")));
        let file = file.unwrap_or_else(|error| panic!("{}: {error} in\n{program}", path.display()));
        limited.visit_file(&file);
        assert!(limited.wrong.is_empty(), "{}: {:?} may be None", path.display(), limited.wrong);
    }
    assert!(limited.functions >= 30, "{} functions", limited.functions);
}

#[test]
fn a_key_that_may_be_none_is_found() {
    let mut limited = Limited::default();
    limited.visit_file(
        &syn::parse_file(
            r#"#[rate_limit(max = 1, window = "1s", key = "<a>/<b.c>")] async fn f(a: u8, b: Option<B>) {}"#,
        )
        .unwrap(),
    );
    assert_eq!(limited.wrong, ["`b` of `f`"]);
    assert_eq!(rules("layer.rule(&R, |q| (q.a)(1)).limiter(x)").collect::<Vec<_>>(), ["&R, |q| (q.a)(1)"]);
}
