//! Arguments are dropped in the order in which they are without the attribute.

use std::sync::{Arc, Mutex};

use ratelimit_runtime::rate_limit;

use super::{Outcome, alone};

/// Says when it is dropped.
struct Noted(&'static str, Arc<Mutex<Vec<&'static str>>>);

impl Noted {
    const fn name(&self) -> &'static str {
        self.0
    }
}

impl Drop for Noted {
    fn drop(&mut self) {
        self.1.lock().unwrap().push(self.0);
    }
}

/// The same function three times, under these names.
macro_rules! functions {
    ($bare:ident $plain:ident $counted:ident async fn $($rest:tt)*) => {
        async fn $bare $($rest)*

        #[rate_limit(window = "60s", max = 1)]
        async fn $plain $($rest)*

        #[rate_limit(window = "60s", max = 1, count = "err")]
        async fn $counted $($rest)*
    };
}

functions! {
    bare plain counted
    async fn (first: Noted, (second, mut third): (Noted, Noted), fourth: Noted, fifth: &mut Noted, sixth: Noted) -> Outcome {
        let text = format!("{}{}", third.name(), first.name());
        fifth.0 = "changed";
        third.0 = if text.is_empty() { "" } else { "third" };
        assert_eq!((third.name(), fourth.name(), sixth.name()), ("third", "fourth", "sixth"));
        drop(second);
        Ok(())
    }
}

#[allow(dead_code, reason = "its fields are dropped")]
struct Service(Noted, Noted);

impl Service {
    functions! {
        bare plain counted
        async fn (self, first: Noted, second: Noted) -> Outcome {
            assert_eq!((first.name(), self.1.name(), second.name()), ("first", "field", "second"));
            Ok(())
        }
    }
}

#[async_trait::async_trait]
trait Send2: Sized {
    functions! {
        bare plain counted
        async fn (self, first: Noted, second: Noted) -> Outcome where Self: Send {
            assert_eq!((first.name(), second.name()), ("first", "second"));
            drop(self);
            Ok(())
        }
    }
}

#[allow(dead_code, reason = "its fields are dropped")]
struct Sender(Noted, Noted);

impl Send2 for Sender {}

#[tokio::test]
async fn arguments_are_dropped_in_the_same_order() {
    type Log = Arc<Mutex<Vec<&'static str>>>;

    async fn order(call: impl AsyncFn(Log) -> Outcome) -> Vec<&'static str> {
        let log = Log::default();
        alone(async { assert!(call(Arc::clone(&log)).await.is_ok()) }).await;
        log.lock().unwrap().clone()
    }

    macro_rules! free {
        ($log:ident, $name:ident) => {{
            let noted = |name| Noted(name, Arc::clone(&$log));
            let mut fifth = Noted("fifth", Log::default());
            $name(
                noted("first"),
                (noted("second"), noted("third")),
                noted("fourth"),
                &mut fifth,
                noted("sixth"),
            )
            .await
        }};
    }
    macro_rules! method {
        ($log:ident, $receiver:ident, $name:ident) => {{
            let noted = |name| Noted(name, Arc::clone(&$log));
            $receiver(noted("self"), noted("field"))
                .$name(noted("first"), noted("second"))
                .await
        }};
    }
    macro_rules! assert_orders {
        ($expected:expr, $macro:ident!($($receiver:ident)?)) => {
            assert_eq!(order(async |log| $macro!(log $(, $receiver)?, bare)).await, $expected);
            assert_eq!(order(async |log| $macro!(log $(, $receiver)?, plain)).await, $expected);
            assert_eq!(order(async |log| $macro!(log $(, $receiver)?, counted)).await, $expected);
        };
    }
    assert_orders!(["second", "sixth", "fourth", "third", "first"], free!());
    assert_orders!(["second", "first", "self", "field"], method!(Service));
    assert_orders!(["self", "field", "second", "first"], method!(Sender));
}
