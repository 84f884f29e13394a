//! The names that a template may use: those that the function's arguments bind.

use quote::ToTokens as _;
use syn::ext::IdentExt as _;
use syn::{Attribute, FnArg, Ident, Meta, Pat, Signature};

use crate::check::function::names::mentions;
use crate::check::values::constant::INTEGERS;

/// A name that an argument binds.
pub(crate) struct Binding {
    /// The name as written: raw or not, resolving where the argument does.
    pub(crate) ident: Ident,
    /// `true` if the argument exists only under some `#[cfg]`.
    pub(crate) conditional: bool,
    /// `true` if another argument has the same name: one of the two is a macro's.
    pub(crate) ambiguous: bool,
    /// `true` if the type is a primitive, a `String`, or a reference to one.
    pub(crate) without_fields: bool,
}

impl Binding {
    /// The name as people write it, without `r#`.
    pub(crate) fn text(&self) -> String {
        self.ident.unraw().to_string()
    }
}

#[derive(Default)]
pub(crate) struct Scope {
    pub(crate) bindings: Vec<Binding>,
    /// The name of `self` where the guard stands, and where that was written.
    pub(crate) receiver: Option<Ident>,
    /// Type and const parameters, whose value may differ between calls.
    parameters: Vec<String>,
}

impl Scope {
    pub(crate) fn of(signature: &Signature) -> Self {
        let mut scope = Self::default();
        scope.parameters.extend(
            signature
                .generics
                .type_params()
                .map(|parameter| parameter.ident.to_string()),
        );
        scope.parameters.extend(
            signature
                .generics
                .const_params()
                .map(|parameter| parameter.ident.to_string()),
        );
        for argument in &signature.inputs {
            match argument {
                FnArg::Receiver(receiver) => {
                    scope.receiver = Some(Ident::new("self", receiver.self_token.span));
                }
                FnArg::Typed(argument) => {
                    scope.bind(&argument.pat, conditional(&argument.attrs));
                    let last = argument.ty.to_token_stream().into_iter().last();
                    let last = last.map(|last| last.to_string()).unwrap_or_default();
                    let without_fields = INTEGERS.contains(&last.as_str())
                        || matches!(last.as_str(), "str" | "String" | "bool" | "char");
                    if let Pat::Ident(name) = &*argument.pat {
                        let bound = |binding: &&mut Binding| binding.ident == name.ident;
                        if let Some(binding) = scope.bindings.iter_mut().find(bound) {
                            binding.without_fields = without_fields;
                        }
                    }
                }
            }
        }
        scope
    }

    /// Adds the names that `pattern` binds.
    pub(crate) fn bind(&mut self, pattern: &Pat, conditional_argument: bool) {
        let mut all = |patterns: &mut dyn Iterator<Item = &Pat>| {
            for pattern in patterns {
                self.bind(pattern, conditional_argument);
            }
        };
        match pattern {
            Pat::Ident(pattern) => {
                self.add(&pattern.ident, conditional_argument);
                if let Some((_, inner)) = &pattern.subpat {
                    self.bind(inner, conditional_argument);
                }
            }
            Pat::Struct(pattern) => {
                for field in &pattern.fields {
                    self.bind(
                        &field.pat,
                        conditional_argument || conditional(&field.attrs),
                    );
                }
            }
            Pat::Tuple(pattern) => all(&mut pattern.elems.iter()),
            Pat::TupleStruct(pattern) => all(&mut pattern.elems.iter()),
            Pat::Slice(pattern) => all(&mut pattern.elems.iter()),
            // Every case binds the same names.
            Pat::Or(pattern) => all(&mut pattern.cases.iter().take(1)),
            Pat::Paren(pattern) => self.bind(&pattern.pat, conditional_argument),
            Pat::Reference(pattern) => self.bind(&pattern.pat, conditional_argument),
            Pat::Type(pattern) => self.bind(&pattern.pat, conditional_argument),
            _ => {}
        }
    }

    fn add(&mut self, ident: &Ident, conditional: bool) {
        match self.bindings.iter_mut().find(|known| known.ident == *ident) {
            // Of two arguments under a `#[cfg]`, one is there.
            Some(known) if known.conditional || conditional => known.conditional = true,
            Some(known) => known.ambiguous = true,
            None => {
                let ident = ident.clone();
                self.bindings.push(Binding {
                    ident,
                    conditional,
                    ambiguous: false,
                    without_fields: false,
                });
            }
        }
    }

    /// `true` if the value named `text` may differ between calls.
    pub(crate) fn varies(&self, text: &str) -> bool {
        matches!(text, "self" | "Self" | "__self")
            || self.find(text).is_some()
            || self.has_parameter(text)
    }

    /// `true` if `text` names a type or const parameter.
    pub(crate) fn has_parameter(&self, text: &str) -> bool {
        self.parameters.iter().any(|parameter| parameter == text)
    }

    pub(crate) fn find(&self, text: &str) -> Option<&Binding> {
        self.bindings.iter().find(|binding| binding.text() == text)
    }

    /// All names, `self` first.
    pub(crate) fn texts(&self) -> Vec<String> {
        let receiver = self.receiver.iter().map(|_| "self".to_owned());
        receiver
            .chain(self.bindings.iter().map(Binding::text))
            .collect()
    }
}

/// `true` if one of `attributes` is a `cfg`, or a `cfg_attr` that applies one.
fn conditional(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| match &attribute.meta {
        Meta::List(list) if list.path.is_ident("cfg_attr") => mentions(&list.tokens, "cfg"),
        meta => meta.path().is_ident("cfg"),
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn every_name_that_a_pattern_binds_is_an_argument() {
        let signature: Signature = syn::parse_str(
            "fn f(&mut self, mut a: A, (b, ref c): B, Json(d): Json<D>, E { e, f: g, .. }: E, h @ (i, _): H,
                  [j, .., k]: K, &l: &L, r#type: T, _: U, #[cfg(x)] m: M)",
        )
        .unwrap();
        let scope = Scope::of(&signature);
        let expected = [
            "self", "a", "b", "c", "d", "e", "g", "h", "i", "j", "k", "l", "type", "m",
        ];
        assert_eq!(scope.texts(), expected);
        assert!(scope.find("m").unwrap().conditional);
        assert!(!scope.find("a").unwrap().conditional);
        assert_eq!(scope.find("type").unwrap().ident.to_string(), "r#type");
        assert!(scope.find("f").is_none());
    }

    #[test]
    fn arguments_under_cfg_are_conditional() {
        for (attribute, expected) in [
            ("#[cfg(x)]", true),
            ("#[cfg_attr(x, cfg(y))]", true),
            ("#[cfg_attr(x, allow(z), cfg_attr(y, cfg(z)))]", true),
            ("#[cfg_attr(x, allow(unused_variables))]", false),
            ("#[allow(unused_variables)]", false),
        ] {
            let signature: Signature = syn::parse_str(&format!("fn f({attribute} a: A)")).unwrap();
            assert_eq!(
                Scope::of(&signature).find("a").unwrap().conditional,
                expected,
                "{attribute}"
            );
        }
    }
}
