//! [`Eviction`]: which key of a full shard gives its place to a newcomer.
//!
//! Of a handful of keys that are drawn at random from the rule with most of them, the key that has
//! least to lose goes: the one with the smallest share used of its fullest limit. A rule whose keys
//! are minted is soon the largest, and loses its own. A key that has used more than half of a
//! limit, is blocked or holds a reservation stays. So a dropped key gains half of its limit at
//! most, and a draw finds a given key once in a quarter as many as its rule has.

use std::hash::BuildHasher as _;

use foldhash::quality::RandomState;

use super::table::Table;

/// How many keys of the largest rule are compared. More would protect a fuller key better where
/// most are emptier, and be more likely to find it where most are fuller still.
const HANDFUL: usize = 4;
/// How many keys are drawn for them at most.
const DRAWS: usize = 512;

/// Draws keys at random. The seed of the hasher is a secret, so no caller can choose one.
#[derive(Default)]
pub(super) struct Eviction {
    hasher: RandomState,
    draws: u64,
}

impl Eviction {
    /// The position of the key that is dropped; `None` if none of those drawn may go.
    pub(super) fn choose(&mut self, table: &mut Table, now: u64) -> Option<usize> {
        let most = table.rules().of_largest_family();
        let (mut of_largest, mut largest) = (0, 0);
        let mut least: Option<(u64, usize)> = None;
        for _ in 0..DRAWS {
            let position = self.draw(table.len())?;
            let keys = table.of_family(position);
            if keys < largest {
                continue;
            }
            if keys > largest {
                (largest, least) = (keys, None);
            }
            if let Some(loss) = table.loss(position, now)
                && least.is_none_or(|(least, _)| loss < least)
            {
                least = Some((loss, position));
            }
            of_largest += usize::from(keys == most);
            if of_largest == HANDFUL {
                break;
            }
        }
        least.map(|(_, position)| position)
    }

    /// One of so many positions.
    fn draw(&mut self, positions: usize) -> Option<usize> {
        self.draws = self.draws.wrapping_add(1);
        #[allow(
            clippy::cast_possible_truncation,
            reason = "any part of the hash will do"
        )]
        let drawn = self.hasher.hash_one(self.draws) as usize;
        debug_assert!(positions > 0, "a full shard has keys");
        drawn.checked_rem(positions)
    }
}
