//! Reads the inside of one attribute. A mistake in one argument does not hide those in the others.

use proc_macro2::{Span, TokenStream, TokenTree};
use quote::ToTokens as _;
use syn::ext::IdentExt as _;
use syn::parse::{ParseStream, Parser};
use syn::{Error, Expr, ExprLit, Ident, Lit, LitBool, LitInt, LitStr, Token, parenthesized, token};

use crate::diagnostics::{Diagnostics, list};
use crate::duration;
use crate::literal::as_str;
use crate::parse::arguments::{self, Argument, Arguments, Parameter};
use crate::suggest::nearest;

/// Reads `tokens`, the inside of the attribute. An error about all of it underlines `whole`.
pub(crate) fn read(tokens: TokenStream, whole: Span, diagnostics: &mut Diagnostics) -> Arguments {
    let mut reader = AttributeReader {
        arguments: Arguments::default(),
        attempted: Vec::new(),
        meant: Vec::new(),
        diagnostics,
    };
    let parsed = Parser::parse2(|input: ParseStream<'_>| reader.all(input), tokens);
    // Tokens left over inside of brackets are found last. A mistake that is reported already leaves
    // some, too.
    let parsed = parsed.map_err(|error| {
        Error::new(
            error.span(),
            format!("{error}, in the value of an argument"),
        )
    });
    if !reader.diagnostics.found_any() {
        reader.diagnostics.keep(parsed);
    }
    reader.report_missing(whole);
    reader.arguments
}

/// `true` if `tokens` are the inside of one of this crate's attributes, and nothing is wrong with
/// them.
pub(crate) fn can_read(tokens: TokenStream) -> bool {
    let mut diagnostics = Diagnostics::default();
    read(tokens, Span::call_site(), &mut diagnostics);
    diagnostics.finish(Some(())).is_ok()
}

struct AttributeReader<'a> {
    arguments: Arguments,
    /// The names of the arguments that were attempted.
    attempted: Vec<&'static str>,
    /// Arguments meant by a misspelt name or a lone value: they are not missing as well.
    meant: Vec<&'static str>,
    diagnostics: &'a mut Diagnostics,
}

impl AttributeReader<'_> {
    fn all(&mut self, input: ParseStream<'_>) -> syn::Result<()> {
        while !input.is_empty() {
            if let Err(error) = self.argument(input) {
                self.diagnostics.push(error);
                skip(input);
            }
            if input.peek(Token![,]) {
                input.parse::<Token![,]>()?;
            } else if !input.is_empty() {
                self.diagnostics
                    .push(input.error("expected `,` before the next argument"));
                input.parse::<Option<Token![;]>>()?;
                if !(input.peek(Ident::peek_any) && input.peek2(Token![=])) {
                    skip(input);
                    input.parse::<Option<Token![,]>>()?;
                }
            }
        }
        Ok(())
    }

    fn argument(&mut self, input: ParseStream<'_>) -> syn::Result<()> {
        if input.peek(Lit) {
            let literal = input.parse()?;
            let error = self.without_a_name(&literal);
            if !(input.is_empty() || input.peek(Token![,])) {
                return Err(error);
            }
            self.diagnostics.push(error);
            return Ok(());
        }
        let name = input.call(Ident::parse_any).map_err(|error| {
            Error::new(
                error.span(),
                format!("expected an argument: {}", list(arguments::names())),
            )
        })?;
        let text = name.unraw().to_string();
        let Some(parameter) = arguments::find(&text) else {
            let unknown = self.unknown(&name, &text, input);
            self.diagnostics.push(unknown);
            // Its end is known, unless the value cannot be read either.
            let is_read = input.peek(Token![,])
                || input.parse::<Token![=]>().is_ok() && input.parse::<Expr>().is_ok();
            if !is_read {
                skip(input);
            }
            return Ok(());
        };
        let again = self.attempted.contains(&parameter.name);
        self.attempted.push(parameter.name);
        if again {
            self.diagnostics
                .error(&name, format!("`{text}` is given twice: remove one"));
        }
        let value = if input.peek(token::Paren) {
            let inside;
            let span = parenthesized!(inside in input).span.join();
            let message = format!("write `{text} = …`, without the parentheses");
            self.diagnostics.push(Error::new(span, message));
            expression(&inside, parameter)?
        } else if let Some(wrong) = not_equals(input)? {
            let message = format!("write `=` for `{wrong}`");
            self.diagnostics.error(wrong, message);
            expression(input, parameter)?
        } else {
            value(input, &name, parameter)?
        };
        if let Some(literal) = as_str(&value).filter(|literal| !literal.suffix().is_empty()) {
            let message = format!("remove `{}` behind the string", literal.suffix());
            self.diagnostics.error(literal, message);
        }
        if !again {
            (parameter.set)(&mut self.arguments, Argument { name, value });
        }
        Ok(())
    }

    fn without_a_name(&mut self, literal: &Lit) -> Error {
        let (meant, advice) = match literal {
            Lit::Str(text) => positional(&text.value(), &text.token().to_string()),
            Lit::Int(number) if duration::unit(number.suffix()).is_some() => {
                (&["window"][..], format!("`window = \"{number}\"`"))
            }
            // As in `#[rate_limit(3, 60)]`.
            Lit::Int(number) if self.meant.contains(&"max") => {
                let seconds = number.base10_digits();
                (&["window"][..], format!("`window = \"{seconds}s\"`"))
            }
            Lit::Int(number) => (&["max"][..], format!("`max = {}`", number.base10_digits())),
            _ => {
                let names = list(arguments::names());
                (
                    &[][..],
                    format!("`key = …`, `window = …` or `max = …` ({names})"),
                )
            }
        };
        self.meant.extend(meant);
        Error::new_spanned(literal, format!("arguments have names: write {advice}"))
    }

    /// The error for `name`, which is `text` and no argument; its value is still to be read.
    fn unknown(&mut self, name: &Ident, text: &str, input: ParseStream<'_>) -> Error {
        let synonym = arguments::find_synonym(text).map(|parameter| parameter.name);
        let message = if let Some(window) = arguments::window_of_rate(text) {
            self.meant.push("limits");
            let ahead = input.fork();
            let max = ahead
                .parse::<Token![=]>()
                .and_then(|_| ahead.parse::<LitInt>());
            let max = max.map_or_else(|_| "3".to_owned(), |max| max.base10_digits().to_owned());
            format!("unknown argument `{text}`: write `limits = [\"{max}/{window}\"]`")
        } else if let Some(limit) = limit_ahead(input) {
            self.meant.push("limits");
            format!("unknown argument `{text}`: write `limits = [\"{limit}\"]`")
        } else if arguments::OPPOSITES_OF_WHEN.contains(&text) {
            format!("unknown argument `{text}`: write the opposite, as in `when = !user.is_admin`")
        } else if let Some(meant) = synonym.or_else(|| nearest(text, arguments::names())) {
            self.meant.push(meant);
            format!("unknown argument `{text}`: did you mean `{meant}`?")
        } else {
            let all = list(arguments::names());
            format!("unknown argument `{text}`: the arguments are {all}")
        };
        Error::new_spanned(name, message)
    }

    fn report_missing(&mut self, whole: Span) {
        let missing = |name: &str| !self.attempted.contains(&name) && !self.meant.contains(&name);
        if !missing("limits") || !missing("policy") {
            return;
        }
        let message = match (missing("window"), missing("max")) {
            (true, true) if !missing("concurrent") => return,
            (true, true) => {
                "how much in how long? write `window` and `max`, as in \
                 `#[rate_limit(key = \"<email>\", window = \"60s\", max = 3)]`"
            }
            (true, false) => {
                "`window` is missing: write over how long calls are counted, as in \
                 `window = \"60s\"`"
            }
            (false, true) => {
                "`max` is missing: write how many calls the window admits, as in `max = 3`"
            }
            (false, false) => return,
        };
        self.diagnostics.push(Error::new(whole, message));
    }
}

/// The arguments that a text without a name may be meant for, and how they are written. `token` is
/// the text as it was written.
fn positional(text: &str, token: &str) -> (&'static [&'static str], String) {
    if let Some(limit) = duration::limit(text) {
        (&["limits"], format!("`limits = [\"{limit}\"]`"))
    } else if duration::parse(text, &duration::WINDOW).is_ok() {
        (&["window"], format!("`window = {token}`"))
    } else if !text.is_empty() && text.chars().all(|c| c.is_ascii_digit()) {
        (
            &["window", "max"],
            format!("`window = \"{text}s\"` for the time, `max = {text}` for the number"),
        )
    } else {
        (&["key"], format!("`key = {token}`"))
    }
}

/// The value ahead, if it reads as a limit.
fn limit_ahead(input: ParseStream<'_>) -> Option<String> {
    let ahead = input.fork();
    ahead.parse::<Token![=]>().ok()?;
    duration::limit(&ahead.parse::<LitStr>().ok()?.value())
}

/// Reads `=>`, `==` or `:` in place of a `=`; `None` if there is none of them.
fn not_equals(input: ParseStream<'_>) -> syn::Result<Option<TokenStream>> {
    Ok(Some(if input.peek(Token![=>]) {
        input.parse::<Token![=>]>()?.into_token_stream()
    } else if input.peek(Token![==]) {
        input.parse::<Token![==]>()?.into_token_stream()
    } else if input.peek(Token![:]) && !input.peek(Token![::]) {
        input.parse::<Token![:]>()?.into_token_stream()
    } else {
        return Ok(None);
    }))
}

/// The value after `name`.
fn value(input: ParseStream<'_>, name: &Ident, parameter: &Parameter) -> syn::Result<Expr> {
    let Parameter {
        name: text,
        example,
        stands_alone,
        ..
    } = parameter;
    if *stands_alone && (input.is_empty() || input.peek(Token![,])) {
        let lit = Lit::Bool(LitBool::new(true, name.span()));
        return Ok(Expr::Lit(ExprLit {
            attrs: Vec::new(),
            lit,
        }));
    }
    if input.parse::<Option<Token![=]>>()?.is_none() || input.is_empty() || input.peek(Token![,]) {
        let alone = if *stands_alone {
            format!("`{text}` or ")
        } else {
            String::new()
        };
        return Err(Error::new_spanned(
            name,
            format!("`{text}` needs a value: write {alone}`{example}`"),
        ));
    }
    expression(input, parameter)
}

fn expression(input: ParseStream<'_>, Parameter { name, .. }: &Parameter) -> syn::Result<Expr> {
    let start = input.span();
    let template = *name == "key" && input.peek(Token![<]);
    input.parse().map_err(|error| {
        if template {
            Error::new(start, "a template is a string: write `key = \"<email>\"`")
        } else {
            Error::new(error.span(), format!("{error}, in the value of `{name}`"))
        }
    })
}

/// Goes on to the comma before the next argument, so that the others are still checked.
fn skip(input: ParseStream<'_>) {
    let next_argument = || {
        let ahead = input.fork();
        let comma = ahead.parse::<Token![,]>().is_ok();
        let alone = |ident: &Ident| {
            arguments::names().any(|name| ident == name)
                && (ahead.is_empty() || ahead.peek(Token![,]))
        };
        comma
            && (ahead.is_empty()
                || ahead.call(Ident::parse_any).is_ok_and(|ident| {
                    alone(&ident)
                        || ahead.peek(Token![=])
                            && !ahead.peek(Token![==])
                            && !ahead.peek(Token![=>])
                }))
    };
    while !input.is_empty() && !next_argument() {
        if input.parse::<TokenTree>().is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    fn parse(text: &str) -> (Arguments, Vec<String>) {
        let mut diagnostics = Diagnostics::default();
        let arguments = read(text.parse().unwrap(), Span::call_site(), &mut diagnostics);
        (arguments, diagnostics.messages())
    }

    #[test]
    fn missing_arguments_are_reported_once() {
        for text in [
            "",
            "max = 3",
            "window = \"1s\"",
            "windw = \"1s\", max = 3",
            "3, window = \"1s\"",
            "\"3/1m\"",
            "\"60s\", max = 3",
            "\"60\", window = \"1m\"",
            "window: \"1s\", max = 3",
            "concurrent = 5, max = 3",
        ] {
            assert_eq!(parse(text).1.len(), 1, "{text}");
        }
        for text in [
            "concurrent = 5",
            "limits = []",
            "policy = \"p\"",
            "policy = \"p\", max = 3",
        ] {
            assert!(parse(text).1.is_empty(), "{text}");
        }
    }

    #[test]
    fn one_mistake_does_not_hide_the_next() {
        let (arguments, errors) = parse("kye = |a, b| a, windw = \"1s\", max 3, when = , shadow");
        assert_eq!(errors.len(), 4, "{errors:?}");
        assert!(arguments.shadow.is_some());
        let (arguments, errors) = parse("key: \"<a>\", window: \"1s\", max: 3, shadow");
        assert_eq!(errors.len(), 3, "{errors:?}");
        assert!(arguments.shadow.is_some());
        let (_, errors) = parse("3, 60s");
        assert_eq!(errors.len(), 2, "{errors:?}");
        let (_, errors) = parse("3, 60");
        assert_eq!(errors.len(), 2, "{errors:?}");
        assert!(errors.concat().contains("`window = \"60s\"`"), "{errors:?}");
        let (_, errors) = parse("window = \"1s\", max = 3, foo, bar = |a, b| a, shadwo, baz");
        assert_eq!(errors.len(), 4, "{errors:?}");
        let (_, errors) = parse("limits, policy =, cost, block, wait");
        assert_eq!(errors.len(), 5, "{errors:?}");
    }
}
