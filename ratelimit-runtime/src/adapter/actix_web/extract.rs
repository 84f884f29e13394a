//! Parts of keys as extractors of actix-web.

use std::future::{Ready, ready};

use actix_web::dev::{Payload, ServiceRequest};
use actix_web::http::header;
use actix_web::{FromRequest, HttpMessage as _, HttpRequest};
use http::header::{HeaderMap, HeaderName, HeaderValue};

use crate::RateLimitError;
use crate::adapter::client_ip::ClientIp;
use crate::adapter::header_key::{HeaderKey, HeaderKeyRejection, NamedHeader};

impl FromRequest for ClientIp {
    type Error = actix_web::Error;
    type Future = Ready<Result<Self, Self::Error>>;

    fn from_request(request: &HttpRequest, _: &mut Payload) -> Self::Future {
        ready(client_ip(request).map_err(Into::into))
    }
}

/// For the key of a [`RateLimitLayer`](crate::RateLimitLayer).
impl TryFrom<&ServiceRequest> for ClientIp {
    type Error = RateLimitError;

    fn try_from(request: &ServiceRequest) -> Result<Self, RateLimitError> {
        client_ip(request.request())
    }
}

fn client_ip(request: &HttpRequest) -> Result<ClientIp, RateLimitError> {
    ClientIp::of(request.peer_addr(), request.extensions().get(), &headers_of(request.headers()))
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
