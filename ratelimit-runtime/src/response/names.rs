//! [`PublicNames`]: the names of rules, as clients are told of them.

use std::fmt;
use std::sync::Arc;

type Naming = dyn Fn(&str) -> Option<&str> + Send + Sync;

/// The names that clients get of rules. Unless set they are those of the rules.
#[derive(Clone, Default)]
pub(crate) struct PublicNames(Option<Arc<Naming>>);

impl PublicNames {
    pub(super) fn new(naming: impl Fn(&str) -> Option<&str> + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(naming)))
    }

    /// The name of a rule, of a path its last part alone, which derived names are. `None` if
    /// clients are not told of the rule.
    pub(crate) fn of<'r>(&self, rule: &'r str) -> Option<&'r str> {
        let name = match &self.0 {
            Some(naming) => naming(rule)?,
            None => rule,
        };
        Some(name.rsplit_once('.').map_or(name, |(_, last)| last))
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
