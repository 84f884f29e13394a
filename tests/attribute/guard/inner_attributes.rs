//! Inner attributes, of the function and of its async block.

use ratelimit_runtime::rate_limit;

use super::{Outcome, one_each};

#[async_trait::async_trait]
trait Mail: Sync {
    #[rate_limit(key = "<id>", window = "60s", max = 1)]
    async fn send(&self, id: u32) -> Outcome {
        #![allow(unused_variables, reason = "the attribute is the point")]
        //! Inner documentation.
        let unused = id;
        Ok(())
    }

    #[rate_limit(key = "<id>", window = "60s", max = 1, count = "ok")]
    async fn counted(&self, id: u32) -> Outcome {
        #![allow(unused_variables, reason = "the attribute is the point")]
        let unused = id;
        Ok(())
    }
}

struct Mailer;

impl Mail for Mailer {}

#[rate_limit(key = "<id>", window = "60s", max = 1)]
fn of_the_function(id: u32) -> impl Future<Output = Outcome> {
    #![allow(unused_variables, clippy::manual_async_fn, reason = "the attribute is the point")]
    //! Inner documentation.
    async move {
        let unused = id;
        Ok(())
    }
}

#[rate_limit(key = "<id>", window = "60s", max = 1, count = "ok")]
fn of_the_block(id: u32) -> std::pin::Pin<Box<dyn Future<Output = Outcome>>> {
    Box::pin(
        async move {
            #![allow(unused_variables, reason = "the attribute is the point")]
            let unused = id;
            Ok(())
        },
    )
}

#[tokio::test]
async fn inner_attributes_are_kept() {
    one_each(async || Mailer.send(1).await, async || Mailer.send(2).await).await;
    one_each(async || Mailer.counted(1).await, async || Mailer.counted(2).await).await;
    one_each(async || of_the_function(1).await, async || of_the_function(2).await).await;
    one_each(async || of_the_block(1).await, async || of_the_block(2).await).await;
}
