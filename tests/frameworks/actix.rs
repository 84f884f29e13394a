//! actix-web.

use actix_web::body::{MessageBody, to_bytes};
use actix_web::dev::ServiceResponse;
use actix_web::test::{TestRequest, call_service, init_service};
use actix_web::{App, HttpResponse, web};
use ratelimit_runtime::{RateLimitLayer, RateLimiter};

use crate::{Seen, item, search};

pub(crate) async fn seen<B: MessageBody>(answer: ServiceResponse<B>) -> Seen {
    seen_of(answer.into_parts().1).await
}

pub(crate) async fn seen_of<B: MessageBody>(response: HttpResponse<B>) -> Seen {
    let (head, body) = response.into_parts();
    let field =
        |name: &str| head.headers().get_all(name).map(|value| value.to_str().unwrap().to_owned()).collect::<Vec<_>>();
    let body = to_bytes(body).await.ok().unwrap();
    Seen::new(head.status().as_u16(), field, String::from_utf8(body.to_vec()).unwrap())
}

/// A handler may return actix's own error as well.
#[tokio::test(start_paused = true)]
async fn errors_of_actix_tell_of_decisions_too() {
    async fn handler(user: web::Path<String>) -> Result<String, actix_web::Error> {
        Ok(search(&user).await?)
    }
    let app =
        App::new().route("/{user}", web::get().to(handler)).wrap(RateLimitLayer::new().limiter(RateLimiter::memory()));
    let app = init_service(app).await;
    let ask = async || seen(call_service(&app, TestRequest::get().uri("/alice").to_request()).await).await;
    for (status, left) in [(200, 1), (200, 0), (429, 0)] {
        let answer = ask().await;
        assert_eq!((answer.status, answer.standings), (status, vec![item("search", &[("r", left), ("t", 60)])]));
    }
}
