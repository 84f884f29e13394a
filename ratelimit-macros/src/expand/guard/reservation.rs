//! The guard where `count` or `actual_cost` is given: it reserves, and the outcome decides what is
//! committed, at which cost, and what released.
//!
//! This is the one case in which the body does not stay where it is: it becomes an async block, so
//! that `?` and `return` end there. Nothing but the reservation and permits live while it runs. If
//! the reservation is dropped, because the call is cancelled or panics, the call counts.

use proc_macro2::{Delimiter, Group, Ident, Span, TokenStream};
use quote::quote_spanned;
use syn::spanned::Spanned as _;

use crate::check::rule::count::Count;
use crate::expand::context::Context;
use crate::expand::guard::check;
use crate::expand::output_type::OutputType;
use crate::plan::check::Check;

/// Statements that reserve before the body.
pub(crate) fn before(checks: &[Check], refusal: Option<&TokenStream>, context: &Context) -> TokenStream {
    let mixed = Span::mixed_site();
    let import = context.runtime.import();
    let enters = checks.iter().any(|check| check.enters);
    let reserve = if enters { context.runtime.enter_reserved(mixed) } else { context.runtime.reserve(mixed) };
    let checks = checks
        .iter()
        .map(|check| if enters { check::entering(check, context) } else { check::optional(check, context) });
    // Permits are kept until all else is over.
    let reserved = if enters {
        quote_spanned!(mixed=> (__ratelimit_reservation, __ratelimit_permits))
    } else {
        quote_spanned!(mixed=> __ratelimit_reservation)
    };
    let reservation = if let Some(refusal) = refusal {
        quote_spanned! {mixed=>
            match __ratelimit_run.await {
                ::core::result::Result::Ok(__ratelimit_reservation) => __ratelimit_reservation,
                ::core::result::Result::Err(__ratelimit_error) => return #refusal,
            }
        }
    } else {
        let reserved = quote_spanned!(mixed=> ::core::result::Result::ok(__ratelimit_run.await));
        if enters { quote_spanned!(mixed=> ::core::option::Option::unzip(#reserved)) } else { reserved }
    };
    quote_spanned! {mixed=>
        #import
        let #reserved = {
            let __ratelimit_run = #reserve([#(#checks),*]);
            #reservation
        };
    }
}

/// What stands around the body.
pub(crate) struct Around {
    /// The arguments that go into its block, in the order in which they are dropped.
    pub(crate) taken: Vec<Ident>,
    /// Which outcomes count, or what they cost, for each attribute.
    pub(crate) counts: Vec<Count>,
    pub(crate) refuses: bool,
    /// Whether an async function may return a future. A block must not end with one:
    /// `clippy::async_yields_async`.
    pub(crate) yields_future: bool,
}

/// Statements and a last expression that run `body`, whose braces are at `place`, and finish the
/// reservation by what it returns.
pub(crate) fn around(body: &TokenStream, place: Span, around: &Around, context: &Context) -> TokenStream {
    let Around { taken, counts, refuses, yields_future } = around;
    let mixed = Span::mixed_site();
    let OutputType { ty, span, .. } = &context.output;
    let counts: Vec<_> = counts.iter().map(|count| counted(count, context)).collect();
    let finish = context.runtime.finish(mixed);
    let finish = quote_spanned!(mixed=> #finish(__ratelimit_reservation, [#(#counts),*]););
    let finish = if *refuses {
        finish
    } else {
        quote_spanned! {mixed=>
            if let ::core::option::Option::Some(__ratelimit_reservation) = __ratelimit_reservation {
                #finish
            }
        }
    };
    // The `return` that never runs tells the block its type before the body is checked, so that the
    // body's own errors, coercions and `?` are what they were.
    let never = quote_spanned!(*span=> return __ratelimit_never;);
    // A block drops what it has taken in the order in which it names that.
    let take = (!taken.is_empty()).then(|| quote_spanned!(mixed=> let _ = (#(&#taken,)*);));
    let body = if *yields_future { returned(body, place, ty) } else { body.clone() };
    let mut braces = Group::new(
        Delimiter::Brace,
        quote_spanned! {mixed=>
            if let ::core::option::Option::Some(__ratelimit_never) = ::core::option::Option::None::<#ty> {
                #never
            }
            #take
            #body
        },
    );
    // Lints look into the block, and errors speak of it, as of the function's own body.
    braces.set_span(place);
    let block = quote_spanned!(place=> async move #braces);
    quote_spanned! {mixed=>
        let __ratelimit_outcome: #ty = #block.await;
        #finish
        __ratelimit_outcome
    }
}

/// A statement that returns what `body` gives, whose type is `ty`. The case that never is keeps it
/// reachable where the body returns by itself.
fn returned(body: &TokenStream, place: Span, ty: &TokenStream) -> TokenStream {
    let mut braces = Group::new(Delimiter::Brace, body.clone());
    braces.set_span(place);
    quote_spanned! {Span::mixed_site()=>
        return if let ::core::option::Option::Some(__ratelimit_never) = ::core::option::Option::None::<#ty> {
            __ratelimit_never
        } else #braces;
    }
}

/// An expression: what the outcome makes of the reservation.
fn counted(count: &Count, context: &Context) -> TokenStream {
    let Context { runtime, receiver, output } = context;
    let mixed = Span::mixed_site();
    let span = output.span;
    match count {
        Count::All => runtime.counts_all(mixed),
        Count::Ok => {
            let counts_ok = runtime.counts_ok(span);
            quote_spanned!(span=> #counts_ok(&__ratelimit_outcome))
        }
        Count::Err => {
            let counts_err = runtime.counts_err(span);
            quote_spanned!(span=> #counts_err(&__ratelimit_outcome))
        }
        Count::By(expr) | Count::ByCost(expr) => {
            let span = expr.span().resolved_at(mixed);
            let by = if let Count::By(_) = count { runtime.counts_by(span) } else { runtime.counts_by_cost(span) };
            let expr = receiver.expression(expr);
            quote_spanned!(span=> #by(&__ratelimit_outcome, #expr))
        }
    }
}
