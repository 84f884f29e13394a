//! [`PublicNames`]: the names of rules that clients see.

use std::fmt;
use std::sync::Arc;

use crate::rule::Name;

type Naming = dyn Fn(&str) -> Option<&str> + Send + Sync;

/// The names of rules that clients see: those of the rules, unless set.
#[derive(Clone, Default)]
pub(crate) struct PublicNames(Option<Arc<Naming>>);

impl PublicNames {
    pub(super) fn new(naming: impl Fn(&str) -> Option<&str> + Send + Sync + 'static) -> Self {
        // Of rules whose names are not known, one may be hidden.
        let known = |rule: &str| rule != Name::OTHER;
        Self(Some(Arc::new(move |rule| {
            naming(rule).filter(|_| known(rule))
        })))
    }

    /// The name that is set for a rule; else its own, of which clients see only the last part if
    /// it is a path, as derived names are. `None` if clients do not see the rule.
    pub(crate) fn of<'r>(&self, rule: &'r str) -> Option<&'r str> {
        let name = match &self.0 {
            Some(naming) => naming(rule)?,
            None => rule,
        };
        match name.rsplit_once('.') {
            Some((_, last)) if name == rule => Some(last),
            _ => Some(name),
        }
    }
}

impl fmt::Debug for PublicNames {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            Some(_) => "custom",
            None => "of rules",
        })
    }
}
