//! The rule of an attribute, as a static: it is made at compile time, so no call makes it, and its
//! bound form is kept in it.

use proc_macro2::{Ident, Span, TokenStream};
use quote::format_ident;

use crate::check::key::Key;
use crate::check::rule::limits::list::Limit;
use crate::check::rule::limits::policy::PolicyName;
use crate::check::rule::limits::window::Window;
use crate::check::rule::settings::{Setting, SettingValue};
use crate::check::rule::{Rule, RuleName};
use crate::check::values::condition::Shadow;
use crate::check::values::number::Number;
use crate::expand::key::pieces;

/// An expression: the rule, in a scope where no expression of the user's can name it.
pub(crate) fn expand(rule: &Rule) -> TokenStream {
    // Where each call gives the limit of calls in flight, 1 stands for it.
    let concurrent = rule.concurrent.as_ref().map(|concurrent| match concurrent {
        Number::Fixed(concurrent) => *concurrent,
        Number::Computed(_) => 1,
    });
    let mut limits = rule.limits.fixed.iter().map(limit);
    let first = limits.next();
    let (of_a_given_name, of_a_derived_one) = if first.is_some() {
        ("new", "derived_nth")
    } else {
        ("in_flight", "in_flight_derived")
    };
    // The path of a local type names the type that a method belongs to, but not the type arguments
    // of a generic function.
    let (here, new, name) = match &rule.name {
        RuleName::Given(name) => (None, of_a_given_name, quote_mixed!(#name)),
        RuleName::Derived(nth) => (
            Some(quote_mixed!(
                struct __RatelimitHere;
            )),
            of_a_derived_one,
            quote_mixed!(|| ::core::any::type_name::<__RatelimitHere>(), #nth),
        ),
    };
    let new = Ident::new(new, Span::mixed_site());
    let burst = rule
        .limits
        .burst
        .map(|burst| quote_mixed!(.with_burst(#burst)));
    let (what, concurrent) = match (first, concurrent) {
        (None, concurrent) => (quote_mixed!(#concurrent), None),
        (Some(first), concurrent) => (
            first,
            concurrent.map(|most| quote_mixed!(.with_concurrent(#most))),
        ),
    };
    let policy = rule.limits.policy.as_ref().map(|policy| match policy {
        PolicyName::Fixed(name) => quote_mixed!(.with_policy(#name)),
        PolicyName::Computed(_) => quote_mixed!(.with_policy_per_call()),
    });
    let settings = rule.settings.iter().map(setting);
    let shadow = matches!(rule.shadow, Shadow::On).then(|| quote_mixed!(.with_shadow(true)));
    // For operators. The kinds of the values are known when the first call renders them.
    let template = match &rule.key {
        Key::None => None,
        Key::Template(pieces) => Some(pieces::written(pieces)),
        Key::Expr(..) => Some("<expression>".to_owned()),
    };
    let template = template.map(|text| quote_mixed!(.with_template(#text, &[])));
    quote_mixed! {
        {
            #here
            static __RATELIMIT_RULE: __ratelimit::Rule =
                __ratelimit::Rule::#new(#name, #what #burst) #(.and(#limits))* #concurrent #policy
                #template #(#settings)* #shadow;
            &__RATELIMIT_RULE
        }
    }
}

fn limit(Limit { max, window }: &Limit) -> TokenStream {
    match window {
        Window::Micros(micros) => {
            let window = duration(*micros);
            quote_mixed!(__ratelimit::Limit::new(#max, #window))
        }
        Window::Calendar(unit) => {
            let unit = Ident::new(unit.variant, Span::mixed_site());
            quote_mixed!(__ratelimit::Limit::calendar(#max, __ratelimit::CalendarUnit::#unit))
        }
    }
}

/// A call of the builder method for the setting.
fn setting(Setting { name, value }: &Setting) -> TokenStream {
    let mixed = Span::mixed_site();
    let method = format_ident!("with_{name}", span = mixed);
    let value = match value {
        SettingValue::Micros(micros) => duration(*micros),
        SettingValue::Range(first, last) => {
            let (first, last) = (duration(*first), duration(*last));
            quote_mixed!(#first, #last)
        }
        SettingValue::Variant(of, name) => {
            let (of, name) = (Ident::new(of, mixed), Ident::new(name, mixed));
            quote_mixed!(__ratelimit::#of::#name)
        }
        SettingValue::Text(text) => quote_mixed!(#text),
    };
    quote_mixed!(.#method(#value))
}

fn duration(micros: u64) -> TokenStream {
    quote_mixed!(::core::time::Duration::from_micros(#micros))
}
