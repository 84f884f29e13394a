//! The rule: a static, made at compile time.

use proc_macro2::{Span, TokenStream};
use quote::quote_spanned;

use super::Context;
use crate::plan::{Algorithm, Count, Limits, Name, Number, OnUnavailable, Rule};

impl Context {
    /// An expression: the rule, in a scope where no expression of the user can name it.
    pub(super) fn rule(&self, rule: &Rule) -> TokenStream {
        let mixed = Span::mixed_site();
        let private = &self.private;
        let mut limits = self.limits(&rule.limits).into_iter();
        let first = limits.next();
        // The path of a local type tells the types apart that a method belongs to, and not the instances of a
        // generic function.
        let here = quote_spanned!(mixed=> || ::core::any::type_name::<__RatelimitHere>());
        let (here_type, new) = match &rule.name {
            Name::Given(name) => (None, quote_spanned!(mixed=> #private::Rule::new(#name, #first))),
            Name::Derived(1) => (Some(()), quote_spanned!(mixed=> #private::Rule::derived(#here, #first))),
            Name::Derived(nth) => (Some(()), quote_spanned!(mixed=> #private::Rule::derived_nth(#here, #nth, #first))),
        };
        let here_type = here_type.map(|()| quote_spanned!(mixed=> struct __RatelimitHere;));
        let more = limits.map(|limit| quote_spanned!(mixed=> .and(#limit)));
        let settings = self.settings(rule);
        quote_spanned! {mixed=>
            {
                #here_type
                static __RATELIMIT_RULE: #private::Rule = #new #(#more)* #settings;
                &__RATELIMIT_RULE
            }
        }
    }

    /// At least one.
    fn limits(&self, limits: &Limits) -> Vec<TokenStream> {
        let mixed = Span::mixed_site();
        let limit = |max: u64, window_micros: u64| {
            let private = &self.private;
            let window = micros(window_micros);
            quote_spanned!(mixed=> #private::Limit::new(#max, #window))
        };
        match limits {
            Limits::One { window_micros, max, burst } => {
                let max = match max {
                    Number::Fixed(max) => *max,
                    // Replaced at every call.
                    Number::Computed(_) => 1,
                };
                let limit = limit(max, *window_micros);
                let burst = burst.map(|burst| quote_spanned!(mixed=> .with_burst(#burst)));
                vec![quote_spanned!(mixed=> #limit #burst)]
            }
            Limits::Several(limits) => limits.iter().map(|each| limit(each.max, each.window_micros)).collect(),
            // Replaced by the policy's.
            Limits::Policy(_) => vec![limit(1, 1_000_000)],
        }
    }

    /// Calls of the builder methods of what was asked for.
    fn settings(&self, rule: &Rule) -> TokenStream {
        let mixed = Span::mixed_site();
        let private = &self.private;
        let mut settings = TokenStream::new();
        if let Limits::Policy(policy) = &rule.limits {
            settings.extend(quote_spanned!(mixed=> .with_policy(#policy)));
        }
        settings.extend(rule.algorithm.map(|algorithm| {
            let algorithm = match algorithm {
                Algorithm::SlidingWindow => quote_spanned!(mixed=> SlidingWindow),
                Algorithm::SlidingCounter => quote_spanned!(mixed=> SlidingCounter),
                Algorithm::FixedWindow => quote_spanned!(mixed=> FixedWindow),
                Algorithm::TokenBucket => quote_spanned!(mixed=> TokenBucket),
                Algorithm::LeakyBucket => quote_spanned!(mixed=> LeakyBucket),
            };
            quote_spanned!(mixed=> .with_algorithm(#private::Algorithm::#algorithm))
        }));
        let computed = matches!(rule.limits, Limits::One { max: Number::Computed(_), .. });
        if computed || rule.cost.is_some() || !matches!(rule.count, Count::All) {
            settings.extend(quote_spanned!(mixed=> .weighted()));
        }
        for (micros_of, method) in [
            (rule.block_micros, quote_spanned!(mixed=> with_block)),
            (rule.wait_micros, quote_spanned!(mixed=> with_wait)),
            (rule.timeout_micros, quote_spanned!(mixed=> with_timeout)),
        ] {
            settings.extend(micros_of.map(micros).map(|duration| quote_spanned!(mixed=> .#method(#duration))));
        }
        settings.extend(rule.on_unavailable.map(|answer| {
            let answer = match answer {
                OnUnavailable::Allow => quote_spanned!(mixed=> Allow),
                OnUnavailable::Deny => quote_spanned!(mixed=> Deny),
                OnUnavailable::Local => quote_spanned!(mixed=> Local),
            };
            quote_spanned!(mixed=> .with_on_unavailable(#private::OnUnavailable::#answer))
        }));
        settings
    }
}

fn micros(micros: u64) -> TokenStream {
    let mixed = Span::mixed_site();
    quote_spanned!(mixed=> ::core::time::Duration::from_micros(#micros))
}

#[cfg(test)]
mod tests {
    use crate::expand::tests::expanded;

    #[test]
    fn settings() {
        const NEW: &str = "Rule::new(\"n\",::ratelimit_runtime::__private::Limit::new(";
        for (arguments, limits, settings) in [
            (r#"window = "1s", max = 3"#, "3u64,::core::time::Duration::from_micros(1000000u64)))", ""),
            (
                r#"limits = ["3/1s", "20/1m"], algorithm = "fixed_window""#,
                "3u64,::core::time::Duration::from_micros(1000000u64)))\
                 .and(::ratelimit_runtime::__private::Limit::new(20u64,::core::time::Duration::from_micros(60000000u64)))",
                ".with_algorithm(::ratelimit_runtime::__private::Algorithm::FixedWindow)",
            ),
            (
                r#"policy = "login", wait = "2s""#,
                "1u64,::core::time::Duration::from_micros(1000000u64)))",
                ".with_policy(\"login\").with_wait(::core::time::Duration::from_micros(2000000u64))",
            ),
            (
                r#"window = "1s", max = 3, algorithm = "token_bucket", burst = 10, cost = 2, block = "5ms""#,
                "3u64,::core::time::Duration::from_micros(1000000u64)).with_burst(10u64))",
                ".with_algorithm(::ratelimit_runtime::__private::Algorithm::TokenBucket).weighted()\
                 .with_block(::core::time::Duration::from_micros(5000u64))",
            ),
            (
                r#"window = "1s", max = n, algorithm = "leaky_bucket""#,
                "1u64,::core::time::Duration::from_micros(1000000u64)))",
                ".with_algorithm(::ratelimit_runtime::__private::Algorithm::LeakyBucket).weighted()",
            ),
            (
                r#"window = "1s", max = 3, algorithm = "sliding_counter", timeout = "5ms", on_unavailable = "allow""#,
                "3u64,::core::time::Duration::from_micros(1000000u64)))",
                ".with_algorithm(::ratelimit_runtime::__private::Algorithm::SlidingCounter)\
                 .with_timeout(::core::time::Duration::from_micros(5000u64))\
                 .with_on_unavailable(::ratelimit_runtime::__private::OnUnavailable::Allow)",
            ),
            (
                r#"window = "1s", max = 3, algorithm = "sliding_window", count = "err""#,
                "3u64,::core::time::Duration::from_micros(1000000u64)))",
                ".with_algorithm(::ratelimit_runtime::__private::Algorithm::SlidingWindow).weighted()",
            ),
        ] {
            let actual = expanded(&format!("name = \"n\", {arguments}"), "async fn f() -> R {}");
            let expected = format!("{NEW}{limits}{settings};");
            assert!(actual.contains(&expected), "{expected}\n{actual}");
        }
    }
}
