//! Stage one: the written arguments. Only their spelling is judged here: the names of arguments,
//! the grammar of templates.

pub(crate) mod annotated;
pub(crate) mod arguments;
pub(crate) mod attribute;
pub(crate) mod function;
pub(crate) mod key_macro;
pub(crate) mod key_part;
pub(crate) mod placeholder;
pub(crate) mod template;
