//! [`Listing`]: the keys of a rule, a page at a time: a bounded part of one server, or of one of a
//! cluster's masters, however many keys there are.

mod position;
mod scan;

use std::time::Instant;

use self::position::{ServerPosition, Walk};
use self::scan::{Processes, Search};
use super::cluster::{Cluster, NodeAddress};
use super::link::Link;
use crate::error::{StoreError, StoreErrorKind};
use crate::store::{Page, page};

/// What the lists of one runtime have in common.
#[derive(Debug, Default)]
pub(crate) struct Listing {
    processes: Processes,
}

impl Listing {
    /// The stored keys of one server that begin with `prefix`: those of the page at a cursor, or of
    /// the first page. Begins again where the server lost its order of keys, by a restart or a
    /// fail-over.
    ///
    /// # Errors
    ///
    /// `Misconfigured` if the cursor is not one of a list of one server with this prefix.
    pub(crate) async fn of_server(
        &self,
        link: &Link,
        prefix: &[u8],
        from: Option<&[u8]>,
        until: Option<Instant>,
    ) -> Result<Page, StoreError> {
        let search = Search::new(&self.processes, prefix, until);
        let from = opened(from, prefix, ServerPosition::read)?;
        let (keys, at) = match search.next(link, from).await? {
            Some(part) => part,
            None => search.first(link).await?,
        };
        let next = (at.cursor != 0).then(|| page::seal(prefix, at.write()));
        Ok(Page::new(keys, next))
    }

    /// The same of a cluster, one master after the other. What was seen is noted by slot, since
    /// masters come and go: a slot was seen once its master has been listed to the end and serves
    /// it still. So a slot that is moved meanwhile, or whose master is replaced, is listed again;
    /// only keys that are being moved may be missing.
    pub(crate) async fn of_cluster(
        &self,
        cluster: &Cluster,
        prefix: &[u8],
        from: Option<&[u8]>,
        until: Option<Instant>,
    ) -> Result<Page, StoreError> {
        let search = Search::new(&self.processes, prefix, until);
        let walk = opened(from, prefix, Walk::read)?.unwrap_or_else(Walk::new);
        let (keys, walk) = search.in_time(walk_on(&search, cluster, walk)).await?;
        Ok(Page::new(keys, walk.map(|walk| page::seal(prefix, walk.write()))))
    }
}

/// The keys of the next part of a walk, and the walk for what follows; `None` at the end.
async fn walk_on(
    search: &Search<'_>,
    cluster: &Cluster,
    mut walk: Walk,
) -> Result<(Vec<Vec<u8>>, Option<Walk>), StoreError> {
    let visit = walk.visit.take();
    if let Some((master, at)) = visit.as_ref().filter(|(_, at)| at.cursor != 0)
        && let Some(link) = cluster.link_at(master, search.until).await?
        && let Some((keys, at)) = search.next(&link, Some(*at)).await.or_else(if_away)?
    {
        walk.visit = Some((master.clone(), at));
        return Ok((keys, Some(walk)));
    }
    let map = cluster.fresh_map().await?;
    let serves = |slot, master: &NodeAddress| map.owner(slot).is_some_and(|owner| owner.address == *master);
    let came_to_its_end = visit.filter(|(_, at)| at.cursor == 0);
    walk.end(|slot| came_to_its_end.as_ref().is_some_and(|(master, _)| serves(slot, master)));
    let Some(slot) = walk.first_unseen() else { return Ok((Vec::new(), None)) };
    let unserved = || StoreError::unavailable("not every slot of the Redis cluster is served");
    let master = map.owner(slot).ok_or_else(unserved)?.address.clone();
    let link = cluster.link_at(&master, search.until).await?.ok_or_else(unserved)?;
    let (keys, at) = search.first(&link).await?;
    walk.begin(master.clone(), at, |slot| serves(slot, &master));
    Ok((keys, Some(walk)))
}

/// A master that is away is perhaps replaced in the next map.
fn if_away<T>(error: StoreError) -> Result<Option<T>, StoreError> {
    if error.kind() == StoreErrorKind::Unavailable { Ok(None) } else { Err(error) }
}

/// The position in a cursor, if one is given.
fn opened<T>(
    from: Option<&[u8]>,
    prefix: &[u8],
    read: impl FnOnce(&[u8]) -> Option<T>,
) -> Result<Option<T>, StoreError> {
    let Some(cursor) = from else { return Ok(None) };
    read(page::open(cursor, prefix)?).map(Some).ok_or_else(page::foreign)
}
