//! The second stage's result: a function, and the checked arguments of its attributes.

use syn::Path;

use crate::check::function::body::{Body, has_guard};
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
    /// The rule of each attribute, in written order.
    pub(crate) rules: Vec<Rule>,
    pub(crate) refusal: Refusal,
}

/// All errors, and the function as it was but for its attributes.
pub(crate) type Rejected = (syn::Error, Box<Function>);

/// Judges the attributes against the function. `diagnostics` has the errors of the first stage.
pub(crate) fn check(
    annotated: Annotated,
    mut diagnostics: Diagnostics,
) -> Result<Checked, Rejected> {
    let Annotated {
        function,
        attributes,
    } = annotated;
    // An attribute with a mistake may be left behind by the one above it, as another crate's.
    let left_behind = diagnostics.found_any() && has_guard(function.body.stream());
    let body = (!left_behind).then(|| diagnostics.keep(Body::of(&function)));
    let checked = body.flatten().and_then(|body| {
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
