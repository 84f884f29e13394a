//! [`Diagnostics`]: collects errors, so that one attribute reports all its mistakes at once.

use proc_macro2::Span;
use quote::ToTokens;
use syn::Error;

use crate::literal::bare;
use crate::parse::arguments::Argument;

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

    /// Adds an error that underlines all of `tokens`.
    pub(crate) fn error(&mut self, tokens: impl ToTokens, message: impl std::fmt::Display) {
        self.push(Error::new_spanned(tokens, message));
    }

    pub(crate) fn found_any(&self) -> bool {
        self.errors.is_some()
    }

    /// The value of `result`; on an error, `None`, and the error is collected.
    pub(crate) fn keep<T>(&mut self, result: syn::Result<T>) -> Option<T> {
        result.map_err(|error| self.push(error)).ok()
    }

    /// The value that `read` gives for `argument`, if that is given; an error is collected.
    pub(crate) fn read<T>(
        &mut self,
        argument: Option<&Argument>,
        read: impl FnOnce(&Argument) -> Result<T, String>,
    ) -> Option<T> {
        let argument = argument?;
        read(argument)
            .map_err(|message| self.error(bare(&argument.value), message))
            .ok()
    }

    /// `value`, unless errors were collected: then all of them as one.
    pub(crate) fn finish<T>(self, value: Option<T>) -> syn::Result<T> {
        match (self.errors, value) {
            (Some(errors), _) => Err(errors),
            (None, Some(value)) => Ok(value),
            (None, None) => {
                let message =
                    "this could not be understood: please report it as a bug of `ratelimit-macros`";
                Err(Error::new(Span::call_site(), message))
            }
        }
    }

    #[cfg(test)]
    pub(crate) fn messages(self) -> Vec<String> {
        self.errors
            .into_iter()
            .flatten()
            .map(|error| error.to_string())
            .collect()
    }
}

/// `names` in backquotes, for a message.
pub(crate) fn list<S: AsRef<str>>(names: impl IntoIterator<Item = S>) -> String {
    let quote = |name: S| format!("`{}`", name.as_ref());
    names.into_iter().map(quote).collect::<Vec<_>>().join(", ")
}
