//! The arguments of one attribute, judged one by one and against each other.

use proc_macro2::Ident;
use syn::{Error, Expr, Lit, LitStr};

use crate::args::{Arg, Args, as_str, bare};
use crate::diag::Diagnostics;
use crate::plan::{Algorithm, Count, Limits, Name, Number, Rule, Shadow};
use crate::scope::Scope;
use crate::window::{self, Bounds};
use crate::{forbidden, key, limits, number, words};

/// What a name may be long, in bytes.
const LONGEST_NAME: usize = 128;

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
    conflicts(args, &shadow, diag);
    // Each is looked at, whatever the others are.
    let name = name(args.name.as_ref(), nth, diag);
    let algorithm = args.algorithm.as_ref().and_then(|arg| words::algorithm(arg, diag));
    // A wrong value is as good as none from here on: its error has been noted.
    let limits = limits_of(args, algorithm, diag);
    let cost = args.cost.as_ref().and_then(|arg| number::cost(arg, diag));
    let count = args.count.as_ref().and_then(|arg| words::count(arg, diag));
    let block_micros = args.block.as_ref().and_then(|arg| length(arg, &window::WINDOW, diag));
    let wait_micros = args.wait.as_ref().and_then(|arg| length(arg, &window::WAIT, diag));
    let key = key::key(args.key.as_ref(), scope, diag);
    let timeout_micros = args.timeout.as_ref().and_then(|arg| length(arg, &window::TIMEOUT, diag));
    let on_unavailable = args.on_unavailable.as_ref().and_then(|arg| words::on_unavailable(arg, diag));
    let rule = Rule {
        name: name?,
        limits: limits?,
        algorithm,
        cost,
        count: count.unwrap_or(Count::All),
        block_micros,
        wait_micros,
        key: key?,
        when: args.when.as_ref().map(|when| when.value.clone()),
        limiter: args.limiter.as_ref().map(|limiter| limiter.value.clone()),
        shadow,
        on_unavailable,
        timeout_micros,
    };
    admits_its_cost(&rule, args, diag);
    Some(rule)
}

/// Arguments that cannot stand together.
fn conflicts(args: &Args, shadow: &Shadow, diag: &mut Diagnostics) {
    let name = |arg: &Option<Arg<Expr>>| arg.as_ref().map(|arg| arg.name.clone());
    let Args { window, max, limits, policy, algorithm, burst, block, wait, .. } = args;
    let mut leave_out = |arg: &Option<Arg<Expr>>, why: &dyn Fn(&Ident) -> String| {
        if let Some(name) = name(arg) {
            diag.error(&name, why(&name));
        }
    };
    if policy.is_some() {
        for arg in [window, max, limits, algorithm, burst, block] {
            leave_out(arg, &|name| format!("the limiter's policy says this: leave `{name}` out, or `policy`"));
        }
    } else if limits.is_some() {
        for arg in [window, max] {
            leave_out(arg, &|name| {
                format!("`limits` says how much in how long, as in \"3/60s\": leave `{name}` out, or `limits`")
            });
        }
        leave_out(burst, &|_| {
            "`burst` goes with `window` and `max`: write an attribute of its own for this limit".to_owned()
        });
    }
    if block.is_some() {
        leave_out(wait, &|_| "a call that waits is not banned: leave `wait` out, or `block`".to_owned());
    }
    if matches!(shadow, Shadow::On) {
        leave_out(wait, &|_| "`wait` is never used: with `shadow` no call is refused, so none waits".to_owned());
    }
}

fn limits_of(args: &Args, algorithm: Option<Algorithm>, diag: &mut Diagnostics) -> Option<Limits> {
    // Each is looked at, also where two of them conflict.
    let policy = args.policy.as_ref().and_then(|arg| label(arg, "login", diag));
    let several = args.limits.as_ref().and_then(|arg| limits::limits(arg, diag));
    let window_micros = args.window.as_ref().and_then(|arg| length(arg, &window::WINDOW, diag));
    let max = args.max.as_ref().and_then(|arg| number::max(arg, diag));
    let burst = args.burst.as_ref().and_then(|arg| number::burst(arg, diag));
    let misspelt = args.algorithm.is_some() && algorithm.is_none();
    if let (Some(arg), None, None) = (&args.burst, &args.limits, &args.policy)
        && !misspelt
        && !algorithm.is_some_and(has_bursts)
    {
        let message = "only the buckets have a burst: write `algorithm = \"token_bucket\"` or `\"leaky_bucket\"`, \
                       or leave `burst` out";
        diag.error(&arg.name, message);
    }
    let one = || {
        let burst_is_wrong = args.burst.is_some() && burst.is_none();
        (!burst_is_wrong).then_some(Limits::One { window_micros: window_micros?, max: max?, burst })
    };
    policy.map(Limits::Policy).or(several.map(Limits::Several)).or_else(one)
}

const fn has_bursts(algorithm: Algorithm) -> bool {
    matches!(algorithm, Algorithm::TokenBucket | Algorithm::LeakyBucket)
}

/// A cost that is written out must fit in what is written out.
fn admits_its_cost(rule: &Rule, args: &Args, diag: &mut Diagnostics) {
    let (Some(Number::Fixed(cost)), Some(arg)) = (&rule.cost, &args.cost) else { return };
    let (most, what) = match &rule.limits {
        Limits::One { burst: Some(burst), .. } => (Some(*burst), "burst"),
        Limits::One { max: Number::Fixed(max), .. } => (Some(*max), "limit"),
        Limits::Several(limits) => (limits.iter().map(|limit| limit.max).min(), "limit"),
        Limits::One { .. } | Limits::Policy(_) => (None, ""),
    };
    if let Some(most) = most.filter(|most| cost > most) {
        let message = format!("a cost of {cost} is above the {what} of {most}: no call would ever be admitted");
        diag.error(&arg.value, message);
    }
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
    arg.map_or(Some(Name::Derived(nth)), |arg| label(arg, "send_code", diag).map(Name::Given))
}

/// The name of a rule or of a policy.
fn label(arg: &Arg<Expr>, example: &str, diag: &mut Diagnostics) -> Option<LitStr> {
    let argument = &arg.name;
    let Some(literal) = as_str(&arg.value) else {
        let message =
            format!("`{argument}` is a string literal, such as \"{example}\": it cannot change from call to call");
        diag.error(&arg.value, message);
        return None;
    };
    let text = literal.value();
    let fault = if text.is_empty() {
        format!("an empty name: write one, such as \"{example}\", or leave `{argument}` out")
    } else if text.contains(['{', '}']) {
        "no braces in a name: Redis Cluster would put all its keys on one node".to_owned()
    } else if text.chars().any(char::is_control) {
        "no control characters in a name: it is read in logs, metrics and `redis-cli`".to_owned()
    } else if text.len() > LONGEST_NAME {
        format!("this name has {} bytes: at most {LONGEST_NAME}", text.len())
    } else {
        return Some(literal.clone());
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
        Some((digits, "")) if name == "timeout" => {
            format!("in which unit? `timeout` is a string with one: write \"{digits}ms\" for milliseconds")
        }
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use proc_macro2::Span;

    use super::*;
    use crate::plan::{Key, OnUnavailable};

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
        assert!(matches!(rule.limits, Limits::One { window_micros: 60_000_000, max: Number::Fixed(3), burst: None }));
        assert_eq!(rule.timeout_micros, Some(50_000));
        assert!(matches!(rule.name, Name::Derived(1)));
        assert!(matches!(rule.on_unavailable, Some(OnUnavailable::Deny)));
        let Key::Template(pieces) = rule.key else { unreachable!("a string literal is a template") };
        assert_eq!(pieces.len(), 3);

        for (shadow, expected) in
            [("shadow", "on"), ("shadow = true", "on"), ("shadow = false", "off"), ("shadow = a.b", "if")]
        {
            let rule = check(&format!("window = \"1s\", max = user.quota(), {shadow}"), SIGNATURE).unwrap();
            assert!(matches!(rule.limits, Limits::One { max: Number::Computed(_), .. }));
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
            ("on_unavailable = Deny", "write \"allow\", \"deny\" or \"local\""),
            ("timeout = \"61s\"", "too long"),
            ("timeout = 50ms", "write \"50ms\""),
            ("timeout = 50", "write \"50ms\""),
            ("block = \"367d\"", "too long: the longest is 366d"),
            ("block = \"1us\"", "too short: the shortest is 1ms"),
            ("block = 10", "write \"10s\""),
            ("wait = \"61m\"", "too long: the longest is 1h"),
            ("wait = \"0s\"", "no time at all"),
            ("wait = 2s", "write \"2s\""),
            ("algorithm = \"gcra\"", "did you mean \"leaky_bucket\""),
            ("count = \"error\"", "did you mean \"err\""),
            ("cost = 0", "charges nothing"),
            ("cost = -1", "cannot be negative"),
            ("cost = 1.5", "whole number"),
            ("cost = \"1\"", "without the quotes"),
            ("cost = n?", "`?` cannot be used in `cost`"),
            ("timeout = Duration::from_secs(1)", "`timeout` is a string literal"),
        ] {
            let errors = check(&format!("window = \"1s\", max = 1, {argument}"), SIGNATURE).err().unwrap();
            assert_eq!(errors.len(), 1, "{argument}: {errors:?}");
            assert!(errors.iter().all(|e| e.contains(part)), "{argument}: {errors:?}");
        }
        let errors = check(r#"key = "<self.a>:<b>", window = "1s", max = 1"#, "fn f()").err().unwrap();
        assert!(errors.iter().any(|e| e.contains("no `self`")), "{errors:?}");
        assert!(errors.iter().any(|e| e.contains("no argument of this function has a name")), "{errors:?}");
    }

    #[test]
    fn all_at_once() {
        let errors = check(r#"key = "<emial>:<ip>:<>", window = "1x", max = 0, name = """#, SIGNATURE).err().unwrap();
        assert_eq!(errors.len(), 6, "{errors:?}");
    }

    #[test]
    fn limits_and_outcomes() {
        let rule = check(
            r#"limits = ["3/60s", "20/1d"], algorithm = "fixed_window", cost = 3, count = "err", block = "10m""#,
            SIGNATURE,
        )
        .unwrap();
        assert!(matches!(&rule.limits, Limits::Several(limits) if limits.len() == 2));
        assert!(matches!(rule.algorithm, Some(Algorithm::FixedWindow)));
        assert!(matches!(rule.cost, Some(Number::Fixed(3))));
        assert!(matches!(rule.count, Count::Err));
        assert_eq!((rule.block_micros, rule.wait_micros), (Some(600_000_000), None));
        let rule =
            check(r#"policy = "login", wait = "1h", cost = email.len(), count = |r| r.is_ok()"#, SIGNATURE).unwrap();
        assert!(matches!(&rule.limits, Limits::Policy(name) if name.value() == "login"));
        assert!(matches!(rule.cost, Some(Number::Computed(_))));
        assert!(matches!(rule.count, Count::By(_)));
        assert_eq!(rule.wait_micros, Some(3_600_000_000));
        let rule =
            check(r#"window = "1s", max = 3, burst = 10, algorithm = "token_bucket", cost = 10"#, SIGNATURE).unwrap();
        assert!(matches!(rule.limits, Limits::One { burst: Some(10), .. }));
    }

    #[test]
    fn conflicts() {
        const ONE: &str = r#"window = "1s", max = 3"#;
        for (arguments, part) in [
            (r#"limits = ["3/1s"], window = "1s""#, "leave `window` out, or `limits`"),
            (r#"limits = ["3/1s"], max = 3"#, "leave `max` out, or `limits`"),
            (r#"limits = ["3/1s"], burst = 3"#, "`burst` goes with `window` and `max`"),
            (r#"limits = ["3/1s"], burst = 3, algorithm = "token_bucket""#, "`burst` goes with `window` and `max`"),
            (r#"policy = "p", window = "1s""#, "leave `window` out, or `policy`"),
            (r#"policy = "p", max = 3"#, "leave `max` out, or `policy`"),
            (r#"policy = "p", limits = ["3/1s"]"#, "leave `limits` out, or `policy`"),
            (r#"policy = "p", algorithm = "fixed_window""#, "leave `algorithm` out, or `policy`"),
            (r#"policy = "p", burst = 3"#, "leave `burst` out, or `policy`"),
            (r#"policy = "p", block = "1m""#, "leave `block` out, or `policy`"),
            (r#"policy = "p", block = "1x""#, "leave `block` out; unknown unit `x`"),
            (&format!("{ONE}, burst = 3"), "only the buckets have a burst"),
            (&format!("{ONE}, burst = 3, algorithm = \"sliding_counter\""), "only the buckets have a burst"),
            (&format!("{ONE}, burst = 3, algorithm = \"gcra\""), "did you mean \"leaky_bucket\""),
            (&format!("{ONE}, block = \"1m\", wait = \"1s\""), "a call that waits is not banned"),
            (&format!("{ONE}, shadow, wait = \"1s\""), "`wait` is never used"),
        ] {
            let errors = check(arguments, SIGNATURE).err().unwrap();
            let parts: Vec<_> = part.split("; ").collect();
            assert_eq!(errors.len(), parts.len(), "{arguments}: {errors:?}");
            assert!(errors.iter().zip(parts).all(|(error, part)| error.contains(part)), "{arguments}: {errors:?}");
        }
        assert_eq!(check(r#"policy = "p", window = "1s", max = 3, block = "1s""#, SIGNATURE).err().unwrap().len(), 3);
        assert!(check(&format!("{ONE}, shadow = dry, wait = \"1s\""), SIGNATURE).is_ok());
        assert!(check(&format!("{ONE}, shadow, block = \"1m\", count = \"err\""), SIGNATURE).is_ok());
    }

    #[test]
    fn costs_above_the_limit() {
        for (arguments, part) in [
            (r#"window = "1s", max = 3, cost = 4"#, "a cost of 4 is above the limit of 3"),
            (r#"limits = ["9/1s", "5/1m"], cost = 6"#, "a cost of 6 is above the limit of 5"),
            (
                r#"window = "1s", max = 30, burst = 5, algorithm = "leaky_bucket", cost = 6"#,
                "a cost of 6 is above the burst of 5",
            ),
            (r#"window = "1s", max = 3, algorithm = "token_bucket", cost = 4"#, "above the limit of 3"),
        ] {
            let errors = check(arguments, SIGNATURE).err().unwrap();
            assert_eq!(errors.len(), 1, "{arguments}: {errors:?}");
            assert!(errors.iter().all(|e| e.contains(part)), "{arguments}: {errors:?}");
        }
        for arguments in
            [r#"window = "1s", max = n, cost = 9"#, r#"policy = "p", cost = 9"#, r#"window = "1s", max = 3, cost = 3"#]
        {
            assert!(check(arguments, SIGNATURE).is_ok(), "{arguments}");
        }
    }
}
