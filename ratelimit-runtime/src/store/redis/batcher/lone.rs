//! [`Lone`]: a caller that found the link idle, and sends by itself.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Instant;

use redis::Value;

use super::caller::{Answered, Failure};
use super::sending::{Inner, is_unknown_script, lost};
use crate::observe;
use crate::store::redis::link::{BoxFuture, Connection, Lost};
use crate::store::redis::scripts::Question;
use crate::store::redis::scripts::call::{self, by_source};

/// A call of one caller. It is in flight until its reply came: when the caller gives up, a task
/// waits for that in its place, and tells the link when it is late. A caller that never gives up
/// does so itself.
pub(super) struct Lone {
    inner: Arc<Inner>,
    connection: Arc<Connection>,
    sent: Instant,
    call: Option<BoxFuture<Result<Answered, Failure>>>,
}

impl Lone {
    pub(super) fn start(
        inner: &Arc<Inner>,
        connection: Arc<Connection>,
        key: &[u8],
        question: &Question,
        gives_up: bool,
    ) -> Self {
        let number = connection.number();
        let command = call::lone_command(number, key, question);
        let (question, shared, used) = (question.clone(), Arc::clone(inner), Arc::clone(&connection));
        let call = async move {
            observe::command_sent(1);
            // What is rare is boxed: this future is moved.
            let mut reply = if gives_up {
                used.send(&command).await
            } else {
                Box::pin(shared.watched(&used, used.send(&command))).await
            };
            if matches!(&reply, Ok(Value::ServerError(error)) if is_unknown_script(error)) {
                observe::command_sent(1);
                reply = Box::pin(used.send(&by_source(&command, question.script))).await;
            }
            let reply = reply.map_err(|Lost| lost())?;
            shared.read_lone(&used, reply, number, &question)
        };
        Self { inner: Arc::clone(inner), connection, sent: Instant::now(), call: Some(Box::pin(call)) }
    }
}

impl Future for Lone {
    type Output = Result<Answered, Failure>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<Answered, Failure>> {
        let Some(call) = &mut self.call else { return Poll::Ready(Err(lost())) };
        let outcome = ready!(call.as_mut().poll(cx));
        self.call = None;
        self.inner.landed();
        Poll::Ready(outcome)
    }
}

impl Drop for Lone {
    fn drop(&mut self) {
        if let Some(call) = self.call.take() {
            let (inner, connection, sent) = (Arc::clone(&self.inner), Arc::clone(&self.connection), self.sent);
            self.inner.runtime.spawn(async move {
                let _ = inner.watched_since(sent, &connection, call).await;
                inner.landed();
            });
        }
    }
}
