use ratelimit_runtime::{RateLimitError, rate_limit};

type Outcome = Result<(), RateLimitError>;


type Boxed<T> = std::pin::Pin<Box<dyn Future<Output = T> + Send>>;

fn charge(_: u32) -> u32 { 0 }

async fn retry<F: Future<Output = Outcome>>(future: F) -> Outcome { future.await }

trait Map: Future + Sized {
    async fn map<T>(self, f: impl FnOnce(Self::Output) -> T) -> T { f(self.await) }
}

impl<F: Future> Map for F {}

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
fn mapped(id: u32) -> impl Future<Output = Outcome> {
    async move { 1 }.map(drop).map(Ok)
}

#[rate_limit(key = "<id>", window = "60s", max = 1)]
fn in_a_block_of_its_own(id: u32) -> Boxed<Outcome> {
    'out: { break 'out Box::pin(async move { Ok(()) }); }
}

#[rate_limit(key = "<id>", window = "60s", max = 1)]
fn one_of_several(id: u32, fast: bool) -> Boxed<Outcome> {
    if fast { Box::pin(async move { Ok(()) }) } else { Box::pin(async move { Ok(()) }) }
}

#[rate_limit(key = "<email>", window = "60s", max = email.len())]
fn argument_is_hidden(email: &str) -> impl Future<Output = Outcome> {
    let email = email.len();
    async move { Ok(drop(email)) }
}

fn main() {}
