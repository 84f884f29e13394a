//! The guard of a function all of whose calls count: it asks before the body, which stays as it is.

pub(crate) mod check;
pub(crate) mod refusal;
pub(crate) mod reservation;
pub(crate) mod rule_static;

use proc_macro2::{Span, TokenStream};
use quote::quote_spanned;

use crate::expand::context::Context;
use crate::plan::check::Check;

/// One check, made at every call.
pub(crate) fn one(only: &Check, refusal: Option<&TokenStream>, context: &Context) -> TokenStream {
    let mixed = Span::mixed_site();
    let run = context.runtime.run(mixed);
    let run = check::expand(only, context, |check| quote_spanned!(mixed=> #run(&mut #check)));
    awaited(&run, refusal, context)
}

/// Several checks, each of which `when` may leave out.
pub(crate) fn all(checks: &[Check], refusal: Option<&TokenStream>, context: &Context) -> TokenStream {
    let mixed = Span::mixed_site();
    let run_all = context.runtime.run_all(mixed);
    let checks = checks.iter().map(|check| check::optional(check, context));
    awaited(&quote_spanned!(mixed=> #run_all([#(#checks),*])), refusal, context)
}

/// Several checks, some of which take places. These are given back when the local that keeps them
/// is dropped: after all locals of the body, however it ends.
pub(crate) fn enter(checks: &[Check], refusal: Option<&TokenStream>, context: &Context) -> TokenStream {
    let mixed = Span::mixed_site();
    let import = context.runtime.import();
    let enter = context.runtime.enter(mixed);
    let checks = checks.iter().map(|check| check::entering(check, context));
    let permits = if let Some(refusal) = refusal {
        quote_spanned! {mixed=>
            match __ratelimit_run.await {
                ::core::result::Result::Ok(__ratelimit_permits) => __ratelimit_permits,
                ::core::result::Result::Err(__ratelimit_error) => return #refusal,
            }
        }
    } else {
        quote_spanned!(mixed=> ::core::result::Result::ok(__ratelimit_run.await))
    };
    quote_spanned! {mixed=>
        let __ratelimit_permits = {
            #import
            let __ratelimit_run = #enter([#(#checks),*]);
            #permits
        };
    }
}

/// A statement that runs `run` and returns `refusal` from a refused call. What `run` borrows from
/// the arguments is given back before the first `.await`.
fn awaited(run: &TokenStream, refusal: Option<&TokenStream>, context: &Context) -> TokenStream {
    let mixed = Span::mixed_site();
    let import = context.runtime.import();
    let decision = if let Some(refusal) = refusal {
        quote_spanned! {mixed=>
            if let ::core::result::Result::Err(__ratelimit_error) = __ratelimit_run.await {
                return #refusal;
            }
        }
    } else {
        quote_spanned!(mixed=> ::core::mem::drop(__ratelimit_run.await);)
    };
    quote_spanned! {mixed=>
        {
            #import
            let __ratelimit_run = #run;
            #decision
        }
    }
}
