//! The second stage's result: a function, and the checked arguments of its attributes.

use syn::Path;

use crate::check::function::body::Body;
use crate::check::function::output::Output;
use crate::check::refusal::{self, Refusal};
use crate::check::rule::{self, Rule};
use crate::check::stack;
use crate::diagnostics::Diagnostics;
use crate::parse::annotated::Annotated;
use crate::parse::arguments::Arguments;
use crate::parse::function::Function;

pub(crate) struct Checked {
    pub(crate) function: Function,
    pub(crate) body: Body,
    /// The runtime crate, if not the usual one.
    pub(crate) krate: Option<Path>,
    /// One per attribute, in written order.
    pub(crate) rules: Vec<Rule>,
    pub(crate) refusal: Refusal,
}

/// All errors, and the function as it was but for its attributes.
pub(crate) type Rejected = (syn::Error, Box<Function>);

/// Judges the attributes against the function; `diagnostics` are those of the first stage.
pub(crate) fn check(
    annotated: Annotated,
    mut diagnostics: Diagnostics,
) -> Result<Checked, Rejected> {
    let Annotated {
        function,
        attributes,
    } = annotated;
    let body = diagnostics.keep(Body::of(&function));
    let checked = body.and_then(|body| {
        let rules = rules(&attributes, &body, &mut diagnostics);
        let krate = stack::runtime_crate(&attributes, &mut diagnostics);
        let refusal = refusal::read(attributes, &body.output, &mut diagnostics);
        Some((body, krate, rules?, refusal))
    });
    match diagnostics.finish(checked) {
        Ok((body, krate, rules, refusal)) => Ok(Checked {
            function,
            body,
            krate,
            rules,
            refusal,
        }),
        Err(errors) => Err((errors, Box::new(function))),
    }
}

fn rules(
    attributes: &[Arguments],
    body: &Body,
    diagnostics: &mut Diagnostics,
) -> Option<Vec<Rule>> {
    stack::must_be_numbered(attributes, diagnostics);
    stack::must_have_unique_names(attributes, diagnostics);
    let rules: Vec<_> = (1..=u8::MAX)
        .zip(attributes)
        .map(|(nth, arguments)| rule::check(arguments, nth, &body.scope, diagnostics))
        .collect();
    if let Output::Nothing(_) | Output::Never(_) = &body.output {
        stack::must_count_all(attributes, &rules, diagnostics);
    }
    rules.into_iter().collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use quote::ToTokens as _;

    use super::*;
    use crate::check::rule::RuleName;
    use crate::parse::annotated::parse;

    fn run(arguments: &str, function: &str) -> Result<Checked, (usize, String)> {
        let mut diagnostics = Diagnostics::default();
        let annotated = parse(
            arguments.parse().unwrap(),
            function.parse().unwrap(),
            &mut diagnostics,
        )
        .ok()
        .unwrap();
        check(annotated, diagnostics).map_err(|(errors, function)| {
            (
                errors.into_iter().count(),
                function.to_token_stream().to_string(),
            )
        })
    }

    #[test]
    fn a_stack_is_checked_in_written_order() {
        let function = r#"
            #[a] #[rate_limit(window = "2s", max = 2, name = "second")]
            #[ratelimit_runtime::rate_limit(window = "3s", max = 3, crate = ::x)]
            async fn f() -> R {}"#;
        let checked = run(r#"window = "1s", max = 1"#, function).ok().unwrap();
        assert_eq!(
            checked
                .rules
                .iter()
                .flat_map(|rule| rule.limits.literal_maxima())
                .collect::<Vec<_>>(),
            [1, 2, 3]
        );
        assert!(
            checked
                .rules
                .iter()
                .map(|rule| &rule.name)
                .zip([1, 0, 3])
                .all(|(name, nth)| match name {
                    RuleName::Derived(derived) => *derived == nth,
                    RuleName::Given(name) => nth == 0 && name.value() == "second",
                })
        );
        assert_eq!(checked.function.attributes.len(), 1);
        assert!(checked.krate.is_some());
    }

    #[test]
    fn errors_of_a_stack_come_together_and_once() {
        let function =
            r#"#[a] #[rate_limit(window = "0s", max = 2)] #[rate_limit] async fn f() {}"#;
        assert_eq!(
            run("max = 0", function).err().unwrap(),
            (5, "# [a] async fn f () { }".to_owned())
        );
    }
}
