//! What a node of a cluster says of where slots are.

use redis::Value;

use super::redirect::Redirect;
use super::slot_map::ranges;

pub(crate) fn read(reply: &Value) {
    if let Value::ServerError(error) = reply {
        let _ = Redirect::of(error, "asked");
    }
    if let Some(ranges) = ranges(reply, "asked") {
        let covered: usize = ranges.iter().map(super::slot_map::Range::len).sum();
        assert!(covered <= 16_384, "{covered} slots");
    }
}
