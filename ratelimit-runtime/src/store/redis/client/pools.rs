//! [`Pools`]: connections that are lent, for each server that transactions run on.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use crate::store::redis::link::Link;
use crate::store::redis::transactions::Pool;

/// A pool for each link. There is none where scripts run.
#[derive(Default)]
pub(super) struct Pools {
    all: Mutex<Vec<(Weak<Link>, Arc<Pool>)>>,
}

impl Pools {
    /// The pool of a link.
    pub(super) fn of(&self, link: &Arc<Link>) -> Arc<Pool> {
        let mut all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, pool)) = all.iter().find(|(of, _)| std::ptr::eq(of.as_ptr(), Arc::as_ptr(link))) {
            return Arc::clone(pool);
        }
        // Those of masters that have left the cluster.
        all.retain(|(of, _)| of.strong_count() > 1);
        let pool = Arc::new(Pool::new(Arc::clone(link)));
        all.push((Arc::downgrade(link), Arc::clone(&pool)));
        pool
    }
}
