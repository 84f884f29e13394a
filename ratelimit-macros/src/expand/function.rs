//! The function with its guard.

use proc_macro2::TokenStream;

use crate::check::checked::Checked;
use crate::check::function::body::{Body, Shape};
use crate::check::rule::count::Count;
use crate::expand::Context;
use crate::expand::guard::reservation::Around;
use crate::expand::guard::{self, refusal, reservation};
use crate::expand::output_type::OutputType;
use crate::expand::receiver::Receiver;
use crate::expand::{body, import};
use crate::plan::{Guard, Plan};

pub(crate) fn expand(plan: &Plan) -> TokenStream {
    let Plan {
        checked,
        guard,
        taken,
    } = plan;
    let Checked {
        function,
        body: Body {
            shape,
            output,
            scope,
        },
        krate,
        rules,
        refusal,
    } = checked;
    let receiver = Receiver(scope.receiver.as_ref());
    let context = Context {
        import: import(krate.as_ref()),
        receiver,
        output: OutputType::of(output),
    };
    let refusal = refusal::expand(refusal, &context);
    let refusal = refusal.as_ref();
    let (guard, around) = match guard {
        Guard::One => (guard::one(rules, refusal, &context), None),
        Guard::All => (guard::all(rules, refusal, &context), None),
        Guard::Permit => (guard::permits(rules, refusal, &context), None),
        Guard::Reserve => {
            let any_type = rules
                .iter()
                .all(|rule| !matches!(rule.count, Count::Ok | Count::Err));
            let yields_future =
                matches!(shape, Shape::AsyncFn) && any_type && context.output.may_be_future;
            let around = Around {
                taken,
                rules,
                refuses: refusal.is_some(),
                yields_future,
            };
            (reservation::before(rules, refusal, &context), Some(around))
        }
    };
    let wrap = around.map(|around| {
        let context = &context;
        move |body, place| reservation::around(&body, place, &around, context)
    });
    let wrap = wrap.as_ref().map(|wrap| wrap as &body::Wrap<'_>);
    function.with_body(&body::guarded(shape, &function.body, &guard, wrap))
}
