//! actix-limitation: a fixed window in a transaction, on a connection that it opens for each call.

use actix_limitation::{Error, Limiter};

use crate::Failure;
use crate::server::Server;
use crate::work::WINDOW;

pub struct Limitation(Limiter);

impl Limitation {
    pub fn open(server: &Server, max: u32) -> Result<Self, Failure> {
        let limiter = Limiter::builder(server.url())
            .limit(max as usize)
            .period(WINDOW)
            .build();
        limiter.map(Self).map_err(|error| error.to_string().into())
    }

    pub async fn admits(&self, user: &str) -> Result<bool, Failure> {
        match self.0.count(user).await {
            Ok(_) => Ok(true),
            Err(Error::LimitExceeded(_)) => Ok(false),
            Err(error) => Err(error.to_string().into()),
        }
    }
}
