//! What `return` returns where the guard stands, as it can be written in an expression.

use proc_macro2::{Span, TokenStream};
use quote::{ToTokens as _, quote_spanned};
use syn::spanned::Spanned as _;
use syn::visit_mut::{self, VisitMut};
use syn::{Token, Type, TypeInfer};

use crate::check::output::Output;

pub(crate) struct OutputType {
    pub(crate) ty: TokenStream,
    /// Where the function says so, for errors about it.
    pub(crate) span: Span,
}

impl OutputType {
    pub(crate) fn of(output: &Output) -> Self {
        let mixed = Span::mixed_site();
        let (ty, span) = match output {
            Output::Type(ty) => (named(ty).into_token_stream(), ty.span().resolved_at(mixed)),
            Output::Nothing(tokens) => (quote_spanned!(mixed=> ()), tokens.span().resolved_at(mixed)),
            // `!` cannot be written here, but inferred.
            Output::Never(tokens) => (quote_spanned!(mixed=> _), tokens.span().resolved_at(mixed)),
            Output::Unknown => (quote_spanned!(mixed=> _), mixed),
        };
        Self { ty, span }
    }
}

/// `ty` with each `impl Trait` in it left to inference: it cannot be written in an expression.
fn named(ty: &Type) -> Type {
    struct Eraser;
    impl VisitMut for Eraser {
        fn visit_type_mut(&mut self, ty: &mut Type) {
            if matches!(ty, Type::ImplTrait(_)) {
                let span = ty.span().resolved_at(Span::mixed_site());
                *ty = Type::Infer(TypeInfer { attrs: Vec::new(), underscore_token: Token![_](span) });
            } else {
                visit_mut::visit_type_mut(self, ty);
            }
        }
    }
    let mut ty = ty.clone();
    Eraser.visit_type_mut(&mut ty);
    ty
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn opaque_types_are_left_to_inference() {
        for (ty, expected) in [
            ("impl X", "_"),
            ("Result<impl X + 'a, E>", "Result < _ , E >"),
            ("Result<(), Box<dyn E>>", "Result < () , Box < dyn E > >"),
        ] {
            let actual = named(&syn::parse_str(ty).unwrap()).into_token_stream();
            assert_eq!(actual.to_string(), expected, "{ty}");
        }
    }
}
