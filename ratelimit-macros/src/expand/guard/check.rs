//! The expression that makes one check, at each call.
//!
//! What is the same for all calls stands in the rule, a static. This adds what only the call knows,
//! in the order in which expressions are documented to run.

use proc_macro2::{Ident, Span, TokenStream};
use quote::quote_spanned;
use syn::Expr;

use crate::check::key::Key;
use crate::check::rule::Rule;
use crate::check::rule::count::Count;
use crate::check::rule::limits::policy::PolicyName;
use crate::check::values::condition::Shadow;
use crate::check::values::number::Number;
use crate::expand::Context;
use crate::expand::guard::rule_static;
use crate::expand::key::pieces;
use crate::expand::receiver::kept_in;
use crate::expand::spans::located;

/// An expression: the check, or `None` where `when` is false.
pub(crate) fn optional(rule: &Rule, context: &Context<'_>) -> TokenStream {
    optional_with(rule, context, |made| made)
}

/// An expression: the check and the `max` of its permits, if computed; or `None` where `when` is
/// false.
pub(crate) fn with_permit(rule: &Rule, context: &Context<'_>) -> TokenStream {
    let concurrent = if let Some(Number::Computed(_)) = rule.concurrent {
        quote_mixed!(::core::option::Option::Some(__ratelimit_concurrent))
    } else {
        quote_mixed!(::core::option::Option::None)
    };
    optional_with(rule, context, |made| quote_mixed!((#made, #concurrent)))
}

fn optional_with(
    rule: &Rule,
    context: &Context<'_>,
    with: impl FnOnce(TokenStream) -> TokenStream,
) -> TokenStream {
    let made = expand(rule, context, with);
    let Some(when) = &rule.when else {
        return quote_mixed!(::core::option::Option::Some(#made));
    };
    let when = kept_in(when, context.receiver.expression(when));
    quote_mixed! {
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

/// An expression: `with` applied to the check, which borrows nothing, and is not moved before it is
/// handed over. User expressions stand in the order in which they are documented to run: limiter,
/// max or policy, concurrent, cost, shadow, key.
pub(crate) fn expand(
    rule: &Rule,
    context: &Context<'_>,
    with: impl FnOnce(TokenStream) -> TokenStream,
) -> TokenStream {
    let Rule {
        limits,
        concurrent,
        count,
        limiter,
        cost,
        shadow,
        key,
        ..
    } = rule;
    let rule = rule_static::expand(rule);
    let new = new(limiter.as_ref(), context);
    let set = |method: &str, value: TokenStream| {
        let method = Ident::new(method, Span::mixed_site());
        quote_mixed!(__ratelimit::CheckBuilder::#method(&mut __ratelimit_check, #value);)
    };
    let mut steps = Vec::new();
    steps.extend(
        limits
            .max
            .as_ref()
            .map(|max| set("max", number(max, context))),
    );
    if let Some(PolicyName::Computed(policy)) = &limits.policy {
        steps.push(set("policy", policy_name(policy, context)));
    }
    if let Some(Number::Computed(concurrent)) = concurrent {
        let concurrent = number(concurrent, context);
        steps.push(quote_mixed!(let __ratelimit_concurrent = #concurrent;));
    }
    steps.extend(cost.as_ref().map(|cost| match cost {
        Number::Fixed(cost) => set("cost", quote_mixed!(#cost)),
        Number::Computed(cost) => set("cost", number(cost, context)),
    }));
    if let Shadow::If(on) = shadow {
        let on = kept_in(on, context.receiver.expression(on));
        steps.push(quote_mixed!(let __ratelimit_shadow: ::core::primitive::bool = #on;));
        steps.push(set("shadow", quote_mixed!(__ratelimit_shadow)));
    }
    match count {
        Count::All => {}
        Count::ByCost(_) => steps.push(set("reserve_estimate", TokenStream::new())),
        Count::Ok | Count::Err | Count::By(_) => steps.push(set("reserve", TokenStream::new())),
    }
    match key {
        Key::None => {}
        Key::Template(parts) => {
            steps.extend(pieces::expand(parts, "CheckBuilder", "__ratelimit_check"));
        }
        Key::Expr(given, names) => {
            // Of several, only one must not be a constant.
            if let [name] = names.as_slice() {
                let span = located(name);
                steps.push(quote_spanned!(span=> __ratelimit::const_parameter(&#name);));
            }
            let span = located(given);
            let expr = context.receiver.operand(given);
            let call = quote_spanned!(span=> __ratelimit::CheckBuilder::part(&mut __ratelimit_check, &#expr));
            let call = kept_in(given, call);
            steps.push(quote_spanned!(span=> #call;));
        }
    }
    if steps.is_empty() {
        // The values that the limiter expression borrows are dropped before the limiter is asked.
        let new = match limiter {
            Some(_) => quote_mixed!({ let __ratelimit_check = #new; __ratelimit_check }),
            None => new,
        };
        let made = with(new);
        return quote_mixed!({ let __ratelimit_rule = #rule; #made });
    }
    let made = with(quote_mixed!(__ratelimit_check));
    quote_mixed! {
        {
            let __ratelimit_rule = #rule;
            let mut __ratelimit_check = #new;
            #(#steps)*
            #made
        }
    }
}

/// An expression: the check of the rule, on the limiter that is given.
fn new(limiter: Option<&Expr>, context: &Context<'_>) -> TokenStream {
    let Some(limiter) = limiter else {
        return quote_mixed!(__ratelimit::CheckBuilder::new(__ratelimit_rule));
    };
    let span = located(limiter);
    let given = context.receiver.operand(limiter);
    let limiter = kept_in(
        limiter,
        quote_spanned!(span=> __ratelimit::limiter(&#given)),
    );
    quote_mixed!(__ratelimit::CheckBuilder::on(__ratelimit_rule, #limiter))
}

/// An expression: the name of the policy, which borrows nothing.
fn policy_name(given: &Expr, context: &Context<'_>) -> TokenStream {
    let span = located(given);
    let value = context.receiver.operand(given);
    kept_in(
        given,
        quote_spanned!(span=> __ratelimit::policy_name(&#value)),
    )
}

/// An expression: the user's number as the store counts it.
fn number(given: &Expr, context: &Context<'_>) -> TokenStream {
    let span = located(given);
    let value = context.receiver.expression(given);
    kept_in(given, quote_spanned!(span=> __ratelimit::count(#value)))
}
