#![deny(warnings)]
#![allow(clippy::manual_async_fn, clippy::needless_arbitrary_self_type, reason = "the shapes are the point")]

use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;

use ratelimit_runtime::{RateLimitError, rate_limit};

type Outcome = Result<(), RateLimitError>;

#[derive(Clone)]
struct Service {
    id: u32,
}

impl Service {
    #[rate_limit(key = "<self.id>", window = "60s", max = 1)]
    async fn boxed(self: Box<Self>) -> Outcome {
        Ok(())
    }

    #[rate_limit(key = "<self.id>", window = "60s", max = 1)]
    async fn counted(self: Rc<Self>) -> Outcome {
        Ok(())
    }

    #[rate_limit(key = "<self.id>", window = "60s", max = 1)]
    async fn pinned(self: Pin<&mut Self>) -> Outcome {
        Ok(())
    }

    #[rate_limit(key = "<self.id>", window = "60s", max = 1)]
    async fn borrowed_arc(self: &Arc<Self>) -> Outcome {
        Ok(())
    }

    #[rate_limit(key = "<self.id>", window = "60s", max = 1, count = "ok")]
    async fn mutable(mut self) -> Outcome {
        self.id += 1;
        assert_eq!(self.id, 2);
        Ok(())
    }

    #[rate_limit(key = "<self.id>", window = "60s", max = 1)]
    async fn typed(self: &Self) -> Outcome {
        Ok(())
    }

    #[rate_limit(key = "<self.id>", window = "60s", max = 1)]
    fn future(&self) -> impl Future<Output = Outcome> {
        async move { Ok(()) }
    }

    #[rate_limit(key = Self::key(self.id), window = "60s", max = 1)]
    async fn by_the_type(&self) -> Outcome {
        Ok(())
    }

    fn key(id: u32) -> u32 {
        id
    }
}

#[tokio::test]
async fn runs() {
    let service = Service { id: 1 };
    assert!(Box::new(service.clone()).boxed().await.is_ok());
    assert!(Box::new(service.clone()).boxed().await.is_err());
    assert!(Rc::new(service.clone()).counted().await.is_ok());
    assert!(Rc::new(service.clone()).counted().await.is_err());
    assert!(Pin::new(&mut service.clone()).pinned().await.is_ok());
    assert!(Pin::new(&mut service.clone()).pinned().await.is_err());
    assert!(Arc::new(service.clone()).borrowed_arc().await.is_ok());
    assert!(Arc::new(service.clone()).borrowed_arc().await.is_err());
    assert!(service.clone().mutable().await.is_ok());
    assert!(service.clone().mutable().await.is_err());
    assert!(service.typed().await.is_ok());
    assert!(service.typed().await.is_err());
    assert!(service.future().await.is_ok());
    assert!(service.future().await.is_err());
    assert!(service.by_the_type().await.is_ok());
    assert!(service.by_the_type().await.is_err());
}
