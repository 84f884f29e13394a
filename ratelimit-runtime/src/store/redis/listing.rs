//! Lists the keys of a rule, a page at a time: a bounded part of one server, or of one of a
//! cluster's masters, however many keys there are.
//!
//! The cursor of `SCAN` belongs to a server, and not to a connection: another connection continues
//! with it.

use std::collections::HashMap;
use std::sync::Arc;

use redis::Value;

use super::batcher::Batcher;
use super::cluster::Cluster;
use super::errors::{self, unexpected_reply};
use super::settings::server::TcpAddress;
use crate::error::StoreError;
use crate::store::{Page, page};

/// The approximate number of keys that the server looks at for one page: other clients wait for a
/// fraction of a millisecond.
const KEYS_PER_PAGE: u32 = 250;

/// A page of the stored keys of one server that begin with `prefix`: the page at the cursor `from`,
/// or the first one.
///
/// # Errors
///
/// `Misconfigured` if the cursor is not one of this list, or the server is a node of a cluster,
/// whose other nodes have the other keys.
pub(crate) async fn of_server(
    batcher: &Batcher,
    prefix: &[u8],
    from: Option<&[u8]>,
) -> Result<Page, StoreError> {
    let cursor = read(from, |text| text.parse().ok())?.unwrap_or(0);
    if from.is_none() && is_node(batcher).await {
        return Err(StoreError::misconfigured(errors::CLUSTER));
    }
    let (keys, cursor) = scan(batcher, prefix, cursor).await?;
    let next = (cursor != 0).then(|| cursor.to_string().into());
    Ok(Page::new(keys, next))
}

/// `true` if the server says that it is part of a cluster, which `SCAN` does not show. Every user
/// may send `HELLO`; a server that does not know it, such as a proxy, counts as a single one.
async fn is_node(batcher: &Batcher) -> bool {
    let reply = batcher.send(&[redis::cmd("HELLO")], false).await;
    let hello = reply
        .ok()
        .and_then(|reply| redis::from_redis_value_ref::<HashMap<String, Value>>(&reply).ok());
    let mode = hello.and_then(|mut hello| hello.remove("mode"));
    mode.and_then(|mode| redis::from_redis_value::<String>(mode).ok())
        .is_some_and(|mode| mode == "cluster")
}

/// A page of the stored keys of a cluster, one master after the other: see [`of_server`].
pub(crate) async fn of_cluster(
    cluster: &Cluster,
    prefix: &[u8],
    from: Option<&[u8]>,
) -> Result<Page, StoreError> {
    let Some((mut walk, batcher)) = walk_at(cluster, from).await? else {
        return Ok(Page::new(Vec::new(), None));
    };
    let (keys, cursor) = scan(&batcher, prefix, walk.cursor).await?;
    walk.cursor = cursor;
    Ok(Page::new(keys, Some(walk.write().into())))
}

/// The master that [`of_cluster`] asks at `from`, and the position behind all of its keys; `None`
/// at the end.
pub(crate) async fn behind_master(
    cluster: &Cluster,
    from: Option<&[u8]>,
) -> Result<Option<(TcpAddress, Vec<u8>)>, StoreError> {
    let at = walk_at(cluster, from).await?;
    Ok(at.and_then(|(mut walk, _)| {
        walk.cursor = 0;
        let master = walk.begun.last()?.clone();
        Some((master, walk.write().into()))
    }))
}

/// A walk at its next page, which the last master in `begun` has; `None` at the end.
async fn walk_at(
    cluster: &Cluster,
    from: Option<&[u8]>,
) -> Result<Option<(Walk, Arc<Batcher>)>, StoreError> {
    let mut walk = read(from, Walk::read)?.unwrap_or_default();
    let masters = cluster.masters().await?;
    let at = |walk: &Walk| {
        masters
            .iter()
            .find(|(address, _)| walk.begun.last() == Some(address))
    };
    if at(&walk).is_none() {
        // Another node has its keys now.
        walk.cursor = 0;
    }
    if walk.cursor == 0 {
        let is_new = |(address, _): &&(TcpAddress, _)| !walk.begun.contains(address);
        let Some((next, _)) = masters.iter().find(is_new) else {
            return Ok(None);
        };
        walk.begun.push(next.clone());
    }
    let (_, batcher) = at(&walk).ok_or_else(page::foreign)?;
    let batcher = batcher.clone();
    Ok(Some((walk, batcher)))
}

/// The position of a walk over a cluster's masters.
#[derive(Default)]
struct Walk {
    /// The cursor of `SCAN` on the last master in `begun`; 0 at its end.
    cursor: u64,
    begun: Vec<TcpAddress>,
}

impl Walk {
    fn write(&self) -> String {
        let masters = self
            .begun
            .iter()
            .map(|master| format!("|{} {}", master.port, master.host));
        self.cursor.to_string() + &masters.collect::<String>()
    }

    /// Parses a walk; `None` if the text was not written by [`write`](Self::write).
    fn read(text: &str) -> Option<Self> {
        let (cursor, masters) = text.split_once('|')?;
        let master = |text: &str| {
            let (port, host) = text.split_once(' ')?;
            Some(TcpAddress {
                host: host.to_owned(),
                port: port.parse().ok()?,
            })
        };
        Some(Self {
            cursor: cursor.parse().ok()?,
            begun: masters.split('|').map(master).collect::<Option<_>>()?,
        })
    }
}

/// Parses the position in a cursor, if one is given.
fn read<T>(
    from: Option<&[u8]>,
    position: impl FnOnce(&str) -> Option<T>,
) -> Result<Option<T>, StoreError> {
    let Some(cursor) = from else { return Ok(None) };
    std::str::from_utf8(cursor)
        .ok()
        .and_then(position)
        .map(Some)
        .ok_or_else(page::foreign)
}

/// The part of a server's keys at a cursor, and the next cursor; 0 at the end.
async fn scan(
    batcher: &Batcher,
    prefix: &[u8],
    cursor: u64,
) -> Result<(Vec<Vec<u8>>, u64), StoreError> {
    // A byte that means something in patterns is asked for as any byte; other keys are left out
    // below.
    let plain = |byte: &u8| {
        if b"*?[]\\".contains(byte) {
            b'?'
        } else {
            *byte
        }
    };
    let pattern: Vec<u8> = prefix.iter().map(plain).chain([b'*']).collect();
    let scan = redis::cmd("SCAN")
        .arg(cursor)
        .arg("MATCH")
        .arg(pattern)
        .arg("COUNT")
        .arg(KEYS_PER_PAGE)
        .take();
    let reply = batcher.send(&[scan], false).await?;
    let (cursor, mut keys): (u64, Vec<Vec<u8>>) =
        redis::from_redis_value_ref(&reply).map_err(|_| unexpected_reply())?;
    keys.retain(|key| key.starts_with(prefix));
    Ok((keys, cursor))
}
