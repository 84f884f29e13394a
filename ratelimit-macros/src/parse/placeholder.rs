//! The inside of a placeholder: a name, then `.field`, `.0` and `.method()`. Anything
//! longer is an error that says to make the key an expression.

use std::ops::Range;

use proc_macro2::Span;
use syn::ext::IdentExt as _;
use syn::{Expr, ExprPath, Ident, Member};

/// A placeholder: a name and the steps from it to the value.
pub(crate) struct Placeholder {
    /// The name as an identifier; the argument's, once the argument is found.
    pub(crate) ident: Ident,
    /// The name for comparisons: without `r#`.
    pub(crate) root: String,
    pub(crate) steps: Vec<Step>,
    /// The range of the name, in characters of the template.
    pub(crate) at: Range<usize>,
    /// The range of the placeholder with its brackets.
    pub(crate) whole: Range<usize>,
}

pub(crate) enum Step {
    Field(Member),
    Call(Ident),
}

impl Placeholder {
    /// Replaces the name by `ident`, and locates the steps at `span`.
    pub(crate) fn of(mut self, ident: Ident, span: Span) -> Self {
        self.ident = ident;
        for step in &mut self.steps {
            match step {
                Step::Field(Member::Unnamed(index)) => index.span = span,
                Step::Field(Member::Named(name)) | Step::Call(name) => name.set_span(span),
            }
        }
        self
    }
}

/// An error in a template, and where, in characters.
pub(crate) struct Fault {
    pub(crate) at: Range<usize>,
    pub(crate) message: String,
}

/// Reads the inside of a placeholder, `range` of `chars`.
pub(crate) fn read(chars: &[char], range: Range<usize>) -> Result<Placeholder, Fault> {
    let inside: String = chars
        .get(range.clone())
        .unwrap_or_default()
        .iter()
        .collect();
    let text = inside.trim_matches(' ');
    let whole = range.start.saturating_sub(1)..range.end + 1;
    if text.is_empty() {
        let message =
            "an empty placeholder: write the name of an argument in it, as in `<email>`".to_owned();
        return Err(Fault { at: whole, message });
    }
    let start = range.start + length(&inside) - length(inside.trim_start_matches(' '));
    let at = |part: Range<usize>| start + part.start..start + part.end;
    // A name that is a keyword elsewhere, as in `<type>` and `<event.type>`, is one here.
    let is_name = |name: &str| syn::parse_str::<Ident>(name).is_ok();
    let named = |(at, part): (usize, &str)| {
        let raw = format!("r#{part}");
        let waits = at > 0 && part == "await";
        if is_name(part) || waits || !is_name(&raw) {
            part.to_owned()
        } else {
            raw
        }
    };
    let expr = syn::parse_str::<Expr>(text).or_else(|_| {
        let parts: Vec<_> = text.split('.').enumerate().map(named).collect();
        syn::parse_str(&parts.join("."))
    });
    let mut steps = Vec::new();
    match expr.map(|expr| path(&expr, &mut steps)) {
        // The compiler would skip white space, and all of a comment.
        Ok(Ok(ident)) if !text.contains(|c: char| c == '/' || c.is_whitespace()) => {
            let at = at(0..text.find('.').map_or_else(
                || length(text),
                |dot| length(text.get(..dot).unwrap_or(text)),
            ));
            Ok(Placeholder {
                root: ident.unraw().to_string(),
                ident,
                steps,
                at,
                whole,
            })
        }
        Ok(Err(Some(message))) => Err(Fault {
            at: at(0..length(text)),
            message,
        }),
        Ok(_) | Err(_) => {
            let (part, message) = misspelt(text);
            Err(Fault {
                at: at(part),
                message,
            })
        }
    }
}

/// The name that `expr` begins with; the steps from it are added to `steps`. If it is no path, an
/// error, unless its text gives a better one.
fn path(expr: &Expr, steps: &mut Vec<Step>) -> Result<Ident, Option<String>> {
    match expr {
        Expr::Path(ExprPath {
            attrs,
            qself: None,
            path,
        }) if attrs.is_empty() => path.get_ident().cloned().ok_or(None),
        Expr::Field(field) if field.attrs.is_empty() => {
            let root = path(&field.base, steps)?;
            steps.push(Step::Field(field.member.clone()));
            Ok(root)
        }
        Expr::MethodCall(call) if call.attrs.is_empty() && call.turbofish.is_none() => {
            let root = path(&call.receiver, steps)?;
            steps.push(Step::Call(call.method.clone()));
            call.args.is_empty().then_some(root).ok_or_else(|| {
                Some(format!(
                    "a method in a template takes no arguments: for more, make the key an \
                     expression, `key = ….{}(…)`",
                    call.method
                ))
            })
        }
        Expr::Await(_) => Err(Some(
            "a key cannot wait: `.await` before the call and pass the value as an argument"
                .to_owned(),
        )),
        Expr::Infer(_) => Err(Some(
            "`_` has no value: give the argument a name".to_owned(),
        )),
        _ => Err(None),
    }
}

/// Characters that make an expression of a name. The brackets of placeholders cannot be among them.
const OPERATORS: [char; 10] = ['+', '-', '*', '/', '%', '^', '&', '|', '!', '='];

/// The error in `text`, which is no path, and where, in characters.
fn misspelt(text: &str) -> (Range<usize>, String) {
    let before = |at: usize| text.get(..at).unwrap_or_default();
    let one = |at: usize| length(before(at))..length(before(at)) + 1;
    if let Some(at) = text.find(OPERATORS) {
        return (one(at), no_expressions(text));
    }
    if let Some(at) = text.find("::") {
        return (
            one(at),
            "no `::` in a placeholder: write `.field` or `.method()`, as in `<user.id>`".to_owned(),
        );
    }
    if let Some(at) = text.find(':') {
        let name = before(at);
        return (
            one(at),
            format!("no format specifications in a placeholder: write `<{name}>`"),
        );
    }
    if let Some(at) = text.find(char::is_whitespace) {
        let message = "a space inside a placeholder: write one name in it, as in `<email>`; for \
            more, make the key an expression, `key = …`";
        return (one(at), message.to_owned());
    }
    if text.ends_with('.') {
        let message =
            "the placeholder ends too early: write `.field`, `.0` or `.method()` after the dot";
        return (one(text.len() - 1), message.to_owned());
    }
    let message = "a placeholder is the name of an argument, then `.field`, `.0` or `.method()`; \
        for more, make the key an expression, `key = …`";
    (0..length(text), message.to_owned())
}

fn no_expressions(text: &str) -> String {
    let is_of_name = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-');
    if text.chars().all(is_of_name) {
        let name = text.replace('-', "_");
        return format!(
            "no `-` in a placeholder: write `<{name}>` for a name, `key = {text}` for a difference"
        );
    }
    let operands: Vec<_> = text
        .split(OPERATORS)
        .map(str::trim)
        .filter(|operand| !operand.is_empty())
        .collect();
    let plain = |operand: &&str| {
        operand
            .chars()
            .all(|c| c.is_alphanumeric() || matches!(c, '_' | '.'))
    };
    let template = if operands.len() > 1 && operands.iter().all(plain) {
        format!(" or `\"<{}>\"`", operands.join(">/<"))
    } else {
        String::new()
    };
    format!("no expressions in a placeholder: write `key = {text}`{template}")
}

fn length(text: &str) -> usize {
    text.chars().count()
}
