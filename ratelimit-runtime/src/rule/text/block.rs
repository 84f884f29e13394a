//! Blocks as text: `10m`, or `1m..1h` of one that grows.

use std::time::Duration;

use super::duration;
use super::fault::Fault;
use crate::rule::block::BlockDuration;
use crate::rule::limit::Limit;

pub(super) fn read(text: &str) -> Result<BlockDuration, Fault<'_>> {
    let Some((first, longest)) = text.split_once("..") else {
        return bounded(text).map(BlockDuration::fixed);
    };
    let fault = |at, message: String| Err(Fault { at, message });
    if let Some(end) = longest.strip_prefix(['=', '.']) {
        let end = end.trim_start_matches(['=', '.', ' ']);
        return fault(text, format!("a block grows up to the end of its range: write `{}..{end}`", first.trim()));
    }
    if longest.contains("..") {
        return fault(text, "a block grows from one duration to another: write two, as in `1m..1h`".to_owned());
    }
    if first.trim().is_empty() || longest.trim().is_empty() {
        return fault(text, "a block grows from one duration to another: write both, as in `1m..1h`".to_owned());
    }
    if first.ends_with(char::is_whitespace) || longest.starts_with(char::is_whitespace) {
        let (first, longest) = (first.trim(), longest.trim());
        return fault(text, format!("no spaces stand around the `..` of a range: write `{first}..{longest}`"));
    }
    let [least, most] = [bounded(first)?, bounded(longest)?];
    if BlockDuration::is_range(least, most) {
        Ok(BlockDuration::growing(least, most))
    } else if least == most {
        fault(text, format!("a block that grows from {first} to {longest} does not grow: write `{first}`"))
    } else {
        fault(text, format!("a block that grows gets longer: write `{longest}..{first}`"))
    }
}

fn bounded(text: &str) -> Result<Duration, Fault<'_>> {
    let block = duration::read(text)?;
    let message = if block.is_zero() {
        "this block is no time at all: write one such as \"10m\""
    } else if block > Limit::MAX_WINDOW {
        "this block is too long: the longest is 366d"
    } else {
        return Ok(block);
    };
    Err(Fault { at: text, message: message.to_owned() })
}
