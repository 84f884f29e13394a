//! What is not yet as it shall be: lists that only shrink. What is wrong and not listed fails, and
//! so does what is listed and no longer wrong.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// Holds what was found, each with its name and what is wrong with it, to the list of that name.
///
/// `ALLOWED=overwrite` writes the list anew, for what became right or has moved.
pub(super) fn assert_only_allowed(list: &str, found: impl Iterator<Item = (String, String)>) {
    let found: BTreeMap<_, _> = found.collect();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("house/allowed").join(list).with_extension("txt");
    if std::env::var_os("ALLOWED").is_some_and(|value| value == "overwrite") {
        let names: Vec<_> = found.keys().map(String::as_str).chain([""]).collect();
        fs::write(&path, names.join("\n")).unwrap();
    }
    let text = fs::read_to_string(&path).unwrap();
    let allowed: BTreeSet<_> = text.lines().collect();
    let wrong: Vec<_> = found.iter().filter(|(name, _)| !allowed.contains(name.as_str())).map(|(_, why)| why).collect();
    assert!(
        wrong.is_empty(),
        "{}\n(a file that only moved: ALLOWED=overwrite, and read the diff of {})",
        wrong.iter().map(|why| why.as_str()).collect::<Vec<_>>().join("\n"),
        path.display()
    );
    let done: Vec<_> = allowed.iter().filter(|name| !found.contains_key(**name)).collect();
    assert!(done.is_empty(), "right now, and still listed: {done:?}: `ALLOWED=overwrite` shortens {}", path.display());
}
