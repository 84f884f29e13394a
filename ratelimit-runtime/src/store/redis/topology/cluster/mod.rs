//! Redis Cluster: which node a call goes to.
//!
//! The routing is ours, over the same connections as to a single server, because the cluster client of redis-rs has no
//! timeouts unless told, brings cold scripts to every node and so waits for a frozen replica, and runs a command again whose
//! reply was lost. What it would save is a checksum of ten lines and the reading of one reply.
//!
//! Each `master` has a connection, a health and a queue of its own; replicas are never talked to. A master is connected to
//! when a key of its slots is first asked for. The `slot_map` belongs to the store, and is replaced as a whole: slot by slot
//! when a node says that one has moved, and by what one of the nodes says of all slots (`discovery`). The `topology` asks for
//! that when something has changed or does not work. A `path` is the way of one call, from node to node.

mod discovery;
#[cfg(any(test, fuzzing))]
pub(crate) mod fuzzing;
mod master;
mod path;
mod redirect;
mod refreshes;
mod slot_map;
mod topology;
mod walk;

pub(super) use self::path::Path;
pub(crate) use self::topology::Topology;
pub(crate) use self::walk::Walk;
