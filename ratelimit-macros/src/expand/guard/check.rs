//! One check: which rule, whose limiter, how much, and for whom.

use proc_macro2::{Span, TokenStream};
use quote::quote_spanned;
use syn::Expr;
use syn::spanned::Spanned as _;

use crate::check::key::Key;
use crate::check::key::value::Value;
use crate::check::rule::Call;
use crate::check::rule::shadow::Shadow;
use crate::check::values::number::Number;
use crate::expand::context::Context;
use crate::expand::guard::rule_static;
use crate::expand::key::value;
use crate::expand::receiver::kept_in;
use crate::expand::runtime::Runtime;
use crate::parse::template::Piece;
use crate::plan::check::Check;

/// An expression: the check, or `None` where `when` is false.
pub(crate) fn optional(check: &Check, context: &Context) -> TokenStream {
    optional_with(check, context, |made| made)
}

/// The same with how many calls may be in flight, where the call says so.
pub(crate) fn entering(check: &Check, context: &Context) -> TokenStream {
    let mixed = Span::mixed_site();
    let concurrent = if check.concurrent.is_some() {
        quote_spanned!(mixed=> ::core::option::Option::Some(__ratelimit_concurrent))
    } else {
        quote_spanned!(mixed=> ::core::option::Option::None)
    };
    optional_with(check, context, |made| quote_spanned!(mixed=> (#made, #concurrent)))
}

fn optional_with(check: &Check, context: &Context, with: impl FnOnce(TokenStream) -> TokenStream) -> TokenStream {
    let mixed = Span::mixed_site();
    let made = expand(check, context, with);
    let Some(when) = &check.call.when else {
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

/// An expression: what `with` makes of the check, which borrows nothing, and which is not moved
/// before it is handed over. User expressions stand in the order in which they are documented to
/// run: limiter, max or policy, concurrent, cost, shadow, key.
pub(crate) fn expand(check: &Check, context: &Context, with: impl FnOnce(TokenStream) -> TokenStream) -> TokenStream {
    let Check {
        rule,
        max,
        policy,
        enters: _,
        concurrent,
        reserves,
        estimates,
        call: Call { when: _, limiter, cost, shadow, key },
    } = check;
    let mixed = Span::mixed_site();
    let runtime = &context.runtime;
    let rule = rule_static::expand(rule, runtime);
    let new = new(limiter.as_ref(), context);
    let mut steps = Vec::new();
    let set = |method, value: TokenStream| {
        let method = Runtime::check_builder(method, mixed);
        quote_spanned!(mixed=> #method(&mut __ratelimit_check, #value);)
    };
    steps.extend(max.as_ref().map(|max| set("max", number(max, context))));
    steps.extend(policy.as_ref().map(|policy| set("policy", policy_name(policy, context))));
    steps.extend(concurrent.as_ref().map(|concurrent| {
        let concurrent = number(concurrent, context);
        quote_spanned!(mixed=> let __ratelimit_concurrent = #concurrent;)
    }));
    steps.extend(cost.as_ref().map(|cost| match cost {
        Number::Fixed(cost) => set("cost", quote_spanned!(mixed=> #cost)),
        Number::Computed(cost) => set("cost", number(cost, context)),
    }));
    match shadow {
        Shadow::Off => {}
        Shadow::On => steps.push(set("shadow", quote_spanned!(mixed=> true))),
        Shadow::If(on) => {
            let on = kept_in(on, context.receiver.expression(on));
            steps.push(quote_spanned!(mixed=> let __ratelimit_shadow: ::core::primitive::bool = #on;));
            steps.push(set("shadow", quote_spanned!(mixed=> __ratelimit_shadow)));
        }
    }
    if *reserves {
        let reserve = Runtime::check_builder(if *estimates { "reserve_estimate" } else { "reserve" }, mixed);
        steps.push(quote_spanned!(mixed=> #reserve(&mut __ratelimit_check);));
    }
    match key {
        Key::None => {}
        Key::Template(pieces) => steps.extend(pieces.iter().map(piece)),
        Key::Expr(given) => {
            let span = given.span().resolved_at(mixed);
            let expr = context.receiver.operand(given);
            let part = Runtime::check_builder("part", span);
            let call = kept_in(given, quote_spanned!(span=> #part(&mut __ratelimit_check, &#expr)));
            steps.push(quote_spanned!(span=> #call;));
        }
    }
    if steps.is_empty() {
        // What a limiter is made of is dropped before it is asked.
        let new = match limiter {
            Some(_) => quote_spanned!(mixed=> { let __ratelimit_check = #new; __ratelimit_check }),
            None => new,
        };
        let made = with(new);
        return quote_spanned!(mixed=> { let __ratelimit_rule = #rule; #made });
    }
    let made = with(quote_spanned!(mixed=> __ratelimit_check));
    quote_spanned! {mixed=>
        {
            let __ratelimit_rule = #rule;
            let mut __ratelimit_check = #new;
            #(#steps)*
            #made
        }
    }
}

/// An expression: the check of the rule, on the limiter that is given.
fn new(limiter: Option<&Expr>, context: &Context) -> TokenStream {
    let mixed = Span::mixed_site();
    let runtime = &context.runtime;
    let Some(limiter) = limiter else {
        let check = Runtime::check_builder("new", mixed);
        return quote_spanned!(mixed=> #check(__ratelimit_rule));
    };
    let span = limiter.span().resolved_at(mixed);
    let given = context.receiver.operand(limiter);
    let as_limiter = runtime.limiter(span);
    let limiter = kept_in(limiter, quote_spanned!(span=> #as_limiter(&#given)));
    let check_on = Runtime::check_builder("on", mixed);
    quote_spanned!(mixed=> #check_on(__ratelimit_rule, #limiter))
}

fn piece(piece: &Piece<Value>) -> TokenStream {
    match piece {
        Piece::Text(text) => {
            let mixed = Span::mixed_site();
            let check_text = Runtime::check_builder("text", mixed);
            quote_spanned!(mixed=> #check_text(&mut __ratelimit_check, #text);)
        }
        Piece::Placeholder(part) => {
            let span = part.root.span().resolved_at(Span::mixed_site());
            let part = value::expand(part);
            let check_part = Runtime::check_builder("part", span);
            quote_spanned!(span=> #check_part(&mut __ratelimit_check, &#part);)
        }
    }
}

/// An expression: the name of the policy, which borrows nothing.
fn policy_name(given: &Expr, context: &Context) -> TokenStream {
    let span = given.span().resolved_at(Span::mixed_site());
    let value = context.receiver.operand(given);
    let name = context.runtime.policy_name(span);
    kept_in(given, quote_spanned!(span=> #name(&#value)))
}

/// An expression: the user's number as the store counts it.
fn number(given: &Expr, context: &Context) -> TokenStream {
    let span = given.span().resolved_at(Span::mixed_site());
    let value = context.receiver.expression(given);
    let number = context.runtime.number(span);
    kept_in(given, quote_spanned!(span=> #number(#value)))
}
