//! The value of `block`: a duration, or a range of two of a block that grows.

use syn::Error;

use crate::check::values::duration;
use crate::diagnostics::Diagnostics;
use crate::duration::{Bounds, WINDOW, parse};
use crate::literal::as_str;
use crate::parse::arguments::Argument;

/// 1 ms to 366 days.
const BLOCK: Bounds = WINDOW;

/// The first block and, if they grow, the longest, in microseconds.
pub(crate) fn read(
    argument: &Argument,
    diagnostics: &mut Diagnostics,
) -> Option<(u64, Option<u64>)> {
    if let syn::Expr::Range(range) = &argument.value {
        diagnostics.error(
            range,
            "a range of durations is a string: write \"1m..1h\"".to_owned(),
        );
        return None;
    }
    let text = as_str(&argument.value).map(|literal| (literal, literal.value()));
    if let Some((literal, Some(meant))) =
        text.as_ref().map(|(literal, text)| (literal, meant(text)))
    {
        diagnostics.error(literal, meant);
        return None;
    }
    let Some((literal, text)) = text.filter(|(_, text)| text.contains("..")) else {
        return duration::read(argument, &BLOCK, diagnostics).map(|block| (block, None));
    };
    let range = range(&text).map_err(|fault| Error::new_spanned(literal, fault));
    diagnostics
        .keep(range)
        .map(|(first, longest)| (first, Some(longest)))
}

/// The error for a range with another sign in place of `..`.
fn meant(text: &str) -> Option<String> {
    let (first, longest) = ["-", "–", "…", " to ", ":", ","]
        .iter()
        .find_map(|between| text.split_once(between))?;
    let [first, longest] = [first.trim(), longest.trim()];
    let are_durations = [first, longest]
        .iter()
        .all(|end| parse(end, &BLOCK).is_ok());
    are_durations.then(|| {
        format!("two dots stand between the ends of a range: write \"{first}..{longest}\"")
    })
}

/// The ends of `1m..1h`, in microseconds; or the error.
fn range(text: &str) -> Result<(u64, u64), String> {
    let (first, rest) = text.split_once("..").unwrap_or((text, ""));
    let both = "a block grows from one duration to another: write both, as in \"1m..1h\"";
    let longest = rest.trim_start_matches(['.', '=', ' ']);
    if first.trim().is_empty() || longest.trim().is_empty() {
        return Err(both.to_owned());
    }
    if longest.contains("..") {
        return Err(
            "a block grows from one duration to another: write two, as in \"1m..1h\"".to_owned(),
        );
    }
    if rest.starts_with(['.', '=']) {
        let first = first.trim();
        return Err(format!(
            "a block grows up to the end of its range: write \"{first}..{longest}\""
        ));
    }
    if first.ends_with(char::is_whitespace) || longest.len() < rest.len() {
        let first = first.trim();
        return Err(format!(
            "no spaces stand around the `..` of a range: write \"{first}..{longest}\""
        ));
    }
    let (least, most) = (parse(first, &BLOCK)?, parse(longest, &BLOCK)?);
    if least == most {
        return Err(format!(
            "a block that grows from {first} to {longest} does not grow: write \"{first}\""
        ));
    }
    if least > most {
        return Err(format!(
            "a block that grows gets longer: write \"{longest}..{first}\""
        ));
    }
    Ok((least, most))
}
