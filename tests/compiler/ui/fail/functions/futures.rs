use ratelimit_runtime::{RateLimitError, rate_limit};

type Outcome = Result<(), RateLimitError>;


type Boxed<T> = std::pin::Pin<Box<dyn Future<Output = T> + Send>>;

fn charge(_: u32) -> u32 { 0 }

async fn retry<F: Future<Output = Outcome>>(future: F) -> Outcome { future.await }

trait Boxes: Future<Output = Outcome> + Send + Sized + 'static {
    fn boxed(self) -> Boxed<Outcome> { Box::pin(self) }
}

impl<F: Future<Output = Outcome> + Send + 'static> Boxes for F {}

macro_rules! leave_if {
    ($fast:ident) => {
        if $fast {
            return Box::pin(async move { Ok(()) });
        }
    };
}

#[rate_limit(window = "60s", max = 3)]
fn without_move() -> impl Future<Output = Outcome> {
    async { Ok(()) }
}

#[rate_limit(window = "60s", max = 3)]
fn boxed_without_move() -> Boxed<Outcome> {
    Box::pin(async { Ok(()) })
}

#[rate_limit(key = "<id>", window = "60s", max = 1)]
fn after_a_macro(id: u32, fast: bool) -> Boxed<Outcome> {
    leave_if!(fast);
    Box::pin(async move { Ok(()) })
}

#[rate_limit(key = "<id>", window = "60s", max = 1)]
fn after_an_early_return(id: u32, fast: bool) -> Boxed<Outcome> {
    if fast {
        return Box::pin(async move { Ok(()) });
    }
    Box::pin(async move { Ok(()) })
}

#[rate_limit(key = "<email>", window = "60s", max = 1)]
fn after_a_copy(email: &str) -> Boxed<Outcome> {
    let email = email.to_owned();
    Box::pin(async move { Ok(drop(email)) })
}

#[rate_limit(key = "<id>", window = "60s", max = 1)]
fn after_statements(id: u32) -> impl Future<Output = Outcome> {
    charge(id);
    let change = charge(id);
    async move { Ok(drop(change)) }
}

#[rate_limit(key = "<id>", window = "60s", max = 1)]
fn in_a_call(id: u32) -> impl Future<Output = Outcome> {
    retry(async move { Ok(()) })
}

#[rate_limit(key = "<id>", window = "60s", max = 1)]
fn by_a_method(id: u32) -> Boxed<Outcome> {
    async move { Ok(()) }.boxed()
}

#[rate_limit(key = "<id>", window = "60s", max = 1)]
fn returned(id: u32) -> Boxed<Outcome> {
    return Box::pin(async move { Ok(()) });
}

#[rate_limit(key = "<id>", window = "60s", max = 1)]
fn in_a_local(id: u32) -> Boxed<Outcome> {
    let future = async move { Ok(()) };
    Box::pin(future)
}

#[rate_limit(key = "<id>", window = "60s", max = 1)]
fn one_of_several(id: u32, fast: bool) -> Boxed<Outcome> {
    if fast { Box::pin(async move { Ok(()) }) } else { Box::pin(async move { Ok(()) }) }
}

fn main() {}
