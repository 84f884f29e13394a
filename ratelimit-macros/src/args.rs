//! Stage one: the attribute's arguments as they are written. Nothing is judged here but the
//! spelling of their names.

use proc_macro2::{Span, TokenStream, TokenTree};
use syn::ext::IdentExt as _;
use syn::parse::{ParseStream, Parser as _};
use syn::{Error, Expr, Ident, Lit, LitStr, Token};

use crate::diag::{Diagnostics, list};
use crate::suggest::nearest;

/// The arguments there are.
const KNOWN: [&str; 19] = [
    "key",
    "window",
    "max",
    "when",
    "name",
    "limiter",
    "on_refused",
    "on_unavailable",
    "timeout",
    "shadow",
    "limits",
    "policy",
    "algorithm",
    "burst",
    "cost",
    "count",
    "block",
    "wait",
    "crate",
];

/// What other limiters call our arguments.
const SYNONYMS: [(&str, &str); 23] = [
    ("by", "key"),
    ("id", "key"),
    ("per", "window"),
    ("period", "window"),
    ("interval", "window"),
    ("duration", "window"),
    ("seconds", "window"),
    ("limit", "max"),
    ("rate", "max"),
    ("requests", "max"),
    ("times", "max"),
    ("condition", "when"),
    ("error", "on_refused"),
    ("dry_run", "shadow"),
    ("rates", "limits"),
    ("quotas", "limits"),
    ("strategy", "algorithm"),
    ("capacity", "burst"),
    ("weight", "cost"),
    ("outcome", "count"),
    ("ban", "block"),
    ("penalty", "block"),
    ("max_wait", "wait"),
];

/// An argument with the name it was given under.
pub(crate) struct Arg<T> {
    pub(crate) name: Ident,
    pub(crate) value: T,
}

/// The arguments of one attribute.
#[derive(Default)]
pub(crate) struct Args {
    pub(crate) key: Option<Arg<Expr>>,
    pub(crate) window: Option<Arg<Expr>>,
    pub(crate) max: Option<Arg<Expr>>,
    pub(crate) limits: Option<Arg<Expr>>,
    pub(crate) policy: Option<Arg<Expr>>,
    pub(crate) algorithm: Option<Arg<Expr>>,
    pub(crate) burst: Option<Arg<Expr>>,
    pub(crate) cost: Option<Arg<Expr>>,
    pub(crate) count: Option<Arg<Expr>>,
    pub(crate) block: Option<Arg<Expr>>,
    pub(crate) wait: Option<Arg<Expr>>,
    pub(crate) when: Option<Arg<Expr>>,
    pub(crate) name: Option<Arg<Expr>>,
    pub(crate) limiter: Option<Arg<Expr>>,
    pub(crate) on_refused: Option<Arg<Expr>>,
    pub(crate) on_unavailable: Option<Arg<Expr>>,
    pub(crate) timeout: Option<Arg<Expr>>,
    /// `shadow` alone has no value.
    pub(crate) shadow: Option<Arg<Option<Expr>>>,
    pub(crate) krate: Option<Arg<Expr>>,
    /// Every argument that was attempted, so that a misspelt one is not reported missing as well.
    attempted: Vec<String>,
}

impl Args {
    /// Reads `tokens`, the inside of the attribute. `whole` is what an error about all of it underlines.
    pub(crate) fn parse(tokens: TokenStream, whole: Span, diag: &mut Diagnostics) -> Self {
        let mut args = Self::default();
        let parser = |input: ParseStream<'_>| {
            while !input.is_empty() {
                if let Err(error) = args.argument(input, diag) {
                    diag.push(error);
                    skip(input);
                }
                if input.peek(Token![,]) {
                    input.parse::<Token![,]>()?;
                } else if !input.is_empty() {
                    diag.push(input.error("expected `,` before the next argument"));
                    input.parse::<Option<Token![;]>>()?;
                    if !(input.peek(Ident::peek_any) && input.peek2(Token![=])) {
                        skip(input);
                        input.parse::<Option<Token![,]>>()?;
                    }
                }
            }
            Ok(())
        };
        if let Err(error) = parser.parse2(tokens) {
            diag.push(error);
        }
        args.report_missing(whole, diag);
        args
    }

    fn argument(&mut self, input: ParseStream<'_>, diag: &mut Diagnostics) -> syn::Result<()> {
        if input.peek(Lit) {
            let literal: Lit = input.parse()?;
            let message = match &literal {
                Lit::Str(text) => {
                    self.attempted.push("key".to_owned());
                    format!("arguments have names: write `key = {}`", text.token())
                }
                Lit::Int(number) => {
                    self.attempted.push("max".to_owned());
                    format!("arguments have names: write `max = {}`", number.base10_digits())
                }
                _ => format!("arguments have names: write `key = …`, `window = …` or `max = …` ({})", list(KNOWN)),
            };
            return Err(Error::new_spanned(literal, message));
        }
        let name = input
            .call(Ident::parse_any)
            .map_err(|error| Error::new(error.span(), format!("expected an argument: {}", list(KNOWN))))?;
        let text = name.unraw().to_string();
        if !KNOWN.contains(&text.as_str()) {
            let unknown = self.unknown(&name, &text);
            skip(input);
            return Err(unknown);
        }
        let again = self.attempted.contains(&text);
        self.attempted.push(text.clone());
        if again {
            diag.error(&name, format!("`{text}` is given twice: remove one"));
        }
        let value = if text == "shadow" && (input.is_empty() || input.peek(Token![,])) {
            None
        } else {
            Some(value(input, &name, &text)?)
        };
        if !again {
            self.set(&text, name, value);
        }
        Ok(())
    }

    fn unknown(&mut self, name: &Ident, text: &str) -> Error {
        let synonym = SYNONYMS.iter().find(|(other, _)| *other == text).map(|(_, ours)| *ours);
        let meant = synonym.or_else(|| nearest(text, KNOWN));
        let message = match meant {
            Some(meant) => {
                self.attempted.push(meant.to_owned());
                format!("unknown argument `{text}`: did you mean `{meant}`?")
            }
            None => format!("unknown argument `{text}`: the arguments are {}", all()),
        };
        Error::new_spanned(name, message)
    }

    fn set(&mut self, text: &str, name: Ident, value: Option<Expr>) {
        if text == "shadow" {
            self.shadow = Some(Arg { name, value });
            return;
        }
        let slot = match text {
            "key" => &mut self.key,
            "window" => &mut self.window,
            "max" => &mut self.max,
            "limits" => &mut self.limits,
            "policy" => &mut self.policy,
            "algorithm" => &mut self.algorithm,
            "burst" => &mut self.burst,
            "cost" => &mut self.cost,
            "count" => &mut self.count,
            "block" => &mut self.block,
            "wait" => &mut self.wait,
            "when" => &mut self.when,
            "name" => &mut self.name,
            "limiter" => &mut self.limiter,
            "on_refused" => &mut self.on_refused,
            "on_unavailable" => &mut self.on_unavailable,
            "timeout" => &mut self.timeout,
            _ => &mut self.krate,
        };
        *slot = value.map(|value| Arg { name, value });
    }

    fn report_missing(&self, whole: Span, diag: &mut Diagnostics) {
        let missing = |name: &str| !self.attempted.iter().any(|attempted| attempted == name);
        if !missing("limits") || !missing("policy") {
            return;
        }
        let message = match (missing("window"), missing("max")) {
            (true, true) => {
                "how much in how long? write `window` and `max`, as in `#[rate_limit(key = \"<email>\", window = \"60s\", max = 3)]`"
            }
            (true, false) => "`window` is missing: write in how long the limit holds, as in `window = \"60s\"`",
            (false, true) => "`max` is missing: write how many calls the window admits, as in `max = 3`",
            (false, false) => return,
        };
        diag.push(Error::new(whole, message));
    }
}

fn all() -> String {
    KNOWN.map(|name| format!("`{name}`")).join(", ")
}

/// The value after `name`.
fn value(input: ParseStream<'_>, name: &Ident, text: &str) -> syn::Result<Expr> {
    let example = match text {
        "key" => "key = \"<email>\"",
        "window" => "window = \"60s\"",
        "max" => "max = 3",
        "limits" => "limits = [\"3/60s\", \"20/1d\"]",
        "policy" => "policy = \"login\"",
        "algorithm" => "algorithm = \"token_bucket\"",
        "burst" => "burst = 10",
        "cost" => "cost = 5",
        "count" => "count = \"err\"",
        "block" => "block = \"10m\"",
        "wait" => "wait = \"2s\"",
        "when" => "when = !user.is_admin",
        "name" => "name = \"send_code\"",
        "limiter" => "limiter = self.limiter",
        "on_refused" => "on_refused = |error| …",
        "on_unavailable" => "on_unavailable = \"deny\"",
        "timeout" => "timeout = \"50ms\"",
        "shadow" => "shadow` or `shadow = …",
        _ => "crate = ::path",
    };
    if input.parse::<Option<Token![=]>>()?.is_none() || input.is_empty() || input.peek(Token![,]) {
        return Err(Error::new_spanned(name, format!("`{text}` needs a value: write `{example}`")));
    }
    input.parse().map_err(|error| Error::new(error.span(), format!("{error}, in the value of `{text}`")))
}

/// Goes on to the comma before the next argument, so that the others are still checked.
fn skip(input: ParseStream<'_>) {
    let next_argument = || {
        let ahead = input.fork();
        let comma = ahead.parse::<Token![,]>().is_ok();
        let alone =
            |ident: &Ident| KNOWN.iter().any(|known| ident == known) && (ahead.is_empty() || ahead.peek(Token![,]));
        comma
            && (ahead.is_empty()
                || ahead.call(Ident::parse_any).is_ok_and(|ident| {
                    alone(&ident) || ahead.peek(Token![=]) && !ahead.peek(Token![==]) && !ahead.peek(Token![=>])
                }))
    };
    while !input.is_empty() && !next_argument() {
        if input.parse::<TokenTree>().is_err() {
            return;
        }
    }
}

/// The string literal that `expr` is, if it is one.
pub(crate) fn as_str(expr: &Expr) -> Option<&LitStr> {
    match bare(expr) {
        Expr::Lit(literal) => match &literal.lit {
            Lit::Str(text) => Some(text),
            _ => None,
        },
        _ => None,
    }
}

/// `expr` without the invisible brackets that `macro_rules!` puts around what it passes on.
pub(crate) fn bare(expr: &Expr) -> &Expr {
    match expr {
        Expr::Group(group) if group.attrs.is_empty() => bare(&group.expr),
        _ => expr,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    fn parse(text: &str) -> (Args, Vec<String>) {
        let mut diag = Diagnostics::default();
        let args = Args::parse(text.parse().unwrap(), Span::call_site(), &mut diag);
        let errors = diag.finish().err().into_iter().flatten().map(|e| e.to_string()).collect();
        (args, errors)
    }

    #[test]
    fn all_arguments() {
        let (args, errors) = parse(
            r#"key = "<a>", window = "60s", max = f::<u8, u8>(a, b), when = a == b, name = "n", limiter = self.l,
               limits = ["3/60s"], policy = "p", algorithm = "token_bucket", burst = 2, cost = 3, count = "err",
               block = "1m", wait = "1s", on_refused = |a: E, b| (a, b), on_unavailable = "deny", timeout = "1s", shadow, crate = ::x::y,"#,
        );
        assert!(errors.is_empty(), "{errors:?}");
        let Args { limits, policy, algorithm, burst, cost, count, block, wait, .. } = &args;
        assert!(
            [limits, policy, algorithm, burst, cost, count, block, wait]
                .iter()
                .all(|arg| { arg.as_ref().is_some_and(|arg| KNOWN.iter().any(|known| arg.name == known)) })
        );
        assert!(args.shadow.unwrap().value.is_none());
        assert!(matches!(args.on_refused.unwrap().value, Expr::Closure(_)));
        assert!(matches!(args.krate.unwrap().value, Expr::Path(_)));
        assert_eq!(args.key.unwrap().name, "key");
    }

    #[test]
    fn errors() {
        let rest = r#"window = "60s", max = 3"#;
        for (text, part) in [
            ("kye = 1", "did you mean `key`"),
            ("limit = 1", "did you mean `max`"),
            ("banana = 1", "the arguments are `key`"),
            ("weight = 2", "did you mean `cost`"),
            ("algoritm = \"token_bucket\"", "did you mean `algorithm`"),
            ("burst", "write `burst = 10`"),
            ("wiat = \"2s\"", "did you mean `wait`"),
            ("\"<email>\"", "write `key = \"<email>\"`"),
            ("key", "`key` needs a value"),
            ("key =", "`key` needs a value"),
            ("key(\"<a>\")", "`key` needs a value"),
            ("max = 4", "`max` is given twice"),
            ("key = a b", "expected `,`"),
            ("+", "expected an argument"),
        ] {
            let (_, errors) = parse(&format!("{rest}, {text}"));
            assert_eq!(errors.len(), 1, "{text}: {errors:?}");
            assert!(errors.iter().all(|e| e.contains(part)), "{text}: {errors:?}");
        }
    }

    #[test]
    fn missing_arguments_are_reported_once() {
        assert!(parse("").1.iter().all(|e| e.contains("`window` and `max`")));
        assert!(parse("max = 3").1.iter().all(|e| e.contains("`window` is missing")));
        assert!(parse("window = \"1s\"").1.iter().all(|e| e.contains("`max` is missing")));
        for text in ["", "max = 3", "window = \"1s\"", "windw = \"1s\", max = 3", "limts = []"] {
            assert_eq!(parse(text).1.len(), 1, "{text}");
        }
        for text in ["limits = []", "policy = \"p\"", "policy = \"p\", max = 3"] {
            assert!(parse(text).1.is_empty(), "{text}");
        }
    }

    #[test]
    fn one_mistake_does_not_hide_the_next() {
        let (args, errors) = parse("kye = |a, b| a, windw = \"1s\", max 3, when = , shadow");
        assert_eq!(errors.len(), 4, "{errors:?}");
        assert!(args.shadow.is_some());
        let (_, errors) = parse("limits, policy =, cost, block, wait");
        assert_eq!(errors.len(), 5, "{errors:?}");
    }
}
