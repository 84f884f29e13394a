//! Which cases there are, what each needs of a store, and how they are played.

use std::any::Any;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;

use ratelimit_runtime::store::Feature::{
    ActualCost, Block, Calendar, GrowingBlock, Keys, Limits, Refund, Reserve,
};
use ratelimit_runtime::store::Store;
use ratelimit_runtime::testkit::FakeClock;
use ratelimit_runtime::{Algorithm, Limit};

use crate::bench::{Bench, answered};
use crate::declared::{
    actual_costs, blocks, calendar, growing_blocks, in_flight, keys, limits, refunds, reservations,
    stacks,
};
use crate::every::{agreement, answers, clocks, costs, counting, waits};
use crate::undeclared::Need::{self, Costs, FixedWindow, Has, Permits, SlidingWindow};

/// Hands the list of cases to a macro. Behind each stands what it needs.
#[doc(hidden)]
#[macro_export]
macro_rules! __cases {
    ($then:path, $with:tt) => {
        $then! {
            $with
            counting::exactly_max_pass []
            counting::a_burst_is_for_those_that_have_one []
            counting::a_burst_admits_exactly_max []
            counting::the_largest_max_is_counted_down []
            counting::peek_changes_nothing []
            counting::reset_frees_everything []
            counting::keys_are_independent []
            counting::hostile_keys_are_keys []
            counting::max_may_fall_below_what_is_used []
            counting::max_may_rise []
            costs::a_cost_of_0_charges_nothing [Costs(4)]
            costs::the_largest_counts_are_exact [Costs(Limit::MAX_COUNT)]
            waits::a_window_of_a_millisecond []
            waits::a_window_of_366_days []
            waits::a_heavy_call_comes_free_unit_by_unit [SlidingWindow, Costs(5)]
            clocks::a_clock_that_steps_back_frees_nothing []
            clocks::a_clock_that_goes_to_and_fro_frees_nothing []
            clocks::what_was_admitted_before_a_step_back_counts_for_its_time [SlidingWindow]
            agreement::random_calls_agree_with_the_reference []
            limits::a_call_is_charged_to_all_limits_or_none [Has(Limits)]
            limits::eight_limits_are_kept [Has(Limits)]
            refunds::a_refund_gives_back_what_was_charged [Has(Refund)]
            refunds::a_refund_of_a_heavy_call_gives_back_its_cost [Has(Refund), Costs(6)]
            refunds::a_refund_of_nothing_makes_no_key [Has(Refund)]
            refunds::what_has_expired_is_not_given_back [Has(Refund)]
            refunds::what_was_reset_is_not_given_back [Has(Refund)]
            refunds::refunds_never_free_more_than_was_taken [Has(Refund)]
            refunds::a_refund_is_of_the_units_of_its_call [SlidingWindow, Has(Refund), Costs(2)]
            refunds::a_refund_leaves_open_estimates_alone [SlidingWindow, Has(Refund), Has(ActualCost), Costs(3)]
            reservations::a_thousand_reservations_cannot_pass_a_limit_of_five [Has(Reserve)]
            reservations::calls_that_are_still_running_block_no_key [Has(Reserve), Has(Block)]
            reservations::what_was_committed_counts [Has(Reserve), Has(Block)]
            reservations::what_has_left_one_window_counts_in_another [Has(Limits), Has(Reserve)]
            reservations::charges_behind_reservations_are_waited_for [Has(Reserve)]
            reservations::a_release_gives_back_all_that_was_reserved [Has(Reserve), Costs(5)]
            reservations::a_commit_of_nothing_is_false [Has(Reserve)]
            reservations::an_open_reservation_expires [Has(Reserve)]
            reservations::calls_that_do_not_count_use_nothing [Has(Reserve)]
            reservations::lost_reservations_are_forgotten_while_the_key_is_in_use [Has(Reserve)]
            actual_costs::a_debt_is_bounded [Has(ActualCost), Costs(10)]
            actual_costs::an_open_estimate_is_a_charge [Has(ActualCost), Has(Block)]
            actual_costs::estimates_that_overlap_are_given_back [Has(ActualCost), Costs(10)]
            actual_costs::a_bucket_gives_back_no_more_than_was_not_used [Has(ActualCost), Costs(20)]
            actual_costs::a_settlement_that_is_sent_again_charges_nothing_anew [Has(ActualCost), Costs(5)]
            actual_costs::random_actual_costs_agree_with_the_model [Has(ActualCost), Costs(60)]
            actual_costs::a_settled_reservation_stays_settled [SlidingWindow, Has(ActualCost), Costs(2)]
            blocks::a_blocked_key_is_refused_until_the_block_is_over [Has(Block)]
            blocks::a_block_outlives_the_window_and_is_not_extended [Has(Block)]
            blocks::peek_blocks_no_key [Has(Block)]
            blocks::a_block_leaves_the_charges [Has(Block)]
            blocks::unblock_makes_no_key_and_reset_ends_a_block [Has(Block)]
            blocks::a_clock_that_steps_back_leaves_a_block_until_its_moment [Has(Block)]
            blocks::a_block_that_is_set_while_the_clock_is_behind_is_kept [Has(Block)]
            growing_blocks::a_clock_that_steps_back_forgets_no_offences [Has(GrowingBlock)]
            growing_blocks::unblock_and_reset_forget_offences [Has(GrowingBlock)]
            growing_blocks::a_block_by_hand_has_its_own_length [Has(GrowingBlock)]
            growing_blocks::the_rule_that_asks_says_how_blocks_grow [Has(GrowingBlock)]
            growing_blocks::offences_survive_what_is_charged [Has(GrowingBlock)]
            growing_blocks::random_offences_agree_with_the_model [Has(GrowingBlock)]
            stacks::all_keys_are_charged_or_none [Has(Refund)]
            stacks::the_longest_wait_is_enough_for_all [Has(Refund)]
            stacks::a_key_that_stands_twice_has_room_for_both [Has(Refund), Costs(2)]
            stacks::a_key_that_stands_twice_is_blocked_once [Has(Refund), Has(Block)]
            stacks::algorithms_may_be_mixed [Has(Refund)]
            stacks::parallel_stacks_pass_no_limit [Has(Refund)]
            stacks::only_those_that_refuse_block [Has(Refund), Has(Block)]
            in_flight::a_permit_is_held_until_it_is_dropped [Permits]
            in_flight::a_call_without_a_permit_is_charged_nothing [Permits]
            in_flight::random_calls_in_flight_agree_with_the_model [Permits]
            keys::a_list_has_the_keys_of_its_rule [Has(Keys)]
            calendar::a_window_ends_with_its_unit [FixedWindow, Has(Calendar)]
            calendar::a_refund_is_of_its_window [FixedWindow, Has(Calendar), Has(Refund), Costs(2)]
            calendar::a_settlement_is_of_the_day_in_which_it_comes [FixedWindow, Has(Calendar), Has(ActualCost), Costs(3)]
            calendar::a_clock_set_back_frees_nothing [FixedWindow, Has(Calendar), Has(Limits)]
            calendar::random_calls_agree_with_the_calendar [FixedWindow, Has(Calendar), Has(Limits), Costs(3)]
            answers::an_answer_that_is_not_polled_has_done_nothing []
            answers::a_refund_that_is_not_polled_can_still_be_had [Has(Refund)]
            answers::a_commit_that_is_not_polled_leaves_the_reservation_open [Has(Reserve)]
            answers::a_block_that_is_not_polled_blocks_no_key [Has(Block)]
        }
    };
}

type Playing = Pin<Box<dyn Future<Output = ()>>>;

struct Case {
    name: &'static str,
    needs: &'static [Need],
    play: fn(Bench, Algorithm) -> Playing,
}

macro_rules! table {
    (() $($folder:ident::$case:ident [$($need:expr),*])*) => {
        const CASES: &[Case] = &[$(Case {
            name: stringify!($case),
            needs: &[$($need),*],
            play: |bench, algorithm| Box::pin($folder::$case(bench, algorithm)),
        }),*];
    };
}

__cases!(table, ());

/// Every algorithm that a rule can ask for.
pub const ALGORITHMS: &[Algorithm] = Algorithm::ALL;

/// Plays one case under each algorithm that the case is about. Where the store does not declare
/// what the case needs, makes sure that a limiter reports it.
///
/// # Panics
///
/// If the store fails the case: with the algorithm and the words.
#[doc(hidden)]
pub fn run<S, F, M>(name: &str, factory: F)
where
    S: Store,
    F: Fn() -> M,
    M: Future<Output = (S, FakeClock)>,
{
    let case = CASES.iter().find(|case| case.name == name);
    #[allow(clippy::panic, reason = "the macro names the cases of the table")]
    let Some(case) = case else {
        panic!("there is no case `{name}`")
    };
    let failed = failures(case, &factory);
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

fn failures<S, F, M>(case: &Case, factory: &F) -> Vec<String>
where
    S: Store,
    F: Fn() -> M,
    M: Future<Output = (S, FakeClock)>,
{
    let of_case = |algorithm: &Algorithm| case.needs.iter().all(|need| need.is_about(*algorithm));
    let failed = |algorithm: Algorithm| {
        let panic = catch_unwind(AssertUnwindSafe(|| play(case, algorithm, factory))).err()?;
        Some(format!(
            "`{}` under `{algorithm}`: {}",
            case.name,
            words(&*panic)
        ))
    };
    ALGORITHMS
        .iter()
        .copied()
        .filter(of_case)
        .filter_map(failed)
        .collect()
}

fn play<S, F, M>(case: &Case, algorithm: Algorithm, factory: &F)
where
    S: Store,
    F: Fn() -> M,
    M: Future<Output = (S, FakeClock)>,
{
    let runtime = answered(
        tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build(),
    );
    runtime.block_on(async {
        let (store, clock) = Box::pin(factory()).await;
        let bench = Bench::new(Arc::new(store), clock, case.name);
        for need in [Need::Kept].iter().chain(case.needs) {
            if !Box::pin(need.is_met(&bench, algorithm)).await {
                return Box::pin(need.assert_refused(&bench, algorithm)).await;
            }
        }
        (case.play)(bench, algorithm).await;
    });
}

/// Plays every case under every algorithm, as [`conformance!`](crate::conformance!) does, in one
/// test. `factory` is called once per case and algorithm; each runs on a tokio runtime of its own,
/// so this must be called outside of one.
///
/// ```
/// use ratelimit_runtime::MemoryStore;
/// use ratelimit_runtime::testkit::FakeClock;
///
/// ratelimit_conformance::all(async || {
///     let clock = FakeClock::new();
///     (MemoryStore::new().with_clock(clock.clone()), clock)
/// });
/// ```
///
/// # Panics
///
/// If the store fails a case: with the name, the algorithm and the words of each that it failed.
pub fn all<S, F, M>(factory: F)
where
    S: Store,
    F: Fn() -> M,
    M: Future<Output = (S, FakeClock)>,
{
    let failed: Vec<String> = CASES
        .iter()
        .flat_map(|case| failures(case, &factory))
        .collect();
    assert!(
        failed.is_empty(),
        "the store fails {} conformance cases:\n{}",
        failed.len(),
        failed.join("\n")
    );
}

fn words(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied())
        .unwrap_or("it panicked")
}
