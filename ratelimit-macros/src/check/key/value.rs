//! The value of a placeholder whose name is known to have one.

use proc_macro2::Span;
use syn::{Ident, Member};

use crate::parse::placeholder::{Placeholder, Step};

/// A name in scope, and the steps from it.
pub(crate) struct Value {
    pub(crate) root: Ident,
    pub(crate) steps: Vec<Step>,
}

impl Value {
    /// `placeholder`, with its name resolved to `root` and its steps located at `span`.
    pub(crate) fn new(placeholder: Placeholder, root: Ident, span: Span) -> Self {
        let mut steps = placeholder.steps;
        for step in &mut steps {
            match step {
                Step::Field(Member::Unnamed(index)) => index.span = span,
                Step::Field(Member::Named(name)) => name.set_span(span),
                Step::Call(method) => method.set_span(span),
            }
        }
        Self { root, steps }
    }
}
