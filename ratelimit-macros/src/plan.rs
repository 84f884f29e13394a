//! What the expansion is made from: everything is known to be right.

use proc_macro2::Span;
use syn::{Expr, Ident, Index, LitStr, Member, Path};

use crate::body::Body;
use crate::function::Function;
use crate::template::{self, Place, Step};

/// A function and the one guard it gets.
pub(crate) struct Plan {
    pub(crate) function: Function,
    pub(crate) body: Body,
    /// The runtime crate, if not the usual one.
    pub(crate) krate: Option<Path>,
    /// One per attribute, in written order.
    pub(crate) rules: Vec<Rule>,
    pub(crate) answer: Answer,
}

/// How a refusal leaves the function.
pub(crate) enum Answer {
    /// There is none: every rule is in shadow.
    Never,
    /// As the return type says.
    ByType,
    /// As `on_refused` says.
    By(Expr),
}

/// One attribute.
pub(crate) struct Rule {
    pub(crate) name: Name,
    pub(crate) limits: Limits,
    pub(crate) algorithm: Option<Algorithm>,
    /// 1 unless given.
    pub(crate) cost: Option<Number>,
    pub(crate) count: Count,
    pub(crate) block_micros: Option<u64>,
    pub(crate) wait_micros: Option<u64>,
    pub(crate) key: Key,
    pub(crate) when: Option<Expr>,
    pub(crate) limiter: Option<Expr>,
    pub(crate) shadow: Shadow,
    pub(crate) on_unavailable: Option<OnUnavailable>,
    pub(crate) timeout_micros: Option<u64>,
}

pub(crate) enum Name {
    /// The function's path; with the attribute's place in the stack, from 1.
    Derived(u8),
    Given(LitStr),
}

pub(crate) enum Limits {
    /// `window` and `max`, perhaps with `burst`.
    One { window_micros: u64, max: Number, burst: Option<u64> },
    /// `limits`: at least one.
    Several(Vec<Limit>),
    /// What the limiter's policy of this name says.
    Policy(LitStr),
}

/// One of several limits on one key.
#[derive(Clone, Copy)]
pub(crate) struct Limit {
    pub(crate) max: u64,
    pub(crate) window_micros: u64,
}

pub(crate) enum Number {
    Fixed(u64),
    Computed(Expr),
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Algorithm {
    SlidingWindow,
    SlidingCounter,
    FixedWindow,
    TokenBucket,
    LeakyBucket,
}

/// Which outcomes count.
pub(crate) enum Count {
    All,
    Ok,
    Err,
    /// Those of which this function says so.
    By(Expr),
}

pub(crate) enum Key {
    /// One bucket for the function.
    None,
    Template(Vec<Piece>),
    Expr(Expr),
}

pub(crate) enum Piece {
    Text(String),
    Value(Value),
}

pub(crate) enum Shadow {
    Off,
    On,
    If(Expr),
}

#[derive(Clone, Copy)]
pub(crate) enum OnUnavailable {
    Allow,
    Deny,
    Local,
}

/// A placeholder's value: a name that resolves, and the steps from it.
pub(crate) struct Value {
    pub(crate) root: Ident,
    pub(crate) steps: Vec<ValueStep>,
}

pub(crate) enum ValueStep {
    Field(Member),
    Call(Ident),
}

impl Value {
    /// `place` with its name resolved to `root`. `None` if a step cannot be an identifier, which the grammar
    /// of templates rules out.
    pub(crate) fn new(place: &Place, root: Ident, span: Span) -> Option<Self> {
        let step = |step: &Step| {
            Some(match step {
                Step::Field(name) => ValueStep::Field(Member::Named(template::ident(name, span)?)),
                Step::Index(index) => ValueStep::Field(Member::Unnamed(Index { index: *index, span })),
                Step::Call(name) => ValueStep::Call(template::ident(name, span)?),
            })
        };
        let steps = place.steps.iter().map(step).collect::<Option<_>>()?;
        Some(Self { root, steps })
    }
}
