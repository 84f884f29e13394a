//! What a play leaves out, and which fields of two answers may differ, each with its reason.
//! Everything else is asked of both stores and is equal.

use ratelimit_runtime::store::{Feature, Verdict};
use ratelimit_runtime::{Algorithm, Limit};

use super::Column;
use super::play::Play;

/// What a step may ask for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    /// A refusal that blocks the key, and an offence, which does only that.
    Block,
    GrowingBlock,
    BlockByHand,
    Reservation,
    LowerMax,
    SettlingAgain,
    SettingBack,
    /// A key on Redis that ends by the clock of the steps.
    KeyEnd,
}

struct LeftOut {
    part: Part,
    if_so: fn(&Play<'_>) -> bool,
    because: &'static str,
}

const UNDECLARED: &str = "the store does not declare it, and refuses it";

const LEFT_OUT: &[LeftOut] = &[
    LeftOut {
        part: Part::Block,
        if_so: |play| !play.has(Feature::Block),
        because: UNDECLARED,
    },
    LeftOut {
        part: Part::Block,
        if_so: |play| play.kind.column == Column::DenyCache,
        because: "the refusal that sets a block is known for up to a second, and sets it later",
    },
    LeftOut {
        part: Part::GrowingBlock,
        if_so: |play| !play.has(Feature::GrowingBlock),
        because: UNDECLARED,
    },
    LeftOut {
        part: Part::BlockByHand,
        if_so: |play| !play.has(Feature::Block),
        because: UNDECLARED,
    },
    LeftOut {
        part: Part::Reservation,
        if_so: |play| !play.has(Feature::ActualCost),
        because: UNDECLARED,
    },
    LeftOut {
        part: Part::LowerMax,
        if_so: |play| play.shape.only_rises,
        because: "memory forgets a bucket once it would be empty by the rate of its newest write, \
                  and Redis later",
    },
    LeftOut {
        part: Part::SettlingAgain,
        if_so: |play| play.kind.algorithm != Algorithm::SlidingWindow,
        because: "only a log changes nothing then: a sum cannot tell twice from once",
    },
    LeftOut {
        part: Part::SettingBack,
        if_so: |play| play.kind.algorithm == Algorithm::SlidingWindow,
        because: "memory may have let go of what has left the window, and would count again",
    },
    LeftOut {
        part: Part::SettingBack,
        if_so: |play| {
            play.kind.algorithm.has_burst()
                && play.is_blocked_by_hand
                && play.kind.column == Column::Scripts
        },
        because: "memory may have let go of what had drained when a block was set or ended",
    },
    LeftOut {
        part: Part::KeyEnd,
        if_so: |play| play.shape.largest_cost == Limit::MAX_COUNT,
        because: "windows of years would soon pass the last moment that the clock can say, and a \
                  block lets a bucket of two years end a tick of its time too early",
    },
];

/// What the play leaves out now, and why.
pub(super) fn left_out<'a>(play: &'a Play<'_>) -> impl Iterator<Item = (Part, &'static str)> + 'a {
    let rows = LEFT_OUT.iter().filter(|row| (row.if_so)(play));
    rows.map(|row| (row.part, row.because))
}

/// A field of the answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Field {
    Allowed,
    Blocked,
    LimitIndex,
    Remaining,
    RetryAfter,
    ResetAfter,
}

impl Field {
    const ALL: [Self; 6] = [
        Self::Allowed,
        Self::Blocked,
        Self::LimitIndex,
        Self::Remaining,
        Self::RetryAfter,
        Self::ResetAfter,
    ];

    fn of(self, verdict: &Verdict) -> u64 {
        match self {
            Self::Allowed => verdict.allowed.into(),
            Self::Blocked => verdict.blocked.into(),
            Self::LimitIndex => verdict.limit_index as u64,
            Self::Remaining => verdict.remaining,
            Self::RetryAfter => verdict.retry_after_us,
            Self::ResetAfter => verdict.reset_after_us,
        }
    }
}

/// What a field of Redis, or of a deny cache, is beside that of memory, from strict to loose.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Relation {
    Equal,
    AtMost,
    AtLeast,
    Anything,
}

impl Relation {
    fn holds(self, theirs: u64, ours: u64) -> bool {
        match self {
            Self::Equal => theirs == ours,
            Self::AtMost => theirs <= ours,
            Self::AtLeast => theirs >= ours,
            Self::Anything => true,
        }
    }
}

/// How an answer came about.
#[allow(clippy::struct_excessive_bools, reason = "any of them may be so")]
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Circumstances {
    /// A refusal that a deny cache repeats.
    pub(super) is_known: bool,
    /// It was of another cost, or of other limits.
    pub(super) is_of_another: bool,
    /// Something is reserved by `count`.
    pub(super) is_any_open: bool,
    pub(super) is_blocked: bool,
    pub(super) was_set_back: bool,
    /// Redis decides several callers in one step.
    pub(super) is_of_several_callers: bool,
    pub(super) has_several_limits: bool,
}

struct Looser {
    field: Field,
    relation: Relation,
    if_so: fn(&Circumstances) -> bool,
    because: &'static str,
}

const SHARED_RECORD: &str =
    "callers of a step share one record, which is that of the limit that refuses the last of them";

const LOOSER: &[Looser] = &[
    Looser {
        field: Field::Blocked,
        relation: Relation::AtLeast,
        if_so: |it| it.is_known,
        because: "a block that ends before the limits' wait may have ended while it was known",
    },
    Looser {
        field: Field::LimitIndex,
        relation: Relation::Anything,
        if_so: |it| it.is_known && (it.is_of_another || it.is_any_open || it.is_blocked),
        because: "another limit may decide by now, or be the fullest one behind a block",
    },
    Looser {
        field: Field::LimitIndex,
        relation: Relation::Anything,
        if_so: |it| it.is_of_several_callers && it.has_several_limits,
        because: SHARED_RECORD,
    },
    Looser {
        field: Field::Remaining,
        relation: Relation::AtMost,
        if_so: |it| it.is_known,
        because: "time has added to what remains",
    },
    Looser {
        field: Field::Remaining,
        relation: Relation::Anything,
        if_so: |it| it.is_known && (it.is_of_another || it.is_any_open),
        because: "it may be that of another limit, and what is reserved lapses",
    },
    Looser {
        field: Field::Remaining,
        relation: Relation::AtMost,
        if_so: |it| it.is_of_several_callers && it.has_several_limits,
        because: SHARED_RECORD,
    },
    Looser {
        field: Field::RetryAfter,
        relation: Relation::AtMost,
        if_so: |it| it.is_known && (it.is_of_another || it.is_any_open),
        because: "it is a lower bound for another cost, and beside what is reserved",
    },
    Looser {
        field: Field::RetryAfter,
        relation: Relation::Anything,
        if_so: |it| it.is_known && it.is_any_open && (!it.is_blocked || it.was_set_back),
        because: "the 50 ms of a reservation begin anew with each answer of the store; only a \
                  block hides them, unless the clock is behind",
    },
    Looser {
        field: Field::ResetAfter,
        relation: Relation::AtLeast,
        if_so: |it| it.is_of_several_callers,
        because: "it is that after the last caller",
    },
    Looser {
        field: Field::ResetAfter,
        relation: Relation::Anything,
        if_so: |it| it.is_of_several_callers && it.has_several_limits,
        because: SHARED_RECORD,
    },
    Looser {
        field: Field::ResetAfter,
        relation: Relation::Anything,
        if_so: |it| it.is_known && (it.is_of_another || it.is_any_open || it.is_blocked),
        because: "what is reserved does not drain, and a block may hide it",
    },
];

/// Compares all fields, each as strictly as the table allows.
pub(super) fn assert_same(ours: &Verdict, theirs: &Verdict, how: Circumstances, context: &str) {
    for field in Field::ALL {
        let rows = LOOSER.iter().filter(|row| row.field == field);
        let looser = rows.into_iter().filter(|row| (row.if_so)(&how));
        let looser: Vec<_> = looser.map(|row| (row.relation, row.because)).collect();
        let relation = looser.iter().map(|(relation, _)| *relation).max();
        let relation = relation.unwrap_or(Relation::Equal);
        assert!(
            relation.holds(field.of(theirs), field.of(ours)),
            "{field:?} is to be {relation:?} {looser:?}\n redis: {theirs:?}\nmemory: {ours:?}\n\
             {how:?}, at {context}"
        );
    }
}
