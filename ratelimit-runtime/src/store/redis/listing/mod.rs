//! Lists the keys of a rule, a page at a time: a bounded part of one server, or of one of a
//! cluster's masters, however many keys there are.
//!
//! The cursor of `SCAN` belongs to the process of a server, and not to a connection: another
//! connection to the same process continues with it, and each key that is there all the time is
//! given. So a position names the process.

mod position;

use self::position::{ServerPosition, Walk};
use super::awaited::awaited;
use super::cluster::Cluster;
use super::errors::{self, unexpected_reply};
use super::link::{Link, Lost};
use super::settings::server::TcpAddress;
use crate::error::{StoreError, StoreErrorKind};
use crate::store::{Page, page};

/// How many keys the server looks at for one page, about: other clients wait for a fraction of a
/// millisecond.
const KEYS_PER_PAGE: u32 = 250;

/// Some keys, and where the next ones begin.
type Part = (Vec<Vec<u8>>, ServerPosition);

/// A page of the stored keys of one server that begin with `prefix`: the page at a cursor, or the
/// first one. Begins again where the server lost its order of keys, by a restart or a fail-over.
///
/// # Errors
///
/// `Misconfigured` if the cursor is not one of a list of one server with this prefix.
pub(crate) async fn of_server(link: &Link, prefix: &[u8], from: Option<&[u8]>) -> Result<Page, StoreError> {
    let from = opened(from, prefix, ServerPosition::read)?;
    let (keys, at) = match scan(link, prefix, from.as_ref()).await? {
        Some(part) => part,
        None => first(link, prefix).await?,
    };
    let next = (at.cursor != 0).then(|| page::seal(prefix, at.write().into()));
    Ok(Page::new(keys, next))
}

/// The same of a cluster, one master after the other. Progress is noted by slot, since masters come
/// and go: a slot was seen once its master has been listed to the end and serves it still. So a slot
/// that is moved meanwhile, or whose master is replaced, is listed again; only keys that are being
/// moved may be missing.
pub(crate) async fn of_cluster(cluster: &Cluster, prefix: &[u8], from: Option<&[u8]>) -> Result<Page, StoreError> {
    let mut walk = opened(from, prefix, Walk::read)?.unwrap_or_else(Walk::new);
    let page = |keys, walk: Walk| Ok(Page::new(keys, Some(page::seal(prefix, walk.write().into()))));
    let visit = walk.visit.take();
    if let Some((master, at)) = visit.as_ref().filter(|(_, at)| at.cursor != 0)
        && let Some(link) = cluster.link_at(master).await?
        && let Some((keys, at)) = scan(&link, prefix, Some(at)).await.or_else(if_away)?
    {
        walk.visit = Some((master.clone(), at));
        return page(keys, walk);
    }
    let map = cluster.fresh_map().await?;
    let serves = |slot, master: &TcpAddress| map.owner(slot).is_some_and(|owner| owner.address == *master);
    let came_to_its_end = visit.filter(|(_, at)| at.cursor == 0);
    walk.end(|slot| came_to_its_end.as_ref().is_some_and(|(master, _)| serves(slot, master)));
    let Some(slot) = walk.first_unseen() else { return Ok(Page::new(Vec::new(), None)) };
    let unserved = || StoreError::unavailable("not every slot of the Redis cluster is served");
    let master = map.owner(slot).ok_or_else(unserved)?.address.clone();
    let link = cluster.link_at(&master).await?.ok_or_else(unserved)?;
    let (keys, at) = first(&link, prefix).await?;
    walk.begin(master.clone(), at, |slot| serves(slot, &master));
    page(keys, walk)
}

/// A master that is away is perhaps replaced in the next map.
fn if_away<T>(error: StoreError) -> Result<Option<T>, StoreError> {
    if error.kind() == StoreErrorKind::Unavailable { Ok(None) } else { Err(error) }
}

/// The position in a cursor, if one is given.
fn opened<T>(
    from: Option<&[u8]>,
    prefix: &[u8],
    read: impl FnOnce(&str) -> Option<T>,
) -> Result<Option<T>, StoreError> {
    let Some(cursor) = from else { return Ok(None) };
    let position = std::str::from_utf8(page::open(cursor, prefix)?).ok().and_then(read);
    position.map(Some).ok_or_else(page::foreign)
}

/// The first part of a server's keys.
async fn first(link: &Link, prefix: &[u8]) -> Result<Part, StoreError> {
    scan(link, prefix, None).await?.ok_or_else(unexpected_reply)
}

/// The part at a position, or the first one; `None` if the position is one of another process.
async fn scan(link: &Link, prefix: &[u8], from: Option<&ServerPosition>) -> Result<Option<Part>, StoreError> {
    let connection = link.connected().await?;
    let mut pipeline = redis::pipe();
    pipeline.cmd("INFO").arg("server");
    pipeline.cmd("SCAN").arg(from.map_or(0, |from| from.cursor)).arg("MATCH").arg(beginning_with(prefix));
    pipeline.arg("COUNT").arg(KEYS_PER_PAGE);
    let replies = awaited(link, &connection, connection.send_all(&pipeline, 2)).await;
    let replies = replies.map_err(|Lost| {
        StoreError::unavailable("the connection to Redis was lost while keys were listed: go on, or list again")
    })?;
    if let Some(error) = errors::first(&replies) {
        return Err(errors::from_server(error));
    }
    let [info, scanned] = replies.as_slice() else { return Err(unexpected_reply()) };
    let info: String = redis::from_redis_value_ref(info).map_err(|_| unexpected_reply())?;
    let process = info.lines().find_map(|field| field.strip_prefix("run_id:")).ok_or_else(unexpected_reply)?;
    if from.is_some_and(|from| from.process != process.trim()) {
        return Ok(None);
    }
    let scanned: (u64, Vec<Vec<u8>>) = redis::from_redis_value_ref(scanned).map_err(|_| unexpected_reply())?;
    let (cursor, mut keys) = scanned;
    keys.retain(|key| key.starts_with(prefix));
    Ok(Some((keys, ServerPosition { process: process.trim().to_owned(), cursor })))
}

/// The glob pattern of all that begins with these bytes.
fn beginning_with(bytes: &[u8]) -> Vec<u8> {
    let mut pattern = Vec::with_capacity(bytes.len() + 8);
    for byte in bytes {
        if matches!(byte, b'*' | b'?' | b'[' | b']' | b'\\') {
            pattern.push(b'\\');
        }
        pattern.push(*byte);
    }
    pattern.push(b'*');
    pattern
}
