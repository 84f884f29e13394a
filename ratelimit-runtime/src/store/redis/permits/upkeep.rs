//! The task that leaves and renews without a caller. It runs while permits are open, and keeps the
//! client for as long; if it ends earlier, its runtime has ended.

use std::sync::Arc;
use std::time::Instant;

use super::ask::Ask;
use super::open::{DuePermit, GATHER, Loss};
use super::state::{State, question};
use crate::observe;
use crate::real_time;
use crate::store::redis::scripts::own_time;

pub(super) struct Task(pub(super) Arc<State>);

impl Task {
    pub(super) async fn run<A: Ask>(self, asks: Arc<A>) {
        let mut epoch = asks.epoch();
        loop {
            let now = Instant::now();
            let last = std::mem::replace(&mut epoch, asks.epoch());
            let due = {
                let mut open = self.0.lock();
                if open.is_empty() {
                    open.is_tended = false;
                    return;
                }
                if epoch != last {
                    open.renew_all(now);
                }
                open.take_due(now)
            };
            for upkeep in due {
                tokio::spawn(send(Arc::clone(&self.0), Arc::clone(&asks), upkeep));
            }
            let _ = real_time::timeout_at(now + GATHER, self.0.wake.notified()).await;
        }
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        let mut open = self.0.lock();
        if std::mem::take(&mut open.is_tended) {
            let rules = open.forget_leaving();
            self.0.wake(open);
            rules.into_iter().for_each(observe::log::place_not_left);
        }
    }
}

async fn send<A: Ask>(state: Arc<State>, asks: Arc<A>, upkeep: DuePermit) {
    let place = upkeep.place.as_request();
    let operation = if upkeep.leaves { "leave" } else { "renew" };
    let sent_at = Instant::now();
    let answer = match own_time(state.clock.as_deref()) {
        // It is not given up: it ends with an answer, or with its connection.
        Ok(now) => asks.ask(&[(place.key(), question(operation, &place, Vec::new(), now))], None).await,
        Err(error) => Err(error),
    };
    let done = answer.ok().and_then(|verdicts| Some(verdicts.first()?.allowed));
    let mut open = state.lock();
    let loss = open.note(&upkeep, done, sent_at, Instant::now());
    // Told when the lock is free again: a recorder is foreign code.
    state.wake(open);
    match loss {
        Some(Loss::Permit) => observe::permit_lost(place.rule()),
        Some(Loss::Leaving) => observe::log::place_not_left(place.rule()),
        None => {}
    }
}
