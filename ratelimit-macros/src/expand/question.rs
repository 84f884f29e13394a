//! One consultation: which rule, whose limiter, how much, and for whom.

use proc_macro2::{Span, TokenStream};
use quote::quote_spanned;
use syn::Expr;
use syn::spanned::Spanned as _;

use super::{Context, value};
use crate::plan::{Count, Key, Limits, Number, Piece, Rule, Shadow};

impl Context {
    /// An expression: the consultation, or `None` where `when` is false.
    pub(super) fn optional_check(&self, rule: &Rule) -> TokenStream {
        let mixed = Span::mixed_site();
        let check = self.check(rule);
        let Some(when) = &rule.when else {
            return quote_spanned!(mixed=> ::core::option::Option::Some(#check));
        };
        let when = self.user(when);
        quote_spanned! {mixed=>
            {
                let __ratelimit_when: ::core::primitive::bool = #when;
                if __ratelimit_when {
                    ::core::option::Option::Some(#check)
                } else {
                    ::core::option::Option::None
                }
            }
        }
    }

    /// An expression: the consultation, which borrows nothing. User expressions stand in the order in which they
    /// are documented to run: limiter, max, cost, shadow, key.
    pub(super) fn check(&self, rule: &Rule) -> TokenStream {
        let mixed = Span::mixed_site();
        let private = &self.private;
        let definition = self.rule(rule);
        let new = match &rule.limiter {
            None => quote_spanned!(mixed=> #private::CheckBuilder::new(__ratelimit_rule)),
            Some(limiter) => {
                let span = limiter.span().resolved_at(mixed);
                let limiter = self.operand(limiter);
                let located = self.private_at(span);
                let limiter = quote_spanned!(span=> #located::limiter(&#limiter));
                quote_spanned!(mixed=> #private::CheckBuilder::on(__ratelimit_rule, #limiter))
            }
        };
        let mut steps = Vec::new();
        if let Limits::One { max: Number::Computed(max), .. } = &rule.limits {
            let max = self.counted(max);
            steps.push(quote_spanned!(mixed=> #private::CheckBuilder::max(&mut __ratelimit_check, #max);));
        }
        let cost = rule.cost.as_ref().map(|cost| match cost {
            Number::Fixed(cost) => quote_spanned!(mixed=> #cost),
            Number::Computed(cost) => self.counted(cost),
        });
        steps.extend(
            cost.map(|cost| quote_spanned!(mixed=> #private::CheckBuilder::cost(&mut __ratelimit_check, #cost);)),
        );
        match &rule.shadow {
            Shadow::Off => {}
            Shadow::On => {
                steps.push(quote_spanned!(mixed=> #private::CheckBuilder::shadow(&mut __ratelimit_check, true);))
            }
            Shadow::If(on) => {
                let on = self.user(on);
                steps.push(quote_spanned! {mixed=>
                    let __ratelimit_shadow: ::core::primitive::bool = #on;
                    #private::CheckBuilder::shadow(&mut __ratelimit_check, __ratelimit_shadow);
                });
            }
        }
        if !matches!(rule.count, Count::All) {
            steps.push(quote_spanned!(mixed=> #private::CheckBuilder::reserve(&mut __ratelimit_check);));
        }
        match &rule.key {
            Key::None => {}
            Key::Template(pieces) => steps.extend(pieces.iter().map(|piece| self.piece(piece))),
            Key::Expr(expr) => {
                let span = expr.span().resolved_at(mixed);
                let expr = self.operand(expr);
                let located = self.private_at(span);
                steps.push(quote_spanned!(span=> #located::CheckBuilder::part(&mut __ratelimit_check, &#expr);));
            }
        }
        if steps.is_empty() {
            return quote_spanned!(mixed=> { let __ratelimit_rule = #definition; #new });
        }
        quote_spanned! {mixed=>
            {
                let __ratelimit_rule = #definition;
                let mut __ratelimit_check = #new;
                #(#steps)*
                __ratelimit_check
            }
        }
    }

    fn piece(&self, piece: &Piece) -> TokenStream {
        match piece {
            Piece::Text(text) => {
                let mixed = Span::mixed_site();
                let private = &self.private;
                quote_spanned!(mixed=> #private::CheckBuilder::text(&mut __ratelimit_check, #text);)
            }
            Piece::Value(part) => {
                let span = part.root.span().resolved_at(Span::mixed_site());
                let part = value(part);
                let private = self.private_at(span);
                quote_spanned!(span=> #private::CheckBuilder::part(&mut __ratelimit_check, &#part);)
            }
        }
    }

    /// An expression: the user's number as the store counts it.
    fn counted(&self, number: &Expr) -> TokenStream {
        let span = number.span().resolved_at(Span::mixed_site());
        let number = self.user(number);
        let located = self.private_at(span);
        quote_spanned!(span=> #located::count(#number))
    }
}
