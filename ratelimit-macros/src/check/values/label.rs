//! The names of rules, and of policies that are written out. They stand in stored keys, logs and
//! metrics: what would break one of those is an error.

use syn::LitStr;

use crate::diagnostics::Diagnostics;
use crate::literal::as_str;
use crate::parse::arguments::Argument;

/// The most bytes of a name.
const LONGEST: usize = 128;

/// The value of `argument`, a string literal that can be a name; messages show `example`.
pub(crate) fn read(
    argument: &Argument,
    example: &str,
    diagnostics: &mut Diagnostics,
) -> Option<LitStr> {
    let Argument { name, value } = argument;
    let Some(literal) = as_str(value) else {
        let message = format!(
            "`{name}` is a string literal, such as \"{example}\": it is read before macros, \
             constants and arguments have values"
        );
        diagnostics.error(value, message);
        return None;
    };
    let text = literal.value();
    let fault = if text.is_empty() {
        format!("an empty name: write one, such as \"{example}\", or leave `{name}` out")
    } else if text.contains(['{', '}']) {
        "no braces in a name: Redis Cluster would put all its keys on one node".to_owned()
    } else if text.chars().any(char::is_control) {
        "no control characters in a name: it is read in logs, metrics and `redis-cli`".to_owned()
    } else if text.len() > LONGEST {
        format!("this name has {} bytes: at most {LONGEST}", text.len())
    } else {
        return Some(literal.clone());
    };
    diagnostics.error(literal, fault);
    None
}
