//! Calls that enter through a [`DenyCache`]: what their limits refuse is kept, places are not.

use super::DenyCache;
use crate::store::lookup::Lookup;
use crate::store::{Answer, Entry, PlaceRequest, Request, Store};

impl<S: Store> DenyCache<S> {
    /// Asks the store, unless the one request beside the place is known to be refused.
    pub(super) fn enter_unless_refused<'a>(
        &'a self,
        place: PlaceRequest<'a>,
        requests: &'a [Request<'a>],
    ) -> Answer<'a, Entry> {
        let lookup = match requests {
            // Of several the longest wait is told, which the store alone knows.
            [request] => match self.look(request, Lookup::default()) {
                Ok(refusal) => {
                    if let Some(replaced) = place.replaces() {
                        self.inner.leave(place.with_permit(replaced));
                    }
                    return Answer::ready(Ok(Entry::free(0, vec![refusal])));
                }
                Err(lookup) => lookup,
            },
            _ => Lookup::default(),
        };
        match self.inner.enter(place, requests).known() {
            Ok(answer) => Answer::ready(answer.inspect(|entry| self.learn_entry(requests, &lookup, entry))),
            Err(answer) if !self.is_on() => answer,
            // The miss is dropped with this future, and with it the turn to ask again.
            Err(answer) => {
                Answer::later(async move { answer.await.inspect(|entry| self.learn_entry(requests, &lookup, entry)) })
            }
        }
    }

    /// Keeps what the limits refuse, and forgets what is charged. Where all places are taken,
    /// nothing was asked of the limits.
    fn learn_entry(&self, requests: &[Request<'_>], lookup: &Lookup, entry: &Entry) {
        if entry.is_full || !self.is_on() {
            return;
        }
        match (requests, &*entry.verdicts) {
            ([request], [verdict]) => _ = self.learn(request, lookup, Ok(*verdict)),
            _ if entry.is_entered() => requests.iter().for_each(|request| self.refusals.forget(request.key())),
            _ => {}
        }
    }
}
