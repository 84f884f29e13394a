//! Parts of keys as extractors of actix-web.

use std::future::{Ready, ready};

use actix_web::dev::{Payload, ServiceRequest};
use actix_web::http::header;
use actix_web::{FromRequest, HttpMessage as _, HttpRequest, web};

use crate::adapter::client_ip;
use crate::adapter::header_key::{HeaderKey, HeaderKeyRejection, NamedHeader};
use crate::{ClientIp, ClientIpRejection, TrustedProxies};

impl FromRequest for ClientIp {
    type Error = ClientIpRejection;
    type Future = Ready<Result<Self, ClientIpRejection>>;

    fn from_request(request: &HttpRequest, _: &mut Payload) -> Self::Future {
        ready(client_ip(request))
    }
}

/// For the key of a [`RateLimitLayer`](crate::RateLimitLayer).
impl TryFrom<&ServiceRequest> for ClientIp {
    type Error = ClientIpRejection;

    fn try_from(request: &ServiceRequest) -> Result<Self, ClientIpRejection> {
        client_ip(request.request())
    }
}

fn client_ip(request: &HttpRequest) -> Result<ClientIp, ClientIpRejection> {
    let extensions = request.extensions();
    let of_app = || request.app_data().or_else(|| request.app_data().map(web::Data::<TrustedProxies>::get_ref));
    let lines = |name: &str| request.headers().get_all(name).map(header::HeaderValue::as_bytes).collect();
    client_ip::client_ip(request.peer_addr().map(|peer| peer.ip()), extensions.get().or_else(of_app), lines)
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
