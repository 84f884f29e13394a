//! [`RuleCache`]: values kept with a rule, so that most calls look nothing up.

use std::any::Any;
use std::borrow::Cow;
use std::sync::Arc;

use once_cell::sync::OnceCell;

use super::name::{Name, escape};

/// The names of a rule, and the value that the first limiter to use it keeps with it.
///
/// A constant function can take nothing out of a cell. So a rule counts the changes of its
/// settings, and a value kept before the last change is void.
#[derive(Clone)]
pub(super) struct RuleCache {
    revision: u32,
    names: OnceCell<Names>,
    kept: OnceCell<(u32, Arc<dyn Any + Send + Sync>)>,
}

/// The names of a rule.
#[derive(Clone)]
pub(crate) struct Names {
    /// The name as decisions and metrics show it; `(other)` if there are too many names.
    pub(crate) name: Name,
    /// The full name.
    pub(crate) full: Box<str>,
    /// The name as keys hold it.
    pub(crate) escaped: Box<str>,
}

impl RuleCache {
    pub(super) const fn new() -> Self {
        Self {
            revision: 0,
            names: OnceCell::new(),
            kept: OnceCell::new(),
        }
    }

    /// Voids the kept value; the names of a rule do not change.
    pub(super) const fn void(&mut self) {
        self.revision += 1;
    }

    #[inline]
    pub(super) fn get<T: Send + Sync + 'static>(&self) -> Option<&Arc<T>> {
        let (revision, kept) = self.kept.get()?;
        let kept = (*revision == self.revision).then_some(kept)?;
        // An `Arc` of an `Arc`: what is kept is lent as it is.
        kept.downcast_ref()
    }

    pub(super) fn set<T: Send + Sync + 'static>(&self, kept: Arc<T>) {
        self.kept.get_or_init(|| (self.revision, Arc::new(kept)));
    }

    #[inline]
    pub(super) fn names<'n>(&self, name: impl FnOnce() -> Cow<'n, str>) -> &Names {
        self.names.get_or_init(|| {
            let full = name();
            Names {
                name: Name::intern(&full),
                escaped: escape(&full).into(),
                full: full.into(),
            }
        })
    }
}
