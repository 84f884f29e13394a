//! Expands the value that a refused call returns.

use proc_macro2::TokenStream;
use quote::quote_spanned;
use syn::Expr;

use crate::check::function::names::last_two;
use crate::check::refusal::Refusal;
use crate::expand::Context;
use crate::expand::output_type::OutputType;
use crate::expand::receiver::kept_in;
use crate::expand::spans::located;
use crate::literal::bare;

/// The value that a refused call returns, located at the return type; `None` if no call is refused.
pub(crate) fn expand(refusal: &Refusal, context: &Context<'_>) -> Option<TokenStream> {
    let Context {
        receiver,
        output: OutputType { ty, span, .. },
        ..
    } = context;
    match refusal {
        Refusal::Never => None,
        Refusal::ByType => {
            Some(quote_spanned!(*span=> __ratelimit::refuse::<#ty>(__ratelimit_error)))
        }
        Refusal::By(expr) => {
            let span = located(expr);
            let refuse = receiver.operand(expr);
            // A macro that never gives a value takes the place of the function's result.
            let refuse = if diverges(expr) {
                quote_spanned!(span=> |_| #refuse)
            } else {
                kept_in(expr, refuse)
            };
            Some(
                quote_spanned!(span=> __ratelimit::refuse_with::<#ty, _>(#refuse, __ratelimit_error)),
            )
        }
    }
}

/// `true` if this is a macro that never gives a value, such as `todo!()`.
fn diverges(expr: &Expr) -> bool {
    let Expr::Macro(called) = bare(expr) else {
        return false;
    };
    let (_, name) = last_two(&called.mac.path);
    ["todo", "unimplemented", "unreachable", "panic"].contains(&name.as_str())
}
