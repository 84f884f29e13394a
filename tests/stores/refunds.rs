//! Refunds of buckets: never more than if the call had not come; where nothing was written since, all
//! of that, else the cost less what has drained since.

use ratelimit_runtime::Store as _;

use crate::subject::{ALGORITHMS, MINUTE, SECOND, Subject, per};

#[derive(Debug, Clone, Copy)]
enum Step {
    Charge(u64),
    /// Of the charge with this number.
    Refund(usize),
    Pass(u64),
}

/// Of six a minute: what is left after the steps, and for how long it is less than all.
#[tokio::test]
async fn a_refund_gives_back_no_more_than_if_the_call_had_not_come() {
    use Step::{Charge, Pass, Refund};
    let token = 10 * SECOND;
    let table: [(&[Step], u64, u64); 7] = [
        (&[Charge(3), Refund(0)], 6, 0),
        // Nothing was written since: what has drained had not been there.
        (&[Charge(1), Charge(3), Pass(token), Refund(1)], 6, 0),
        (&[Charge(3), Charge(3), Pass(token / 2), Refund(1)], 3, 3 * token - token / 2),
        // A later charge: two of the three have drained meanwhile.
        (&[Charge(3), Pass(token), Charge(1), Pass(token), Refund(0)], 5, token),
        (&[Charge(4), Pass(token), Charge(2), Pass(token), Refund(0)], 4, 2 * token),
        // All of them have.
        (&[Charge(2), Pass(token), Charge(5), Pass(token), Refund(0)], 1, 5 * token),
        // A refund is a write as well.
        (&[Charge(3), Charge(3), Pass(token), Refund(0), Refund(1)], 6, 0),
    ];
    for &algorithm in ALGORITHMS.iter().filter(|algorithm| algorithm.has_burst()) {
        for (steps, left, reset_after) in table {
            let subject = Subject::memory(algorithm, per(6, MINUTE));
            let mut charges = Vec::new();
            for step in steps {
                match *step {
                    Pass(time) => subject.pass(time),
                    Charge(cost) => {
                        let request = subject.request().with_cost(cost);
                        let verdict = subject.store.acquire(request).await.unwrap();
                        assert!(verdict.allowed, "{algorithm}: {steps:?}");
                        charges.push((cost, verdict.ticket));
                    }
                    Refund(which) => {
                        let (cost, ticket) = charges[which];
                        subject.store.refund(subject.request().with_cost(cost), ticket).await.unwrap();
                    }
                }
            }
            let verdict = subject.store.peek(subject.request()).await.unwrap();
            assert_eq!((verdict.remaining, verdict.reset_after_us), (left, reset_after), "{algorithm}: {steps:?}");
        }
    }
}
