//! The `let` statements that may stand before the future of a plain function: they take or copy
//! values for the future, and have no effect that a refused call must not have.

use syn::parse::Parser as _;
use syn::punctuated::Punctuated;
use syn::{Expr, Ident, Local, Pat, Token};

use crate::check::function::names;
use crate::check::function::names::is_standard;

/// A name that a `let` binds.
pub(crate) struct Prepared {
    pub(crate) name: Ident,
    /// The name it is a copy of, if it is nothing else.
    pub(crate) copy_of: Option<Ident>,
}

/// The methods that may be called before the future.
#[derive(PartialEq)]
enum Method {
    /// The method gives the same value, owned or borrowed.
    Copies,
    /// The method is one of the standard library that only looks.
    Looks,
}

fn method(name: &Ident) -> Option<Method> {
    match name.to_string().as_str() {
        "as_ref" | "as_str" | "borrow" | "clone" | "cloned" | "copied" | "deref" | "into"
        | "into_owned" | "into_string" | "to_owned" | "to_path_buf" | "to_string" | "to_vec" => {
            Some(Method::Copies)
        }
        "as_bytes" | "as_deref" | "as_path" | "as_slice" | "id" | "into_bytes" | "is_empty"
        | "is_none" | "is_some" | "len" | "max" | "min" | "to_ascii_lowercase"
        | "to_ascii_uppercase" | "to_lowercase" | "to_uppercase" | "trim" | "trim_end"
        | "trim_start" => Some(Method::Looks),
        _ => None,
    }
}

/// The names that `local` binds; `None` if it does more than prepare.
pub(crate) fn of(local: &Local) -> Option<Vec<Prepared>> {
    let init = local.init.as_ref()?;
    let mut prepared = Vec::new();
    bind(&local.pat, Some(&init.expr), &mut prepared);
    (init.diverge.is_none() && prepares(&init.expr)).then_some(prepared)
}

/// Adds the names that `pattern` binds to parts of `value`, which is `None` if unknown.
fn bind(pattern: &Pat, value: Option<&Expr>, prepared: &mut Vec<Prepared>) {
    match (pattern, value) {
        (Pat::Ident(name), value) => {
            let copy_of = value.and_then(copied).cloned();
            prepared.push(Prepared {
                name: name.ident.clone(),
                copy_of,
            });
            if let Some((_, inner)) = &name.subpat {
                bind(inner, None, prepared);
            }
        }
        (Pat::Type(typed), value) => bind(&typed.pat, value, prepared),
        (Pat::Paren(paren), value) => bind(&paren.pat, value, prepared),
        (Pat::Tuple(names), Some(Expr::Tuple(values)))
            if names.elems.len() == values.elems.len() =>
        {
            for (name, value) in names.elems.iter().zip(&values.elems) {
                bind(name, Some(value), prepared);
            }
        }
        (Pat::Tuple(pattern), _) => pattern
            .elems
            .iter()
            .for_each(|inner| bind(inner, None, prepared)),
        (Pat::TupleStruct(pattern), _) => pattern
            .elems
            .iter()
            .for_each(|inner| bind(inner, None, prepared)),
        (Pat::Slice(pattern), _) => pattern
            .elems
            .iter()
            .for_each(|inner| bind(inner, None, prepared)),
        (Pat::Struct(pattern), _) => pattern
            .fields
            .iter()
            .for_each(|field| bind(&field.pat, None, prepared)),
        (Pat::Reference(pattern), _) => bind(&pattern.pat, None, prepared),
        _ => {}
    }
}

fn prepares(expr: &Expr) -> bool {
    match expr {
        Expr::Lit(_) | Expr::Path(_) | Expr::Closure(_) => true,
        Expr::Field(field) => prepares(&field.base),
        Expr::Reference(reference) => prepares(&reference.expr),
        Expr::Unary(unary) => prepares(&unary.expr),
        Expr::Paren(paren) => prepares(&paren.expr),
        Expr::Group(group) => prepares(&group.expr),
        Expr::Cast(cast) => prepares(&cast.expr),
        Expr::Binary(binary) => prepares(&binary.left) && prepares(&binary.right),
        Expr::Tuple(tuple) => tuple.elems.iter().all(prepares),
        Expr::Array(array) => array.elems.iter().all(prepares),
        Expr::Struct(value) => {
            value.rest.is_none() && value.fields.iter().all(|field| prepares(&field.expr))
        }
        Expr::MethodCall(call) => {
            method(&call.method).is_some()
                && call.args.iter().all(prepares)
                && prepares(&call.receiver)
        }
        Expr::Index(index) => prepares(&index.expr) && prepares(&index.index),
        Expr::Range(range) => range
            .start
            .iter()
            .chain(&range.end)
            .all(|end| prepares(end)),
        Expr::Macro(mac) => {
            let arguments =
                Punctuated::<Expr, Token![,]>::parse_terminated.parse2(mac.mac.tokens.clone());
            is_standard(&mac.mac) && arguments.is_ok_and(|arguments| arguments.iter().all(prepares))
        }
        Expr::Assign(named) => prepares(&named.right),
        Expr::Call(call) => constructs(&call.func) && call.args.iter().all(prepares),
        _ => false,
    }
}

/// Functions of the standard library that wrap or copy their arguments.
fn constructs(function: &Expr) -> bool {
    let Some((owner, last)) = names::of_function(function) else {
        return false;
    };
    match last.as_str() {
        "Some" => true,
        "clone" => matches!(owner.as_str(), "Arc" | "Rc" | "Clone"),
        "new" => matches!(owner.as_str(), "Arc" | "Rc" | "Box"),
        "from" => matches!(owner.as_str(), "String" | "PathBuf" | "Vec" | "Arc" | "Box"),
        _ => false,
    }
}

/// The name that `expr` is a copy of.
fn copied(expr: &Expr) -> Option<&Ident> {
    match expr {
        Expr::Path(path) => path.path.get_ident(),
        Expr::Reference(reference) => copied(&reference.expr),
        Expr::Unary(unary) if matches!(unary.op, syn::UnOp::Deref(_)) => copied(&unary.expr),
        Expr::Paren(paren) => copied(&paren.expr),
        Expr::Group(group) => copied(&group.expr),
        Expr::MethodCall(call) if method(&call.method) == Some(Method::Copies) => {
            copied(&call.receiver)
        }
        Expr::Call(call)
            if constructs(&call.func) && call.args.len() == 1 && !is_some(&call.func) =>
        {
            copied(call.args.first()?)
        }
        _ => None,
    }
}

fn is_some(function: &Expr) -> bool {
    matches!(function, Expr::Path(path) if path.path.is_ident("Some"))
}
