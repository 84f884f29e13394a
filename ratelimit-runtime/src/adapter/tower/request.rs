//! [`ClientIp`] of a request of tower: axum and tonic know the other end of its connection.

#[cfg(feature = "axum")]
use crate::adapter::axum;
use crate::adapter::client_ip::{client_ip, lines, peer};
use crate::client_ip::ClientIp;
use crate::response::KeyRejection;

/// Makes a part of the key of a [`RateLimitLayer`](crate::RateLimitLayer) on tower, with axum or
/// tonic, which know the other end of the connection.
impl<B> TryFrom<&http::Request<B>> for ClientIp {
    type Error = KeyRejection;

    fn try_from(request: &http::Request<B>) -> Result<Self, KeyRejection> {
        let extensions = request.extensions();
        #[cfg(feature = "axum")]
        let unknown = axum::UNKNOWN_PEER;
        #[cfg(not(feature = "axum"))]
        let unknown = KeyRejection::UnknownPeer("");
        let lines = lines(request.headers());
        client_ip(peer(extensions).ok_or(unknown), extensions.get(), lines)
    }
}
