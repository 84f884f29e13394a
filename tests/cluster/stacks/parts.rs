//! Whatever a part may be, beside parts on other nodes.

use std::time::Instant;

use ratelimit_runtime::Algorithm;

use super::*;

const NAMES: [&str; PARTS] = ["first", "second", "third"];

/// A rule for each place, and a key of each on a node of its own.
async fn three(kind: Kind, clock: Option<&FakeClock>, max: [u64; PARTS]) -> (Site, [Rule; PARTS]) {
    let site = Site::with_clock(kind, clock).await;
    let rule = |place: usize| Rule::new(NAMES[place], Limit::per_hour(max[place]));
    (site, [0, 1, 2].map(rule))
}

impl Site {
    /// Each of these rules on a key of the node that has its place.
    fn spread(&self, rules: &[Rule]) -> (Vec<u64>, Stack) {
        let keys = rules.iter().enumerate();
        let keys: Vec<u64> = keys.map(|(node, rule)| self.key(rule, node)).collect();
        let parts: Vec<(&Rule, u64)> = rules.iter().zip(keys.iter().copied()).collect();
        let stack = self.stack(&parts);
        (keys, stack)
    }

    async fn all_left(&self, rules: &[Rule], keys: &[u64]) -> Vec<u64> {
        let mut left = Vec::new();
        for (place, (rule, key)) in rules.iter().zip(keys).enumerate() {
            left.push(self.left(place, rule, *key).await);
        }
        left
    }
}

/// Of two charges of one key there is room for one, on whatever nodes the others are.
#[tokio::test]
async fn a_key_twice_in_a_stack_is_charged_twice_or_not_at_all() {
    for kind in KINDS {
        let (site, [mut first, second, _]) = three(kind, None, [3, 9, 0]).await;
        if site.blocks() {
            first = first.with_block(MINUTE);
        }
        let (twice, once) = (site.key(&first, 0), site.key(&second, 1));
        let limiter = site.limiter(0).clone();
        let mut stack = site.stack(&[(&first, twice), (&second, once), (&first, twice)]);
        stack.0[2].as_mut().unwrap().limiter = limiter;
        drop(stack.clone().call().await.unwrap());
        for _ in 0..2 {
            assert_eq!(refused_by(stack.clone().call().await), "first");
        }
        site.settled().await;
        if site.blocks() {
            let unblocked = site.limiter(0).unblock(&first, &Key::of(&twice)).await;
            assert!(unblocked.unwrap(), "it was an offence");
        }
        assert_eq!(site.left(0, &first, twice).await, 1);
        assert_eq!(site.left(1, &second, once).await, 8);
    }
}

#[tokio::test]
async fn a_part_in_shadow_mode_refuses_nothing_and_is_not_asked_where_another_refuses() {
    for kind in KINDS {
        let (site, [first, watched, third]) = three(kind, None, [3, 1, 9]).await;
        let rules = [first, watched.with_shadow(true), third];
        let (keys, stack) = site.spread(&rules);
        for left in [[2, 0, 8], [1, 0, 7]] {
            drop(stack.clone().call().await.unwrap());
            site.settled().await;
            assert_eq!(site.all_left(&rules, &keys).await, left);
        }
        drop(stack.clone().call().await.unwrap());
        let reset = site.limiter(1).reset(&rules[1], &Key::of(&keys[1])).await;
        assert!(reset.unwrap());
        assert_eq!(refused_by(stack.call().await), "first");
        site.settled().await;
        assert_eq!(site.all_left(&rules, &keys).await, [0, 1, 6]);
    }
}

#[tokio::test]
async fn a_stack_waits_for_the_part_that_refuses() {
    const WINDOW: Duration = Duration::from_millis(300);
    for kind in [Kind::Cluster, Kind::TwoLimiters, Kind::WithoutScripts] {
        let site = Site::new(kind).await;
        let rules = [
            Rule::new("first", Limit::per_hour(3)),
            Rule::new("second", Limit::new(1, WINDOW)).with_wait(MINUTE),
        ];
        let (keys, stack) = site.spread(&rules);
        let start = Instant::now();
        for _ in 0..3 {
            drop(stack.clone().call().await.unwrap());
        }
        assert!(start.elapsed() >= 2 * WINDOW);
        assert_eq!(refused_by(stack.call().await), "first");
        site.settled().await;
        assert_eq!(site.left(0, &rules[0], keys[0]).await, 0);
    }
}

/// Without scripts there are no reservations.
fn kinds_with_reservations() -> impl Iterator<Item = Kind> {
    KINDS.into_iter().filter(|kind| kind.has_scripts())
}

#[tokio::test]
async fn outcomes_settle_the_parts_that_they_decide() {
    use Completion::{Commit, CommitActual, Release};
    for kind in kinds_with_reservations() {
        let (site, rules) = three(kind, None, [9, 9, 9]).await;
        let (keys, stack) = site.spread(&rules);
        let stack = stack.charging(0, Charge::ByOutcome);
        let stack = stack.charging(2, Charge::Estimate);
        for (first, third, left) in [
            (Release, CommitActual(5), [9, 8, 4]),
            (Commit, CommitActual(0), [8, 7, 4]),
            (Commit, CommitActual(1), [7, 6, 3]),
        ] {
            let running = stack.clone().call().await.unwrap();
            running.end([first, Commit, third]);
            site.settled().await;
            assert_eq!(site.all_left(&rules, &keys).await, left);
        }
        // A call that is cancelled counts as it was estimated.
        drop(stack.call().await.unwrap());
        site.settled().await;
        assert_eq!(site.all_left(&rules, &keys).await, [6, 5, 2]);
    }
}

#[tokio::test]
async fn each_reservation_is_settled_by_its_own_outcome_where_a_part_is_left_out() {
    for kind in kinds_with_reservations() {
        let (site, rules) = three(kind, None, [9, 9, 9]).await;
        let (keys, stack) = site.spread(&rules);
        let mut stack = stack.charging(0, Charge::ByOutcome);
        stack = stack.charging(2, Charge::ByOutcome);
        stack.0[1] = None;
        let running = stack.call().await.unwrap();
        running.end([Completion::Release, Completion::Release, Completion::Commit]);
        site.settled().await;
        assert_eq!(site.all_left(&rules, &keys).await, [9, 9, 8]);
    }
}

/// Each refusal that alone keeps a call out is an offence, and no other.
#[tokio::test]
async fn blocks_grow_by_offences_alone() {
    for kind in kinds_with_reservations() {
        let clock = FakeClock::new();
        let (site, [first, second, _]) = three(kind, Some(&clock), [1, 1, 0]).await;
        let rules = [first.with_growing_block(MINUTE, 60 * MINUTE), second];
        let (keys, stack) = site.spread(&rules);
        let refused = async |by| {
            let outcome = stack.clone().call().await;
            let error = outcome.unwrap_err();
            let refusal = error.decision().unwrap();
            assert_eq!(refusal.rule(), by);
            site.settled().await;
            site.peek(0, &rules[0], keys[0]).await
        };
        site.charge(0, &rules[0], keys[0], 1).await;
        let mut minutes = 1;
        for _ in 0..3 {
            let blocked = refused("first").await;
            assert!(blocked.is_blocked());
            assert_eq!(
                blocked.retry_after(),
                Some(minutes * MINUTE).max(blocked.retry_after())
            );
            // Refusals by the block do not count.
            assert!(refused("first").await.is_blocked());
            clock.advance(minutes * MINUTE);
            assert!(
                !site.peek(0, &rules[0], keys[0]).await.is_blocked(),
                "{minutes}"
            );
            minutes *= 2;
        }
        site.charge(1, &rules[1], keys[1], 1).await;
        for _ in 0..3 {
            assert!(!refused("second").await.is_blocked(), "both refuse");
        }
    }
}

/// Its two keys are on two nodes.
#[tokio::test]
async fn a_rule_with_permits_charges_and_takes_one_or_does_neither() {
    let site = Site::new(Kind::Cluster).await;
    let rule = Rule::new("single", Limit::per_hour(3))
        .with_concurrent(1)
        .with_block(MINUTE);
    let limits = Rule::new("single", Limit::per_hour(3));
    let permits = format!("{}:rl1:cc:single:", site.prefix);
    let key = site
        .keys(&limits, 0)
        .find(|key| node_of(&format!("{permits}<{key}>")) == 1);
    let key = Key::of(&key.unwrap());
    let limiter = site.limiter(0);
    let state = async || {
        settled(limiter).await;
        let left = limiter.peek(&limits, &key).await.unwrap();
        let in_flight = limiter.in_flight(&rule, &key).await.unwrap();
        (left.remaining(), left.is_blocked(), in_flight)
    };
    let permit = limiter.enter(&rule, &key).await.unwrap();
    assert_eq!(state().await, (2, false, 1));
    let refused = limiter.enter(&rule, &key).await.unwrap_err();
    assert!(refused.decision().unwrap().is_in_flight_limit());
    assert_eq!(state().await, (2, false, 1));
    for left in [1, 0] {
        let admitted = limiter.acquire(&limits, &key).await.unwrap();
        assert_eq!(admitted.remaining(), left);
    }
    // Another process, which does not know that the permit is taken.
    let elsewhere = site.elsewhere().await;
    let elsewhere = elsewhere.limiter(0);
    let refused = elsewhere.enter(&rule, &key).await.unwrap_err();
    assert!(!refused.decision().unwrap().is_in_flight_limit());
    assert_eq!(state().await, (0, false, 1), "the permit refuses too");
    drop(permit);
    settled(limiter).await;
    let refused = elsewhere.enter(&rule, &key).await.unwrap_err();
    assert!(refused.decision().unwrap().is_blocked());
    assert_eq!(state().await, (0, true, 0));
}

/// A call that costs more than a part ever admits, one whose part admits nobody, one with a
/// mistake: nothing of the other parts is charged.
#[tokio::test]
async fn a_part_that_cannot_be_asked_ends_the_call_before_any_is_charged() {
    for kind in KINDS {
        let (site, [first, second, _]) = three(kind, None, [5, 5, 0]).await;
        let first = if site.blocks() {
            first.with_block(MINUTE)
        } else {
            first
        };
        let limits =
            |error: &RateLimitError| matches!(error, RateLimitError::CostExceedsLimit { .. });
        let nothing =
            |error: &RateLimitError| error.decision().is_some_and(|refusal| refusal.limit() == 0);
        let mistake = |error: &RateLimitError| matches!(error, RateLimitError::Misconfigured(_));
        let key = site.key(&second, 1);
        let (alice, named) = (site.key(&first, 0), second.with_policy("unknown"));
        let second = Rule::new("second", Limit::per_hour(5));
        for (part, is_it) in [
            (second.with_cost(6), &limits as &dyn Fn(&_) -> bool),
            (second.with_max(0), &nothing),
            (named, &mistake),
        ] {
            for parts in [
                [(&first, alice), (&part, key)],
                [(&first, alice), (&part, key)],
            ] {
                let error = site.stack(&parts).call().await.unwrap_err();
                assert!(is_it(&error), "{error:?}");
            }
        }
        site.settled().await;
        assert_eq!(site.left(0, &first, alice).await, 5);
    }
}

/// Callers of two stacks in opposite order, who come again as they are told, use up the limits.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stacks_in_opposite_order_use_up_their_limits_and_no_more() {
    const CALLERS: usize = 40;
    for kind in KINDS {
        let (site, [first, second, _]) = three(kind, None, [7, 7, 0]).await;
        let rules = [first, second];
        let (keys, stack) = site.spread(&rules);
        let mut opposite = stack.clone();
        opposite.0.reverse();
        let mut callers = tokio::task::JoinSet::new();
        for caller in 0..CALLERS {
            let stack = [&stack, &opposite][caller % 2].clone();
            callers.spawn(async move {
                loop {
                    let refused = match stack.clone().call().await {
                        Ok(_) => return true,
                        Err(error) => error.retry_after().unwrap(),
                    };
                    if refused > Duration::from_secs(1) {
                        return false;
                    }
                    tokio::time::sleep(refused).await;
                }
            });
        }
        let admitted = callers.join_all().await;
        let admitted = admitted.iter().filter(|is| **is).count();
        // Without scripts a charge that is about to be given back tells others the whole wait.
        let is_all = admitted == 7 || (!kind.has_scripts() && admitted < 7);
        assert!(is_all, "{admitted}");
        site.settled().await;
        let left = 7 - u64::try_from(admitted).unwrap();
        assert_eq!(site.all_left(&rules, &keys).await, [left; 2]);
    }
}

/// Parts on several nodes are committed in the background, perhaps on another thread.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_charged_is_refunded_at_once() {
    for kind in KINDS {
        let site = Site::new(kind).await;
        let limiter = site.limiter(0);
        for &algorithm in Algorithm::ALL {
            let rule = |place| Rule::named(format!("{place}-{algorithm}"), Limit::per_hour(9));
            let rules = [0, 1].map(|place| rule(place).with_algorithm(algorithm).with_cost(3));
            let keys = [0, 1].map(|node| site.keys(&rules[node], node).take(20));
            let [first, second] = keys;
            for keys in first.zip(second).map(|(one, other)| [one, other]) {
                let keys = keys.map(|key| Key::of(&key));
                let stack = rules.iter().zip(&keys);
                let admitted = limiter.acquire_all(stack.clone()).await;
                if !kind.has_scripts() && admitted.is_err() {
                    break; // Only logs give back.
                }
                for ((rule, key), admission) in stack.clone().zip(&admitted.unwrap()) {
                    let refunded = limiter.refund(rule, key, admission).await;
                    assert!(refunded.unwrap(), "{algorithm}");
                }
                site.settled().await;
                for (rule, key) in stack {
                    let left = limiter.peek(rule, key).await.unwrap().remaining();
                    // A bucket keeps what would have drained until the commit.
                    let least = if algorithm.has_burst() { 8 } else { 9 };
                    assert!(left >= least, "{algorithm}: {left}");
                }
            }
        }
    }
}
