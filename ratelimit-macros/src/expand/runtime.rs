//! The names of the runtime crate that expansions use: all of them, and nowhere else.

use proc_macro2::{Span, TokenStream};
use quote::quote_spanned;
use syn::Path;

use crate::check::rule::limits::algorithm::Algorithm;
use crate::check::rule::on_unavailable::OnUnavailable;

/// The runtime crate.
pub(crate) struct Runtime {
    /// Its path, if not the usual one.
    pub(crate) krate: Option<Path>,
}

impl Runtime {
    /// A statement that gives the expansion its name for what it may use. Where there is no runtime
    /// crate, this is the one place where the compiler says so. A path that the user gave stays
    /// where it was written.
    pub(crate) fn import(&self) -> TokenStream {
        let mixed = Span::mixed_site();
        let Some(krate) = &self.krate else {
            return quote_spanned!(mixed=> use ::ratelimit_runtime::__private as __ratelimit;);
        };
        let span = krate.segments.last().map_or(mixed, |last| last.ident.span().resolved_at(mixed));
        // Where another crate is meant by mistake, the name in the error says what was expected
        // there.
        quote_spanned!(span=> use #krate::__ratelimit_runtime as __ratelimit;)
    }

    /// The name that the import gives. It is located at `span`, so that an error about a call
    /// underlines nothing else.
    fn private(span: Span) -> TokenStream {
        let span = span.resolved_at(Span::mixed_site());
        quote_spanned!(span=> __ratelimit)
    }

    pub(crate) fn algorithm(&self, algorithm: Algorithm) -> TokenStream {
        let mixed = Span::mixed_site();
        match algorithm {
            Algorithm::SlidingWindow => self.sliding_window(mixed),
            Algorithm::SlidingCounter => self.sliding_counter(mixed),
            Algorithm::FixedWindow => self.fixed_window(mixed),
            Algorithm::TokenBucket => self.token_bucket(mixed),
            Algorithm::LeakyBucket => self.leaky_bucket(mixed),
        }
    }

    pub(crate) fn on_unavailable(&self, on_unavailable: OnUnavailable) -> TokenStream {
        let mixed = Span::mixed_site();
        match on_unavailable {
            OnUnavailable::Allow => self.allow(mixed),
            OnUnavailable::Deny => self.deny(mixed),
            OnUnavailable::Local => self.local(mixed),
        }
    }
}

/// `ours => theirs`: a method of `Runtime` for each path, by our word for what the runtime calls
/// its own way.
macro_rules! paths {
    ($($ours:ident => $($segment:ident)::+;)*) => {
        impl Runtime {
            $(pub(crate) fn $ours(&self, span: Span) -> TokenStream {
                let private = Self::private(span);
                let span = span.resolved_at(Span::mixed_site());
                quote_spanned!(span=> #private::$($segment)::+)
            })*
        }
    };
}

paths! {
    // Rules
    rule => Rule;
    rule_named => Rule::new;
    rule_derived => Rule::derived;
    rule_derived_nth => Rule::derived_nth;
    limit => Limit::new;
    sliding_window => Algorithm::SlidingWindow;
    sliding_counter => Algorithm::SlidingCounter;
    fixed_window => Algorithm::FixedWindow;
    token_bucket => Algorithm::TokenBucket;
    leaky_bucket => Algorithm::LeakyBucket;
    allow => OnUnavailable::Allow;
    deny => OnUnavailable::Deny;
    local => OnUnavailable::Local;
    // Checks
    check => CheckBuilder::new;
    check_on => CheckBuilder::on;
    check_max => CheckBuilder::max;
    check_cost => CheckBuilder::cost;
    check_shadow => CheckBuilder::shadow;
    check_reserves => CheckBuilder::reserve;
    check_text => CheckBuilder::text;
    check_part => CheckBuilder::part;
    limiter => limiter;
    number => count;
    // Guards
    run => run;
    run_all => run_all;
    reserve => run_reserved;
    finish => Reservations::settle;
    refuse => refuse;
    refuse_text => refuse_text;
    refuse_with => refuse_with;
    // Outcomes
    counts_ok => counts_ok;
    counts_err => counts_err;
    counts_by => counts;
    // Keys
    key_part => KeyPart;
    write_key => KeyPart::write_key;
    key_writer => KeyWriter;
    writer_part => KeyWriter::part;
    writer_group => KeyWriter::group;
    key_builder => KeyBuilder::new;
    builder_text => KeyBuilder::text;
    builder_part => KeyBuilder::part;
    builder_finish => KeyBuilder::finish;
}

/// `ours => theirs`: a function for the name of each method.
macro_rules! methods {
    ($($ours:ident => $method:ident;)*) => {
        $(pub(crate) fn $ours() -> Ident {
            Ident::new(stringify!($method), Span::mixed_site())
        })*
    };
}

/// The names of methods: of a rule, a limit and `KeyPart`.
pub(crate) mod method {
    use proc_macro2::{Ident, Span};

    methods! {
        and => and;
        burst => with_burst;
        policy => with_policy;
        algorithm => with_algorithm;
        block => with_block;
        wait => with_wait;
        timeout => with_timeout;
        on_unavailable => with_on_unavailable;
        write_key => write_key;
    }
}
