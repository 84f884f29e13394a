//! [`FromRateLimitError`]: how a function's return type says "refused".

use crate::RateLimitError;

/// A return type that can carry a refusal.
///
/// Every `Result<T, E>` whose `E` is `From<RateLimitError>` implements it, so `anyhow::Result` does
/// too. With the features `axum`, `actix-web`, `poem` and `tonic` types of these frameworks do:
///
/// | feature | a handler may return |
/// | --- | --- |
/// | `axum` | `Response`; `Result<_, E>` with `Response`, `StatusCode` or `(StatusCode, String)` as `E` |
/// | `actix-web` | `HttpResponse`; `Result<_, actix_web::Error>` |
/// | `poem` | `Response`; `Result<_, poem::Error>` |
/// | `tonic` | `Result<_, tonic::Status>` |
///
/// A handler that returns `impl IntoResponse` or `impl Responder`, which hide their type, returns
/// `Result<impl IntoResponse, RateLimitError>` instead.
///
/// Implement it for a response type of your own:
///
/// ```
/// use ratelimit_runtime::{FromRateLimitError, RateLimitError};
///
/// enum Reply { Done, SlowDown }
///
/// impl FromRateLimitError for Reply {
///     fn from_rate_limit_error(_: RateLimitError) -> Self {
///         Reply::SlowDown
///     }
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot carry a rate limit refusal",
    label = "a refused call has to return something of this type",
    note = "return `Result<_, RateLimitError>`, in a handler `Result<impl IntoResponse, RateLimitError>`",
    note = "or `Result<_, E>` where `E: From<RateLimitError>`, for example `#[derive(Debug, thiserror::Error)] enum E {{ #[error(transparent)] Limited(#[from] RateLimitError) }}`",
    note = "or say how to turn a `RateLimitError` into the return value: `on_refused = |error| Err(error.to_string())`",
    note = "or implement `FromRateLimitError` for your own response type"
)]
pub trait FromRateLimitError {
    /// The value that a refused call returns.
    fn from_rate_limit_error(error: RateLimitError) -> Self;
}

#[diagnostic::do_not_recommend]
impl<T, E: From<RateLimitError>> FromRateLimitError for Result<T, E> {
    // An error that keeps the place where it was made keeps that of the attribute.
    #[track_caller]
    fn from_rate_limit_error(error: RateLimitError) -> Self {
        Err(E::from(error))
    }
}
