//! Refusals as errors and responses of actix-web.

use actix_web::http::StatusCode;
use actix_web::{HttpResponse, ResponseError};

use crate::response::Told;
use crate::{FromRateLimitError, RateLimitError};

/// As the [`Responses`](crate::Responses) of the limiter in force have it.
impl ResponseError for RateLimitError {
    /// actix-web has a type of its own for it.
    fn status_code(&self) -> StatusCode {
        StatusCode::from_u16(self.http_status().as_u16()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
    }

    fn error_response(&self) -> HttpResponse {
        let (parts, body) = self.to_http_response().into_parts();
        let mut builder = HttpResponse::build(self.status_code());
        for (name, value) in &parts.headers {
            builder.insert_header((name.as_str(), value.as_bytes()));
        }
        let mut response = builder.body(body);
        response.extensions_mut().insert(Told);
        response
    }
}

impl FromRateLimitError for HttpResponse {
    fn from_rate_limit_error(error: RateLimitError) -> Self {
        error.error_response()
    }
}

/// The response that the error is.
impl From<RateLimitError> for HttpResponse {
    fn from(error: RateLimitError) -> Self {
        error.error_response()
    }
}
