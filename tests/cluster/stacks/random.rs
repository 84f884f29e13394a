//! Random stacks, called at once, dropped, refused and blocked, against a memory that is charged
//! what was admitted.

use std::collections::HashMap;

use ratelimit_runtime::Algorithm;
use tokio::task::JoinSet;

use super::*;
use crate::support::random::{Random, seed};

const ROUNDS: usize = 60;
const KEYS: u64 = 4;
/// Of those that are dropped in a round, each may be charged or not.
const DROPPED: usize = 6;
const WINDOW: Duration = MINUTE;

/// A key under a rule, by their numbers.
type Place = (usize, u64);

/// What became of a call.
enum Fate {
    Admitted(Running),
    /// By the rule of this name.
    Refused(&'static str),
    Dropped,
}

struct Model {
    rules: Vec<Rule>,
    /// That of the limits alone, to look at and to charge.
    limits: Vec<Rule>,
    clock: FakeClock,
    site: Site,
    twin: RateLimiter,
    random: Random,
    /// How many calls were admitted, refused, dropped, dropped and charged; how many keys blocked.
    counts: [usize; 5],
}

fn rules(blocks: bool) -> Vec<Rule> {
    let rule =
        |name, max, algorithm| Rule::new(name, Limit::new(max, WINDOW)).with_algorithm(algorithm);
    let blocking = rule("blocking", 6, Algorithm::SlidingWindow);
    vec![
        rule("log", 7, Algorithm::SlidingWindow),
        rule("counter", 9, Algorithm::SlidingCounter),
        rule("fixed", 5, Algorithm::FixedWindow),
        rule("token", 8, Algorithm::TokenBucket),
        rule("leaky", 6, Algorithm::LeakyBucket),
        rule("heavy", 20, Algorithm::TokenBucket).with_cost(7),
        if blocks {
            blocking.with_block(WINDOW / 2)
        } else {
            blocking
        },
    ]
}

impl Model {
    async fn new(kind: Kind, random: Random) -> Self {
        let clock = FakeClock::new();
        let site = Site::with_clock(kind, Some(&clock)).await;
        let limits = rules(site.blocks());
        let mut rules = limits.clone();
        if site.blocks() {
            rules[0] = rules[0].clone().with_concurrent(5);
        }
        let twin = strict().store(MemoryStore::new().with_clock(clock.clone()));
        Self {
            rules,
            limits,
            twin: twin.build().unwrap(),
            clock,
            site,
            random,
            counts: [0; 5],
        }
    }

    /// Of one to three parts, whose keys and rules may be the same.
    fn stack(&mut self) -> Vec<Place> {
        let parts = 1 + self.random.below(PARTS as u64);
        let place = |_| {
            let rule = self.random.below(self.rules.len() as u64);
            (usize::try_from(rule).unwrap(), self.random.below(KEYS))
        };
        (0..parts).map(place).collect()
    }

    async fn look(&self, limiter: &RateLimiter) -> HashMap<Place, (u64, bool)> {
        let mut seen = HashMap::new();
        for (rule, limits) in self.limits.iter().enumerate() {
            for key in 0..KEYS {
                let peeked = limiter.peek(&limits.with_cost(1), &Key::of(&key)).await;
                let peeked = peeked.unwrap();
                seen.insert((rule, key), (peeked.remaining(), peeked.is_blocked()));
            }
        }
        seen
    }

    /// Whether every part would be admitted, as far as its own key goes.
    async fn admits(&self, (rule, key): Place) -> bool {
        let peeked = self.twin.peek(&self.limits[rule], &Key::of(&key)).await;
        peeked.unwrap().is_allowed()
    }

    /// The rule whose limit never admits what the stack asks of one of its keys in all.
    fn never_fits(&self, stack: &[Place]) -> Option<&'static str> {
        let never = stack.iter().find(|place| {
            let same = stack.iter().filter(|other| other == place).count() as u64;
            let rule = &self.limits[place.0];
            rule.cost() * same > rule.limits()[0].max()
        });
        never.map(|place| self.limits[place.0].name())
    }

    async fn charge(&self, stack: &[Place], limiter: &RateLimiter) {
        for &(rule, key) in stack {
            let rule = without_block(&self.limits[rule]);
            let charged = limiter.acquire(&rule, &Key::of(&key)).await;
            let charged = charged.unwrap_or_else(|error| panic!("{}: {error}", rule.name()));
            assert!(charged.is_allowed());
        }
    }

    async fn round(&mut self) {
        let calls: Vec<Vec<Place>> = (0..4 + self.random.below(20))
            .map(|_| self.stack())
            .collect();
        let mut full = HashMap::new();
        for &place in calls.iter().flatten() {
            full.insert(place, !self.admits(place).await);
        }
        let mut running = JoinSet::new();
        let mut may_drop = DROPPED;
        for (number, places) in calls.iter().enumerate() {
            let parts: Vec<(&Rule, u64)> = places
                .iter()
                .map(|(rule, key)| (&self.rules[*rule], *key))
                .collect();
            let stack = self.site.stack(&parts);
            let drops = may_drop > 0 && self.random.below(4) == 0;
            may_drop -= usize::from(drops);
            let polls = self.random.below(7);
            let never_fits = self.never_fits(places);
            running.spawn(async move {
                let outcome = if drops {
                    polled(stack.call(), polls).await
                } else {
                    Some(stack.call().await)
                };
                let fate = match (outcome, never_fits) {
                    (None, _) => Fate::Dropped,
                    (Some(Ok(running)), None) => Fate::Admitted(running),
                    (Some(Err(RateLimitError::Exceeded(refusal))), None) => {
                        Fate::Refused(refusal.rule())
                    }
                    (Some(Err(RateLimitError::CostExceedsLimit { .. })), Some(rule)) => {
                        Fate::Refused(rule)
                    }
                    (Some(outcome), _) => panic!("{:?}, {never_fits:?}", outcome.err()),
                };
                (number, fate)
            });
        }
        let (mut dropped, mut refused, mut permits) = (Vec::new(), Vec::new(), Vec::new());
        let mut in_flight: HashMap<Place, u64> = HashMap::new();
        while let Some(ended) = running.join_next().await {
            let (number, fate) = ended.unwrap();
            let stack = &calls[number];
            match fate {
                Fate::Admitted(running) => {
                    self.charge(stack, &self.twin).await;
                    for place in stack
                        .iter()
                        .filter(|(rule, _)| self.rules[*rule].concurrent().is_some())
                    {
                        *in_flight.entry(*place).or_default() += 1;
                    }
                    permits.push(running);
                }
                Fate::Refused(by) => refused.push((stack, Some(by))),
                Fate::Dropped => {
                    dropped.push(stack.clone());
                    refused.push((stack, None));
                }
            }
        }
        let counts = [permits.len(), refused.len() - dropped.len(), dropped.len()];
        for (count, more) in self.counts.iter_mut().zip(counts) {
            *count += more;
        }
        assert!(in_flight.values().all(|held| *held <= 5), "{in_flight:?}");
        drop(permits);
        self.site.settled().await;
        let blocked = self.new_blocks(&refused, &full).await;
        let limiter = self.site.limiter(0);
        // Below a block nothing is seen of the charges.
        for (rule, key) in &blocked {
            assert!(limiter.unblock(rule, key).await.unwrap());
        }
        let seen = self.look(limiter).await;
        // Those that were dropped are charged as a whole or not at all: some choice of them fits.
        let chosen = self.explain(&seen, &dropped).await;
        let more = [chosen.len(), blocked.len()];
        for stack in chosen {
            self.charge(stack, &self.twin).await;
        }
        assert_eq!(self.look(&self.twin).await, seen);
        for (rule, key) in &blocked {
            for limiter in [limiter, &self.twin] {
                limiter.block(rule, key, WINDOW / 2).await.unwrap();
            }
        }
        for (count, more) in self.counts.iter_mut().skip(3).zip(more) {
            *count += more;
        }
    }

    /// The calls among these that were charged.
    async fn explain<'a>(
        &self,
        seen: &HashMap<Place, (u64, bool)>,
        dropped: &'a [Vec<Place>],
    ) -> Vec<&'a Vec<Place>> {
        let before = self.look(&self.twin).await;
        let fits = |chosen: &u64| {
            let mut left: HashMap<Place, u64> = before
                .iter()
                .map(|(place, (left, _))| (*place, *left))
                .collect();
            for place in chosen_of(dropped, *chosen).flatten() {
                let cost = self.limits[place.0].cost();
                let Some(after) = left[place].checked_sub(cost) else {
                    return false;
                };
                left.insert(*place, after);
            }
            // Nothing is left of a key that is blocked.
            left.iter()
                .all(|(place, left)| seen[place].1 || seen[place].0 == *left)
        };
        let chosen = (0..1_u64 << dropped.len()).find(fits);
        let chosen = chosen.unwrap_or_else(|| {
            let differ = before
                .iter()
                .filter(|(place, seen_before)| seen[place] != **seen_before);
            let differ: Vec<_> = differ
                .map(|(place, before)| (place, before, seen[place]))
                .collect();
            panic!("no choice of the dropped calls {dropped:?} explains {differ:?}")
        });
        chosen_of(dropped, chosen).collect()
    }

    /// The keys that were blocked in this round: each by a call which nothing else kept out.
    async fn new_blocks(
        &self,
        refused: &[(&Vec<Place>, Option<&str>)],
        full: &HashMap<Place, bool>,
    ) -> Vec<(&Rule, Key)> {
        let mut blocked = Vec::new();
        let before = self.look(&self.twin).await;
        for (place, (_, is_blocked)) in self.look(self.site.limiter(0)).await {
            if !is_blocked || before[&place].1 {
                continue;
            }
            let rule = &self.limits[place.0];
            let is_offence = refused.iter().any(|(stack, by)| {
                let mut others = stack.iter().filter(|other| **other != place);
                stack.contains(&place)
                    && by.is_none_or(|by| by == rule.name())
                    && others.all(|other| !full[other])
            });
            assert!(is_offence, "{place:?} is blocked by none of {refused:?}");
            blocked.push((rule, Key::of(&place.1)));
        }
        blocked
    }
}

fn chosen_of(dropped: &[Vec<Place>], chosen: u64) -> impl Iterator<Item = &Vec<Place>> {
    let is_chosen = move |(at, _): &(usize, &Vec<Place>)| chosen >> at & 1 == 1;
    dropped
        .iter()
        .enumerate()
        .filter(is_chosen)
        .map(|(_, stack)| stack)
}

fn without_block(rule: &Rule) -> Rule {
    let [limit] = rule.limits() else {
        unreachable!("it has one")
    };
    let plain = Rule::new(rule.name(), *limit).with_algorithm(rule.algorithm());
    plain.with_cost(rule.cost())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn random_stacks_charge_what_they_admit_and_nothing_else() {
    let mut random = Random::new(seed());
    for kind in [
        Kind::Cluster,
        Kind::OneServer,
        Kind::LayerOnRedis,
        Kind::Memory,
    ] {
        let mut model = Model::new(kind, random.fork()).await;
        for _ in 0..ROUNDS {
            model.round().await;
            let by = model.random.about(WINDOW / 8);
            model.clock.advance(by);
        }
        println!(
            "{kind:?}: admitted, refused, dropped, and charged, blocked: {:?}",
            model.counts
        );
        let least = [200, 100, 0, 0, 3];
        assert!(
            model
                .counts
                .iter()
                .zip(least)
                .all(|(count, least)| *count >= least)
        );
    }
}
