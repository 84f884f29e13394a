//! [`ClientIp`] for the key of a [`RateLimitLayer`](crate::RateLimitLayer) on tower.

use http::Request;

use crate::adapter::client_ip::{client_ip, lines};
use crate::{ClientIp, ClientIpRejection};

/// With axum or tonic, which know the other end of the connection.
impl<B> TryFrom<&Request<B>> for ClientIp {
    type Error = ClientIpRejection;

    fn try_from(request: &Request<B>) -> Result<Self, ClientIpRejection> {
        let extensions = request.extensions();
        let peer = None;
        #[cfg(feature = "axum")]
        let peer = peer.or_else(|| crate::adapter::axum::peer(extensions));
        #[cfg(feature = "tonic")]
        let peer = peer.or_else(|| crate::adapter::tonic::peer(extensions));
        client_ip(peer, extensions.get(), lines(request.headers()))
    }
}
