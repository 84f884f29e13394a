//! `key!`.

use super::support::errors;
use crate::stages;

#[test]
fn expansion() {
    let tokens = stages::key("\"<a>:{b.c()}\"".parse().unwrap()).to_string();
    assert!(tokens.contains("part (& mut __ratelimit_key , & a)"), "{tokens}");
    assert!(tokens.contains("text (& mut __ratelimit_key , \":\")"), "{tokens}");
    assert!(tokens.contains("part (& mut __ratelimit_key , & b . c ())"), "{tokens}");
    let tokens = stages::key("crate = ::x, \"k\",".parse().unwrap()).to_string();
    assert!(tokens.contains("use :: x :: __ratelimit_runtime as __ratelimit"), "{tokens}");
}

#[test]
fn refused() {
    for (text, part) in [
        ("", "which key?"),
        ("email", "as a string literal"),
        ("\"<a>\", a", "nothing follows"),
        ("\"\"", "an empty key"),
        ("\"<a\"", "never closed"),
        ("\"<crate>\"", "is not a name that can have a value"),
        ("crate = x, \"a\"", "relative path"),
    ] {
        let errors = errors(&stages::key(text.parse().unwrap()));
        assert_eq!(errors.len(), 1, "{text}: {errors:?}");
        assert!(errors.iter().all(|e| e.contains(part)), "{text}: {errors:?}");
    }
}
