//! [`Eviction`]: which key of a full shard gives its place to a newcomer.
//!
//! Of a handful of keys that are drawn at random from the rule with most of them, the one goes that
//! has least to lose: the smallest share used of its fullest limit. A rule whose keys are minted is
//! soon the largest, and loses its own. What has used more than half of a limit, is blocked or
//! holds a reservation stays. So a key that is dropped gains half of its limit at most, and a draw
//! finds a given key once in a quarter as many as its rule has.

use std::collections::HashMap;
use std::hash::BuildHasher as _;

use foldhash::quality::RandomState;
use hashbrown::HashTable;

use super::keyed::Keyed;

/// How many keys of the largest rule are compared. More would protect a fuller key better where
/// most are emptier, and be more likely to find it where most are fuller still.
const HANDFUL: usize = 4;
/// How many places are drawn for them at most. A table whose keys come and go has up to three empty
/// ones for each key, and the next key behind those is no fair draw: it would be dropped more
/// often.
const DRAWS: usize = 512;

/// How many keys each rule has in a shard, and the chance by which one of them is found.
#[derive(Default)]
pub(super) struct Eviction {
    /// By the hash of what all keys of a rule share.
    keys: HashMap<u64, usize, RandomState>,
    draws: u64,
}

impl Eviction {
    /// What stands for a rule here.
    pub(super) fn rule(&self, shared: &[u8]) -> u64 {
        self.keys.hasher().hash_one(shared)
    }

    pub(super) fn add(&mut self, rule: u64) {
        *self.keys.entry(rule).or_default() += 1;
    }

    pub(super) fn remove(&mut self, rule: u64) {
        if let Some(keys) = self.keys.get_mut(&rule) {
            *keys -= 1;
            if *keys == 0 {
                self.keys.remove(&rule);
            }
        }
    }

    /// The place of the key that is dropped; `None` if none of those drawn may go.
    pub(super) fn choose(&mut self, table: &mut HashTable<Keyed>, now: u64) -> Option<usize> {
        let most = self.keys.values().copied().max()?;
        let (mut of_largest, mut largest) = (0, 0);
        let mut least: Option<(u64, usize)> = None;
        for _ in 0..DRAWS {
            let place = self.draw(table.num_buckets());
            let Some(keyed) = table.get_bucket_mut(place) else { continue };
            let keys = self.keys.get(&keyed.rule).copied().unwrap_or_default();
            if keys < largest {
                continue;
            }
            if keys > largest {
                (largest, least) = (keys, None);
            }
            if let Some(loss) = keyed.loss(now)
                && least.is_none_or(|(least, _)| loss < least)
            {
                least = Some((loss, place));
            }
            of_largest += usize::from(keys == most);
            if of_largest == HANDFUL {
                break;
            }
        }
        least.map(|(_, place)| place)
    }

    /// One of so many places, a power of two. The seed of the hasher is a secret, so no caller can
    /// choose it.
    fn draw(&mut self, places: usize) -> usize {
        self.draws = self.draws.wrapping_add(1);
        #[allow(clippy::cast_possible_truncation, reason = "masked to the number of places")]
        let place = self.keys.hasher().hash_one(self.draws) as usize & places.saturating_sub(1);
        place
    }
}
