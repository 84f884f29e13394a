//! [`ClientIp`] for the key of a [`RateLimitLayer`](crate::RateLimitLayer) on tower.

use http::Request;

use crate::RateLimitError;
use crate::adapter::client_ip::ClientIp;

/// With axum or tonic, which know the other end of the connection.
impl<B> TryFrom<&Request<B>> for ClientIp {
    type Error = RateLimitError;

    fn try_from(request: &Request<B>) -> Result<Self, RateLimitError> {
        let extensions = request.extensions();
        let peer = None;
        #[cfg(feature = "axum")]
        let peer = peer.or_else(|| crate::adapter::axum::peer(extensions));
        #[cfg(feature = "tonic")]
        let peer = peer.or_else(|| crate::adapter::tonic::peer(extensions));
        Self::of(peer, extensions.get(), request.headers())
    }
}
