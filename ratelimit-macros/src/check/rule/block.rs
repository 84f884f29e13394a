//! The value of `block`: a duration, or a range of two of a block that grows.

use syn::{Expr, LitStr};

use crate::check::values::duration;
use crate::duration::{Bounds, WINDOW, parse};
use crate::literal::as_str;
use crate::parse::arguments::Argument;

/// 1 ms to 366 days.
const BLOCK: Bounds = WINDOW;

/// The separators that users may write in a range; only `..` is right.
const BETWEEN: [&str; 9] = ["..=", "...", "..", "-", "–", "…", " to ", ":", ","];

/// The first block and, if they grow, the longest, in microseconds.
pub(crate) fn read(argument: &Argument) -> Result<(u64, Option<u64>), String> {
    if let Expr::Range(_) = &argument.value {
        return Err("a range of durations is a string: write \"1m..1h\"".to_owned());
    }
    let text = as_str(&argument.value).map(LitStr::value);
    let text = text.unwrap_or_default();
    let one = || duration::read(argument, &BLOCK).map(|block| (block, None));
    let Some((first, longest)) = BETWEEN.iter().find_map(|between| text.split_once(between)) else {
        return one();
    };
    let [first, longest] = [first.trim(), longest.trim()];
    let (least, most) = match (parse(first, &BLOCK), parse(longest, &BLOCK)) {
        (Ok(least), Ok(most)) => (least, most),
        // As `-60s`.
        _ if !text.contains("..") => return one(),
        _ if first.is_empty() || longest.is_empty() => {
            let fault = "a block grows from one duration to another: write both, as in \"1m..1h\"";
            return Err(fault.to_owned());
        }
        (Err(fault), _) | (_, Err(fault)) => return Err(fault),
    };
    let range = format!("{first}..{longest}");
    if text.trim() != range {
        return Err(format!(
            "two dots alone stand between the ends of a range: write \"{range}\""
        ));
    }
    if least >= most {
        return Err(format!(
            "a block that grows gets longer: write the shorter duration first, or \"{first}\" alone"
        ));
    }
    Ok((least, Some(most)))
}
