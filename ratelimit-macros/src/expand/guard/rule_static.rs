//! The rule: a static, made at compile time.

use proc_macro2::{Ident, Span, TokenStream};
use quote::quote_spanned;

use crate::check::rule::RuleName;
use crate::check::rule::limits::list::Limit;
use crate::expand::runtime::{Runtime, method};
use crate::plan::rule_static::RuleStatic;

/// An expression: the rule, in a scope where no expression of the user's can name it.
pub(crate) fn expand(rule: &RuleStatic, runtime: &Runtime) -> TokenStream {
    let mixed = Span::mixed_site();
    let mut limits = rule.limits.iter().map(|limit| self::limit(*limit, runtime));
    let first = limits.next();
    let burst = rule.burst.map(|burst| {
        let with_burst = method::burst();
        quote_spanned!(mixed=> .#with_burst(#burst))
    });
    // The path of a local type names the type that a method belongs to, but not the type arguments
    // of a generic function.
    let here = quote_spanned!(mixed=> struct __RatelimitHere;);
    let path = quote_spanned!(mixed=> || ::core::any::type_name::<__RatelimitHere>());
    let (here, new, name) = match &rule.name {
        RuleName::Given(name) => (None, runtime.rule_named(mixed), quote_spanned!(mixed=> #name)),
        RuleName::Derived(1) => (Some(here), runtime.rule_derived(mixed), path),
        RuleName::Derived(nth) => (Some(here), runtime.rule_derived_nth(mixed), quote_spanned!(mixed=> #path, #nth)),
    };
    let and = method::and();
    let more = limits.map(|limit| quote_spanned!(mixed=> .#and(#limit)));
    let settings = settings(rule, runtime);
    let rule = runtime.rule(mixed);
    quote_spanned! {mixed=>
        {
            #here
            static __RATELIMIT_RULE: #rule = #new(#name, #first #burst) #(#more)* #settings;
            &__RATELIMIT_RULE
        }
    }
}

fn limit(limit: Limit, runtime: &Runtime) -> TokenStream {
    let mixed = Span::mixed_site();
    let Limit { max, window_micros } = limit;
    let new = runtime.limit(mixed);
    let window = duration(window_micros);
    quote_spanned!(mixed=> #new(#max, #window))
}

/// Calls of the builder methods of what was asked for.
fn settings(rule: &RuleStatic, runtime: &Runtime) -> TokenStream {
    let mixed = Span::mixed_site();
    let set = |method: Ident, value: TokenStream| quote_spanned!(mixed=> .#method(#value));
    let mut settings = TokenStream::new();
    settings.extend(rule.policy.as_ref().map(|policy| set(method::policy(), quote_spanned!(mixed=> #policy))));
    settings.extend(rule.algorithm.map(|algorithm| set(method::algorithm(), runtime.algorithm(algorithm))));
    settings.extend(rule.block_micros.map(|micros| set(method::block(), duration(micros))));
    settings.extend(rule.wait_micros.map(|micros| set(method::wait(), duration(micros))));
    settings.extend(rule.timeout_micros.map(|micros| set(method::timeout(), duration(micros))));
    let on_unavailable = rule.on_unavailable.map(|answer| runtime.on_unavailable(answer));
    settings.extend(on_unavailable.map(|value| set(method::on_unavailable(), value)));
    settings
}

fn duration(micros: u64) -> TokenStream {
    let mixed = Span::mixed_site();
    quote_spanned!(mixed=> ::core::time::Duration::from_micros(#micros))
}
