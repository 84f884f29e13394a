//! Parts of keys as extractors of actix-web.

use std::future::{Ready, ready};

use actix_web::dev::{Payload, ServiceRequest};
use actix_web::http::{StatusCode, header};
use actix_web::{FromRequest, HttpMessage as _, HttpRequest, ResponseError};
use http::header::{HeaderMap, HeaderName, HeaderValue};

use crate::RateLimitError;
use crate::adapter::client_ip::{ClientIp, TrustedProxies};
use crate::adapter::header_key::{HeaderKey, HeaderKeyRejection, NamedHeader};

impl FromRequest for ClientIp {
    type Error = actix_web::Error;
    type Future = Ready<Result<Self, Self::Error>>;

    fn from_request(request: &HttpRequest, _: &mut Payload) -> Self::Future {
        let Some(peer) = request.peer_addr() else {
            let error = "the address of the client is not known: is this server bound to a Unix socket?";
            return ready(Err(RateLimitError::misconfigured(error).into()));
        };
        let proxies = request.extensions().get::<TrustedProxies>().cloned().unwrap_or_default();
        ready(Ok(proxies.client_ip(peer.ip(), &headers_of(request.headers()))))
    }
}

/// actix-web has types of its own for headers.
fn headers_of(theirs: &header::HeaderMap) -> HeaderMap {
    let header = |(name, value): (&header::HeaderName, &header::HeaderValue)| {
        let name = HeaderName::from_bytes(name.as_str().as_bytes()).ok()?;
        Some((name, HeaderValue::from_bytes(value.as_bytes()).ok()?))
    };
    let mut headers = HeaderMap::new();
    for (name, value) in theirs.iter().filter_map(header) {
        headers.append(name, value);
    }
    headers
}

impl<N: NamedHeader + 'static> FromRequest for HeaderKey<N> {
    type Error = HeaderKeyRejection;
    type Future = Ready<Result<Self, HeaderKeyRejection>>;

    fn from_request(request: &HttpRequest, _: &mut Payload) -> Self::Future {
        ready(of_headers(request.headers()))
    }
}

/// For the key of a [`RateLimitLayer`](crate::RateLimitLayer).
impl<N: NamedHeader> TryFrom<&ServiceRequest> for HeaderKey<N> {
    type Error = HeaderKeyRejection;

    fn try_from(request: &ServiceRequest) -> Result<Self, HeaderKeyRejection> {
        of_headers(request.headers())
    }
}

fn of_headers<N: NamedHeader>(headers: &header::HeaderMap) -> Result<HeaderKey<N>, HeaderKeyRejection> {
    HeaderKey::single(&mut headers.get_all(N::NAME).map(header::HeaderValue::as_bytes))
}

impl ResponseError for HeaderKeyRejection {
    fn status_code(&self) -> StatusCode {
        StatusCode::BAD_REQUEST
    }
}
