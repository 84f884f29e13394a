//! [`LimitedBody`]: the body of a service's response, or of a refusal in its place.

use std::pin::Pin;
use std::task::{Context, Poll};

use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;

pin_project! {
    /// The body of a response behind a [`RateLimitLayer`](crate::RateLimitLayer) with a rule: the
    /// service's, or the words of a refusal.
    #[allow(unnameable_types, unreachable_pub, reason = "frameworks take any body")]
    #[derive(Debug)]
    pub struct LimitedBody<B> {
        #[pin]
        served: Option<B>,
        words: String,
    }
}

impl<B> LimitedBody<B> {
    pub(super) fn served(body: B) -> Self {
        Self {
            served: Some(body),
            words: String::new(),
        }
    }

    pub(super) fn refused(words: String) -> Self {
        Self {
            served: None,
            words,
        }
    }
}

/// An empty body, which layers that answer by themselves, such as for CORS, need.
impl<B> Default for LimitedBody<B> {
    fn default() -> Self {
        Self::refused(String::new())
    }
}

impl<B: Body> Body for LimitedBody<B>
where
    B::Data: From<String>,
{
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        let this = self.project();
        match this.served.as_pin_mut() {
            Some(body) => body.poll_frame(cx),
            None if this.words.is_empty() => Poll::Ready(None),
            None => Poll::Ready(Some(Ok(Frame::data(std::mem::take(this.words).into())))),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.served
            .as_ref()
            .map_or(self.words.is_empty(), Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        let words = || SizeHint::with_exact(self.words.len() as u64);
        self.served.as_ref().map_or_else(words, Body::size_hint)
    }
}
