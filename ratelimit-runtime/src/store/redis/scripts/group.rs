//! [`Group`]: questions on keys that are charged together, all or none.

use super::number::Number;
use super::protocol::Question;
use super::script::ALL_OR_NONE;
use super::script_call::{self, ScriptCall};

/// The keys of a group and its questions, as they are written into a call, which several groups
/// can share.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Group {
    len: u16,
    keys: Vec<u8>,
    questions: Vec<u8>,
    /// The caller's time in microseconds; `None` for the server's.
    now: Option<u64>,
}

impl Group {
    pub(crate) fn new<'a>(now: Option<u64>, questions: impl Iterator<Item = (&'a [u8], Question)>) -> Self {
        let mut group = Self { len: 0, keys: Vec::new(), questions: Vec::new(), now };
        for (key, question) in questions {
            script_call::argument(&mut group.keys, key);
            script_call::argument(&mut group.questions, &question);
            group.len += 1;
        }
        group
    }

    /// How many questions it has.
    pub(crate) fn len(&self) -> usize {
        usize::from(self.len)
    }

    /// Whether it is of the same time as another one: a call has one clock.
    pub(crate) fn is_of_one_time_with(&self, other: &Self) -> bool {
        self.now == other.now
    }

    pub(crate) fn has_keys_of(&self, other: &Self) -> bool {
        self.keys == other.keys
    }

    fn has_questions_of(&self, other: &Self) -> bool {
        self.len == other.len && self.questions == other.questions
    }

    /// A call of it alone, with the script in full.
    pub(crate) fn call(&self, number: Number) -> Vec<u8> {
        let mut packed = Vec::new();
        Self::write(&[self], true, number, &mut packed);
        packed
    }

    /// Writes a call of all these groups. Questions that are the same for several groups in a row
    /// are sent once.
    pub(crate) fn write(groups: &[&Self], in_full: bool, number: Number, to: &mut Vec<u8>) {
        let lists =
            || groups.chunk_by(|one, next| one.has_questions_of(next)).filter_map(|list| Some((list, list.first()?)));
        let keys = groups.iter().map(|group| group.len()).sum();
        let arguments = lists().map(|(_, first)| 1 + first.len()).sum();
        let mut call = ScriptCall::begin(to, &ALL_OR_NONE, in_full, keys, arguments);
        for group in groups {
            call.arguments(&group.keys);
        }
        call.head(number, groups.first().and_then(|first| first.now));
        for (list, first) in lists() {
            let asked = u16::try_from(list.len()).unwrap_or(u16::MAX);
            call.argument([first.len, asked].map(u16::to_le_bytes).as_flattened());
            call.arguments(&first.questions);
        }
    }
}
