//! Parts of keys as extractors of poem.

use poem::{FromRequest, Request, RequestBody};

use crate::RateLimitError;
use crate::adapter::client_ip::ClientIp;
use crate::adapter::header_key::{HeaderKey, NamedHeader};

impl<'a> FromRequest<'a> for ClientIp {
    async fn from_request(request: &'a Request, _: &mut RequestBody) -> poem::Result<Self> {
        Ok(Self::try_from(request)?)
    }
}

/// For the key of a [`RateLimitLayer`](crate::RateLimitLayer).
impl TryFrom<&Request> for ClientIp {
    type Error = RateLimitError;

    fn try_from(request: &Request) -> Result<Self, RateLimitError> {
        let peer = request.remote_addr().as_socket_addr().copied();
        Self::of(peer, request.extensions().get(), request.headers())
    }
}

impl<'a, N: NamedHeader + 'static> FromRequest<'a> for HeaderKey<N> {
    async fn from_request(request: &'a Request, _: &mut RequestBody) -> poem::Result<Self> {
        Ok(Self::of(request.headers())?)
    }
}
