//! [`Group`]: questions on keys that are charged together, all or none; or questions about places,
//! each of which is answered by itself.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::number::Number;
use super::protocol::Question;
use super::script::{
    ALL_OR_NONE, ALL_OR_NONE_WITH_BOTH, ALL_OR_NONE_WITH_CALENDAR, ALL_OR_NONE_WITH_PLACES, PLACES, Script,
};
use super::script_call::{self, ScriptCall};
use crate::store::Request;

/// What the questions of a group are, by which a script answers them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum GroupScript {
    /// Limits, charged all or none.
    Limits,
    /// The same, with calendar periods among them.
    CalendarLimits,
    /// A place of a call in flight and limits, all or none.
    PlaceAndLimits,
    /// The same, with calendar periods among them.
    PlaceAndCalendarLimits,
    /// Places alone.
    Places,
}

impl GroupScript {
    pub(crate) const COUNT: usize = 5;

    /// That of these requests, which are charged together.
    pub(crate) fn of(requests: &[Request<'_>]) -> Self {
        if requests.iter().any(Request::has_calendar) { Self::CalendarLimits } else { Self::Limits }
    }

    /// That of a place and these requests.
    pub(crate) fn with_place(requests: &[Request<'_>]) -> Self {
        match Self::of(requests) {
            _ if requests.is_empty() => Self::Places,
            Self::CalendarLimits => Self::PlaceAndCalendarLimits,
            _ => Self::PlaceAndLimits,
        }
    }

    pub(crate) fn index(self) -> usize {
        self as usize
    }

    fn script(self) -> &'static Script {
        match self {
            Self::Limits => &ALL_OR_NONE,
            Self::CalendarLimits => &ALL_OR_NONE_WITH_CALENDAR,
            Self::PlaceAndLimits => &ALL_OR_NONE_WITH_PLACES,
            Self::PlaceAndCalendarLimits => &ALL_OR_NONE_WITH_BOTH,
            Self::Places => &PLACES,
        }
    }
}

/// The keys of a group and its questions, as they are written into a call, which several groups
/// can share.
#[derive(Debug, Clone)]
pub(crate) struct Group {
    script: GroupScript,
    len: u16,
    keys: Vec<u8>,
    questions: Vec<u8>,
    /// The caller's time in microseconds; `None` for the server's.
    now: Option<u64>,
    /// Whether it goes ahead of others that wait.
    is_ahead: bool,
    /// Noted once it has been written, for a caller that has to know.
    is_written: Option<Arc<AtomicBool>>,
}

impl Group {
    pub(crate) fn new<'a>(
        script: GroupScript,
        now: Option<u64>,
        questions: impl Iterator<Item = (&'a [u8], Question)>,
    ) -> Self {
        let (keys, questions_of_it) = (Vec::new(), Vec::new());
        let mut group =
            Self { script, len: 0, keys, questions: questions_of_it, now, is_ahead: false, is_written: None };
        for (key, question) in questions {
            script_call::argument(&mut group.keys, key);
            script_call::argument(&mut group.questions, &question);
            group.len += 1;
        }
        group
    }

    /// The same, to be sent ahead of others that wait.
    pub(crate) fn ahead(mut self) -> Self {
        self.is_ahead = true;
        self
    }

    /// The same, which notes here that it has been written.
    pub(crate) fn noting(mut self, is_written: &Arc<AtomicBool>) -> Self {
        self.is_written = Some(Arc::clone(is_written));
        self
    }

    /// How many questions it has.
    pub(crate) fn len(&self) -> usize {
        usize::from(self.len)
    }

    pub(crate) fn script(&self) -> GroupScript {
        self.script
    }

    pub(crate) fn is_ahead(&self) -> bool {
        self.is_ahead
    }

    /// Whether it may share a call with another one: a call is of one script, and has one clock.
    pub(crate) fn can_share_with(&self, other: &Self) -> bool {
        self.script == other.script && self.now == other.now
    }

    pub(crate) fn has_keys_of(&self, other: &Self) -> bool {
        self.keys == other.keys
    }

    fn has_questions_of(&self, other: &Self) -> bool {
        self.len == other.len && self.questions == other.questions
    }

    fn note_written(&self) {
        if let Some(is_written) = &self.is_written {
            is_written.store(true, Ordering::Release);
        }
    }

    /// A call of it alone, with the script in full.
    pub(crate) fn call(&self, number: Number) -> Vec<u8> {
        let mut packed = Vec::new();
        Self::write(&[self], true, number, &mut packed);
        packed
    }

    /// Writes a call of all these groups, which [can share](Self::can_share_with) it. Questions
    /// that are the same for several groups in a row are sent once.
    pub(crate) fn write(groups: &[&Self], in_full: bool, number: Number, to: &mut Vec<u8>) {
        let Some(first) = groups.first() else { return };
        let lists =
            || groups.chunk_by(|one, next| one.has_questions_of(next)).filter_map(|list| Some((list, list.first()?)));
        let keys = groups.iter().map(|group| group.len()).sum();
        let arguments = lists().map(|(_, first)| 1 + first.len()).sum();
        let mut call = ScriptCall::begin(to, first.script.script(), in_full, keys, arguments);
        for group in groups {
            group.note_written();
            call.arguments(&group.keys);
        }
        call.head(number, first.now);
        for (list, first) in lists() {
            let asked = u16::try_from(list.len()).unwrap_or(u16::MAX);
            call.argument([first.len, asked].map(u16::to_le_bytes).as_flattened());
            call.arguments(&first.questions);
        }
    }
}
