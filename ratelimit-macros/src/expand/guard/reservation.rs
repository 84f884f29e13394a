//! The guard where `count` or `actual_cost` is given: it reserves, and the outcome decides which
//! reservations are committed, at which cost, and which are released.
//!
//! This is the one case in which the body does not stay where it is: it becomes an async block, so
//! that `?` and `return` end there. Nothing but the reservation and permits live while it runs. If
//! the reservation is dropped, because the call is cancelled or panics, the call counts.

use proc_macro2::{Delimiter, Group, Ident, Span, TokenStream};
use quote::quote_spanned;

use crate::check::rule::Rule;
use crate::check::rule::count::Count;
use crate::expand::Context;
use crate::expand::guard::{admitted, check};
use crate::expand::output_type::OutputType;
use crate::expand::spans::located;

/// Statements that reserve before the body.
pub(crate) fn before(
    rules: &[Rule],
    refusal: Option<&TokenStream>,
    context: &Context<'_>,
) -> TokenStream {
    let import = &context.import;
    let admitted = admitted(refusal);
    if !rules.iter().any(|rule| rule.concurrent.is_some()) {
        let checks = rules.iter().map(|rule| check::optional(rule, context));
        return quote_mixed! {
            #import
            let __ratelimit_reservation = {
                let __ratelimit_run = __ratelimit::run_reserved([#(#checks),*]);
                #admitted
            };
        };
    }
    let checks = rules.iter().map(|rule| check::with_permit(rule, context));
    let admitted = if refusal.is_some() {
        admitted
    } else {
        quote_mixed!(::core::option::Option::unzip(#admitted))
    };
    // Permits are kept until all else is over.
    quote_mixed! {
        #import
        let (__ratelimit_reservation, __ratelimit_permits) = {
            let __ratelimit_run = __ratelimit::run_reserved_with_permits([#(#checks),*]);
            #admitted
        };
    }
}

/// The values that the code around the body needs.
pub(crate) struct Around<'a> {
    /// The arguments that go into its block, in the order in which they are dropped.
    pub(crate) taken: &'a [Ident],
    pub(crate) rules: &'a [Rule],
    pub(crate) refuses: bool,
    /// `true` if an async function may return a future. A block must not end with one:
    /// `clippy::async_yields_async`.
    pub(crate) yields_future: bool,
}

/// Statements and a last expression that run `body` and complete the reservation by its value.
/// `place` is the location of the body's braces.
pub(crate) fn around(
    body: &TokenStream,
    place: Span,
    around: &Around<'_>,
    context: &Context<'_>,
) -> TokenStream {
    let Around {
        taken,
        rules,
        refuses,
        yields_future,
    } = around;
    let OutputType { ty, span, .. } = &context.output;
    let counts = rules.iter().map(|rule| counted(&rule.count, context));
    let finish =
        quote_mixed!(__ratelimit::Reservations::complete(__ratelimit_reservation, [#(#counts),*]););
    let finish = if *refuses {
        finish
    } else {
        quote_mixed! {
            if let ::core::option::Option::Some(__ratelimit_reservation) = __ratelimit_reservation {
                #finish
            }
        }
    };
    // The `return` that never runs tells the block its type before the body is checked, so that the
    // body's own errors, coercions and `?` stay the same.
    let never = quote_spanned!(*span=> return __ratelimit_never;);
    // A block drops the arguments it takes in the order in which it names them.
    let take = (!taken.is_empty()).then(|| quote_mixed!(let _ = (#(&#taken,)*);));
    let body = if *yields_future {
        returned(body, place, ty)
    } else {
        body.clone()
    };
    let mut braces = Group::new(
        Delimiter::Brace,
        quote_mixed! {
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
    quote_mixed! {
        let __ratelimit_outcome = #block.await;
        #finish
        __ratelimit_outcome
    }
}

/// A statement that returns the value of `body`, whose type is `ty`. The case that never happens
/// keeps it reachable where the body returns by itself.
fn returned(body: &TokenStream, place: Span, ty: &TokenStream) -> TokenStream {
    let mut braces = Group::new(Delimiter::Brace, body.clone());
    braces.set_span(place);
    quote_mixed! {
        return if let ::core::option::Option::Some(__ratelimit_never) = ::core::option::Option::None::<#ty> {
            __ratelimit_never
        } else #braces;
    }
}

/// An expression: how the outcome completes the reservation.
fn counted(count: &Count, context: &Context<'_>) -> TokenStream {
    let Context {
        receiver, output, ..
    } = context;
    let span = output.span;
    match count {
        Count::All => quote_mixed!(__ratelimit::Completion::Commit),
        Count::Ok => quote_spanned!(span=> __ratelimit::counts_ok(&__ratelimit_outcome)),
        Count::Err => quote_spanned!(span=> __ratelimit::counts_err(&__ratelimit_outcome)),
        Count::By(judge) => {
            let (span, judge) = (located(judge), receiver.expression(judge));
            quote_spanned!(span=> __ratelimit::counts(&__ratelimit_outcome, #judge))
        }
        Count::ByCost(cost) => {
            let (span, cost) = (located(cost), receiver.expression(cost));
            quote_spanned!(span=> __ratelimit::actual_cost(&__ratelimit_outcome, #cost))
        }
    }
}
