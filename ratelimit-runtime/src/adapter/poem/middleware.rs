//! [`RateLimitLayer`] as a middleware of poem.

use poem::error::ResponseError as _;
use poem::{Endpoint, IntoResponse, Middleware, Request, Response};

use crate::adapter::header_key::HeaderKeyRejection;
use crate::adapter::layer::{Asks, Question, RateLimitLayer, write};
use crate::response::Told;
use crate::{ClientIpRejection, RateLimitError};

/// An endpoint whose responses tell of rate limits; made by [`RateLimitLayer`].
#[derive(Debug)]
pub struct RateLimitEndpoint<E, R> {
    layer: RateLimitLayer<R>,
    inner: E,
}

impl<E: Endpoint, R: Asks<Request, Response> + Clone + Send + Sync> Middleware<E> for RateLimitLayer<R> {
    type Output = RateLimitEndpoint<E, R>;

    fn transform(&self, inner: E) -> Self::Output {
        RateLimitEndpoint { layer: self.clone(), inner }
    }
}

impl<E: Endpoint, R: Asks<Request, Response> + Send + Sync> Endpoint for RateLimitEndpoint<E, R> {
    type Output = Response;

    async fn call(&self, mut request: Request) -> poem::Result<Response> {
        if let Some(proxies) = &self.layer.proxies {
            request.extensions_mut().insert(proxies.clone());
        }
        let question = match self.layer.question(&request) {
            Ok(question) => question,
            Err(answer) => return Ok(answer),
        };
        let answer = async {
            match Question::ask(question).await {
                // Errors are made responses here, because those have to tell of the decisions too.
                Ok(()) => match self.inner.call(request).await {
                    Ok(output) => output.into_response(),
                    // The response of an error has the extensions of the error, not those that it was made with.
                    Err(mut error) if error.is::<RateLimitError>() => {
                        error.set_data(Told);
                        error.into_response()
                    }
                    Err(error) => error.into_response(),
                },
                Err(error) => error.as_response(),
            }
        };
        let (mut response, decisions, legacy) = self.layer.run(answer).await;
        let was_told = response.extensions_mut().remove::<Told>().is_some();
        write(response.status(), was_told, response.headers_mut(), (&decisions, legacy));
        Ok(response)
    }
}

/// 400, and what is missing.
impl From<HeaderKeyRejection> for Response {
    fn from(rejection: HeaderKeyRejection) -> Self {
        rejection.as_response()
    }
}

/// 500, or 400 where a trusted proxy names no client.
impl From<ClientIpRejection> for Response {
    fn from(rejection: ClientIpRejection) -> Self {
        rejection.as_response()
    }
}
