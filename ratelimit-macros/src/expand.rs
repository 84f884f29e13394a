//! The last stage: a plan into tokens. It cannot fail.
//!
//! Every token made here resolves at `mixed_site`, so that no name of it meets a name of the user and no lint
//! takes it for the user's code; where it stands for something the user wrote it is located there, so that
//! errors underline that.

use proc_macro2::{Delimiter, Group, Ident, Span, TokenStream, TokenTree};
use quote::{ToTokens, quote_spanned};
use syn::spanned::Spanned as _;
use syn::visit::{self, Visit};
use syn::{Expr, Path, Type};

use crate::body::Returns;
use crate::plan::{Answer, Key, Max, Name, OnUnavailable, Piece, Plan, Rule, Shadow, Value, ValueStep};

/// The function with its guard.
pub(crate) fn expand(plan: Plan) -> TokenStream {
    let Plan { function, body, krate, rules, answer } = plan;
    let context = Context { private: private(krate.as_ref()), receiver: body.scope.receiver.clone() };
    let guard = context.guard(&rules, &answer, &body.returns);
    let body = body.guarded(&function.body, guard);
    function.with_body(&body)
}

/// The path of what expansions may use.
pub(crate) fn private(krate: Option<&Path>) -> TokenStream {
    let mixed = Span::mixed_site();
    let usual = || quote_spanned!(mixed=> ::ratelimit_runtime::__private);
    krate.map_or_else(usual, |krate| quote_spanned!(mixed=> #krate::__private))
}

/// `root.field.0.method()`.
pub(crate) fn value(value: &Value) -> TokenStream {
    let mut tokens = value.root.to_token_stream();
    let span = value.root.span().resolved_at(Span::mixed_site());
    for step in &value.steps {
        tokens.extend(match step {
            ValueStep::Field(member) => quote_spanned!(span=> .#member),
            ValueStep::Call(method) => quote_spanned!(span=> .#method()),
        });
    }
    tokens
}

struct Context {
    private: TokenStream,
    /// What the user's `self` is called where the guard stands.
    receiver: Option<Ident>,
}

impl Context {
    fn guard(&self, rules: &[Rule], answer: &Answer, returns: &Returns) -> TokenStream {
        let mixed = Span::mixed_site();
        let private = &self.private;
        let run = match rules {
            [rule] if rule.when.is_none() => {
                let check = self.check(rule);
                quote_spanned!(mixed=> #private::run(#check))
            }
            _ => {
                let checks = rules.iter().map(|rule| self.optional_check(rule));
                quote_spanned!(mixed=> #private::run_all([#(#checks),*]))
            }
        };
        // What is borrowed from the arguments is given back before the first `.await`.
        let outcome = if let Some(refusal) = self.refusal(answer, returns) {
            quote_spanned! {mixed=>
                if let ::core::result::Result::Err(__ratelimit_error) = __ratelimit_run.await {
                    return #refusal;
                }
            }
        } else {
            quote_spanned!(mixed=> ::core::mem::drop(__ratelimit_run.await);)
        };
        quote_spanned! {mixed=>
            {
                let __ratelimit_run = #run;
                #outcome
            }
        }
    }

    /// The value that a refused call returns, located at the return type.
    fn refusal(&self, answer: &Answer, returns: &Returns) -> Option<TokenStream> {
        let mixed = Span::mixed_site();
        let private = &self.private;
        let (ty, span) = match returns {
            Returns::Type(ty) if names_impl(ty) => (quote_spanned!(mixed=> _), ty.span()),
            Returns::Type(ty) => (ty.to_token_stream(), ty.span()),
            Returns::Nothing(tokens) => (quote_spanned!(mixed=> ()), tokens.span()),
            Returns::Unknown => (quote_spanned!(mixed=> _), mixed),
        };
        let span = span.resolved_at(mixed);
        match answer {
            Answer::Never => None,
            Answer::ByType => Some(quote_spanned!(span=> #private::refuse::<#ty>(__ratelimit_error))),
            Answer::By(expr) => {
                let span = expr.span().resolved_at(mixed);
                let expr = self.operand(expr);
                Some(quote_spanned!(span=> #private::refuse_with::<#ty, _>(#expr, __ratelimit_error)))
            }
        }
    }

    fn optional_check(&self, rule: &Rule) -> TokenStream {
        let mixed = Span::mixed_site();
        let check = self.check(rule);
        let Some(when) = &rule.when else {
            return quote_spanned!(mixed=> ::core::option::Option::Some(#check));
        };
        let when = self.user(when);
        quote_spanned! {mixed=>
            {
                let __ratelimit_when: bool = #when;
                if __ratelimit_when {
                    ::core::option::Option::Some(#check)
                } else {
                    ::core::option::Option::None
                }
            }
        }
    }

    /// An expression: the consultation, which borrows nothing. User expressions stand in the order in which they
    /// are documented to run: limiter, max, shadow, key.
    fn check(&self, rule: &Rule) -> TokenStream {
        let mixed = Span::mixed_site();
        let private = &self.private;
        let definition = self.rule(rule);
        let new = match &rule.limiter {
            None => quote_spanned!(mixed=> #private::Check::new(__ratelimit_rule)),
            Some(limiter) => {
                let span = limiter.span().resolved_at(mixed);
                let limiter = self.operand(limiter);
                let limiter = quote_spanned!(span=> #private::limiter(&#limiter));
                quote_spanned!(mixed=> #private::Check::on(__ratelimit_rule, #limiter))
            }
        };
        let mut steps = Vec::new();
        if let Max::Computed(max) = &rule.max {
            let span = max.span().resolved_at(mixed);
            let max = self.user(max);
            let max = quote_spanned!(span=> #private::count(#max));
            steps.push(quote_spanned!(mixed=> #private::Check::max(&mut __ratelimit_check, #max);));
        }
        match &rule.shadow {
            Shadow::Off => {}
            Shadow::On => steps.push(quote_spanned!(mixed=> #private::Check::shadow(&mut __ratelimit_check, true);)),
            Shadow::If(on) => {
                let on = self.user(on);
                steps.push(quote_spanned! {mixed=>
                    let __ratelimit_shadow: bool = #on;
                    #private::Check::shadow(&mut __ratelimit_check, __ratelimit_shadow);
                });
            }
        }
        match &rule.key {
            Key::None => {}
            Key::Template(pieces) => steps.extend(pieces.iter().map(|piece| self.piece(piece))),
            Key::Expr(expr) => {
                let span = expr.span().resolved_at(mixed);
                let expr = self.operand(expr);
                steps.push(quote_spanned!(span=> #private::Check::part(&mut __ratelimit_check, &#expr);));
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
        let private = &self.private;
        match piece {
            Piece::Text(text) => {
                let mixed = Span::mixed_site();
                quote_spanned!(mixed=> #private::Check::text(&mut __ratelimit_check, #text);)
            }
            Piece::Value(part) => {
                let span = part.root.span().resolved_at(Span::mixed_site());
                let part = value(part);
                quote_spanned!(span=> #private::Check::part(&mut __ratelimit_check, &#part);)
            }
        }
    }

    /// An expression: the rule, a static in a scope where no expression of the user can name it.
    fn rule(&self, rule: &Rule) -> TokenStream {
        let mixed = Span::mixed_site();
        let private = &self.private;
        let max = match rule.max {
            Max::Fixed(max) => max,
            // Replaced at every call.
            Max::Computed(_) => 1,
        };
        let window = micros(rule.window_micros);
        let limit = quote_spanned!(mixed=> #private::Limit::new(#max, #window));
        // The path of a local type tells the types apart that a method belongs to, and not the instances of a
        // generic function.
        let here = quote_spanned!(mixed=> || ::core::any::type_name::<__RatelimitHere>());
        let (here_type, new) = match &rule.name {
            Name::Given(name) => (None, quote_spanned!(mixed=> #private::Rule::new(#name, #limit))),
            Name::Derived(1) => (Some(()), quote_spanned!(mixed=> #private::Rule::derived(#here, #limit))),
            Name::Derived(nth) => (Some(()), quote_spanned!(mixed=> #private::Rule::derived_nth(#here, #nth, #limit))),
        };
        let here_type = here_type.map(|()| quote_spanned!(mixed=> struct __RatelimitHere;));
        let on_unavailable = rule.on_unavailable.map(|answer| {
            let answer = match answer {
                OnUnavailable::Allow => quote_spanned!(mixed=> Allow),
                OnUnavailable::Deny => quote_spanned!(mixed=> Deny),
            };
            quote_spanned!(mixed=> .on_unavailable(#private::OnUnavailable::#answer))
        });
        let timeout = rule.timeout_micros.map(|timeout| {
            let timeout = micros(timeout);
            quote_spanned!(mixed=> .timeout(#timeout))
        });
        quote_spanned! {mixed=>
            {
                #here_type
                static __RATELIMIT_RULE: #private::Rule = #new #on_unavailable #timeout;
                &__RATELIMIT_RULE
            }
        }
    }

    /// The user's expression, as an argument of a call.
    fn user(&self, expr: &Expr) -> TokenStream {
        let tokens = expr.to_token_stream();
        match &self.receiver {
            Some(receiver) if receiver != "self" => rename_self(tokens, receiver),
            _ => tokens,
        }
    }

    /// The user's expression, as an operand.
    fn operand(&self, expr: &Expr) -> TokenStream {
        let tokens = self.user(expr);
        let tight = matches!(
            expr,
            Expr::Path(_)
                | Expr::Field(_)
                | Expr::MethodCall(_)
                | Expr::Call(_)
                | Expr::Lit(_)
                | Expr::Paren(_)
                | Expr::Tuple(_)
                | Expr::Macro(_)
                | Expr::Index(_)
                | Expr::Array(_)
        );
        if tight {
            return tokens;
        }
        let mut group = Group::new(Delimiter::Parenthesis, tokens);
        group.set_span(expr.span().resolved_at(Span::mixed_site()));
        TokenTree::Group(group).into()
    }
}

fn micros(micros: u64) -> TokenStream {
    let mixed = Span::mixed_site();
    quote_spanned!(mixed=> ::core::time::Duration::from_micros(#micros))
}

/// Whether `ty` says `impl Trait` somewhere, so that it cannot be written in an expression.
fn names_impl(ty: &Type) -> bool {
    struct Finder(bool);
    impl<'ast> Visit<'ast> for Finder {
        fn visit_type(&mut self, ty: &'ast Type) {
            self.0 |= matches!(ty, Type::ImplTrait(_));
            visit::visit_type(self, ty);
        }
    }
    let mut finder = Finder(false);
    finder.visit_type(ty);
    finder.0
}

/// `tokens` with every `self` that is a value renamed to `receiver`.
fn rename_self(tokens: TokenStream, receiver: &Ident) -> TokenStream {
    let mut trees = tokens.into_iter().peekable();
    let mut renamed = TokenStream::new();
    while let Some(tree) = trees.next() {
        let path = matches!(trees.peek(), Some(TokenTree::Punct(punct)) if punct.as_char() == ':');
        let tree = match tree {
            TokenTree::Ident(ident) if ident == "self" && !path => {
                let mut receiver = receiver.clone();
                receiver.set_span(ident.span());
                TokenTree::Ident(receiver)
            }
            TokenTree::Group(group) => {
                let mut inner = Group::new(group.delimiter(), rename_self(group.stream(), receiver));
                inner.set_span(group.span());
                TokenTree::Group(inner)
            }
            other => other,
        };
        renamed.extend([tree]);
    }
    renamed
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use crate::check::check;

    fn expanded(arguments: &str, function: &str) -> String {
        let plan = check(arguments.parse().unwrap(), syn::parse_str(function).unwrap()).ok().unwrap();
        normal(&expand(plan))
    }

    fn normal(tokens: &TokenStream) -> String {
        tokens.to_string().split_whitespace().collect::<Vec<_>>().join("")
    }

    fn source(text: &str) -> String {
        normal(&text.parse().unwrap())
    }

    #[test]
    fn the_guard_stands_before_the_untouched_body() {
        let actual = expanded(
            r#"key = "<email>:<a.0>", window = "60s", max = 3"#,
            "/// doc\n pub async fn f(email: &str, a: A) -> Result<(), E> { body; here }",
        );
        let expected = source(
            r#"
            /// doc
            pub async fn f(email: &str, a: A) -> Result<(), E> {
                {
                    let __ratelimit_run = ::ratelimit_runtime::__private::run({
                        let __ratelimit_rule = {
                            struct __RatelimitHere;
                            static __RATELIMIT_RULE: ::ratelimit_runtime::__private::Rule =
                                ::ratelimit_runtime::__private::Rule::derived(
                                    || ::core::any::type_name::<__RatelimitHere>(),
                                    ::ratelimit_runtime::__private::Limit::new(
                                        3u64, ::core::time::Duration::from_micros(60000000u64)));
                            &__RATELIMIT_RULE
                        };
                        let mut __ratelimit_check = ::ratelimit_runtime::__private::Check::new(__ratelimit_rule);
                        ::ratelimit_runtime::__private::Check::part(&mut __ratelimit_check, &email);
                        ::ratelimit_runtime::__private::Check::text(&mut __ratelimit_check, ":");
                        ::ratelimit_runtime::__private::Check::part(&mut __ratelimit_check, &a.0);
                        __ratelimit_check
                    });
                    if let ::core::result::Result::Err(__ratelimit_error) = __ratelimit_run.await {
                        return ::ratelimit_runtime::__private::refuse::<Result<(), E> >(__ratelimit_error);
                    }
                }
                { body; here }
            }"#,
        );
        assert_eq!(actual, expected);
    }

    #[test]
    fn what_is_asked_for_is_there() {
        for (arguments, function, parts) in [
            (
                r#"window = "1s", max = n + 1, limiter = &self.l, shadow = s, key = &a + b, timeout = "5ms", name = "x", on_unavailable = "deny", crate = ::y"#,
                "async fn f() -> R {}",
                vec![
                    "::y::__private::Rule::new(\"x\",",
                    "Limit::new(1u64,",
                    ".on_unavailable(::y::__private::OnUnavailable::Deny).timeout(::core::time::Duration::from_micros(5000u64));",
                    "Check::on(__ratelimit_rule,::y::__private::limiter(&(&self.l)))",
                    "Check::max(&mut__ratelimit_check,::y::__private::count(n+1));",
                    "let__ratelimit_shadow:bool=s;",
                    "Check::part(&mut__ratelimit_check,&(&a+b));",
                ],
            ),
            (
                r#"window = "1s", max = 1, when = w, on_refused = |e| r(e)"#,
                "async fn f() -> impl X {}",
                vec![
                    "run_all([{let__ratelimit_when:bool=w;if__ratelimit_when{::core::option::Option::Some(",
                    "refuse_with::<_,_>((|e|r(e)),__ratelimit_error)",
                ],
            ),
            (r#"window = "1s", max = 1, shadow"#, "async fn f() {}", vec!["::core::mem::drop(__ratelimit_run.await);"]),
            (
                r#"window = "1s", max = 1"#,
                r#"#[rate_limit(window = "2s", max = 2)] async fn f() -> R {}"#,
                vec!["Rule::derived(||", "Rule::derived_nth(||", ",2u8,", "run_all([::core::option::Option::Some({"],
            ),
        ] {
            let actual = expanded(arguments, function);
            for part in parts {
                assert!(actual.contains(part), "{part}\n{actual}");
            }
        }
    }

    #[test]
    fn self_is_renamed_where_async_trait_renamed_it() {
        let receiver = Ident::new("__self", Span::call_site());
        let actual = rename_self(source_tokens("self.a(f!(self), self::b, Self::C, |x| { self })"), &receiver);
        assert_eq!(normal(&actual), source("__self.a(f!(__self), self::b, Self::C, |x| { __self })"));
    }

    fn source_tokens(text: &str) -> TokenStream {
        text.parse().unwrap()
    }

    #[test]
    fn opaque_types_are_left_to_inference() {
        for (ty, expected) in
            [("Result<impl X, E>", true), ("Box<dyn Fn(impl X)>", true), ("Result<(), Box<dyn E>>", false)]
        {
            assert_eq!(names_impl(&syn::parse_str(ty).unwrap()), expected, "{ty}");
        }
    }
}
