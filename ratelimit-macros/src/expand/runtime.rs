//! The paths into the runtime crate that expansions use.

use proc_macro2::{Ident, Span, TokenStream};
use quote::quote_spanned;
use syn::Path;

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

    /// A variant of one of its enums.
    pub(crate) fn variant(of: &str, name: &str) -> TokenStream {
        let mixed = Span::mixed_site();
        let (private, of, name) = (Self::private(mixed), Ident::new(of, mixed), Ident::new(name, mixed));
        quote_spanned!(mixed=> #private::#of::#name)
    }

    /// A function of its builder of checks.
    pub(crate) fn check_builder(function: &str, span: Span) -> TokenStream {
        let span = span.resolved_at(Span::mixed_site());
        let (private, function) = (Self::private(span), Ident::new(function, span));
        quote_spanned!(span=> #private::CheckBuilder::#function)
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
    rule_in_flight => Rule::in_flight;
    rule_in_flight_derived => Rule::in_flight_derived;
    limit => Limit::new;
    limit_by_calendar => Limit::calendar;
    // Checks
    limiter => limiter;
    number => count;
    policy_name => policy_name;
    // Guards
    run => run;
    run_all => run_all;
    reserve => run_reserved;
    enter => enter;
    enter_reserved => enter_reserved;
    finish => Reservations::complete;
    refuse => refuse;
    refuse_text => refuse_text;
    refuse_with => refuse_with;
    // Outcomes
    counts_ok => counts_ok;
    counts_err => counts_err;
    counts_all => Completion::Commit;
    counts_by => counts;
    counts_by_cost => actual_cost;
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
