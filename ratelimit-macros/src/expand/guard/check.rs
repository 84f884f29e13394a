//! One check: which rule, whose limiter, how much, and for whom.

use proc_macro2::{Span, TokenStream};
use quote::quote_spanned;
use syn::Expr;
use syn::spanned::Spanned as _;

use crate::check::key::Key;
use crate::check::key::value::Value;
use crate::check::rule::shadow::Shadow;
use crate::check::values::number::Number;
use crate::expand::context::Context;
use crate::expand::guard::rule_static;
use crate::expand::key::value;
use crate::expand::receiver::kept_in;
use crate::parse::template::Piece;
use crate::plan::check::Check;

/// An expression: the check, or `None` where `when` is false.
pub(crate) fn optional(check: &Check, context: &Context) -> TokenStream {
    let mixed = Span::mixed_site();
    let made = expand(check, context);
    let Some(when) = &check.when else {
        return quote_spanned!(mixed=> ::core::option::Option::Some(#made));
    };
    let when = kept_in(when, context.receiver.expression(when));
    quote_spanned! {mixed=>
        {
            let __ratelimit_when: ::core::primitive::bool = #when;
            if __ratelimit_when {
                ::core::option::Option::Some(#made)
            } else {
                ::core::option::Option::None
            }
        }
    }
}

/// An expression: the check, which borrows nothing. User expressions stand in the order in which
/// they are documented to run: limiter, max, cost, shadow, key.
pub(crate) fn expand(check: &Check, context: &Context) -> TokenStream {
    let mixed = Span::mixed_site();
    let runtime = &context.runtime;
    let rule = rule_static::expand(&check.rule, runtime);
    let new = new(check.limiter.as_ref(), context);
    let mut steps = Vec::new();
    if let Some(max) = &check.max {
        let max = number(max, context);
        let check_max = runtime.check_max(mixed);
        steps.push(quote_spanned!(mixed=> #check_max(&mut __ratelimit_check, #max);));
    }
    if let Some(cost) = &check.cost {
        let cost = match cost {
            Number::Fixed(cost) => quote_spanned!(mixed=> #cost),
            Number::Computed(cost) => number(cost, context),
        };
        let check_cost = runtime.check_cost(mixed);
        steps.push(quote_spanned!(mixed=> #check_cost(&mut __ratelimit_check, #cost);));
    }
    steps.extend(shadow(&check.shadow, context));
    if check.reserves {
        let check_reserves = runtime.check_reserves(mixed);
        steps.push(quote_spanned!(mixed=> #check_reserves(&mut __ratelimit_check);));
    }
    match &check.key {
        Key::None => {}
        Key::Template(pieces) => steps.extend(pieces.iter().map(|piece| self::piece(piece, context))),
        Key::Expr(given) => {
            let span = given.span().resolved_at(mixed);
            let expr = context.receiver.operand(given);
            let check_part = runtime.check_part(span);
            let call = kept_in(given, quote_spanned!(span=> #check_part(&mut __ratelimit_check, &#expr)));
            steps.push(quote_spanned!(span=> #call;));
        }
    }
    if steps.is_empty() {
        return quote_spanned!(mixed=> { let __ratelimit_rule = #rule; #new });
    }
    quote_spanned! {mixed=>
        {
            let __ratelimit_rule = #rule;
            let mut __ratelimit_check = #new;
            #(#steps)*
            __ratelimit_check
        }
    }
}

/// An expression: the check of the rule, on the limiter that is given.
fn new(limiter: Option<&Expr>, context: &Context) -> TokenStream {
    let mixed = Span::mixed_site();
    let runtime = &context.runtime;
    let Some(limiter) = limiter else {
        let check = runtime.check(mixed);
        return quote_spanned!(mixed=> #check(__ratelimit_rule));
    };
    let span = limiter.span().resolved_at(mixed);
    let given = context.receiver.operand(limiter);
    let as_limiter = runtime.limiter(span);
    let limiter = kept_in(limiter, quote_spanned!(span=> #as_limiter(&#given)));
    let check_on = runtime.check_on(mixed);
    quote_spanned!(mixed=> #check_on(__ratelimit_rule, #limiter))
}

fn shadow(shadow: &Shadow, context: &Context) -> Option<TokenStream> {
    let mixed = Span::mixed_site();
    let check_shadow = context.runtime.check_shadow(mixed);
    match shadow {
        Shadow::Off => None,
        Shadow::On => Some(quote_spanned!(mixed=> #check_shadow(&mut __ratelimit_check, true);)),
        Shadow::If(on) => {
            let on = kept_in(on, context.receiver.expression(on));
            Some(quote_spanned! {mixed=>
                let __ratelimit_shadow: ::core::primitive::bool = #on;
                #check_shadow(&mut __ratelimit_check, __ratelimit_shadow);
            })
        }
    }
}

fn piece(piece: &Piece<Value>, context: &Context) -> TokenStream {
    match piece {
        Piece::Text(text) => {
            let mixed = Span::mixed_site();
            let check_text = context.runtime.check_text(mixed);
            quote_spanned!(mixed=> #check_text(&mut __ratelimit_check, #text);)
        }
        Piece::Placeholder(part) => {
            let span = part.root.span().resolved_at(Span::mixed_site());
            let part = value::expand(part);
            let check_part = context.runtime.check_part(span);
            quote_spanned!(span=> #check_part(&mut __ratelimit_check, &#part);)
        }
    }
}

/// An expression: the user's number as the store counts it.
fn number(given: &Expr, context: &Context) -> TokenStream {
    let span = given.span().resolved_at(Span::mixed_site());
    let value = context.receiver.expression(given);
    let number = context.runtime.number(span);
    kept_in(given, quote_spanned!(span=> #number(#value)))
}
