//! Redis Cluster: which node a call goes to.
//!
//! Each `master` has a connection, a health and a queue of its own; replicas are never asked. A
//! master is connected to when a key of its slots is first asked for. The `slot_map` belongs to the
//! store, and is replaced as a whole: slot by slot when a node answers that one has moved, and by
//! what one of the nodes answers about all slots (`discovery`). The `topology` asks for that when
//! something has changed or does not work. A `path` leads one call from node to node.

mod discovery;
#[cfg(any(test, fuzzing))]
pub(crate) mod fuzzing;
mod master;
mod path;
mod redirect;
mod refresh;
mod slot_map;
mod state;
mod topology;
mod walk;

pub(super) use self::path::Path;
pub(crate) use self::topology::Topology;
pub(crate) use self::walk::Walk;
