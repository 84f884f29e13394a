//! The request that is being answered, which bodies of refusals may read.

#[cfg(feature = "_layer")]
use std::future::Future;
use std::sync::Arc;

use http::request::Parts;

tokio::task_local! {
    /// The request that the innermost layer around the running code has copied, if any.
    static ANSWERED: Option<Arc<Parts>>;
}

/// Runs a future that answers this `request`; if it is `None`, that of a layer further out.
#[cfg(feature = "_layer")]
pub(crate) fn answering<F: Future>(
    request: Option<Arc<Parts>>,
    future: F,
) -> impl Future<Output = F::Output> {
    ANSWERED.scope(request.or_else(answered), future)
}

/// [`answering`] for a closure.
#[cfg(feature = "_layer")]
pub(crate) fn answering_now<T>(request: Option<Arc<Parts>>, work: impl FnOnce() -> T) -> T {
    ANSWERED.sync_scope(request.or_else(answered), work)
}

/// The request that is answered here, if a layer copied it.
pub(super) fn answered() -> Option<Arc<Parts>> {
    ANSWERED.try_with(Clone::clone).ok().flatten()
}
