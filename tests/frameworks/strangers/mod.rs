//! Strangers' requests: random ones, to a layer by address around a handler that is limited by an
//! API key, in each framework. Who sent a request is known here, because the clients and the
//! proxies between are played; the answers are held to a model that knows nothing of this crate.
//!
//! 4,000 requests a framework; `STRANGERS=100000` sends so many. The seeds are fixed and printed.

#![allow(clippy::print_stdout, reason = "it says what it did")]

mod frameworks;
mod model;
#[allow(dead_code, reason = "shared with other tests")]
#[path = "../../support/random.rs"]
mod random;
mod requests;

use std::time::Duration;

use model::{Answer, Model, Tally};
use random::Random;
use requests::{SITES, Site, Stranger};

/// A framework: a server of a site, behind which requests are answered.
trait Framework {
    const NAME: &'static str;
    const SEED: u64;
    /// Whether methods say no by a status of gRPC in a `200`.
    const METHODS_ARE_GRPC: bool = false;

    async fn serve(site: &Site) -> Self;

    async fn answer(&self, stranger: &Stranger) -> Answer;
}

fn count() -> u32 {
    std::env::var("STRANGERS").ok().map_or(4_000, |count| count.parse().unwrap())
}

async fn meet<F: Framework>() {
    let each = count().div_ceil(u32::try_from(SITES.len()).unwrap());
    println!("{}: {each} requests to each of {} sites, seed {}", F::NAME, SITES.len(), F::SEED);
    let mut random = Random::new(F::SEED);
    let mut tally = Tally::default();
    for site in &SITES {
        let server = F::serve(site).await;
        let mut model = Model::default();
        for number in 0..each {
            let stranger = Stranger::new(site, &mut random);
            let answer = server.answer(&stranger).await;
            let checked = model.check(&stranger, &answer, F::METHODS_ARE_GRPC);
            match checked {
                Ok(outcome) => tally.add(outcome),
                Err(why) => panic!("{}, {site:?}, request {number}: {why}\n{stranger:#?}\n{answer:#?}", F::NAME),
            }
            if random.below(3) == 0 {
                let pause = Duration::from_millis(random.below(1_000));
                tokio::time::advance(pause).await;
                model.advance(pause);
            }
        }
    }
    println!("{}: {tally}", F::NAME);
    tally.assert_all_happened();
}

#[tokio::test(start_paused = true)]
async fn strangers_of_axum_get_no_more_than_their_limits() {
    meet::<frameworks::Axum>().await;
}

#[tokio::test(start_paused = true)]
async fn strangers_of_actix_web_get_no_more_than_their_limits() {
    meet::<frameworks::Actix>().await;
}

#[tokio::test(start_paused = true)]
async fn strangers_of_poem_get_no_more_than_their_limits() {
    meet::<frameworks::Poem>().await;
}

#[tokio::test(start_paused = true)]
async fn strangers_of_tonic_get_no_more_than_their_limits() {
    meet::<frameworks::Tonic>().await;
}
