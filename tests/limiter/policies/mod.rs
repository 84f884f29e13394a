//! Policies: limits by name, replaced while running.

mod calls;
mod in_flight;
mod overrides;
mod sets;
