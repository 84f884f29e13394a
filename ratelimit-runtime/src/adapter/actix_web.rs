//! Refusals as errors and responses of actix-web.

use actix_web::http::StatusCode;
use actix_web::http::header::{CACHE_CONTROL, ContentType, RETRY_AFTER};
use actix_web::{HttpResponse, ResponseError};

use super::http_refusal;
use crate::{FromRateLimitError, RateLimitError};

/// `429`, `503` or `500` with `{"code":…,"message":…,"data":null}`, and `Retry-After` in whole seconds, rounded up,
/// where waiting helps. What is misconfigured is logged, not told to the client.
impl ResponseError for RateLimitError {
    fn status_code(&self) -> StatusCode {
        StatusCode::from_u16(http_refusal::status(self)).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
    }

    fn error_response(&self) -> HttpResponse {
        let mut response = HttpResponse::build(self.status_code());
        response.insert_header(ContentType::json()).insert_header((CACHE_CONTROL, "no-store"));
        if let Some(seconds) = self.retry_after_seconds() {
            response.insert_header((RETRY_AFTER, seconds));
        }
        response.body(http_refusal::body(self))
    }
}

impl FromRateLimitError for HttpResponse {
    fn from_rate_limit_error(error: RateLimitError) -> Self {
        error.error_response()
    }
}
