//! The full suite: which cases there are, and what a store has to be able to do for each.

use std::future::Future;

use super::capabilities::assert_unsupported;
use super::{Bench, Capabilities, Feature, answered};
use crate::Algorithm;
use crate::store::Store;
use crate::testkit::FakeClock;

pub(super) const ALGORITHMS: [Algorithm; 5] = [
    Algorithm::SlidingWindow,
    Algorithm::SlidingCounter,
    Algorithm::FixedWindow,
    Algorithm::TokenBucket,
    Algorithm::LeakyBucket,
];

/// Runs one case of the full suite, or, if the store does not claim what it needs, makes sure that the store says so.
#[doc(hidden)]
pub fn run_under<S, F, M, C, T>(
    name: &str,
    factory: F,
    capabilities: Capabilities,
    algorithm: Algorithm,
    needs: &[Feature],
    case: C,
) where
    S: Store,
    F: FnOnce() -> M,
    M: Future<Output = (S, FakeClock)>,
    C: FnOnce(Bench<S>, Algorithm) -> T,
    T: Future<Output = ()>,
{
    let runtime = answered(tokio::runtime::Builder::new_current_thread().enable_all().build());
    runtime.block_on(async {
        let (store, clock) = Box::pin(factory()).await;
        let missing = if capabilities.has_algorithm(algorithm) {
            needs.iter().find(|feature| !capabilities.has(algorithm, **feature)).copied().map(Some)
        } else {
            Some(None)
        };
        let bench = Bench::new(store, clock, name, capabilities);
        let Some(missing) = missing else {
            Box::pin(case(bench, algorithm)).await;
            return;
        };
        #[allow(clippy::print_stdout, reason = "whoever reads the tests' output is told what was not tried")]
        {
            println!("not tried: the store does not claim {missing:?} under {algorithm:?}, and has to say so");
        }
        Box::pin(assert_unsupported(bench.subject("", algorithm, 5), missing)).await;
    });
}

#[doc(hidden)]
#[macro_export]
macro_rules! __conformance_algorithms {
    ($factory:expr, $capabilities:expr; $($module:ident $algorithm:ident,)*) => {$(
        mod $module {
            #[allow(unused_imports, reason = "the factory may name what stands around the module")]
            use super::*;

            $crate::__conformance_cases! { $factory, $capabilities, $crate::Algorithm::$algorithm;
                at_one_moment_exactly_max_pass []
                refused_calls_change_nothing []
                max_may_fall_below_what_is_used []
                max_may_rise []
                random_calls_agree_with_the_model []
                a_clock_that_steps_back_frees_nothing []
                a_clock_that_goes_to_and_fro_frees_nothing []
                a_clock_that_steps_back_keeps_no_key_longer []
                a_clock_that_jumps_ahead_finds_keys_whole []
                calls_use_what_they_cost [Cost]
                a_refusal_names_the_exact_moment_for_its_cost [Cost]
                a_cost_of_0_charges_nothing [Cost]
                the_largest_counts_are_exact [Cost LargeCost]
                a_call_is_charged_to_all_limits_or_none [Limits]
                the_limit_that_decides_is_named [Limits]
                the_wait_satisfies_all_limits [Limits]
                eight_limits_are_kept [Limits]
                a_refund_gives_back_what_was_charged [Refund]
                a_refund_of_a_heavy_call_gives_back_its_cost [Refund Cost]
                a_refund_of_nothing_makes_no_key [Refund]
                what_has_expired_is_not_given_back [Refund]
                what_was_reset_is_not_given_back [Refund]
                refunds_never_free_more_than_was_taken [Refund]
                a_thousand_reservations_cannot_pass_a_limit_of_five [Reserve]
                a_refusal_by_reservations_alone_is_short [Reserve Block]
                what_was_committed_counts [Reserve Block]
                charges_behind_reservations_are_waited_for [Reserve]
                a_reservation_that_is_given_back_is_free [Reserve]
                a_commit_of_nothing_is_false [Reserve]
                a_reservation_that_nobody_settles_expires [Reserve]
                a_blocked_key_is_refused_until_the_ban_is_over [Block]
                a_ban_outlives_the_window_and_is_not_extended [Block]
                peek_bans_nobody [Block]
                a_ban_leaves_the_charges [Block]
                a_later_ban_replaces_an_earlier_one [Block]
                unblock_makes_no_key_and_reset_lifts_a_ban [Block]
                a_ban_that_is_over_stays_over [Block]
                all_keys_are_charged_or_none [Together]
                the_longest_wait_is_enough_for_all [Together]
                algorithms_may_be_mixed [Together]
                one_key_twice_is_charged_twice_or_not_at_all [Together]
                parallel_groups_pass_no_limit [Together]
                only_those_that_refuse_ban [Together Block]
            }
        }
    )*};
}

#[doc(hidden)]
#[macro_export]
macro_rules! __conformance_cases {
    ($factory:expr, $capabilities:expr, $algorithm:expr; $($case:ident [$($need:ident)*])*) => {$(
        #[test]
        fn $case() {
            $crate::testkit::conformance::run_under(
                stringify!($case),
                $factory,
                $capabilities,
                $algorithm,
                &[$($crate::testkit::conformance::Feature::$need),*],
                $crate::testkit::conformance::$case,
            );
        }
    )*};
}
