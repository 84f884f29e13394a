//! The function with its guard.

use proc_macro2::TokenStream;

use crate::check::function::body::Shape;
use crate::check::rule::count::Count;
use crate::expand::body;
use crate::expand::context::Context;
use crate::expand::guard::reservation::Around;
use crate::expand::guard::{self, refusal, reservation};
use crate::expand::output_type::OutputType;
use crate::expand::receiver::Receiver;
use crate::expand::runtime::Runtime;
use crate::plan::function::Plan;
use crate::plan::guard::Guard;

pub(crate) fn expand(plan: Plan) -> TokenStream {
    let Plan { function, shape, output, receiver, krate, guard, taken, refusal } = plan;
    let context = Context { runtime: Runtime { krate }, receiver: Receiver(receiver), output: OutputType::of(&output) };
    let refusal = refusal::expand(&refusal, &context);
    let refusal = refusal.as_ref();
    let body = match guard {
        Guard::One(check) => body::guarded(&shape, &function.body, &guard::one(&check, refusal, &context), None),
        Guard::All(checks) => body::guarded(&shape, &function.body, &guard::all(&checks, refusal, &context), None),
        Guard::Enter(checks) => body::guarded(&shape, &function.body, &guard::enter(&checks, refusal, &context), None),
        Guard::Reserve(checks, counts) => {
            let guard = reservation::before(&checks, refusal, &context);
            let any_type = counts.iter().all(|count| matches!(count, Count::All | Count::By(_) | Count::ByCost(_)));
            let yields_future = matches!(shape, Shape::AsyncFn) && any_type && context.output.may_be_future;
            let around = Around { taken, counts, refuses: refusal.is_some(), yields_future };
            let wrap = |body, place| reservation::around(&body, place, &around, &context);
            body::guarded(&shape, &function.body, &guard, Some(&wrap))
        }
    };
    function.with_body(&body)
}
