//! [`ClientIp`] of a request of tower: axum and tonic know the other end of its connection.

#[cfg(feature = "axum")]
use crate::adapter::axum;
use crate::adapter::client_ip::{client_ip, lines};
#[cfg(feature = "tonic")]
use crate::adapter::tonic;
use crate::client_ip::ClientIp;
use crate::response::KeyRejection;

/// For the key of a [`RateLimitLayer`](crate::RateLimitLayer) on tower: with axum or tonic, which
/// know the other end of the connection.
impl<B> TryFrom<&http::Request<B>> for ClientIp {
    type Error = KeyRejection;

    fn try_from(request: &http::Request<B>) -> Result<Self, KeyRejection> {
        let extensions = request.extensions();
        let peer = None;
        #[cfg(feature = "axum")]
        let peer = peer.or_else(|| axum::peer(extensions));
        #[cfg(feature = "tonic")]
        let peer = peer.or_else(|| tonic::peer(extensions));
        #[cfg(feature = "axum")]
        let unknown = axum::UNKNOWN_PEER;
        #[cfg(not(feature = "axum"))]
        let unknown = KeyRejection::UnknownPeer("");
        let lines = lines(request.headers());
        client_ip(peer.ok_or(unknown), extensions.get(), lines)
    }
}
