//! [`KeyTurn`]: the turn of one caller among those of its key.
//!
//! A connection is lent in the order in which callers ask for it. If all callers of a key asked at
//! once, those of another key would wait behind as many as one client makes; so only the one that
//! has the turn of its key asks.

use std::sync::{Arc, PoisonError};

use tokio::sync::{Mutex, OwnedMutexGuard};

use crate::store::redis::link::KeyTurns;

/// The turn of a key on the link's own connection, or a place in the queue for it.
pub(super) struct KeyTurn {
    turns: KeyTurns,
    key: Box<[u8]>,
    guard: Option<OwnedMutexGuard<()>>,
}

impl KeyTurn {
    /// Waits for the turn; first come, first served.
    pub(super) async fn of(turns: &KeyTurns, key: &[u8]) -> Self {
        // Made before it waits: if the caller goes, dropping it removes what it has written.
        let mut turn = Self {
            turns: Arc::clone(turns),
            key: key.into(),
            guard: None,
        };
        let callers = {
            let mut all = turns.lock().unwrap_or_else(PoisonError::into_inner);
            let entry = all.entry(turn.key.clone()).or_default();
            entry.upgrade().unwrap_or_else(|| {
                let callers = Arc::new(Mutex::new(()));
                *entry = Arc::downgrade(&callers);
                callers
            })
        };
        turn.guard = Some(callers.lock_owned().await);
        turn
    }
}

impl Drop for KeyTurn {
    fn drop(&mut self) {
        drop(self.guard.take());
        let mut all = self.turns.lock().unwrap_or_else(PoisonError::into_inner);
        if all
            .get(&self.key)
            .is_some_and(|callers| callers.strong_count() == 0)
        {
            all.remove(&self.key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_key_whose_turns_are_over_is_forgotten() {
        let turns = KeyTurns::default();
        drop(KeyTurn::of(&turns, b"key").await);
        assert!(turns.lock().is_ok_and(|all| all.is_empty()));
    }
}
