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
    let is_part = |part: &str| !part.is_empty() && part.trim() == part;
    if !is_part(first) || !is_part(longest) || longest.contains("..") || longest.starts_with(['=', '.']) {
        let message =
            "a block grows from one duration to another: write two, without spaces around the `..`, as in `1m..1h`";
        return fault(text, message.to_owned());
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
