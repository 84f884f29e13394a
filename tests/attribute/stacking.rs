//! The attribute beside others, and in scopes whose names are not what they seem.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

use axum::body::{Body, to_bytes};
use axum::http::header::{CONTENT_TYPE, RETRY_AFTER};
use axum::http::{Request, StatusCode};
use axum::response::Response;
use axum::routing::post;
use axum::{Json, Router};
use ratelimit_runtime::{RateLimitError, rate_limit};
use tower::ServiceExt as _;

use super::{Outcome, alone, is_exceeded};

mod instrument {
    use super::*;

    #[rate_limit(key = "<id>", window = "60s", max = 1)]
    #[tracing::instrument(skip_all, fields(id), err)]
    async fn above(id: u32) -> Outcome {
        Ok(())
    }

    #[tracing::instrument(skip_all, fields(id), ret)]
    #[rate_limit(key = "<id>", window = "60s", max = 1)]
    async fn below(id: u32) -> Outcome {
        Ok(())
    }

    #[rate_limit(key = "<id>", window = "60s", max = 2)]
    #[tracing::instrument(skip_all)]
    #[rate_limit(window = "60s", max = 1)]
    async fn around(id: u32) -> Outcome {
        Ok(())
    }

    #[tokio::test]
    async fn instrument_above_below_and_between() {
        alone(async {
            assert!(above(1).await.is_ok());
            assert!(above(1).await.is_err());
            assert!(above(2).await.is_ok());
            assert!(below(1).await.is_ok());
            assert!(below(1).await.is_err());
            assert!(below(2).await.is_ok());
            assert!(around(1).await.is_ok());
            assert!(around(2).await.is_err(), "the attribute below `instrument` was lost");
        })
        .await;
    }

    #[async_trait::async_trait]
    trait Mail {
        async fn above(&self, to: (u32, &str)) -> Outcome;
        async fn below(&mut self, to: (u32, &str)) -> Outcome;
    }

    struct Mailer {
        region: &'static str,
    }

    #[async_trait::async_trait]
    impl Mail for Mailer {
        #[rate_limit(key = "<self.region>:<tenant>:<email>", window = "60s", max = 1)]
        #[tracing::instrument(skip_all)]
        async fn above(&self, (tenant, email): (u32, &str)) -> Outcome {
            Ok(())
        }

        #[tracing::instrument(skip_all)]
        #[rate_limit(key = "<self.region>:<tenant>:<email>", window = "60s", max = 1)]
        async fn below(&mut self, (tenant, email): (u32, &str)) -> Outcome {
            Ok(())
        }
    }

    #[tokio::test]
    async fn async_trait_with_instrument() {
        alone(async {
            let mut mailer = Mailer { region: "eu" };
            assert!(mailer.above((1, "a")).await.is_ok());
            assert!(mailer.above((1, "a")).await.is_err());
            assert!(mailer.above((2, "a")).await.is_ok());
            assert!(mailer.below((1, "a")).await.is_ok());
            assert!(mailer.below((1, "a")).await.is_err());
            assert!(mailer.below((1, "b")).await.is_ok());
        })
        .await;
    }
}

mod handlers {
    use super::*;

    #[derive(serde::Deserialize)]
    struct SendCode {
        email: String,
    }

    #[rate_limit(key = "<req.email>", window = "60s", max = 1)]
    #[axum::debug_handler]
    async fn above(Json(req): Json<SendCode>) -> Result<Json<usize>, RateLimitError> {
        Ok(Json(req.email.len()))
    }

    #[axum::debug_handler]
    #[rate_limit(key = "<req.email>", window = "60s", max = 1)]
    async fn below(Json(req): Json<SendCode>) -> Result<Json<usize>, RateLimitError> {
        Ok(Json(req.email.len()))
    }

    /// A response itself can carry the refusal.
    #[rate_limit(key = "<req.email>", window = "60s", max = 1)]
    async fn response(Json(req): Json<SendCode>) -> Response {
        Response::new(Body::from(req.email))
    }

    async fn call(path: &str, email: &str) -> Response {
        let router =
            Router::new().route("/above", post(above)).route("/below", post(below)).route("/response", post(response));
        let body = serde_json::json!({ "email": email }).to_string();
        let request = Request::post(path).header(CONTENT_TYPE, "application/json").body(Body::from(body)).unwrap();
        router.oneshot(request).await.unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn a_refused_request_is_answered_429_with_retry_after_and_a_body() {
        alone(async {
            for path in ["/above", "/below", "/response"] {
                assert_eq!(call(path, "a@example.com").await.status(), StatusCode::OK, "{path}");
                tokio::time::advance(std::time::Duration::from_millis(1_500)).await;
                let refused = call(path, "a@example.com").await;
                assert_eq!(refused.status(), StatusCode::TOO_MANY_REQUESTS, "{path}");
                assert_eq!(refused.headers()[RETRY_AFTER], "59", "58.5 s are rounded up");
                assert_eq!(refused.headers()[CONTENT_TYPE], "application/json");
                let body = to_bytes(refused.into_body(), 1_000).await.unwrap();
                let body: serde_json::Value = serde_json::from_slice(&body).unwrap();
                assert_eq!(body["code"], 429);
                assert!(body["message"].as_str().unwrap().contains("too many requests"), "{body}");
                assert!(body["data"].is_null() && body.as_object().unwrap().contains_key("data"));
                assert_eq!(call(path, "b@example.com").await.status(), StatusCode::OK, "{path}");
            }
        })
        .await;
    }

    #[tokio::test]
    async fn what_is_no_request_consumes_nothing() {
        alone(async {
            let request = Request::post("/above").header(CONTENT_TYPE, "application/json");
            let router = Router::new().route("/above", post(above));
            let malformed = router.oneshot(request.body(Body::from("{")).unwrap()).await.unwrap();
            assert_eq!(malformed.status(), StatusCode::BAD_REQUEST);
            assert_eq!(call("/above", "").await.status(), StatusCode::OK);
        })
        .await;
    }
}

mod kept {
    use super::*;

    /// Sends a code.
    #[must_use = "a code that is not read is lost"]
    #[inline]
    #[allow(clippy::needless_pass_by_value, reason = "kept, or the deny below is an error")]
    #[rate_limit(key = "<email>", window = "60s", max = 1)]
    #[doc(alias = "mail")]
    #[cfg_attr(any(), deprecated)]
    pub(super) async fn send(email: String) -> Outcome {
        #![deny(clippy::needless_pass_by_value, reason = "inner attributes stay innermost")]
        drop(email);
        Ok(())
    }

    #[deprecated = "use `send`"]
    #[rate_limit(key = "<email>", window = "60s", max = 1)]
    async fn old(email: &str) -> Outcome {
        Ok(())
    }

    #[rate_limit(window = "60s", max = 1)]
    #[cfg(any())]
    async fn configured_out(gone: Gone) -> Outcome {
        Ok(())
    }

    #[rate_limit(window = "60s", max = 1)]
    #[cfg(not(any()))]
    async fn configured_out() -> Outcome {
        Ok(())
    }

    #[tokio::test]
    async fn other_attributes_do_what_they_did() {
        alone(async {
            assert!(send("a".to_owned()).await.is_ok());
            assert!(send("a".to_owned()).await.is_err());
            #[expect(deprecated, reason = "the attribute is kept, so this is expected")]
            let outcome = old("a").await;
            assert!(outcome.is_ok());
            assert!(configured_out().await.is_ok());
            assert!(configured_out().await.is_err());
        })
        .await;
    }
}

mod confusing_names {
    use ratelimit_runtime::{RateLimitError, key, rate_limit};

    use super::alone;

    #[allow(dead_code, reason = "the expansion must not find them")]
    mod core {
        pub(super) mod result {}
    }

    #[allow(dead_code, reason = "the expansion must not find them")]
    mod std {
        pub(super) mod option {}
    }

    #[derive(Debug)]
    pub(super) enum Result {
        Fine,
        Limited,
    }

    impl ::ratelimit_runtime::FromRateLimitError for Result {
        fn from_rate_limit_error(_: RateLimitError) -> Self {
            Self::Limited
        }
    }

    #[allow(non_snake_case, dead_code, reason = "the expansion must not find them")]
    fn Ok() {}

    #[allow(non_snake_case, dead_code, reason = "the expansion must not find them")]
    fn Err() {}

    #[allow(dead_code, reason = "the expansion must not find them")]
    struct Some;

    #[allow(dead_code, reason = "the expansion must not find them")]
    struct None;

    #[allow(dead_code, reason = "the expansion must not find them")]
    struct Option;

    #[allow(dead_code, reason = "the expansion must not find them")]
    struct String;

    #[allow(dead_code, reason = "the expansion must not find them")]
    struct Duration;

    #[allow(non_camel_case_types, dead_code, reason = "the expansion must not find them")]
    struct bool;

    #[allow(unused_macros, reason = "the expansion must not find it")]
    macro_rules! drop {
        () => {};
    }

    #[derive(::ratelimit_runtime::KeyPart)]
    struct Account {
        id: u32,
        kind: Kind,
    }

    #[derive(::ratelimit_runtime::KeyPart)]
    enum Kind {
        Some,
        None(u8),
    }

    #[rate_limit(key = "<account>:<limiter>", window = "60s", max = run, when = check, timeout = "1s")]
    #[rate_limit(window = "60s", max = 10, shadow = check)]
    async fn send(account: &Account, limiter: u8, run: u8, check: ::core::primitive::bool) -> Result {
        Result::Fine
    }

    #[tokio::test]
    async fn names_of_the_user_are_not_those_of_the_guard() {
        alone(async {
            for kind in [Kind::Some, Kind::None(1)] {
                let account = Account { id: 1, kind };
                assert!(matches!(send(&account, 1, 1, true).await, Result::Fine));
                assert!(matches!(send(&account, 1, 1, true).await, Result::Limited));
                let limiter = 1;
                assert_eq!(key!("<account>:<limiter>").as_bytes().last(), [b'>'].last());
            }
        })
        .await;
    }
}

mod inside_a_function {
    use super::*;

    #[tokio::test]
    async fn functions_inside_functions_have_buckets_of_their_own() {
        #[rate_limit(key = "<id>", window = "60s", max = 1)]
        async fn send(id: u32) -> Outcome {
            Ok(())
        }

        mod other {
            use super::*;

            #[rate_limit(key = "<id>", window = "60s", max = 1)]
            pub(super) async fn send(id: u32) -> Outcome {
                Ok(())
            }
        }

        alone(async {
            assert!(send(1).await.is_ok());
            assert!(other::send(1).await.is_ok());
            assert!(send(1).await.is_err());
            assert!(other::send(1).await.is_err());
        })
        .await;
    }
}

mod made_by_macros {
    use super::*;

    macro_rules! service {
        ($service:ident { $($(#[$attribute:meta])* $method:ident($self:ident $(, $argument:ident: $ty:ty)*) by $key:literal;)* }) => {
            struct $service {
                tenant: u32,
            }

            impl $service {
                $(
                    $(#[$attribute])*
                    #[rate_limit(key = $key, window = "60s", max = 1)]
                    #[tracing::instrument(skip_all)]
                    async fn $method(&$self $(, $argument: $ty)*) -> Outcome {
                        Ok(())
                    }
                )*
            }
        };
    }

    service!(Mailer {
        /// By tenant.
        by_tenant(self) by "<self.tenant>";
        #[rate_limit(window = "60s", max = 1)]
        by_email(self, email: &str) by "<self.tenant>:<email>";
    });

    #[tokio::test]
    async fn methods_made_by_a_macro_are_limited() {
        alone(async {
            let (one, two) = (Mailer { tenant: 1 }, Mailer { tenant: 2 });
            assert!(one.by_tenant().await.is_ok());
            assert!(one.by_tenant().await.is_err());
            assert!(two.by_tenant().await.is_ok());
            assert!(one.by_email("a").await.is_ok());
            assert!(two.by_email("b").await.is_err(), "the attribute that was passed in was lost");
        })
        .await;
    }
}

mod several {
    use super::*;

    #[rate_limit(key = "<email>", window = "60s", max = 2)]
    #[rate_limit(key = "<ip>", window = "60s", max = 3)]
    async fn login(email: &str, ip: &str) -> Outcome {
        let _ = (email, ip);
        Ok(())
    }

    #[tokio::test]
    async fn each_attribute_has_its_own_bucket_and_all_must_admit() {
        alone(async {
            assert!(login("a", "1").await.is_ok());
            assert!(login("a", "1").await.is_ok());
            let by_email = login("a", "2").await.unwrap_err();
            assert_eq!(by_email.decision().unwrap().limit(), 2);
            assert!(login("b", "1").await.is_ok());
            let by_ip = login("c", "1").await.unwrap_err();
            assert_eq!(by_ip.decision().unwrap().limit(), 3);
            assert_ne!(by_ip.decision().unwrap().rule(), by_email.decision().unwrap().rule());
        })
        .await;
    }

    #[rate_limit(key = "<id>", window = "60s", max = 1)]
    #[tracing::instrument(skip_all)]
    async fn above_instrument(id: u32) -> Outcome {
        let _ = id;
        Ok(())
    }

    #[tracing::instrument(skip_all)]
    #[rate_limit(key = "<id>", window = "60s", max = 1)]
    async fn below_instrument(id: u32) -> Outcome {
        let _ = id;
        Ok(())
    }

    #[cfg_attr(all(), rate_limit(key = "<id>", window = "60s", max = 1))]
    async fn by_cfg_attr(id: u32) -> Outcome {
        let _ = id;
        Ok(())
    }

    #[tokio::test]
    async fn other_attributes_may_stand_above_and_below() {
        alone(async {
            assert!(above_instrument(1).await.is_ok());
            assert!(is_exceeded(&above_instrument(1).await));
            assert!(below_instrument(1).await.is_ok());
            assert!(is_exceeded(&below_instrument(1).await));
            assert!(by_cfg_attr(1).await.is_ok());
            assert!(is_exceeded(&by_cfg_attr(1).await));
        })
        .await;
    }
}
