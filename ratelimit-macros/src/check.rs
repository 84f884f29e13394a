//! Stage two: the arguments against the function. Whatever can be wrong is found here, all of it.

use proc_macro2::{Span, TokenStream};
use quote::ToTokens as _;
use syn::{Expr, Meta, Path};

use crate::args::{Arg, Args, as_str};
use crate::body::{Body, Returns};
use crate::diag::Diagnostics;
use crate::function::Function;
use crate::plan::{Answer, Count, Plan, Rule, Shadow};
use crate::rule::{self, check_rule};
use crate::{forbidden, runtime_path};

/// One `#[rate_limit(...)]`, read.
struct Attribute {
    args: Args,
}

/// What is to be done to `function`, annotated with `#[rate_limit(attribute)]` and perhaps with more of them
/// below. On errors the function is handed back without those: each is reported once.
pub(crate) fn check(attribute: TokenStream, mut function: Function) -> Result<Plan, (syn::Error, Box<Function>)> {
    let mut diag = Diagnostics::default();
    let attributes = attributes(attribute, &mut function, &mut diag);
    let body = diag.keep(Body::locate(&function));
    let plan = body.and_then(|body| {
        let rules = rules(&attributes, &body, &mut diag);
        let krate = runtime(&attributes, &mut diag);
        let answer = answer(attributes, &body, &mut diag);
        Some((body, rules?, krate, answer))
    });
    match (diag.finish(), plan) {
        (Ok(()), Some((body, rules, krate, answer))) => Ok(Plan { function, body, krate, rules, answer }),
        (Err(error), _) => Err((error, Box::new(function))),
        (Ok(()), None) => {
            let message = "this attribute could not be understood: please report it as a bug of `rate_limit`";
            Err((syn::Error::new(Span::call_site(), message), Box::new(function)))
        }
    }
}

/// The arguments of the attribute and of the stacked ones, in written order.
fn attributes(topmost: TokenStream, function: &mut Function, diag: &mut Diagnostics) -> Vec<Attribute> {
    let mut attributes = vec![Attribute { args: Args::parse(topmost, Span::call_site(), diag) }];
    for stacked in function.take_stacked() {
        let (tokens, whole) = match &stacked.meta {
            Meta::List(list) => (list.tokens.clone(), list.delimiter.span().join()),
            Meta::Path(path) => (TokenStream::new(), last_span(path)),
            Meta::NameValue(value) => {
                diag.error(value, "write the arguments in parentheses: `#[rate_limit(…)]`");
                continue;
            }
        };
        attributes.push(Attribute { args: Args::parse(tokens, whole, diag) });
    }
    attributes
}

fn last_span(path: &Path) -> Span {
    path.segments.last().map_or_else(Span::call_site, |segment| segment.ident.span())
}

fn rules(attributes: &[Attribute], body: &Body, diag: &mut Diagnostics) -> Option<Vec<Rule>> {
    if let Some(excess) = attributes.get(usize::from(u8::MAX)) {
        let message = "at most 255 limits on one function";
        match &excess.args.window {
            Some(window) => diag.error(&window.name, message),
            None => diag.push(syn::Error::new(Span::call_site(), message)),
        }
    }
    unique_names(attributes, diag);
    let rules: Vec<_> = (1..=u8::MAX)
        .zip(attributes)
        .map(|(nth, attribute)| check_rule(&attribute.args, nth, &body.scope, diag))
        .collect();
    if let Returns::Nothing(_) = &body.returns {
        no_outcome(attributes, &rules, diag);
    }
    rules.into_iter().collect()
}

/// A function that returns nothing has no outcome to count by.
fn no_outcome(attributes: &[Attribute], rules: &[Option<Rule>], diag: &mut Diagnostics) {
    for (attribute, rule) in attributes.iter().zip(rules) {
        let counts_all = rule.as_ref().is_none_or(|rule| matches!(rule.count, Count::All));
        if let (Some(count), false) = (&attribute.args.count, counts_all) {
            diag.error(
                &count.name,
                "this function returns nothing, so all its outcomes are the same: leave `count` out",
            );
        }
    }
}

/// Two limits of one function under one name would share a bucket.
fn unique_names(attributes: &[Attribute], diag: &mut Diagnostics) {
    let mut taken = Vec::new();
    for Attribute { args, .. } in attributes {
        let Some(name) = args.name.as_ref().and_then(|name| as_str(&name.value)) else { continue };
        if taken.contains(&name.value()) {
            let message =
                "another `#[rate_limit]` of this function has this name, and would share its bucket: give each its own";
            diag.error(name, message);
        }
        taken.push(name.value());
    }
}

/// The one runtime crate of a stack.
fn runtime(attributes: &[Attribute], diag: &mut Diagnostics) -> Option<Path> {
    let mut krate: Option<Path> = None;
    for given in attributes.iter().filter_map(|attribute| attribute.args.krate.as_ref()) {
        let Some(path) = diag.keep(runtime_path::read(&given.value)) else { continue };
        let text = |path: &Path| path.to_token_stream().to_string();
        match &krate {
            Some(first) if text(first) != text(&path) => {
                diag.error(&given.value, "stacked attributes share one guard: they cannot use two runtime crates");
            }
            _ => krate = Some(path),
        }
    }
    krate
}

/// How a refusal leaves the function, for the whole stack.
fn answer(attributes: Vec<Attribute>, body: &Body, diag: &mut Diagnostics) -> Answer {
    let refuses =
        attributes.iter().any(|attribute| !matches!(rule::shadow(attribute.args.shadow.as_ref()), Shadow::On));
    let mut by: Option<Arg<Expr>> = None;
    for given in attributes.into_iter().filter_map(|attribute| attribute.args.on_refused) {
        forbidden::check("on_refused", &given.value, diag);
        if by.is_some() {
            diag.error(
                &given.name,
                "stacked attributes share one guard: give `on_refused` once, it answers for all of them",
            );
        } else {
            by = Some(given);
        }
    }
    match by {
        Some(given) if !refuses => {
            diag.error(&given.name, "`on_refused` is never used: with `shadow` no call is refused");
            Answer::Never
        }
        Some(given) => Answer::By(given.value),
        None if !refuses => Answer::Never,
        None => {
            if let Returns::Nothing(tokens) = &body.returns {
                let message = "this function returns nothing, so it cannot carry a refusal: \
                    return `Result<_, E>` with `E: From<RateLimitError>`, or add `on_refused = |_error| ()`";
                diag.error(tokens, message);
            }
            Answer::ByType
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use crate::plan::{Limits, Name};

    fn run(arguments: &str, function: &str) -> Result<Plan, (Vec<String>, String)> {
        check(arguments.parse().unwrap(), syn::parse_str(function).unwrap()).map_err(|(errors, function)| {
            (errors.into_iter().map(|e| e.to_string()).collect(), function.to_token_stream().to_string())
        })
    }

    const ONE: &str = r#"window = "1s", max = 1"#;

    #[test]
    fn a_stack_is_one_plan_in_written_order() {
        let function = r#"
            #[a] #[rate_limit(window = "2s", max = 2, name = "second")]
            #[ratelimit_runtime::rate_limit(window = "3s", max = 3, crate = ::x)]
            async fn f() -> R {}"#;
        let plan = run(ONE, function).ok().unwrap();
        let window = |rule: &Rule| match &rule.limits {
            Limits::One { window_micros, .. } => window_micros / 1_000_000,
            _ => 0,
        };
        assert_eq!(plan.rules.iter().map(window).collect::<Vec<_>>(), [1, 2, 3]);
        assert!(plan.rules.iter().map(|rule| &rule.name).zip([1, 0, 3]).all(|(name, nth)| match name {
            Name::Derived(derived) => *derived == nth,
            Name::Given(name) => nth == 0 && name.value() == "second",
        }));
        assert_eq!(plan.function.attributes.len(), 1);
        assert!(plan.krate.is_some());
    }

    #[test]
    fn errors_of_a_stack_come_together_and_once() {
        let function = r#"#[a] #[rate_limit(window = "0s", max = 2)] #[rate_limit] async fn f() {}"#;
        let (errors, function) = run("max = 0", function).err().unwrap();
        assert_eq!(errors.len(), 5, "{errors:?}");
        assert_eq!(function, "# [a] async fn f () { }");
    }

    #[test]
    fn conflicts() {
        for (arguments, function, part) in [
            (ONE, "async fn f() {}", "returns nothing"),
            (ONE, "async fn f() -> () {}", "returns nothing"),
            (ONE, "fn f() -> impl Future<Output = ()> { async move {} }", "returns nothing"),
            (ONE, "fn f() -> R {}", "goes on an async function"),
            (ONE, "#[rate_limit = 1] async fn f() -> R {}", "in parentheses"),
            (r#"window = "1s", max = 1, crate = x"#, "async fn f() -> R {}", "write `::x`"),
            (r#"window = "1s", max = 1, shadow, on_refused = f"#, "async fn f() -> R {}", "is never used"),
            (r#"window = "1s", max = 1, count = "err", shadow"#, "async fn f() {}", "leave `count` out"),
            (r#"window = "1s", max = 1, count = |()| true, on_refused = drop"#, "async fn f() {}", "leave `count` out"),
            (r#"window = "1s", max = 1, on_refused = f?"#, "async fn f() -> R {}", "`?` cannot be used"),
            (
                r#"window = "1s", max = 1, name = "n""#,
                r#"#[rate_limit(window = "2s", max = 1, name = "n")] async fn f() -> R {}"#,
                "would share its bucket",
            ),
            (
                r#"window = "1s", max = 1, crate = ::a"#,
                r#"#[rate_limit(window = "2s", max = 1, crate = ::b)] async fn f() -> R {}"#,
                "two runtime crates",
            ),
            (
                r#"window = "1s", max = 1, on_refused = a"#,
                r#"#[rate_limit(window = "2s", max = 1, on_refused = b)] async fn f() -> R {}"#,
                "give `on_refused` once",
            ),
        ] {
            let (errors, _) = run(arguments, function).err().unwrap();
            assert_eq!(errors.len(), 1, "{arguments} {function}: {errors:?}");
            assert!(errors.iter().all(|e| e.contains(part)), "{arguments} {function}: {errors:?}");
        }
        for arguments in [
            r#"window = "1s", max = 1, shadow"#,
            r#"window = "1s", max = 1, on_refused = drop"#,
            r#"window = "1s", max = 1, shadow, count = "all""#,
        ] {
            assert!(run(arguments, "async fn f() {}").is_ok(), "{arguments}");
        }
    }
}
