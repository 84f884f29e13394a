//! Where servers are, as URLs and servers say.
#![allow(clippy::missing_panics_doc, reason = "each panics if something does not hold")]

use super::deployment::Deployment;
use super::{cluster, sentinel};
use crate::store::redis::wire::resp::{Parsed, parse};

/// Where servers are: what URLs, nodes of a cluster and sentinels say.
pub fn topology(data: &[u8]) {
    if let Ok(text) = std::str::from_utf8(data)
        && let Err(error) = Deployment::from_url(text)
    {
        // Wherever in a URL a password stands.
        assert!(!format!("{error} {error:?}").contains("hunter2"), "{error}");
    }
    let (mut rest, mut replies) = (data, Vec::new());
    while let Parsed::Reply(reply, taken) = parse(rest) {
        cluster::fuzzing::read(&reply);
        replies.push(reply);
        rest = rest.get(taken..).unwrap_or_default();
    }
    for three in replies.windows(3) {
        if let [address, master, others] = three {
            sentinel::read(address, master, others);
        }
    }
}
