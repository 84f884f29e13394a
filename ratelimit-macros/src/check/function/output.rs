//! The output of the async function, as far as its signature tells.

use proc_macro2::TokenStream;
use quote::ToTokens as _;
use syn::punctuated::Punctuated;
use syn::{
    AngleBracketedGenericArguments, GenericArgument, PathArguments, ReturnType, Signature, Type,
    TypeParamBound,
};

/// The output of the function's future.
pub(crate) enum Output {
    /// `()`, with the tokens that say so.
    Nothing(TokenStream),
    /// `!`, with the tokens that say so.
    Never(TokenStream),
    Type(Box<Type>),
    /// Hidden behind an alias of some future: left to inference.
    Unknown,
}

impl Output {
    /// The output type `ty`. If it is `()` or `!`, errors about that underline `at`.
    pub(crate) fn of_type(ty: &Type, at: TokenStream) -> Self {
        match ty {
            // A type that `macro_rules!` passed on as `$output:ty`.
            Type::Group(group) => Self::of_type(&group.elem, at),
            Type::Never(_) => Self::Never(at),
            _ if is_unit(ty) => Self::Nothing(at),
            _ => Self::Type(Box::new(ty.clone())),
        }
    }

    /// The output that an `async fn` declares.
    pub(crate) fn of_async_fn(signature: &Signature) -> Self {
        match &signature.output {
            ReturnType::Default => Self::Nothing(signature.ident.to_token_stream()),
            ReturnType::Type(_, ty) => Self::of_type(ty, ty.to_token_stream()),
        }
    }

    /// The output of the future that a plain function returns.
    pub(crate) fn of_future(returned: &ReturnType) -> Self {
        let ty = match returned {
            ReturnType::Default => None,
            ReturnType::Type(_, ty) => output_of(ty),
        };
        ty.map_or(Self::Unknown, |ty| Self::of_type(ty, ty.to_token_stream()))
    }
}

/// `X` of the `Future<Output = X>` in `ty`. A name such as `BoxFuture<'a, X>` may be an alias of
/// any future.
fn output_of(ty: &Type) -> Option<&Type> {
    match ty {
        Type::ImplTrait(future) => output_in(&future.bounds),
        Type::TraitObject(future) => output_in(&future.bounds),
        Type::Paren(paren) => output_of(&paren.elem),
        Type::Group(group) => output_of(&group.elem),
        Type::Path(path) => {
            let last = path.path.segments.last()?;
            let PathArguments::AngleBracketed(arguments) = &last.arguments else {
                return None;
            };
            let is_pointer = last.ident == "Pin" || last.ident == "Box";
            is_pointer.then(|| types(arguments).find_map(output_of))?
        }
        _ => None,
    }
}

fn output_in<P>(bounds: &Punctuated<TypeParamBound, P>) -> Option<&Type> {
    bounds.iter().find_map(|bound| {
        let TypeParamBound::Trait(bound) = bound else {
            return None;
        };
        let PathArguments::AngleBracketed(arguments) = &bound.path.segments.last()?.arguments
        else {
            return None;
        };
        arguments.args.iter().find_map(|argument| match argument {
            GenericArgument::AssocType(output) if output.ident == "Output" => Some(&output.ty),
            _ => None,
        })
    })
}

fn types(arguments: &AngleBracketedGenericArguments) -> impl Iterator<Item = &Type> {
    arguments.args.iter().filter_map(|argument| match argument {
        GenericArgument::Type(ty) => Some(ty),
        _ => None,
    })
}

pub(crate) fn is_unit(ty: &Type) -> bool {
    matches!(ty, Type::Tuple(tuple) if tuple.elems.is_empty())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    fn shown(output: Output) -> String {
        match output {
            Output::Nothing(_) => "nothing".to_owned(),
            Output::Never(_) => "never".to_owned(),
            Output::Type(ty) => ty.to_token_stream().to_string(),
            Output::Unknown => "unknown".to_owned(),
        }
    }

    #[test]
    fn the_output_of_a_returned_future_is_found() {
        for (text, expected) in [
            ("-> impl Future<Output = R> + Send", "R"),
            (
                "-> Pin<Box<dyn Future<Output = Result<A, B>> + Send + '_>>",
                "Result < A , B >",
            ),
            ("-> impl Future<Output = ()>", "nothing"),
            ("-> BoxFuture<'static, R>", "unknown"),
            ("-> Alias<Box<dyn Future<Output = R>>>", "unknown"),
            ("", "unknown"),
        ] {
            assert_eq!(
                shown(Output::of_future(&syn::parse_str(text).unwrap())),
                expected,
                "{text}"
            );
        }
    }
}
