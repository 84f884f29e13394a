//! poem.

use poem::web::{LocalAddr, RemoteAddr};
use poem::{Endpoint, Request, Response};

use crate::Seen;

pub(crate) async fn seen(response: Response) -> Seen {
    let (parts, body) = response.into_parts();
    let field = |name: &str| {
        parts
            .headers
            .get_all(name)
            .iter()
            .map(|value| value.to_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    Seen::new(
        parts.status.as_u16(),
        field,
        body.into_string().await.unwrap(),
    )
}

pub(crate) async fn ask(app: &impl Endpoint, request: Request) -> Seen {
    seen(Box::pin(app.get_response(request)).await).await
}

pub(crate) fn request(path: &'static str) -> Request {
    Request::builder().uri_str(path).finish()
}

pub(crate) fn from(peer: std::net::SocketAddr, path: &'static str) -> Request {
    let (parts, ()) = poem::http::Request::get(path)
        .body(())
        .unwrap()
        .into_parts();
    let parts = (
        parts,
        LocalAddr::default(),
        RemoteAddr(peer.into()),
        poem::http::uri::Scheme::HTTP,
    );
    Request::from_parts(parts.into(), poem::Body::empty())
}
