//! What others get wrong: in the articles that people paste from, and in the field.

#[path = "../support/mod.rs"]
mod support;

mod articles;
mod field;
