//! A template without placeholders that spells an argument, exactly or nearly: it is surely meant to be one.

use std::ops::Range;

use crate::check::scope::{Binding, Scope};

/// What the first word of `chars` that spells an argument means, and where it is. `self` is a word as well, so only what
/// is in it counts.
pub(crate) fn argument(chars: &[char], scope: &Scope) -> Option<(String, Range<usize>)> {
    let mut start = 0;
    for word in chars.split(|c| !(c.is_alphanumeric() || *c == '_')) {
        let text: String = word.iter().collect();
        let end = start + word.len();
        let of_self = text == "self" && scope.receiver.is_some() && chars.get(end) == Some(&'.');
        if of_self {
            let path = chars.get(start..).unwrap_or_default();
            let path: String = path.iter().take_while(|c| c.is_alphanumeric() || matches!(c, '_' | '.')).collect();
            let path = path.trim_end_matches('.').to_owned();
            let length = path.chars().count();
            return Some((path, start..start + length));
        }
        let names = || scope.bindings.iter().map(Binding::text);
        if let Some(name) = names().find(|name| *name == text).or_else(|| names().find(|name| slipped(&text, name))) {
            return Some((name, start..end));
        }
        start = end + 1;
    }
    None
}

/// Whether `word` is `name` after one slip of the hand: a letter too many or too few, two swapped, another case. A letter
/// in place of another is none (`stage`, `state`), nor is a plural.
fn slipped(word: &str, name: &str) -> bool {
    const SHORTEST: usize = 5;
    let (word, name) = (word.to_lowercase(), name.to_lowercase());
    if word == name {
        return true;
    }
    let (letters, others) = (sorted(&word), sorted(&name));
    let plural = word.strip_suffix('s') == Some(&name) || name.strip_suffix('s') == Some(&word);
    let replaced = letters.len() == others.len() && letters != others;
    let long_enough = letters.len().min(others.len()) >= SHORTEST;
    long_enough && !plural && !replaced && strsim::damerau_levenshtein(&word, &name) == 1
}

fn sorted(word: &str) -> Vec<char> {
    let mut letters: Vec<char> = word.chars().collect();
    letters.sort_unstable();
    letters
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    fn meant(text: &str) -> Option<String> {
        let signature = "fn f(&self, email: &str, users: &[User], state: State, id: u32, user_id: u32, tier1: u8)";
        let scope = Scope::of(&syn::parse_str(signature).unwrap());
        let chars: Vec<char> = text.chars().collect();
        argument(&chars, &scope).map(|(name, at)| {
            assert!(at.end <= chars.len());
            name
        })
    }

    #[test]
    fn slips_of_the_hand() {
        for (text, name) in [
            ("email", "email"),
            ("login:email", "email"),
            ("emial", "email"),
            ("usr_id", "user_id"),
            ("emaill", "email"),
            ("Email", "email"),
            ("login:e_mail", "email"),
            ("userId", "user_id"),
            ("ID", "id"),
            ("self.name.len()", "self.name.len"),
        ] {
            assert_eq!(meant(text).as_deref(), Some(name), "{text}");
        }
    }

    #[test]
    fn other_words() {
        for text in
            ["all", "stage", "user", "gmail", "emails", "ip", "io", "di", "tier2", "tier", "self-service", "mail"]
        {
            assert_eq!(meant(text), None, "{text}");
        }
    }
}
