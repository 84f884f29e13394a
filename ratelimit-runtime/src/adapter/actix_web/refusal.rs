//! Refusals as errors and responses of actix-web.

use actix_web::http::StatusCode;
use actix_web::{HttpResponse, ResponseError};

use crate::adapter::header_key::HeaderKeyRejection;
use crate::response::RefusalDecision;
use crate::{ClientIpRejection, FromRateLimitError, RateLimitError};

/// As the [`Responses`](crate::Responses) of the limiter in force have it.
impl ResponseError for RateLimitError {
    fn status_code(&self) -> StatusCode {
        theirs(self.http_status())
    }

    fn error_response(&self) -> HttpResponse {
        response(self.to_http_response())
    }
}

/// As the [`Responses`](crate::Responses) of the limiter in force have it.
impl ResponseError for HeaderKeyRejection {
    fn status_code(&self) -> StatusCode {
        theirs(self.http_status())
    }

    fn error_response(&self) -> HttpResponse {
        response(self.to_http_response())
    }
}

/// The response that it is.
impl From<HeaderKeyRejection> for HttpResponse {
    fn from(rejection: HeaderKeyRejection) -> Self {
        rejection.error_response()
    }
}

/// 500, or 400 where a trusted proxy names no client; as the [`Responses`](crate::Responses) of the
/// limiter in force have it.
impl ResponseError for ClientIpRejection {
    fn status_code(&self) -> StatusCode {
        theirs(self.http_status())
    }

    fn error_response(&self) -> HttpResponse {
        response(self.to_http_response())
    }
}

/// The response that it is.
impl From<ClientIpRejection> for HttpResponse {
    fn from(rejection: ClientIpRejection) -> Self {
        rejection.error_response()
    }
}

/// actix-web has types of its own for all of it.
fn response(ours: http::Response<String>) -> HttpResponse {
    let (mut parts, body) = ours.into_parts();
    let mut builder = HttpResponse::build(theirs(parts.status));
    for (name, value) in &parts.headers {
        builder.insert_header((name.as_str(), value.as_bytes()));
    }
    let mut response = builder.body(body);
    if let Some(decision) = parts.extensions.remove::<RefusalDecision>() {
        response.extensions_mut().insert(decision);
    }
    response
}

fn theirs(status: http::StatusCode) -> StatusCode {
    StatusCode::from_u16(status.as_u16()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
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
