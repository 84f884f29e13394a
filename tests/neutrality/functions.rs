//! Functions with something to say about each of them, linted with the attribute and without.
#![warn(
    warnings,
    unused,
    rust_2018_idioms,
    let_underscore,
    keyword_idents,
    single_use_lifetimes,
    unused_qualifications,
    unreachable_pub,
    clippy::all,
    clippy::pedantic,
    clippy::nursery,
    clippy::restriction
)]

use std::fmt::Display;
use std::pin::Pin;

#[cfg(feature = "limited")]
use ratelimit_runtime::rate_limit;
use ratelimit_runtime::RateLimitError;

type Outcome<T> = Result<T, RateLimitError>;

#[must_use]
pub fn wanted() -> u8 {
    1
}

pub async fn other() {}

#[cfg_attr(feature = "limited", rate_limit(key = "<id>", window = "60s", max = 1))]
pub async fn unused_things(id: u32, unused: u8, mut mutable: u8) -> Outcome<u32> {
    let local = 1;
    wanted();
    other().await;
    Ok(id)
}

#[cfg_attr(feature = "limited", rate_limit(key = "<id>", window = "60s", max = 1))]
async fn never_called(id: u32) -> Outcome<u32> {
    other().await;
    Ok(id)
}

#[cfg_attr(feature = "limited", rate_limit(key = "<id>", window = "60s", max = 1))]
pub async fn asks_nothing(id: u32) -> Outcome<u32> {
    Ok(id)
}

#[cfg_attr(feature = "limited", rate_limit(key = "<text>", window = "60s", max = 1))]
pub async fn takes_by_value(text: String) -> Outcome<usize> {
    other().await;
    Ok(text.len())
}

#[cfg_attr(feature = "limited", rate_limit(key = "<text>", window = "60s", max = 1))]
pub async fn clones<'a>(text: &'a String) -> Outcome<String> {
    other().await;
    let copy = text.clone().to_string();
    if copy.len() == 0 { Ok(String::new()) } else { Ok(copy) }
}

#[cfg_attr(feature = "limited", rate_limit(key = "<a>", window = "60s", max = 1))]
#[cfg_attr(feature = "limited", rate_limit(window = "60s", max = 100))]
pub async fn many(a: u8, b: u8, c: u8, d: u8, e: u8, f: u8, g: u8, h: bool) -> Outcome<u8> {
    other().await;
    match h {
        true => Ok(a + b + c + d),
        false => Ok(e + f + g),
    }
}

#[cfg_attr(feature = "limited", rate_limit(key = "<id>", window = "60s", max = 1))]
pub fn future(id: u32) -> impl Future<Output = Outcome<u32>> + Send {
    async move {
        other().await;
        return Ok(id);
    }
}

#[cfg_attr(feature = "limited", rate_limit(key = "<id>", window = "60s", max = 1))]
pub fn boxed(id: u32) -> Pin<Box<dyn Future<Output = Outcome<u32>> + Send>> {
    Box::pin(async move {
        let id = id.clone();
        let unused = 1;
        other().await;
        Ok(id)
    })
}

pub struct Service;

impl Service {
    #[cfg_attr(feature = "limited", rate_limit(key = "<id>", window = "60s", max = 1))]
    pub async fn uses_no_self(&self, id: u32) -> Outcome<u32> {
        other().await;
        Ok(id)
    }

    #[cfg_attr(feature = "limited", rate_limit(window = "60s", max = 1, on_refused = |_error| None))]
    pub async fn wraps(&self) -> Option<u32> {
        other().await;
        Some(1)
    }
}

#[cfg_attr(feature = "limited", rate_limit(window = "60s", max = 1, count = "ok"))]
pub async fn counted(id: u32, shown: impl Display, unused: u8) -> Outcome<String> {
    let local = 1;
    wanted();
    other().await;
    let text = format!("{}{}", id, shown);
    Ok(text)
}

#[cfg_attr(feature = "limited", rate_limit(window = "60s", max = 1, count = "ok"))]
pub async fn counted_writes_only(mut pair: (u8, u8)) -> Outcome<u32> {
    other().await;
    pair.0 = 1;
    Ok(1)
}

#[cfg_attr(feature = "limited", rate_limit(key = "<text>", window = "60s", max = 1))]
pub async fn elidable<'a>(text: &'a str) -> Outcome<Option<&'a str>> {
    other().await;
    Ok(Some(text))
}

#[cfg_attr(feature = "limited", rate_limit(window = "60s", max = 1, count = |_outcome| true))]
pub async fn counted_ignores(_ignored: String, text: String, (first, _second): (u8, u8)) -> Outcome<String> {
    other().await;
    Ok(format!("{text}{first}"))
}

#[cfg_attr(feature = "limited", rate_limit(window = "60s", max = 1, count = |_outcome| true))]
pub async fn counted_names_a_field(start: u8, range: std::ops::Range<u8>) -> Outcome<u8> {
    other().await;
    Ok(range.start)
}

pub fn refused<E>(_error: E) -> Pin<Box<dyn Future<Output = ()>>> {
    Box::pin(other())
}

#[cfg_attr(feature = "limited", rate_limit(window = "60s", max = 1, count = counts, on_refused = refused))]
pub async fn counted_gives_a_future() -> Pin<Box<dyn Future<Output = ()>>> {
    other().await;
    Box::pin(other())
}

pub fn counts<R>(_outcome: &R) -> bool {
    true
}

#[cfg_attr(feature = "limited", rate_limit(key = "<id>", window = "60s", max = 9, cost = 2, actual_cost = |outcome| outcome.as_ref().map_or(0, String::len)))]
pub async fn costs(id: u32, shown: impl Display, unused: u8) -> Outcome<String> {
    let local = 1;
    wanted();
    other().await;
    let text = format!("{}{}", id, shown);
    Ok(text)
}

#[cfg_attr(feature = "limited", rate_limit(window = "60s", max = 9, cost = 2, actual_cost = tokens))]
pub async fn costs_and_returns_needlessly(id: u32) -> Outcome<u32> {
    other().await;
    return Ok(id);
}

pub fn tokens<R>(_outcome: &R) -> u8 {
    1
}

#[cfg_attr(feature = "limited", rate_limit(window = "60s", max = 1, count = "ok"))]
pub async fn counted_gives_a_long_type() -> Outcome<
    Vec<(Option<Box<dyn Fn(&str) -> Vec<u8> + Send + Sync>>, Pin<Box<dyn Future<Output = u8>>>)>,
> {
    other().await;
    Ok(Vec::new())
}

pub struct Note(pub bool);

impl Drop for Note {
    fn drop(&mut self) {
        std::hint::black_box(self.0);
    }
}

#[cfg_attr(feature = "limited", rate_limit(window = "60s", max = 1, count = "ok"))]
pub async fn counted_writes_for_the_destructor(mut note: Note) -> Outcome<u32> {
    other().await;
    note.0 = true;
    Ok(1)
}

#[cfg_attr(feature = "limited", rate_limit(key = "<_id>", window = "60s", max = 1, count = "ok"))]
pub async fn counted_makes_its_own(_id: u8, _unused: u8, named: u8, mut id: u8) -> Outcome<u8> {
    other().await;
    let _unused = 1;
    let named = 1;
    id = 1;
    Ok(named + id)
}
