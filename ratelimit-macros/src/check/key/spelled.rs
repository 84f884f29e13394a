//! Text of a template that spells an argument: it is surely meant to be a placeholder.

use std::ops::Range;

use crate::check::function::scope::{Binding, Scope};
use crate::parse::placeholder::Placeholder;
use crate::suggest::nearest;

/// An argument that a text spells, as a placeholder names it, and where.
pub(crate) type Spelled = (String, Range<usize>);

/// The first word of `chars`, a template without placeholders, that spells an argument, exactly or
/// nearly.
pub(crate) fn argument(chars: &[char], scope: &Scope) -> Option<Spelled> {
    let names: Vec<String> = scope.bindings.iter().map(Binding::text).collect();
    let words = words(chars, &|_| false);
    let exact = words.iter().find_map(|(word, at)| {
        of_self(chars, scope, word, at).or_else(|| names.contains(word).then(|| path(chars, at)))
    });
    exact.or_else(|| {
        let near = |word: &str| nearest(word, names.iter().map(String::as_str)).map(str::to_owned);
        words
            .into_iter()
            .find_map(|(word, at)| Some((near(&word)?, at)))
    })
}

/// The first word beside the placeholders of `chars` that is an argument which none of them uses,
/// as in `<tenant>/$email`. A word with a hyphen is none (`user-agent`).
pub(crate) fn beside<'a>(
    chars: &[char],
    placeholders: &(impl Iterator<Item = &'a Placeholder> + Clone),
    scope: &Scope,
) -> Option<Spelled> {
    let mut text = chars.to_vec();
    for placeholder in placeholders.clone() {
        text.get_mut(placeholder.whole.clone())
            .unwrap_or_default()
            .fill('\0');
    }
    let unused = |name: &str| {
        placeholders
            .clone()
            .all(|placeholder| placeholder.root != name)
    };
    words(&text, &|c| c == '-')
        .into_iter()
        .find_map(|(word, at)| {
            of_self(&text, scope, &word, &at).or_else(|| {
                let is_argument = scope
                    .find(&word)
                    .is_some_and(|binding| !binding.conditional)
                    && unused(&word);
                is_argument.then(|| path(&text, &at))
            })
        })
}

/// The words among `chars`, each with its place. A `joins` character is part of one, beside
/// letters, digits and `_`.
fn words(chars: &[char], joins: &dyn Fn(char) -> bool) -> Vec<(String, Range<usize>)> {
    let mut start = 0;
    let mut words = Vec::new();
    for word in chars.split(|c| !(c.is_alphanumeric() || *c == '_' || joins(*c))) {
        let end = start + word.len();
        if !word.is_empty() {
            words.push((word.iter().collect(), start..end));
        }
        start = end + 1;
    }
    words
}

/// The path that starts with `word`, if `word` is `self`. `self` alone is an ordinary word.
fn of_self(chars: &[char], scope: &Scope, word: &str, at: &Range<usize>) -> Option<Spelled> {
    let is_self = word == "self" && scope.receiver.is_some();
    is_self
        .then(|| path(chars, at))
        .filter(|(path, _)| path != word)
}

/// The word at this place, with the fields and methods after it: `user.name()` of `user.name().`
fn path(chars: &[char], at: &Range<usize>) -> Spelled {
    let is_name = |c: &char| c.is_alphanumeric() || *c == '_';
    let mut end = at.end;
    while chars.get(end) == Some(&'.') && chars.get(end + 1).is_some_and(is_name) {
        let after = chars.get(end + 1..).unwrap_or_default();
        end += 1 + after.iter().take_while(|c| is_name(c)).count();
        let is_call = chars.get(end..end + 2) == Some(&['(', ')']);
        end += if is_call { 2 } else { 0 };
    }
    let path = chars.get(at.start..end).unwrap_or_default();
    (path.iter().collect(), at.start..end)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

    use super::*;

    fn meant(text: &str) -> Option<String> {
        let signature = "fn f(&self, email: &str, users: &[User], state: State, id: u32, user_id: \
            u32, tier1: u8)";
        let scope = Scope::of(&syn::parse_str(signature).unwrap());
        let chars: Vec<char> = text.chars().collect();
        argument(&chars, &scope).map(|(name, at)| {
            assert!(at.end <= chars.len());
            name
        })
    }

    #[test]
    fn a_key_without_placeholder_suggests_the_argument_that_was_meant() {
        for (text, name) in [
            ("email", "email"),
            ("login:email", "email"),
            ("emial", "email"),
            ("Email", "email"),
            ("userId", "user_id"),
            ("ID", "id"),
            ("self.name.len()", "self.name.len()"),
            ("#state.name().len(", "state.name().len"),
            ("email.", "email"),
        ] {
            assert_eq!(meant(text).as_deref(), Some(name), "{text}");
        }
    }

    #[test]
    fn a_name_beside_placeholders_is_suggested_as_one() {
        let signature =
            "fn f(&self, tenant: &str, email: &str, user: User, #[cfg(x)] sometimes: u8)";
        let scope = Scope::of(&syn::parse_str(signature).unwrap());
        for (text, name) in [
            ("<tenant>/$email", Some("email")),
            ("{{email}}:<tenant>", Some("email")),
            ("email:<tenant>", Some("email")),
            ("<tenant>:self.id", Some("self.id")),
            ("<tenant>:user.0.id.", Some("user.0.id")),
            ("email:<email>", None),
            ("<email.len()>/<tenant>:tenant", None),
            ("user-agent:<email>", None),
            ("Email:<tenant>", None),
            ("sometimes:<email>", None),
            ("self:<tenant>", None),
            ("self. <tenant>", None),
            ("<email>", None),
        ] {
            let literal = syn::LitStr::new(text, proc_macro2::Span::call_site());
            let mut diagnostics = crate::diagnostics::Diagnostics::default();
            let template = crate::parse::template::Template::parse(&literal, &mut diagnostics);
            let chars: Vec<char> = text.chars().collect();
            let found = beside(&chars, &template.placeholders(), &scope);
            assert_eq!(
                found.as_ref().map(|(name, _)| name.as_str()),
                name,
                "{text}"
            );
            if let Some((name, at)) = found {
                assert_eq!(chars[at].iter().collect::<String>(), name, "{text}");
            }
        }
    }
}
