//! How far a list has come, as text: [`ServerPosition`] on one server, [`Walk`] in a cluster.

use crate::store::redis::cluster::{SLOTS, Slot};
use crate::store::redis::settings::server::TcpAddress;

/// How far the scan of a server has come.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ServerPosition {
    /// The `run_id` of the server's process: after a restart, and on a replica that has taken over,
    /// the order of keys is another one.
    pub(super) process: String,
    /// That of `SCAN`; 0 at the end.
    pub(super) cursor: u64,
}

impl ServerPosition {
    pub(super) fn write(&self) -> String {
        format!("{} {}", self.process, self.cursor)
    }

    /// The position in this text; `None` if it was not written by [`write`](Self::write).
    pub(super) fn read(text: &str) -> Option<Self> {
        let (process, cursor) = text.split_once(' ')?;
        Some(Self { process: process.to_owned(), cursor: cursor.parse().ok()? })
    }
}

/// How far the walk over a cluster's masters has come.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Walk {
    /// One for each slot.
    slots: Vec<Seen>,
    /// The master that is being listed, and how far.
    pub(super) visit: Option<(TcpAddress, ServerPosition)>,
}

/// Whether the keys of a slot have been listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Seen {
    No,
    /// Its master is being listed.
    Now,
    Yes,
}

const WORDS: [(&str, Seen); 3] = [("no", Seen::No), ("now", Seen::Now), ("yes", Seen::Yes)];

impl Walk {
    /// A walk that has seen no slot.
    pub(super) fn new() -> Self {
        Self { slots: vec![Seen::No; usize::from(SLOTS)], visit: None }
    }

    /// Begins to visit a master, which serves these slots.
    pub(super) fn begin(&mut self, master: TcpAddress, at: ServerPosition, serves: impl Fn(Slot) -> bool) {
        self.set(Seen::No, |slot| if serves(slot) { Seen::Now } else { Seen::No });
        self.visit = Some((master, at));
    }

    /// Ends the visit. Of the slots that the master served when it began, those have been seen of
    /// which this still holds.
    pub(super) fn end(&mut self, serves_still: impl Fn(Slot) -> bool) {
        self.set(Seen::Now, |slot| if serves_still(slot) { Seen::Yes } else { Seen::No });
        self.visit = None;
    }

    fn set(&mut self, from: Seen, to: impl Fn(Slot) -> Seen) {
        let slots = (0..SLOTS).filter_map(Slot::numbered).zip(&mut self.slots);
        slots.filter(|(_, seen)| **seen == from).for_each(|(slot, seen)| *seen = to(slot));
    }

    pub(super) fn first_unseen(&self) -> Option<Slot> {
        let index = self.slots.iter().position(|seen| *seen == Seen::No)?;
        Slot::numbered(u16::try_from(index).ok()?)
    }

    pub(super) fn write(&self) -> String {
        let word = |seen: &Seen| WORDS.iter().find(|row| row.1 == *seen).map_or("", |row| row.0);
        let run = |run: &[Seen]| format!("{}:{}", run.first().map_or("", word), run.len());
        let slots: Vec<_> = self.slots.chunk_by(Seen::eq).map(run).collect();
        let visit = self.visit.as_ref();
        let visit = visit.map(|(master, at)| format!("|{} {} {}", master.port, master.host, at.write()));
        slots.join(",") + &visit.unwrap_or_default()
    }

    /// The walk in this text; `None` if it was not written by [`write`](Self::write).
    pub(super) fn read(text: &str) -> Option<Self> {
        let (runs, visit) = text.split_once('|').map_or((text, None), |(runs, visit)| (runs, Some(visit)));
        let mut slots = Vec::with_capacity(usize::from(SLOTS));
        for run in runs.split(',') {
            let (word, length) = run.split_once(':')?;
            let (_, seen) = WORDS.iter().find(|row| row.0 == word)?;
            slots.extend(std::iter::repeat_n(*seen, usize::from(length.parse::<u16>().ok()?)));
            // Cursors may come from outside.
            if slots.len() > usize::from(SLOTS) {
                return None;
            }
        }
        let visit = match visit {
            Some(visit) => {
                let mut words = visit.splitn(3, ' ');
                let (port, host) = (words.next()?.parse().ok()?, words.next()?.to_owned());
                Some((TcpAddress { host, port }, ServerPosition::read(words.next()?)?))
            }
            None => None,
        };
        (slots.len() == usize::from(SLOTS)).then_some(Self { slots, visit })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_is_seen_once_its_master_was_listed_and_serves_it_still() {
        let (mut walk, slot) = (Walk::new(), |number| Slot::numbered(number));
        let begin = |walk: &mut Walk, serves: fn(Slot) -> bool| {
            let at = ServerPosition { process: "abc".to_owned(), cursor: 42 };
            walk.begin(TcpAddress { host: "::1".to_owned(), port: 7000 }, at, serves);
            assert_eq!(Walk::read(&walk.write()).as_ref(), Some(&*walk));
        };
        assert_eq!(walk.first_unseen(), slot(0));
        begin(&mut walk, |slot| slot.index() < 10);
        walk.end(|slot| slot.index() != 4);
        assert_eq!(walk.first_unseen(), slot(4));
        begin(&mut walk, |slot| slot.index() != 4);
        walk.end(|_| true);
        assert_eq!(walk.first_unseen(), slot(4), "it came while its master was being listed");
        begin(&mut walk, |_| true);
        walk.end(|_| true);
        assert_eq!((walk.first_unseen(), Walk::read(&walk.write())), (None, Some(walk)));
    }

    #[test]
    fn a_cursor_that_names_more_slots_than_there_are_is_not_read_to_its_end() {
        assert_eq!(Walk::read(&"no:65535,".repeat(1_000_000)), None);
    }
}
