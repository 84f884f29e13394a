//! The macros of [`ratelimit-runtime`](https://docs.rs/ratelimit-runtime): `#[rate_limit]`, `key!`
//! and `#[derive(KeyPart)]`. Depend on that crate, which exports them; their expansions call it.
//!
//! The attribute passes through four stages, a folder each: `parse` reads the arguments and the
//! function, `check` finds every mistake, `plan` chooses the guard, `expand` makes tokens. `key!`
//! has no plan, and the derive no check. A stage uses the results of earlier stages only. Only
//! `expand` makes tokens, and it cannot fail. Code of several stages is beside the folders.

mod async_blocks;
mod check;
mod diagnostics;
mod duration;
mod expand;
mod literal;
mod literal_text;
mod parse;
mod plan;
mod runtime_path;
mod stages;
mod suggest;
#[cfg(test)]
mod tests;

use proc_macro::TokenStream;

/// Limits how often an async function runs, and for whom.
///
/// ```text
/// #[rate_limit(key = "<email>", window = "60s", max = 3)]
/// async fn send_code(email: &str) -> Result<(), SendError> { … }   // SendError: From<RateLimitError>
/// ```
///
/// The fourth call for one email within any 60 seconds returns the refusal, and the body does not
/// run.
///
/// # Arguments
///
#[doc = include_str!("arguments.md")]
///
/// Expressions are evaluated at each call before its first `.await`, in the order `when`,
/// `limiter`, `max` or `policy`, `concurrent`, `cost`, `shadow`, `key`; `on_refused` only for a
/// refused call, `count` and `actual_cost` once the body has returned. They see the function's
/// arguments, and cannot `.await`, `return` or `break` outside of closures and async blocks of
/// their own. An error may leave the function: in all but `on_refused`, `count` and
/// `actual_cost`, `?` returns it before anything is charged and before the body.
///
/// A `max` or `cost` that is negative at run time means 0: a `max` of 0 refuses each call, without
/// a `retry_after`; a `cost` of 0 charges nothing. A cost above what the limits admit at once is
/// `RateLimitError::CostExceedsLimit`, never "try again later".
///
/// # Outcomes that count
///
/// ```text
/// #[rate_limit(key = "<user>", window = "15m", max = 5, count = "err", block = "1h")]
/// async fn log_in(user: &str, password: &str) -> Result<Session, LoginError> { … }
/// ```
///
/// With `count` other than `"all"` a call is charged before the body runs, so that a thousand
/// parallel guesses cannot pass a limit of five, and gets its units back if the outcome does not
/// count. A call that is cancelled or panics counts. Running calls occupy their units, but only
/// those that have counted lead to a block.
///
/// `"ok"` and `"err"` are for functions that return a `Result`. The body becomes an async block,
/// because a `return` in it must not end the function before the outcome is judged. Arguments that
/// the body names move into the block: a closure of `count` can use an argument if it is `Copy`, or
/// if the body does not take it. Arguments are dropped in their usual order, but those that the
/// closure names, or that the body does not name, come last.
///
/// # Costs that are known afterwards
///
/// ```text
/// #[rate_limit(key = "<user.id>", window = "1m", max = 100_000, algorithm = "token_bucket",
///              cost = estimate(&prompt),
///              actual_cost = |answer| answer.as_ref().map_or(0, |answer| answer.tokens))]
/// async fn complete(user: &User, prompt: Prompt) -> Result<Answer, Error> { … }
/// ```
///
/// The estimate, at least 1, is charged before the body; the actual cost takes its place
/// afterwards. A lower cost frees the rest. A higher one is charged on top, also beyond `max`: then
/// nothing is left, and later calls are refused until the excess has left the window. At most twice
/// the capacity of a limit is ever used; the rest is not charged. A body that takes longer than the
/// window is charged at its end. A call that is cancelled or panics is charged the estimate.
///
/// The body becomes an async block, as under `count`; without either it is unchanged.
///
/// # Key templates
///
/// `"<user.id>:<req.email()>"`: a placeholder is a name that an argument binds, or `self`, followed
/// by any number of `.field`, `.0` and `.method()` without arguments. `{email}` is the same as
/// `<email>`. `<<`, `>>`, `{{` and `}}` are the characters themselves; all other text stands for
/// itself. A template has at least one placeholder, and its text does not hold the name of an
/// argument that no placeholder uses: that would be a mistake. The value of a placeholder
/// implements `KeyPart`; different values never make the same key. `key!("…")` makes the same key
/// by hand.
///
/// # Functions
///
/// Async functions and methods of every kind, methods under `#[async_trait]`, and plain functions
/// whose body is only `async move { … }` or `Box::pin(async move { … })`: the limit is asked inside
/// of the block, so no code stands before it or around it. The return type implements
/// `FromRateLimitError`, as `Result<_, E>` does for `E: From<RateLimitError>`; a function that
/// returns nothing needs `on_refused` or `shadow`.
///
/// The attribute limits the body below it: a default method of a trait is limited, an
/// implementation that replaces that method is not. Other attributes may stand above and below. One
/// below is applied to the limited function: what `#[cached]` answers there from its cache is not
/// counted. `#[tokio::main]`, which makes a blocking function of an async one, stands below.
///
/// Several attributes on one function, all under the name `rate_limit`, make one guard: each has
/// its own counts. They are consulted together, and a call is charged to all of them or to none.
/// Write an attribute of the same name from another crate with its path. Of several refusals, the
/// one that lasts longest is returned. `on_refused` is written once and applies to all of them.
/// Each attribute's `wait` holds for a refusal by its own limits: one without it refuses at once.
///
/// The derived name is the function's path, so counts start from zero when the function moves: give
/// a `name` to keep them. A second attribute's derived name ends in `#2`, and so on.
#[proc_macro_attribute]
pub fn rate_limit(arguments: TokenStream, item: TokenStream) -> TokenStream {
    stages::rate_limit(arguments.into(), item.into()).into()
}

/// The key that an attribute with this template uses, from names in scope.
///
/// ```text
/// limiter.reset(&rule, &key!("<tenant>:<email>")).await?;
/// ```
///
/// It evaluates to a `Key`. The grammar is that of `#[rate_limit(key = "…")]`. Where the runtime
/// crate has another name: `key!(crate = ::path, "<email>")`.
#[proc_macro]
pub fn key(input: TokenStream) -> TokenStream {
    stages::key(input.into()).into()
}

/// Implements `KeyPart` for a type of your own, so that it can be part of a key.
///
/// ```text
/// #[derive(KeyPart)]
/// struct Account { tenant: u32, user: String }
/// ```
///
/// A struct is its fields in order, a newtype is the same key as its field, an enum is its
/// variant's name and fields. Names of structs and fields are not part of the key. Every field
/// implements `KeyPart`, but for a `PhantomData`, which is no part of the key. A
/// `#[repr(packed)]` type, whose fields cannot be borrowed, implements it by hand.
/// `#[key(crate = ::path)]` names the runtime crate, if it has another name.
#[proc_macro_derive(KeyPart, attributes(key))]
pub fn derive_key_part(input: TokenStream) -> TokenStream {
    stages::key_part(input.into()).into()
}
