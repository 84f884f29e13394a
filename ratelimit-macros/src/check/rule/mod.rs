//! One rule: the arguments of one attribute, judged one by one and against each other.

pub(crate) mod block;
pub(crate) mod conflicts;
pub(crate) mod cost;
pub(crate) mod count;
pub(crate) mod limiter;
pub(crate) mod limits;
pub(crate) mod prefetch;
pub(crate) mod settings;

use syn::{Expr, LitStr};

use crate::check::function::scope::Scope;
use crate::check::key::{self, Key};
use crate::check::rule::count::Count;
use crate::check::rule::limits::Limits;
use crate::check::rule::limits::{algorithm, zone};
use crate::check::rule::settings::Setting;
use crate::check::values::condition::Shadow;
use crate::check::values::number::{self, Number};
use crate::check::values::{condition, control_flow, label};
use crate::diagnostics::Diagnostics;
use crate::parse::arguments::Arguments;

pub(crate) struct Rule {
    pub(crate) name: RuleName,
    pub(crate) limits: Limits,
    pub(crate) settings: Vec<Setting>,
    /// The most calls in flight; `None` for any number.
    pub(crate) concurrent: Option<Number>,
    pub(crate) count: Count,
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
pub(crate) fn check(
    arguments: &Arguments,
    nth: u8,
    scope: &Scope,
    diagnostics: &mut Diagnostics,
) -> Option<Rule> {
    control_flow::check(arguments, diagnostics);
    condition::must_be_one(
        arguments.when.as_ref(),
        "when = !user.is_admin",
        diagnostics,
    );
    condition::must_be_possible(arguments.when.as_ref(), diagnostics);
    condition::must_be_one(
        arguments.shadow.as_ref(),
        "shadow = user.is_tester",
        diagnostics,
    );
    if let Some(limiter) = &arguments.limiter {
        limiter::check(&limiter.value, diagnostics);
    }
    let shadow = condition::shadow(arguments.shadow.as_ref());
    conflicts::report(arguments, &shadow, diagnostics);
    // Every argument is read, regardless of the others, so that all errors are found. A wrong
    // argument counts as absent.
    let name = match &arguments.name {
        None => Some(RuleName::Derived(nth)),
        Some(name) => label::read(name, "send_code", diagnostics).map(RuleName::Given),
    };
    // A misspelt algorithm may have been any.
    let algorithm = match &arguments.algorithm {
        None => Some(algorithm::DEFAULT),
        given => diagnostics.read(given.as_ref(), algorithm::read),
    };
    let limits = limits::read(arguments, algorithm, scope, diagnostics);
    let mut number =
        |argument, wording| diagnostics.read(argument, |number| number::read(number, wording));
    let concurrent = number(arguments.concurrent.as_ref(), &number::CONCURRENT);
    let cost = number(arguments.cost.as_ref(), &number::COST);
    let count = diagnostics.read(arguments.count.as_ref(), count::read);
    let actual_cost = diagnostics.read(arguments.actual_cost.as_ref(), cost::actual);
    if actual_cost.is_some() {
        cost::must_have_an_estimate(arguments, diagnostics);
    }
    let is_log = algorithm.is_some_and(algorithm::Algorithm::is_log);
    let key = key::read(arguments.key.as_ref(), scope, diagnostics);
    let settings = settings::read(arguments, algorithm, diagnostics);
    let (name, limits, key) = (name?, limits?, key?);
    if let (Some(cost), Some(argument)) = (&cost, &arguments.cost) {
        cost::must_fit(cost, argument, &limits, is_log, diagnostics);
    }
    if let (Some(argument), true) = (&arguments.actual_cost, is_log) {
        cost::must_be_counted(argument, &limits, diagnostics);
    }
    prefetch::must_be_short(arguments, &settings, &limits, diagnostics);
    if let Some(zone) = &arguments.zone {
        zone::must_be_of_a_calendar(zone, &limits, diagnostics);
    }
    let count = actual_cost
        .map(Count::ByCost)
        .or(count)
        .unwrap_or(Count::All);
    let [when, limiter] = [&arguments.when, &arguments.limiter]
        .map(|argument| Some(argument.as_ref()?.value.clone()));
    Some(Rule {
        name,
        limits,
        settings,
        concurrent,
        count,
        when,
        limiter,
        cost,
        shadow,
        key,
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use proc_macro2::Span;

    use super::*;
    use crate::parse::attribute;

    fn errors(arguments: &str) -> Vec<String> {
        let signature = "fn f(&self, email: &str, user: User, r#type: u8, #[cfg(x)] sometimes: u8)";
        let mut diagnostics = Diagnostics::default();
        let arguments = attribute::read(
            arguments.parse().unwrap(),
            Span::call_site(),
            &mut diagnostics,
        );
        let rule = check(
            &arguments,
            1,
            &Scope::of(&syn::parse_str(signature).unwrap()),
            &mut diagnostics,
        );
        let errors = diagnostics.messages();
        assert!(rule.is_some() || !errors.is_empty());
        errors
    }

    #[test]
    fn arguments_that_go_together_are_accepted() {
        for arguments in [
            r#"key = "<email>:<self.a.0>", window = "1m", max = 3u32, timeout = "50ms", on_unavailable = "deny""#,
            r#"limits = ["3/60s", "20/1d"], algorithm = "fixed_window", cost = 3, count = "err", block = "10m""#,
            r#"policy = "login", wait = "1h", cost = email.len(), count = |r| r.is_ok()"#,
            r#"policy = "tokens", cost = estimate(email), actual_cost = |r| r.tokens"#,
            r#"policy = "p", cost = 9"#,
            r#"window = "1s", max = 4_503_599_627_370_495, algorithm = "fixed_window""#,
            r#"window = "1s", max = 0b11, cost = 3u8"#,
            r#"window = "1s", max = 3, burst = 10, algorithm = "token_bucket", cost = 10"#,
            r#"window = "1s", max = 3 / 3, shadow = dry, wait = "1s""#,
            r#"window = "1s", max = 3, shadow, block = "1m..1h", count = "err""#,
            r#"window = "1s", max = user.quota(), shadow = false, cost = 9"#,
            r#"concurrent = 5, lease = "5s""#,
            r#"limits = ["9/1s", "99/1d"], prefetch = "20ms", concurrent = 5, wait = "1s""#,
            r#"policy = "login", prefetch = "10s", count = "all""#,
            r#"window = "day", max = 3, algorithm = "fixed_window", zone = "Europe/Berlin""#,
            // A log holds so much of a call.
            r#"window = "1m", max = 2_000, cost = 1_000"#,
            r#"window = "1m", max = 1_000, cost = estimate(email), actual_cost = |r| r.tokens"#,
        ] {
            assert_eq!(errors(arguments), [""; 0], "{arguments}");
        }
    }
}
