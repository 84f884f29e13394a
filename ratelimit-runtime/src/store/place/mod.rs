//! Places: what calls in flight take of an in-flight limit, and give back when they end.

mod entry;
mod permit_id;
mod request;

pub use self::entry::Entry;
pub use self::permit_id::PermitId;
#[cfg(feature = "redis")]
pub(crate) use self::request::OwnedPlaceRequest;
pub use self::request::PlaceRequest;
