//! The rule: a static, made at compile time.

use proc_macro2::{Span, TokenStream};
use quote::{format_ident, quote_spanned};

use crate::check::rule::RuleName;
use crate::check::rule::limits::list::Limit;
use crate::check::rule::limits::window::Window;
use crate::check::rule::settings::{Setting, SettingValue};
use crate::expand::runtime::Runtime;
use crate::plan::rule_static::RuleStatic;

/// An expression: the rule, in a scope where no expression of the user's can name it.
pub(crate) fn expand(rule: &RuleStatic, runtime: &Runtime) -> TokenStream {
    let mixed = Span::mixed_site();
    let mut limits = rule.limits.iter().map(|limit| self::limit(*limit, runtime));
    let first = limits.next();
    let burst = rule.burst.map(|burst| quote_spanned!(mixed=> .with_burst(#burst)));
    // The path of a local type names the type that a method belongs to, but not the type arguments
    // of a generic function.
    let here = quote_spanned!(mixed=> struct __RatelimitHere;);
    let path = quote_spanned!(mixed=> || ::core::any::type_name::<__RatelimitHere>());
    let (here, new, name) = match (&rule.name, rule.concurrent) {
        (RuleName::Given(name), None) => (None, runtime.rule_named(mixed), quote_spanned!(mixed=> #name)),
        (RuleName::Given(name), Some(_)) => (None, runtime.rule_in_flight(mixed), quote_spanned!(mixed=> #name)),
        (RuleName::Derived(1), None) => (Some(here), runtime.rule_derived(mixed), path),
        (RuleName::Derived(nth), None) => {
            (Some(here), runtime.rule_derived_nth(mixed), quote_spanned!(mixed=> #path, #nth))
        }
        (RuleName::Derived(nth), Some(_)) => {
            (Some(here), runtime.rule_in_flight_derived(mixed), quote_spanned!(mixed=> #path, #nth))
        }
    };
    let first = first.or_else(|| rule.concurrent.map(|concurrent| quote_spanned!(mixed=> #concurrent)));
    let more = limits.map(|limit| quote_spanned!(mixed=> .and(#limit)));
    let settings = rule.settings.iter().map(setting);
    let rule = runtime.rule(mixed);
    quote_spanned! {mixed=>
        {
            #here
            static __RATELIMIT_RULE: #rule = #new(#name, #first #burst) #(#more)* #(#settings)*;
            &__RATELIMIT_RULE
        }
    }
}

fn limit(limit: Limit, runtime: &Runtime) -> TokenStream {
    let mixed = Span::mixed_site();
    let Limit { max, window } = limit;
    let (new, window) = match window {
        Window::Micros(micros) => (runtime.limit(mixed), duration(micros)),
        Window::Calendar(unit) => (runtime.limit_by_calendar(mixed), Runtime::variant("CalendarUnit", unit.variant)),
    };
    quote_spanned!(mixed=> #new(#max, #window))
}

/// A call of the builder method that takes it.
fn setting(setting: &Setting) -> TokenStream {
    let mixed = Span::mixed_site();
    let Setting { name, value } = setting;
    let method = format_ident!("with_{name}", span = mixed);
    let value = match value {
        SettingValue::Micros(micros) => duration(*micros),
        SettingValue::Number(number) => quote_spanned!(mixed=> #number),
        SettingValue::Range(first, last) => {
            let (first, last) = (duration(*first), duration(*last));
            quote_spanned!(mixed=> #first, #last)
        }
        SettingValue::Variant(of, name) => Runtime::variant(of, name),
        SettingValue::Text(text) => quote_spanned!(mixed=> #text),
        SettingValue::None => TokenStream::new(),
    };
    quote_spanned!(mixed=> .#method(#value))
}

fn duration(micros: u64) -> TokenStream {
    let mixed = Span::mixed_site();
    quote_spanned!(mixed=> ::core::time::Duration::from_micros(#micros))
}
