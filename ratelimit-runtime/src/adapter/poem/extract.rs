//! Parts of keys as extractors of poem.

use poem::error::ResponseError;
use poem::http::StatusCode;
use poem::{FromRequest, Request, RequestBody, Response};

use crate::adapter::client_ip::{client_ip, lines};
use crate::adapter::header_key::{HeaderKey, HeaderKeyRejection, NamedHeader};
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
        let peer = request.remote_addr().as_socket_addr().copied();
        client_ip(peer, request.extensions().get(), lines(request.headers()))
    }
}

impl ResponseError for ClientIpRejection {
    fn status(&self) -> StatusCode {
        self.misconfigured().map_or(StatusCode::BAD_REQUEST, |error| error.status())
    }

    fn as_response(&self) -> Response {
        match self.misconfigured() {
            Some(error) => error.as_response(),
            None => Response::builder().status(StatusCode::BAD_REQUEST).body(self.to_string()),
        }
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
