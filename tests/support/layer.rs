//! [`Layer`]: the least that a layer around a store implements.

use ratelimit_runtime::Store;

/// Methods of [`Store`] that ask the store in this field.
macro_rules! forward {
    ($field:tt: $($method:ident),*) => {
        $(forward!(@$method $field);)*
    };
    (@reset $field:tt) => {
        forward!(@reset $field bool);
    };
    (@$method:ident $field:tt) => {
        forward!(@$method $field ratelimit_runtime::store::Verdict);
    };
    (@$method:ident $field:tt $output:ty) => {
        fn $method<'a>(
            &'a self,
            request: ratelimit_runtime::store::Request<'a>,
        ) -> ratelimit_runtime::store::Answer<'a, $output> {
            self.$field.$method(request)
        }
    };
}
pub(crate) use forward;

/// A layer as the documentation of `Store` has it. Each decision goes through it, one key at a
/// time.
pub(crate) struct Layer<S>(pub(crate) S);

impl<S: Store> Store for Layer<S> {
    fn inner(&self) -> Option<&dyn Store> {
        Some(&self.0)
    }

    self::forward!(0: acquire, peek, reset);
}
