//! Requests that a layer limits by several rules.

use std::convert::Infallible;

use axum::http::{Request, Response};
use ratelimit_runtime::RateLimitLayer;
use tower::{Layer as _, ServiceExt as _, service_fn};

use super::*;

#[tokio::test]
async fn a_request_that_one_rule_of_a_layer_refuses_is_charged_for_none() {
    for kind in [Kind::Cluster, Kind::WithoutScripts, Kind::OneServer] {
        let site = Site::new(kind).await;
        let [of_user, of_all] = [("user", 9), ("all", 2)]
            .map(|(name, max)| Rule::named(unique(name), Limit::per_hour(max)));
        let (user, all) = (site.key(&of_user, 0), site.key(&of_all, 1));
        let service = RateLimitLayer::new()
            .limiter(site.limiter(0).clone())
            .rule(&of_user, move |_: &Request<()>| Key::of(&user))
            .rule(&of_all, move |_: &Request<()>| Key::of(&all))
            .layer(service_fn(async |_: Request<()>| {
                Ok::<_, Infallible>(Response::new(String::new()))
            }));
        for status in [200, 200, 429, 429] {
            let answer = service.clone().oneshot(Request::new(())).await.unwrap();
            assert_eq!(answer.status(), status);
        }
        site.settled().await;
        let left = [
            site.left(0, &of_user, user).await,
            site.left(0, &of_all, all).await,
        ];
        assert_eq!(left, [7, 0]);
    }
}
