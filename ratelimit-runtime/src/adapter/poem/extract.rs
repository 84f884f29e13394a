//! Parts of keys as extractors of poem.

use poem::error::ResponseError;
use poem::http::StatusCode;
use poem::{FromRequest, Request, RequestBody};

use crate::RateLimitError;
use crate::adapter::client_ip::{ClientIp, TrustedProxies};
use crate::adapter::header_key::{HeaderKey, HeaderKeyRejection, NamedHeader};

impl<'a> FromRequest<'a> for ClientIp {
    async fn from_request(request: &'a Request, _: &mut RequestBody) -> poem::Result<Self> {
        let Some(peer) = request.remote_addr().as_socket_addr() else {
            let error = "the address of the client is not known: is this server bound to a Unix socket?";
            return Err(RateLimitError::misconfigured(error).into());
        };
        let none = TrustedProxies::default();
        let proxies = request.extensions().get::<TrustedProxies>().unwrap_or(&none);
        Ok(proxies.client_ip(peer.ip(), request.headers()))
    }
}

impl<'a, N: NamedHeader + 'static> FromRequest<'a> for HeaderKey<N> {
    async fn from_request(request: &'a Request, _: &mut RequestBody) -> poem::Result<Self> {
        Ok(Self::of(request.headers())?)
    }
}

impl ResponseError for HeaderKeyRejection {
    fn status(&self) -> StatusCode {
        StatusCode::BAD_REQUEST
    }
}
