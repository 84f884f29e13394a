//! The type that `return` has at the place of the guard, as an expression can write it.

use proc_macro2::{Ident, Span, TokenStream};
use quote::ToTokens as _;
use syn::visit_mut::{self, VisitMut};
use syn::{
    BoundLifetimes, GenericParam, Lifetime, ParenthesizedGenericArguments, Token, Type, TypeFnPtr,
    TypeInfer,
};

use crate::check::function::output::Output;
use crate::expand::spans::located;

pub(crate) struct OutputType {
    pub(crate) ty: TokenStream,
    /// The location of the type in the function, for errors about it.
    pub(crate) span: Span,
    /// `true` if it may be a future itself, as actix-web's `HttpResponse` is.
    pub(crate) may_be_future: bool,
}

impl OutputType {
    pub(crate) fn of(output: &Output) -> Self {
        let (ty, span) = match output {
            Output::Type(ty) => (named(ty).into_token_stream(), located(ty)),
            Output::Nothing(tokens) => (quote_mixed!(()), located(tokens)),
            // `!` cannot be written here, but inferred.
            Output::Never(tokens) => (quote_mixed!(_), located(tokens)),
            Output::Unknown => (quote_mixed!(_), Span::mixed_site()),
        };
        Self {
            ty,
            span,
            may_be_future: may_be_future(output),
        }
    }
}

fn may_be_future(output: &Output) -> bool {
    let Output::Type(ty) = output else {
        return matches!(output, Output::Unknown);
    };
    let Type::Path(path) = &**ty else { return true };
    path.path
        .segments
        .last()
        .is_none_or(|last| last.ident != "Option" && !last.ident.to_string().ends_with("Result"))
}

/// `ty` with `_` for the parts that are left to inference: each `impl Trait`, which an expression
/// cannot write, and the lifetimes of the signature, which lints would take for used.
fn named(ty: &Type) -> Type {
    struct Eraser {
        /// The lifetimes that a `for<'a>` binds.
        bound: Vec<Lifetime>,
    }
    impl VisitMut for Eraser {
        fn visit_type_mut(&mut self, ty: &mut Type) {
            if matches!(ty, Type::ImplTrait(_)) {
                let span = located(ty);
                *ty = Type::Infer(TypeInfer {
                    attrs: Vec::new(),
                    underscore_token: Token![_](span),
                });
            } else {
                visit_mut::visit_type_mut(self, ty);
            }
        }

        fn visit_bound_lifetimes_mut(&mut self, bound: &mut BoundLifetimes) {
            self.bound.extend(
                bound
                    .lifetimes
                    .iter()
                    .filter_map(|parameter| match parameter {
                        GenericParam::Lifetime(parameter) => Some(parameter.lifetime.clone()),
                        _ => None,
                    }),
            );
        }

        // There, `'_` would be a lifetime of the arguments.
        fn visit_parenthesized_generic_arguments_mut(
            &mut self,
            _: &mut ParenthesizedGenericArguments,
        ) {
        }
        fn visit_type_fn_ptr_mut(&mut self, _: &mut TypeFnPtr) {}

        fn visit_lifetime_mut(&mut self, lifetime: &mut Lifetime) {
            if lifetime.ident != "static" && !self.bound.contains(lifetime) {
                lifetime.ident = Ident::new("_", lifetime.ident.span());
            }
        }
    }
    let mut ty = ty.clone();
    Eraser { bound: Vec::new() }.visit_type_mut(&mut ty);
    ty
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn a_type_that_a_let_cannot_name_is_inferred() {
        for (ty, expected) in [
            ("impl X", "_"),
            ("Result<impl X + 'a, E>", "Result < _ , E >"),
            (
                "Result<&'a T, Box<dyn E + 'static>>",
                "Result < & '_ T , Box < dyn E + 'static > >",
            ),
            ("Self::Item<'a>", "Self :: Item < '_ >"),
            (
                "Box<dyn for<'x> B<'x, A<'a>> + 'a>",
                "Box < dyn for < 'x > B < 'x , A < '_ > > + '_ >",
            ),
            (
                "Box<dyn for<'x> Fn(&'x A) -> &'a A + 'a>",
                "Box < dyn for < 'x > Fn (& 'x A) -> & 'a A + '_ >",
            ),
            ("fn(&A) -> B<'a>", "fn (& A) -> B < 'a >"),
            ("Result<(), Box<dyn E>>", "Result < () , Box < dyn E > >"),
        ] {
            let actual = named(&syn::parse_str(ty).unwrap()).into_token_stream();
            assert_eq!(actual.to_string(), expected, "{ty}");
        }
    }
}
