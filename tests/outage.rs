//! Soon.
mod support;
