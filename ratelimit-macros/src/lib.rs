//! The `#[rate_limit]` attribute.
