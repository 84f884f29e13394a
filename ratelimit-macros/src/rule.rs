//! The arguments of one attribute, judged one by one.

use proc_macro2::Span;
use syn::{Error, Expr, Lit, LitStr, UnOp};

use crate::args::{Arg, Args, as_str, bare};
use crate::diag::{Diagnostics, list};
use crate::forbidden;
use crate::plan::{Key, Max, Name, OnUnavailable, Piece, Rule, Shadow, Value};
use crate::scope::Scope;
use crate::suggest::nearest;
use crate::template::{self, Place, Template};
use crate::window::{self, Bounds};

/// What a name may be long, in bytes.
const LONGEST_NAME: usize = 128;

/// The largest limit that every store counts exactly.
const LARGEST_MAX: u64 = (1 << 52) - 1;

/// The rule that `args`, the `nth` attribute of its function, describes.
pub(crate) fn check_rule(args: &Args, nth: u8, scope: &Scope, diag: &mut Diagnostics) -> Option<Rule> {
    for (name, expr) in [("when", &args.when), ("limiter", &args.limiter)] {
        if let Some(expr) = expr {
            forbidden::check(name, &expr.value, diag);
        }
    }
    let shadow = shadow(args.shadow.as_ref());
    if let Shadow::If(expr) = &shadow {
        forbidden::check("shadow", expr, diag);
    }
    // Each is looked at, whatever the others are.
    let name = name(args.name.as_ref(), nth, diag);
    let window = args.window.as_ref().and_then(|arg| length(arg, &window::WINDOW, diag));
    let max = args.max.as_ref().and_then(|arg| max(arg, diag));
    let key = key(args.key.as_ref(), scope, diag);
    let timeout_micros = args.timeout.as_ref().and_then(|arg| length(arg, &window::TIMEOUT, diag));
    let on_unavailable = args.on_unavailable.as_ref().and_then(|arg| on_unavailable(arg, diag));
    Some(Rule {
        name: name?,
        window_micros: window?,
        max: max?,
        key: key?,
        when: args.when.as_ref().map(|when| when.value.clone()),
        limiter: args.limiter.as_ref().map(|limiter| limiter.value.clone()),
        shadow,
        on_unavailable,
        timeout_micros,
    })
}

pub(crate) fn shadow(arg: Option<&Arg<Option<Expr>>>) -> Shadow {
    let Some(Arg { value, .. }) = arg else { return Shadow::Off };
    let Some(expr) = value else { return Shadow::On };
    match bare(expr) {
        Expr::Lit(literal) => match &literal.lit {
            Lit::Bool(on) if on.value => Shadow::On,
            Lit::Bool(_) => Shadow::Off,
            _ => Shadow::If(expr.clone()),
        },
        _ => Shadow::If(expr.clone()),
    }
}

fn name(arg: Option<&Arg<Expr>>, nth: u8, diag: &mut Diagnostics) -> Option<Name> {
    let Some(arg) = arg else { return Some(Name::Derived(nth)) };
    let Some(literal) = as_str(&arg.value) else {
        diag.error(&arg.value, "`name` is a string literal, such as \"send_code\": it cannot change from call to call");
        return None;
    };
    let text = literal.value();
    let fault = if text.is_empty() {
        "an empty name: write one, such as \"send_code\", or leave `name` out".to_owned()
    } else if text.contains(['{', '}']) {
        "no braces in a name: Redis Cluster would put all its keys on one node".to_owned()
    } else if text.chars().any(char::is_control) {
        "no control characters in a name: it is read in logs, metrics and `redis-cli`".to_owned()
    } else if text.len() > LONGEST_NAME {
        format!("this name has {} bytes: at most {LONGEST_NAME}", text.len())
    } else {
        return Some(Name::Given(literal.clone()));
    };
    diag.error(literal, fault);
    None
}

fn length(arg: &Arg<Expr>, bounds: &Bounds, diag: &mut Diagnostics) -> Option<u64> {
    if let Some(literal) = as_str(&arg.value) {
        return diag.keep(window::parse(&literal.value(), bounds).map_err(|fault| Error::new_spanned(literal, fault)));
    }
    let name = &arg.name;
    let message = match number(&arg.value) {
        Some((digits, "")) => format!("in which unit? `{name}` is a string with one: write \"{digits}s\" for seconds"),
        Some((digits, suffix)) if window::unit(suffix).is_some() => {
            format!("`{name}` is a string: write \"{digits}{suffix}\"")
        }
        _ => format!("`{name}` is a string literal such as \"60s\" or \"1h 30m\" (units: {})", window::UNITS),
    };
    diag.error(&arg.value, message);
    None
}

/// The digits and the suffix of an integer literal.
fn number(expr: &Expr) -> Option<(&str, &str)> {
    match bare(expr) {
        Expr::Lit(literal) => match &literal.lit {
            Lit::Int(number) => Some((number.base10_digits(), number.suffix())),
            _ => None,
        },
        _ => None,
    }
}

fn max(arg: &Arg<Expr>, diag: &mut Diagnostics) -> Option<Max> {
    let value = bare(&arg.value);
    let message = match value {
        Expr::Lit(literal) => match &literal.lit {
            Lit::Int(number) => {
                let suffixes =
                    ["", "u8", "u16", "u32", "u64", "u128", "usize", "i8", "i16", "i32", "i64", "i128", "isize"];
                match number.base10_parse::<u64>() {
                    _ if !suffixes.contains(&number.suffix()) => {
                        format!("`max` is a number of calls: write `max = {}`", number.base10_digits())
                    }
                    Ok(0) => "a limit of 0 refuses every call: write `max = 1` or more".to_owned(),
                    Ok(max) if max <= LARGEST_MAX => return Some(Max::Fixed(max)),
                    _ => format!("this limit is too large to count: at most {LARGEST_MAX}"),
                }
            }
            Lit::Float(_) => "`max` is a whole number of calls: write `max = 3`".to_owned(),
            Lit::Str(text) if text.value().parse::<u64>().is_ok() => {
                format!("`max` is a number: write `max = {}`, without the quotes", text.value())
            }
            _ => "`max` is a whole number of calls: write `max = 3`, or an expression over the arguments".to_owned(),
        },
        Expr::Unary(unary) if matches!((&unary.op, bare(&unary.expr)), (UnOp::Neg(_), Expr::Lit(_))) => {
            "a limit cannot be negative: write `max = 1` or more".to_owned()
        }
        _ => {
            forbidden::check("max", value, diag);
            return Some(Max::Computed(arg.value.clone()));
        }
    };
    diag.error(value, message);
    None
}

fn on_unavailable(arg: &Arg<Expr>, diag: &mut Diagnostics) -> Option<OnUnavailable> {
    let words = ["allow", "deny"];
    let text = as_str(&arg.value).map(LitStr::value);
    let message = match text.as_deref() {
        Some("allow") => return Some(OnUnavailable::Allow),
        Some("deny") => return Some(OnUnavailable::Deny),
        Some("local") => "\"local\" is not supported yet: write \"allow\" or \"deny\"".to_owned(),
        Some(other) => match nearest(other, words) {
            Some(meant) => format!("unknown answer \"{other}\": did you mean \"{meant}\"?"),
            None => format!("unknown answer \"{other}\": write \"allow\" or \"deny\""),
        },
        None => "`on_unavailable` is a string: write \"allow\" or \"deny\"".to_owned(),
    };
    diag.error(&arg.value, message);
    None
}

fn key(arg: Option<&Arg<Expr>>, scope: &Scope, diag: &mut Diagnostics) -> Option<Key> {
    let Some(arg) = arg else { return Some(Key::None) };
    let Some(literal) = as_str(&arg.value) else {
        forbidden::check("key", &arg.value, diag);
        return Some(Key::Expr(arg.value.clone()));
    };
    if literal.value().is_empty() {
        diag.error(literal, "an empty key: write `key = \"<email>\"`, or leave `key` out for one bucket for everybody");
        return None;
    }
    let template = Template::parse(literal, diag);
    if template.faultless
        && let Some((word, at)) = spelled_argument(&template, scope)
    {
        let message = format!(
            "this key is the same for every call: did you mean `<{word}>`? (for one bucket for everybody leave `key` out)"
        );
        diag.push(Error::new(literal.span(), template.source.point(&at, &message)));
        return None;
    }
    let mut faultless = template.faultless;
    let mut pieces = Vec::new();
    for piece in &template.pieces {
        let place = match piece {
            template::Piece::Text(text) => {
                pieces.push(Piece::Text(text.clone()));
                continue;
            }
            template::Piece::Place(place) => place,
        };
        match resolve(place, literal.span(), scope) {
            Ok(value) => pieces.push(Piece::Value(value)),
            Err(fault) => {
                faultless = false;
                diag.push(Error::new(literal.span(), template.source.point(&place.at, &fault)));
            }
        }
    }
    faultless.then_some(Key::Template(pieces))
}

/// The value that `place` names, or what is wrong with it.
fn resolve(place: &Place, literal: Span, scope: &Scope) -> Result<Value, String> {
    let root = if place.root == "self" {
        scope.receiver_at(literal).ok_or("this function has no `self`")?
    } else {
        let Some(name) = scope.find(&place.root) else { return Err(unknown(&place.root, scope)) };
        if name.conditional {
            return Err(format!(
                "`{}` is not always there: its argument is under `#[cfg]`, so it cannot be part of a key",
                place.root
            ));
        }
        let mut ident = name.ident.clone();
        // Located in the literal, resolved where the argument was written.
        ident.set_span(literal.resolved_at(ident.span()));
        ident
    };
    let span = literal.resolved_at(root.span());
    Value::new(place, root, span).ok_or_else(|| format!("`{}` cannot be read", place.root))
}

fn unknown(name: &str, scope: &Scope) -> String {
    let names = scope.texts();
    if names.is_empty() {
        return format!("no argument is called `{name}`: this function has none");
    }
    match nearest(name, names.iter().map(String::as_str)) {
        Some(meant) => {
            format!("no argument is called `{name}`: did you mean `{meant}`? (the arguments: {})", list(&names))
        }
        None => format!("no argument is called `{name}` (the arguments: {})", list(&names)),
    }
}

/// An argument's name in a template without placeholders: surely meant to be one.
fn spelled_argument(template: &Template, scope: &Scope) -> Option<(String, std::ops::Range<usize>)> {
    if template.places().next().is_some() {
        return None;
    }
    let chars = template.source.chars();
    let mut start = 0;
    for word in chars.split(|c| !(c.is_alphanumeric() || *c == '_')) {
        let text: String = word.iter().collect();
        if scope.find(&text).is_some() {
            return Some((text, start..start + word.len()));
        }
        start += word.len() + 1;
    }
    None
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    fn check(arguments: &str, signature: &str) -> Result<Rule, Vec<String>> {
        let mut diag = Diagnostics::default();
        let args = Args::parse(arguments.parse().unwrap(), Span::call_site(), &mut diag);
        let scope = Scope::of(&syn::parse_str(signature).unwrap());
        let rule = check_rule(&args, 1, &scope, &mut diag);
        match diag.finish() {
            Ok(()) => Ok(rule.unwrap()),
            Err(errors) => Err(errors.into_iter().map(|e| e.to_string()).collect()),
        }
    }

    const SIGNATURE: &str = "fn f(&self, email: &str, user: User, r#type: u8, #[cfg(x)] sometimes: u8)";

    #[test]
    fn accepted() {
        let rule = check(
            r#"key = "<email>:<self.a.0>", window = "1m", max = 3u32, timeout = "50ms", on_unavailable = "deny""#,
            SIGNATURE,
        )
        .unwrap();
        assert_eq!(rule.window_micros, 60_000_000);
        assert_eq!(rule.timeout_micros, Some(50_000));
        assert!(matches!(rule.max, Max::Fixed(3)));
        assert!(matches!(rule.name, Name::Derived(1)));
        assert!(matches!(rule.on_unavailable, Some(OnUnavailable::Deny)));
        let Key::Template(pieces) = rule.key else { unreachable!("a string literal is a template") };
        assert_eq!(pieces.len(), 3);

        for (shadow, expected) in
            [("shadow", "on"), ("shadow = true", "on"), ("shadow = false", "off"), ("shadow = a.b", "if")]
        {
            let rule = check(&format!("window = \"1s\", max = user.quota(), {shadow}"), SIGNATURE).unwrap();
            assert!(matches!(rule.max, Max::Computed(_)));
            assert!(matches!(rule.key, Key::None));
            let shadow = match rule.shadow {
                Shadow::On => "on",
                Shadow::Off => "off",
                Shadow::If(_) => "if",
            };
            assert_eq!(shadow, expected);
        }
        for key in ["\"login\"", "\"<<email>>-<type>\"", "(email, type_)", "email", "\"e-mail\""] {
            assert!(check(&format!("window = \"1s\", max = 1, key = {key}"), SIGNATURE).is_ok(), "{key}");
        }
    }

    #[test]
    fn refused() {
        let long = format!("name = \"{}\"", "n".repeat(129));
        for (argument, part) in [
            (
                "key = \"<emial>\"",
                "did you mean `email`? (the arguments: `self`, `email`, `user`, `type`, `sometimes`)",
            ),
            ("key = \"<banana>\"", "no argument is called `banana` (the arguments"),
            ("key = \"<sometimes>\"", "under `#[cfg]`"),
            ("key = \"email\"", "did you mean `<email>`?"),
            ("key = \"login:#email\"", "did you mean `<email>`?"),
            ("key = \"<<email>>\"", "did you mean `<email>`?"),
            ("key = \"\"", "an empty key"),
            ("key = f(email).await", "`.await` cannot be used in `key`"),
            ("when = a?", "`?` cannot be used in `when`"),
            ("limiter = return", "`return` cannot be used in `limiter`"),
            ("shadow = a.await", "`.await` cannot be used in `shadow`"),
            ("name = \"\"", "an empty name"),
            ("name = \"a{b}\"", "no braces"),
            ("name = \"a\\n\"", "no control characters"),
            ("name = NAME", "`name` is a string literal"),
            (&long, "129 bytes"),
            ("on_unavailable = \"alow\"", "did you mean \"allow\"?"),
            ("on_unavailable = \"local\"", "not supported yet"),
            ("on_unavailable = Deny", "write \"allow\" or \"deny\""),
            ("timeout = \"61s\"", "too long"),
            ("timeout = 50ms", "write \"50ms\""),
            ("timeout = 50", "write \"50s\""),
            ("timeout = Duration::from_secs(1)", "`timeout` is a string literal"),
        ] {
            let errors = check(&format!("window = \"1s\", max = 1, {argument}"), SIGNATURE).err().unwrap();
            assert_eq!(errors.len(), 1, "{argument}: {errors:?}");
            assert!(errors.iter().all(|e| e.contains(part)), "{argument}: {errors:?}");
        }
        for (max, part) in [
            ("0", "refuses every call"),
            ("-1", "cannot be negative"),
            ("3.5", "whole number"),
            ("\"3\"", "write `max = 3`, without the quotes"),
            ("\"three\"", "whole number"),
            ("true", "whole number"),
            ("3s", "write `max = 3`"),
            ("4503599627370496", "too large"),
            ("18446744073709551616", "too large"),
            ("f()?", "`?` cannot be used in `max`"),
        ] {
            let errors = check(&format!("window = \"1s\", max = {max}"), SIGNATURE).err().unwrap();
            assert_eq!(errors.len(), 1, "{max}: {errors:?}");
            assert!(errors.iter().all(|e| e.contains(part)), "{max}: {errors:?}");
        }
        let errors = check(r#"key = "<self.a>:<b>", window = "1s", max = 1"#, "fn f()").err().unwrap();
        assert!(errors.iter().any(|e| e.contains("no `self`")), "{errors:?}");
        assert!(errors.iter().any(|e| e.contains("this function has none")), "{errors:?}");
    }

    #[test]
    fn all_at_once() {
        let errors = check(r#"key = "<emial>:<ip>:<>", window = "1x", max = 0, name = """#, SIGNATURE).err().unwrap();
        assert_eq!(errors.len(), 6, "{errors:?}");
    }
}
