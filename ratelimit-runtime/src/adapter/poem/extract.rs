//! Parts of keys as extractors of poem.

use std::net::SocketAddr;

use poem::{FromRequest, Request, RequestBody};

use crate::adapter::client_ip::{client_ip, lines};
use crate::adapter::header_key::{HeaderKey, NamedHeader};
use crate::{ClientIp, ClientIpRejection};

impl<'a> FromRequest<'a> for ClientIp {
    async fn from_request(request: &'a Request, _: &mut RequestBody) -> poem::Result<Self> {
        Ok(Self::try_from(request)?)
    }
}

/// For the key of a [`RateLimitLayer`](crate::RateLimitLayer).
impl TryFrom<&Request> for ClientIp {
    type Error = ClientIpRejection;

    fn try_from(request: &Request) -> Result<Self, ClientIpRejection> {
        let peer = request.remote_addr().as_socket_addr().map(SocketAddr::ip);
        client_ip(peer, request.extensions().get(), lines(request.headers()))
    }
}

impl<'a, N: NamedHeader + 'static> FromRequest<'a> for HeaderKey<N> {
    async fn from_request(request: &'a Request, _: &mut RequestBody) -> poem::Result<Self> {
        Ok(Self::of(request.headers())?)
    }
}
