//! One rule: the arguments of one attribute, judged one by one and against each other.

pub(crate) mod actual_cost;
pub(crate) mod block;
pub(crate) mod conflicts;
pub(crate) mod count;
pub(crate) mod limiter;
pub(crate) mod limits;
pub(crate) mod settings;
pub(crate) mod shadow;

use quote::ToTokens as _;
use syn::{Expr, LitStr};

use crate::check::function::scope::Scope;
use crate::check::key::{self, Key};
use crate::check::rule::count::Count;
use crate::check::rule::limits::Limits;
use crate::check::rule::limits::{algorithm, cost, zone};
use crate::check::rule::settings::Setting;
use crate::check::rule::shadow::Shadow;
use crate::check::values::number::{self, Number};
use crate::check::values::{condition, control_flow, label};
use crate::diagnostics::Diagnostics;
use crate::parse::arguments::Arguments;

pub(crate) struct Rule {
    pub(crate) name: RuleName,
    pub(crate) limits: Limits,
    pub(crate) settings: Vec<Setting>,
    /// How many calls may be in flight, if that is limited.
    pub(crate) concurrent: Option<Number>,
    pub(crate) count: Count,
    pub(crate) call: Call,
}

/// What each call decides anew. The fields stand in the order in which the expressions in them run;
/// those of `max`, `policy` and `concurrent`, which belong to the limits, run before `cost`.
pub(crate) struct Call {
    pub(crate) when: Option<Expr>,
    pub(crate) limiter: Option<Expr>,
    /// 1 unless given.
    pub(crate) cost: Option<Number>,
    pub(crate) shadow: Shadow,
    pub(crate) key: Key,
}

pub(crate) enum RuleName {
    /// The function's path; with the attribute's position in the stack, from 1.
    Derived(u8),
    Given(LitStr),
}

/// The rule that `arguments`, those of the `nth` attribute of its function, describe.
pub(crate) fn check(arguments: &Arguments, nth: u8, scope: &Scope, diagnostics: &mut Diagnostics) -> Option<Rule> {
    for (name, argument) in [("when", &arguments.when), ("limiter", &arguments.limiter)] {
        if let Some(argument) = argument {
            control_flow::check(name, &argument.value, diagnostics);
        }
    }
    condition::must_be_one(arguments.when.as_ref(), "when = !user.is_admin", diagnostics);
    condition::must_be_possible(arguments.when.as_ref(), diagnostics);
    condition::must_be_one(arguments.shadow.as_ref(), "shadow = user.is_tester", diagnostics);
    if let Some(limiter) = &arguments.limiter {
        limiter::check(&limiter.value, diagnostics);
    }
    let expressions = [&arguments.when, &arguments.limiter, &arguments.max, &arguments.policy, &arguments.cost];
    let others = [&arguments.shadow, &arguments.key, &arguments.count, &arguments.actual_cost, &arguments.concurrent];
    for argument in expressions.into_iter().chain(others).flatten() {
        scope.must_not_hide(argument.value.to_token_stream(), diagnostics);
    }
    let shadow = shadow::read(arguments.shadow.as_ref());
    if let Shadow::If(expr) = &shadow {
        control_flow::check("shadow", expr, diagnostics);
    }
    conflicts::report(arguments, &shadow, diagnostics);
    // Every argument is read, whatever the others are, so that all errors are found. A wrong one is
    // as good as absent.
    let name = match &arguments.name {
        None => Some(RuleName::Derived(nth)),
        Some(name) => label::read(name, "send_code", diagnostics).map(RuleName::Given),
    };
    let algorithm = arguments.algorithm.as_ref().and_then(|argument| algorithm::read(argument, diagnostics));
    let limits = limits::read(arguments, algorithm, diagnostics);
    let concurrent = arguments.concurrent.as_ref().and_then(|argument| number::concurrent(argument, diagnostics));
    let cost = arguments.cost.as_ref().and_then(|argument| number::cost(argument, diagnostics));
    let count = arguments.count.as_ref().and_then(|argument| count::read(argument, diagnostics));
    let actual_cost = arguments.actual_cost.as_ref().and_then(|argument| actual_cost::read(argument, diagnostics));
    if actual_cost.is_some() {
        actual_cost::must_have_an_estimate(arguments, diagnostics);
    }
    // One that is wrong may be meant to be another.
    let is_log = arguments.algorithm.is_none() || algorithm.is_some_and(algorithm::Algorithm::is_log);
    let key = key::read(arguments.key.as_ref(), scope, diagnostics);
    let settings = settings::read(arguments, algorithm, diagnostics);
    let (name, limits, key) = (name?, limits?, key?);
    if let (Some(cost), Some(argument)) = (&cost, &arguments.cost) {
        cost::must_fit(cost, argument, &limits, is_log, diagnostics);
    }
    if let (Some(argument), true) = (&arguments.actual_cost, is_log) {
        actual_cost::must_be_counted(argument, &limits, diagnostics);
    }
    if let Some(zone) = &arguments.zone {
        zone::must_be_of_a_calendar(zone, &limits, diagnostics);
    }
    let call = Call {
        when: arguments.when.as_ref().map(|when| when.value.clone()),
        limiter: arguments.limiter.as_ref().map(|limiter| limiter.value.clone()),
        cost,
        shadow,
        key,
    };
    let count = actual_cost.map(Count::ByCost).or(count).unwrap_or(Count::All);
    Some(Rule { name, limits, settings, concurrent, count, call })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use proc_macro2::Span;

    use super::*;
    use crate::check::rule::settings::SettingValue;
    use crate::parse::attribute;

    fn checked(arguments: &str, signature: &str) -> Result<Rule, Vec<String>> {
        let mut diagnostics = Diagnostics::default();
        let arguments = attribute::read(arguments.parse().unwrap(), Span::call_site(), &mut diagnostics);
        let scope = Scope::of(&syn::parse_str(signature).unwrap());
        let rule = check(&arguments, 1, &scope, &mut diagnostics);
        let errors = diagnostics.messages();
        if errors.is_empty() { Ok(rule.unwrap()) } else { Err(errors) }
    }

    /// The setting of this name, as text.
    fn setting(rule: &Rule, name: &str) -> Option<String> {
        let setting = rule.settings.iter().find(|setting| setting.name == name)?;
        Some(match &setting.value {
            SettingValue::Micros(number) | SettingValue::Number(number) => number.to_string(),
            SettingValue::Range(first, longest) => format!("{first}..{longest}"),
            SettingValue::Variant(of, variant) => format!("{of}::{variant}"),
            SettingValue::Text(text) => text.value(),
            SettingValue::None => String::new(),
        })
    }

    const SIGNATURE: &str = "fn f(&self, email: &str, user: User, r#type: u8, #[cfg(x)] sometimes: u8)";

    #[test]
    fn accepted() {
        let rule = checked(
            r#"key = "<email>:<self.a.0>", window = "1m", max = 3u32, timeout = "50ms", on_unavailable = "deny""#,
            SIGNATURE,
        )
        .unwrap();
        assert!(matches!(
            rule.limits,
            Limits::One { window: limits::window::Window::Micros(60_000_000), max: Number::Fixed(3), burst: None }
        ));
        assert_eq!(setting(&rule, "timeout").as_deref(), Some("50000"));
        assert!(matches!(rule.name, RuleName::Derived(1)));
        assert_eq!(setting(&rule, "on_unavailable").as_deref(), Some("OnUnavailable::Deny"));
        let Key::Template(pieces) = rule.call.key else { unreachable!("a string literal is a template") };
        assert_eq!(pieces.len(), 3);

        for (shadow, expected) in
            [("shadow", "on"), ("shadow = true", "on"), ("shadow = false", "off"), ("shadow = a.b", "if")]
        {
            let rule = checked(&format!("window = \"1s\", max = user.quota(), {shadow}"), SIGNATURE).unwrap();
            assert!(matches!(rule.limits, Limits::One { max: Number::Computed(_), .. }));
            assert!(matches!(rule.call.key, Key::None));
            let shadow = match rule.call.shadow {
                Shadow::On => "on",
                Shadow::Off => "off",
                Shadow::If(_) => "if",
            };
            assert_eq!(shadow, expected);
        }
    }

    #[test]
    fn refused() {
        let long = format!("name = \"{}\"", "n".repeat(129));
        for (argument, part) in [
            ("when = a.await", "`.await` cannot be used in `when`"),
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
            ("concurrent = 0", "a limit of 0 refuses every call: write `concurrent = 1` or more"),
            ("concurrent = -1", "cannot be negative"),
            ("concurrent = 2.5", "whole number"),
            ("concurrent = \"5\"", "without the quotes"),
            ("concurrent = 5, lease = \"4s\"", "too short: the shortest is 5s"),
            ("concurrent = 5, lease = \"2h\"", "too long: the longest is 1h"),
            ("concurrent = 5, lease = 30", "write \"30s\""),
            ("lease = \"30s\"", "write `concurrent` as well"),
            ("algorithm = \"gcra\"", "did you mean \"leaky_bucket\""),
            ("count = \"error\"", "did you mean \"err\""),
            ("cost = 0", "charges nothing"),
            ("cost = -1", "cannot be negative"),
            ("cost = 0 as u64", "charges nothing"),
            ("cost = 2 - 2", "charges nothing"),
            ("cost = u32::MIN", "charges nothing"),
            ("cost = -1i64 as u64", "cannot be negative"),
            ("when = false", "this is never true, so no call is limited"),
            ("when = !true", "this is never true"),
            ("when = user.is_some() && false", "this is never true"),
            ("count = |_| false", "no outcome counts"),
            ("count = |_: &R| { !true }", "no outcome counts"),
            ("cost = 1.5", "whole number"),
            ("cost = \"1\"", "without the quotes"),
            ("timeout = Duration::from_secs(1)", "`timeout` is a string literal"),
        ] {
            let errors = checked(&format!("window = \"1s\", max = 1, {argument}"), SIGNATURE).err().unwrap();
            assert_eq!(errors.len(), 1, "{argument}: {errors:?}");
            assert!(errors.iter().all(|e| e.contains(part)), "{argument}: {errors:?}");
        }
    }

    #[test]
    fn all_at_once() {
        let errors = checked(r#"key = "<emial>:<ip>:<>", window = "1x", max = 0, name = """#, SIGNATURE).err().unwrap();
        assert_eq!(errors.len(), 6, "{errors:?}");
    }

    #[test]
    fn limits_and_outcomes() {
        let rule = checked(
            r#"limits = ["3/60s", "20/1d"], algorithm = "fixed_window", cost = 3, count = "err", block = "10m""#,
            SIGNATURE,
        )
        .unwrap();
        assert!(matches!(&rule.limits, Limits::Several(limits) if limits.len() == 2));
        assert_eq!(setting(&rule, "algorithm").as_deref(), Some("Algorithm::FixedWindow"));
        assert!(matches!(rule.call.cost, Some(Number::Fixed(3))));
        assert!(matches!(rule.count, Count::Err));
        assert_eq!(setting(&rule, "block").as_deref(), Some("600000000"));
        assert_eq!(setting(&rule, "wait"), None);
        let rule =
            checked(r#"policy = "login", wait = "1h", cost = email.len(), count = |r| r.is_ok()"#, SIGNATURE).unwrap();
        assert!(
            matches!(&rule.limits, Limits::Policy(limits::policy::PolicyName::Fixed(name)) if name.value() == "login")
        );
        assert!(matches!(rule.call.cost, Some(Number::Computed(_))));
        assert!(matches!(rule.count, Count::By(_)));
        assert_eq!(setting(&rule, "wait").as_deref(), Some("3600000000"));
        let rule =
            checked(r#"policy = "tokens", cost = estimate(email), actual_cost = |r| r.tokens"#, SIGNATURE).unwrap();
        assert!(matches!(rule.count, Count::ByCost(_)));
        let rule =
            checked(r#"window = "1s", max = 3, burst = 10, algorithm = "token_bucket", cost = 10"#, SIGNATURE).unwrap();
        assert!(matches!(rule.limits, Limits::One { burst: Some(10), .. }));
    }

    #[test]
    fn conflicts() {
        const ONE: &str = r#"window = "1s", max = 3"#;
        for (arguments, part) in [
            (r#"limits = ["3/1s"], window = "1s""#, "leave `window` out, or `limits`"),
            (r#"limits = ["3/1s"], window = "1s", max = 3"#, "leave `window` and `max` out, or `limits`"),
            (r#"limits = ["3/1s"], max = 3"#, "leave `max` out, or `limits`"),
            (r#"limits = ["3/1s"], burst = 3"#, "`burst` goes with `window` and `max`"),
            (r#"limits = ["3/1s"], burst = 3, algorithm = "token_bucket""#, "`burst` goes with `window` and `max`"),
            (r#"policy = "p", window = "1s""#, "leave `window` out, or `policy`"),
            (
                r#"policy = "p", window = "1s", max = 3, block = "1s""#,
                "`policy` has its own limits and block: leave `window`, `max` and `block` out, or `policy`",
            ),
            (r#"policy = "p", max = 3"#, "leave `max` out, or `policy`"),
            (r#"policy = "p", limits = ["3/1s"]"#, "leave `limits` out, or `policy`"),
            (r#"policy = "p", algorithm = "fixed_window""#, "leave `algorithm` out, or `policy`"),
            (r#"policy = "p", burst = 3"#, "leave `burst` out, or `policy`"),
            (r#"policy = "p", block = "1m""#, "leave `block` out, or `policy`"),
            (r#"policy = "p", block = "1x""#, "leave `block` out; unknown unit `x`"),
            (&format!("{ONE}, burst = 3"), "only the buckets have a burst"),
            (&format!("{ONE}, burst = 3, algorithm = \"sliding_counter\""), "only the buckets have a burst"),
            (&format!("{ONE}, burst = 3, algorithm = \"gcra\""), "did you mean \"leaky_bucket\""),
            (&format!("{ONE}, block = \"1m\", wait = \"1s\""), "a call either waits or is blocked"),
            (&format!("{ONE}, shadow, wait = \"1s\""), "`wait` is never used"),
            ("window = \"1m\", max = 5_000, cost = 1_001", "a call weighs at most 1000 in a sliding window"),
            (
                "window = \"1m\", max = 5_000, cost = n, actual_cost = |r| r.n",
                "counts at most 1000 of what a call did cost: write `algorithm = \"token_bucket\"`",
            ),
            (&format!("{ONE}, actual_cost = |r| r.n"), "`actual_cost` needs an estimate"),
            (
                &format!("{ONE}, cost = n, actual_cost = |r| r.n, count = \"ok\""),
                "an outcome either counts or has a cost of its own: leave `count` out",
            ),
        ] {
            let errors = checked(arguments, SIGNATURE).err().unwrap();
            let parts: Vec<_> = part.split("; ").collect();
            assert_eq!(errors.len(), parts.len(), "{arguments}: {errors:?}");
            assert!(errors.iter().zip(parts).all(|(error, part)| error.contains(part)), "{arguments}: {errors:?}");
        }
        assert!(checked(&format!("{ONE}, shadow = dry, wait = \"1s\""), SIGNATURE).is_ok());
        assert!(checked(&format!("{ONE}, shadow, block = \"1m\", count = \"err\""), SIGNATURE).is_ok());
    }

    #[test]
    fn costs_above_the_limit() {
        for (arguments, part) in [
            (r#"window = "1s", max = 3, cost = 4"#, "a cost of 4 is above the limit of 3"),
            (r#"limits = ["5/1s", "9/1m"], cost = 6"#, "a cost of 6 is above the limit of 5"),
            (
                r#"window = "1s", max = 30, burst = 5, algorithm = "leaky_bucket", cost = 6"#,
                "a cost of 6 is above the burst of 5",
            ),
            (r#"window = "1s", max = 3, algorithm = "token_bucket", cost = 4"#, "above the limit of 3"),
        ] {
            let errors = checked(arguments, SIGNATURE).err().unwrap();
            assert_eq!(errors.len(), 1, "{arguments}: {errors:?}");
            assert!(errors.iter().all(|e| e.contains(part)), "{arguments}: {errors:?}");
        }
        for arguments in
            [r#"window = "1s", max = n, cost = 9"#, r#"policy = "p", cost = 9"#, r#"window = "1s", max = 3, cost = 3"#]
        {
            assert!(checked(arguments, SIGNATURE).is_ok(), "{arguments}");
        }
    }
}
