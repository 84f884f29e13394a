//! Errors are collected, not thrown: one attribute reports all that is wrong with it at once.

use quote::ToTokens;
use syn::Error;

/// The errors found so far.
#[derive(Default)]
pub(crate) struct Diagnostics {
    errors: Option<Error>,
}

impl Diagnostics {
    pub(crate) fn push(&mut self, error: Error) {
        match &mut self.errors {
            Some(errors) => errors.combine(error),
            None => self.errors = Some(error),
        }
    }

    /// An error that underlines all of `tokens`.
    pub(crate) fn error(&mut self, tokens: impl ToTokens, message: impl std::fmt::Display) {
        self.push(Error::new_spanned(tokens, message));
    }

    /// The value of `result`, or `None` with its error kept.
    pub(crate) fn keep<T>(&mut self, result: syn::Result<T>) -> Option<T> {
        result.map_err(|error| self.push(error)).ok()
    }

    /// All errors as one, or `Ok` if there were none.
    pub(crate) fn finish(self) -> syn::Result<()> {
        self.errors.map_or(Ok(()), Err)
    }
}

/// `` `a`, `b`, `c` `` for messages: at most eight names.
pub(crate) fn list<S: AsRef<str>>(names: impl IntoIterator<Item = S>) -> String {
    const MOST: usize = 8;
    let mut text = String::new();
    for (index, name) in names.into_iter().enumerate() {
        if index == MOST {
            text.push_str(", …");
            break;
        }
        if index > 0 {
            text.push_str(", ");
        }
        text.push('`');
        text.push_str(name.as_ref());
        text.push('`');
    }
    text
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use proc_macro2::Span;

    #[test]
    fn every_error_is_reported() {
        let mut diag = Diagnostics::default();
        for message in ["one", "two", "three"] {
            diag.push(Error::new(Span::call_site(), message));
        }
        let messages: Vec<_> = diag.finish().unwrap_err().into_iter().map(|e| e.to_string()).collect();
        assert_eq!(messages, ["one", "two", "three"]);
        assert!(Diagnostics::default().finish().is_ok());
    }

    #[test]
    fn lists_stop_at_eight() {
        assert_eq!(list(["a", "b"]), "`a`, `b`");
        let many: Vec<String> = (0..9).map(|n| n.to_string()).collect();
        assert!(list(&many).ends_with("`7`, …"), "{}", list(&many));
    }
}
