//! actix-web.

use actix_web::HttpResponse;
use actix_web::body::{MessageBody, to_bytes};
use actix_web::dev::ServiceResponse;

use crate::Seen;

pub(crate) async fn seen<B: MessageBody>(answer: ServiceResponse<B>) -> Seen {
    seen_of(answer.into_parts().1).await
}

pub(crate) async fn seen_of<B: MessageBody>(response: HttpResponse<B>) -> Seen {
    let (head, body) = response.into_parts();
    let field = |name: &str| {
        head.headers()
            .get_all(name)
            .map(|value| value.to_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    let body = to_bytes(body).await.ok().unwrap();
    Seen::new(
        head.status().as_u16(),
        field,
        String::from_utf8(body.to_vec()).unwrap(),
    )
}
