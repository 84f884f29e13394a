use super::*;
use crate::rule::Algorithm;

const START: u64 = 1_000_000_000;
const MINUTE: u64 = 60_000_000;

fn demand(limits: &[Limit], cost: u64) -> Demand<'_> {
    Demand { algorithm: Algorithm::SlidingWindow, limits, cost }
}

fn left(log: &mut Log, limits: &[Limit], now: u64) -> Vec<u64> {
    log.statuses(&demand(limits, 1), now).iter().map(|status| status.remaining).collect()
}

#[test]
fn a_refund_takes_out_the_units_that_it_names_once_and_none_of_an_estimate() {
    let limits = [Limit::per_minute(10)];
    let mut log = Log::default();
    let ticket = log.charge(&demand(&limits, 5), START);
    let estimate = log.charge_estimate(&demand(&limits, 2), START);
    assert_eq!((ticket, estimate), (START, START + 5));
    assert!(log.refund(&demand(&limits, 2), ticket + 1, START));
    assert!(!log.refund(&demand(&limits, 2), ticket + 1, START));
    assert!(!log.refund(&demand(&limits, 2), estimate, START));
    // Of the units at 0, 3 and 4, two have lapsed.
    for (at, remaining) in [(1, 5), (MINUTE, 6), (MINUTE + 3, 7), (MINUTE + 4, 8), (MINUTE + 6, 10)] {
        assert_eq!(left(&mut log, &limits, START + at), [remaining], "{at}");
    }
    assert!(!log.refund(&demand(&limits, 5), ticket, START + MINUTE + 6));
}

#[test]
fn no_ticket_is_given_twice_after_a_removal() {
    let limits = [Limit::per_minute(10)];
    let mut log = Log::default();
    let ticket = log.charge(&demand(&limits, 3), START);
    assert!(log.refund(&demand(&limits, 3), ticket, START));
    assert_eq!(log.charge(&demand(&limits, 1), START), START + 3);
    log.clear();
    assert_eq!(log.charge(&demand(&limits, 1), START), START + 4);
}

#[test]
fn an_actual_cost_counts_up_to_a_thousand() {
    let limits = [Limit::per_minute(3_000)];
    let mut log = Log::default();
    let ticket = log.charge_estimate(&demand(&limits, 10), START);
    let settlement = Settlement { ticket, is_estimate: true, actual: 2_500, is_sent_again: false };
    let outcome = log.settle(&demand(&limits, 10), &settlement, START + 1);
    assert_eq!((outcome.was_open, outcome.dropped), (true, 1_500));
    assert_eq!(left(&mut log, &limits, START + 1), [2_000]);
    assert!(!log.settle(&demand(&limits, 10), &settlement, START + 2).was_open);
}

#[test]
fn a_copy_says_the_same_and_counts_no_shorter() {
    let limits = [Limit::per_minute(20), Limit::new(40, std::time::Duration::from_secs(600))];
    let mut log = Log::default();
    for (at, cost) in [(0, 4), (MINUTE / 2, 3), (MINUTE, 5)] {
        let _ = log.reserve(&demand(&limits, cost), START + at);
    }
    let now = START + MINUTE + 2;
    let mut copy = log.copy(&demand(&limits, 1), now);
    assert_eq!(left(&mut copy, &limits, now), [11, 28]);
    for later in [MINUTE / 2, MINUTE, 9 * MINUTE, 10 * MINUTE] {
        let (copied, own) = (left(&mut copy, &limits, now + later), left(&mut log, &limits, now + later));
        assert!(copied.iter().zip(&own).all(|(copied, own)| copied <= own), "{later}: {copied:?} {own:?}");
    }
    assert_eq!(left(&mut copy, &limits, now + 20 * MINUTE), [20, 40]);
}
