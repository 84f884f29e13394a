#![deny(warnings)]

//! Functions made by `macro_rules!`, with one part or another passed in.

use ratelimit_runtime::{RateLimitError, rate_limit};

type Outcome = Result<(), RateLimitError>;

macro_rules! item {
    ($item:item) => {
        $item
    };
}

item! {
    #[rate_limit(key = "<id>", window = "60s", max = 1)]
    async fn whole_item(id: u32) -> Outcome { Ok(()) }
}

macro_rules! tokens {
    ($($tokens:tt)*) => {
        $($tokens)*
    };
}

tokens! {
    #[rate_limit(key = "<id>", window = "60s", max = 1)]
    async fn tokens(id: u32) -> Outcome { Ok(()) }
}

macro_rules! attribute {
    ($(#[$attribute:meta])* $name:ident) => {
        $(#[$attribute])*
        async fn $name(id: u32) -> Outcome {
            Ok(())
        }
    };
}

attribute!(
    #[rate_limit(key = "<id>", window = "60s", max = 1)]
    #[rate_limit(key = "<id>", window = "1d", max = 20)]
    attributes
);

macro_rules! signature {
    ($visibility:vis fn $name:ident($($argument:ident: $ty:ty),*) -> $output:ty $body:block) => {
        #[rate_limit(key = ($(&$argument),*), window = "60s", max = 1)]
        $visibility async fn $name($($argument: $ty),*) -> $output $body
    };
}

signature!(pub(crate) fn signature(id: u32, email: &str) -> Outcome { Ok(()) });

macro_rules! body {
    ($name:ident, $body:block) => {
        #[rate_limit(key = "<id>", window = "60s", max = 1, count = "ok")]
        async fn $name(id: u32) -> Outcome $body
    };
}

body!(body, { Ok(()) });

macro_rules! values {
    ($name:ident, $key:expr, $window:literal, $max:expr, $when:expr) => {
        #[rate_limit(key = $key, window = $window, max = $max, when = $when)]
        async fn $name(id: u32) -> Outcome {
            Ok(())
        }
    };
}

values!(values, "<id>", "60s", 1, true);

macro_rules! nested {
    ($d:tt $name:ident) => {
        macro_rules! inner {
            ($d($d tokens:tt)*) => {
                #[rate_limit(key = "<id>", window = "60s", max = 1)]
                async fn $name(id: u32) -> Outcome { $d($d tokens)* }
            };
        }
        inner!(Ok(()));
    };
}

nested!($ nested);

macro_rules! future {
    ($name:ident, $($tokens:tt)*) => {
        #[rate_limit(key = "<id>", window = "60s", max = 1)]
        fn $name(id: u32) -> impl Future<Output = Outcome> {
            $($tokens)*
        }
    };
}

future!(future, async move { Ok(()) });

macro_rules! block_of_a_future {
    ($name:ident, $body:block) => {
        #[rate_limit(key = "<id>", window = "60s", max = 1)]
        fn $name(id: u32) -> impl Future<Output = Outcome> {
            async move $body
        }
    };
}

block_of_a_future!(block_of_a_future, { Ok(()) });

macro_rules! part {
    ($argument:ident, $name:ident) => {
        #[rate_limit(key = "<id>:<other>", window = "60s", max = 1)]
        async fn $name($argument: u32, other: u32) -> Outcome {
            Ok(())
        }
    };
}

part!(id, part);

macro_rules! output {
    ($name:ident, $output:ty) => {
        #[rate_limit(window = "60s", max = 1, on_refused = |_error| panic!("refused"))]
        #[allow(clippy::diverging_sub_expression, reason = "as it does without a macro")]
        async fn $name() -> $output {
            panic!("ran")
        }
    };
}

output!(never, !);

#[tokio::test]
#[should_panic(expected = "ran")]
async fn a_type_that_a_macro_passes_on_may_be_never() {
    never().await;
}

#[tokio::test]
async fn runs() {
    assert!(whole_item(1).await.is_ok());
    assert!(whole_item(1).await.is_err());
    assert!(tokens(1).await.is_ok());
    assert!(tokens(1).await.is_err());
    assert!(attributes(1).await.is_ok());
    assert!(attributes(1).await.is_err());
    assert!(signature(1, "a").await.is_ok());
    assert!(signature(1, "a").await.is_err());
    assert!(signature(1, "b").await.is_ok());
    assert!(body(1).await.is_ok());
    assert!(body(1).await.is_err());
    assert!(values(1).await.is_ok());
    assert!(values(1).await.is_err());
    assert!(nested(1).await.is_ok());
    assert!(nested(1).await.is_err());
    assert!(future(1).await.is_ok());
    assert!(future(1).await.is_err());
    assert!(block_of_a_future(1).await.is_ok());
    assert!(block_of_a_future(1).await.is_err());
    assert!(part(1, 1).await.is_ok());
    assert!(part(1, 1).await.is_err());
}
