//! [`Eviction`]: chooses the key of a full shard that makes room.
//!
//! Of a handful of keys, drawn at random from the rule with the most keys, it drops the key that
//! has least to lose: that with the smallest used share of its fullest limit. A rule with many
//! short-lived keys is soon the largest, and loses its own. A key that has used more than half of a
//! limit, is blocked or holds a reservation stays. So a dropped key gains at most half of its
//! limit, and it takes on average a quarter as many draws as its rule has keys to find a given key.

use std::hash::BuildHasher as _;

use foldhash::quality::RandomState;

use super::table::KeyTable;

/// The number of keys of the largest rule that are compared. More would protect a fuller key better
/// if most are emptier, and be more likely to find it if most are fuller still.
const HANDFUL: usize = 4;
/// The most keys that are drawn to find them.
const DRAWS: usize = 512;

/// Draws keys at random. The seed of the hasher is secret, so no caller can choose a key.
#[derive(Default)]
pub(super) struct Eviction {
    hasher: RandomState,
    draws: u64,
}

impl Eviction {
    /// The position of the key to drop; `None` if no drawn key may be dropped.
    pub(super) fn choose(&mut self, table: &mut KeyTable, now: u64) -> Option<usize> {
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

    /// A random position below `positions`; `None` if that is 0.
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
