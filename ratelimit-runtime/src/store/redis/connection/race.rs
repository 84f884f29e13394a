//! Waits for whichever of two futures is ready first.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;

pub(crate) enum Either<A, B> {
    First(A),
    Second(B),
}

/// The first of two to be ready; the first one, if both are.
pub(crate) async fn either<A, B>(first: impl Future<Output = A>, second: impl Future<Output = B>) -> Either<A, B> {
    let (mut first, mut second) = (pin!(first), pin!(second));
    poll_fn(|cx| {
        if let Poll::Ready(output) = first.as_mut().poll(cx) {
            return Poll::Ready(Either::First(output));
        }
        second.as_mut().poll(cx).map(Either::Second)
    })
    .await
}
