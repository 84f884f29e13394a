//! The guard of a function all of whose calls count: it asks before the body, which stays as it is.

pub(crate) mod check;
pub(crate) mod refusal;
pub(crate) mod reservation;
pub(crate) mod rule_static;

use proc_macro2::TokenStream;

use crate::check::rule::Rule;
use crate::expand::Context;

/// One check, made at every call.
pub(crate) fn one(
    rules: &[Rule],
    refusal: Option<&TokenStream>,
    context: &Context<'_>,
) -> TokenStream {
    let run = |check| quote_mixed!(__ratelimit::run(&mut #check));
    let run: TokenStream = rules
        .iter()
        .map(|only| check::expand(only, context, run))
        .collect();
    awaited(&run, refusal, context)
}

/// Several checks, each of which `when` may leave out.
pub(crate) fn all(
    rules: &[Rule],
    refusal: Option<&TokenStream>,
    context: &Context<'_>,
) -> TokenStream {
    let checks = rules.iter().map(|rule| check::optional(rule, context));
    awaited(
        &quote_mixed!(__ratelimit::run_all([#(#checks),*])),
        refusal,
        context,
    )
}

/// Several checks, some of which take permits. These are released when the local that keeps them
/// is dropped: after all locals of the body, however it ends.
pub(crate) fn permits(
    rules: &[Rule],
    refusal: Option<&TokenStream>,
    context: &Context<'_>,
) -> TokenStream {
    let import = &context.import;
    let checks = rules.iter().map(|rule| check::with_permit(rule, context));
    let permits = admitted(refusal);
    quote_mixed! {
        let __ratelimit_permits = {
            #import
            let __ratelimit_run = __ratelimit::run_with_permits([#(#checks),*]);
            #permits
        };
    }
}

/// An expression: the value of the run, where the function returns `refusal` from a refused call.
fn admitted(refusal: Option<&TokenStream>) -> TokenStream {
    let Some(refusal) = refusal else {
        return quote_mixed!(::core::result::Result::ok(__ratelimit_run.await));
    };
    quote_mixed! {
        match __ratelimit_run.await {
            ::core::result::Result::Ok(__ratelimit_admitted) => __ratelimit_admitted,
            ::core::result::Result::Err(__ratelimit_error) => return #refusal,
        }
    }
}

/// A statement that runs `run` and returns `refusal` from a refused call. Borrows of the arguments
/// in `run` end before the first `.await`.
fn awaited(run: &TokenStream, refusal: Option<&TokenStream>, context: &Context<'_>) -> TokenStream {
    let import = &context.import;
    let decision = if let Some(refusal) = refusal {
        quote_mixed! {
            if let ::core::result::Result::Err(__ratelimit_error) = __ratelimit_run.await {
                return #refusal;
            }
        }
    } else {
        quote_mixed!(::core::mem::drop(__ratelimit_run.await);)
    };
    quote_mixed! {
        {
            #import
            let __ratelimit_run = #run;
            #decision
        }
    }
}
