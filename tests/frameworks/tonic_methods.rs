//! tonic: limits on the methods of a service, whose only argument is the request.

use std::net::SocketAddr;
use std::sync::Arc;

use ratelimit_runtime::{ClientIp, HeaderKey, RateLimiter, rate_limit};
use tonic::body::Body;
use tonic::codegen::http;
use tonic::codegen::tokio_stream::iter;
use tonic::metadata::MetadataValue;
use tonic::transport::server::TcpConnectInfo;
use tonic::{Code, Request, Response, Status, Streaming};
use tonic_prost::ProstCodec;
use tower::service_fn;
use tower::util::BoxCloneSyncService;
use tracing::instrument;

use crate::ApiKey;
use crate::tonic_server::connected;

#[derive(Clone, PartialEq, prost::Message)]
struct Letter {
    #[prost(string, tag = "1")]
    email: String,
}

type Answer = Result<Response<String>, Status>;

/// As `tonic-build` writes it.
#[tonic::async_trait]
trait Post: Send + Sync + 'static {
    async fn by_field(&self, request: Request<Letter>) -> Answer;
    async fn by_address(&self, request: Request<Letter>) -> Answer;
    async fn by_both(&self, request: Request<Letter>) -> Answer;
    async fn by_header(&self, request: Request<Letter>) -> Answer;
    async fn by_metadata(&self, request: Request<Letter>) -> Answer;
    async fn counted(&self, request: Request<Letter>) -> Answer;
    async fn weighed(&self, request: Request<Letter>) -> Answer;
    async fn one_at_a_time(&self, request: Request<Letter>) -> Answer;
    async fn stacked(&self, request: Request<Letter>) -> Answer;
    async fn traced_outside(&self, request: Request<Letter>) -> Answer;
    async fn traced_inside(&self, request: Request<Letter>) -> Answer;
    async fn streamed(&self, request: Request<Streaming<Letter>>) -> Answer;
    /// With `use_arc_self`.
    async fn shared(self: Arc<Self>, request: Request<Letter>) -> Answer;
}

struct Office {
    limiter: RateLimiter,
}

fn delivered(request: Request<Letter>) -> Response<String> {
    Response::new(request.into_inner().email)
}

#[tonic::async_trait]
impl Post for Office {
    #[rate_limit(key = "<request.get_ref().email>", window = "60s", max = 1, limiter = self.limiter)]
    async fn by_field(&self, request: Request<Letter>) -> Answer {
        Ok(delivered(request))
    }

    #[rate_limit(key = ClientIp::try_from(&request)?, window = "60s", max = 1, limiter = self.limiter)]
    async fn by_address(&self, request: Request<Letter>) -> Answer {
        Ok(delivered(request))
    }

    #[rate_limit(
        key = (ClientIp::try_from(&request)?, &request.get_ref().email),
        window = "60s", max = 1, limiter = self.limiter,
    )]
    async fn by_both(&self, request: Request<Letter>) -> Answer {
        Ok(delivered(request))
    }

    #[rate_limit(key = HeaderKey::<ApiKey>::try_from(&request)?, window = "60s", max = 1, limiter = self.limiter)]
    async fn by_header(&self, request: Request<Letter>) -> Answer {
        Ok(delivered(request))
    }

    #[rate_limit(
        key = request.metadata().get("tenant").map(MetadataValue::as_encoded_bytes),
        window = "60s", max = 1, limiter = self.limiter,
    )]
    async fn by_metadata(&self, request: Request<Letter>) -> Answer {
        Ok(delivered(request))
    }

    #[rate_limit(key = "<request.get_ref().email>", window = "60s", max = 1, count = "err", limiter = self.limiter)]
    async fn counted(&self, request: Request<Letter>) -> Answer {
        let letter = request.into_inner();
        if letter.email.contains('@') { Ok(Response::new(letter.email)) } else { Err(Status::not_found("no such box")) }
    }

    #[rate_limit(
        key = ClientIp::try_from(&request)?, window = "60s", max = 20, cost = request.get_ref().email.len(),
        actual_cost = |answer| answer.as_ref().map_or(0, |answer| answer.get_ref().len()), limiter = self.limiter,
    )]
    async fn weighed(&self, request: Request<Letter>) -> Answer {
        Ok(delivered(request))
    }

    #[rate_limit(key = "<request.get_ref().email>", concurrent = 1, limiter = self.limiter)]
    async fn one_at_a_time(&self, request: Request<Letter>) -> Answer {
        tokio::task::yield_now().await;
        Ok(delivered(request))
    }

    #[rate_limit(key = ClientIp::try_from(&request)?, window = "60s", max = 2, limiter = self.limiter)]
    #[rate_limit(key = "<request.get_ref().email>", window = "60s", max = 1, limiter = self.limiter)]
    async fn stacked(&self, request: Request<Letter>) -> Answer {
        Ok(delivered(request))
    }

    #[instrument(skip_all)]
    #[rate_limit(key = "<request.get_ref().email>", window = "60s", max = 1, limiter = self.limiter)]
    async fn traced_outside(&self, request: Request<Letter>) -> Answer {
        Ok(delivered(request))
    }

    #[rate_limit(key = "<request.get_ref().email>", window = "60s", max = 1, limiter = self.limiter)]
    #[instrument(skip_all)]
    async fn traced_inside(&self, request: Request<Letter>) -> Answer {
        Ok(delivered(request))
    }

    #[rate_limit(key = ClientIp::try_from(&request)?, window = "60s", max = 1, limiter = self.limiter)]
    async fn streamed(&self, request: Request<Streaming<Letter>>) -> Answer {
        let mut letters = request.into_inner();
        let mut emails = Vec::new();
        while let Some(letter) = letters.message().await? {
            emails.push(letter.email);
        }
        Ok(Response::new(emails.join(" ")))
    }

    #[rate_limit(key = "<request.get_ref().email>", window = "60s", max = 1, limiter = self.limiter)]
    async fn shared(self: Arc<Self>, request: Request<Letter>) -> Answer {
        Ok(delivered(request))
    }
}

fn office() -> Office {
    Office { limiter: RateLimiter::memory() }
}

/// A request as a connection from this address brings it.
fn letter(email: &str, from: [u8; 4]) -> Request<Letter> {
    let mut request = Request::new(Letter { email: email.to_owned() });
    let remote_addr = Some(SocketAddr::from((from, 4711)));
    request.extensions_mut().insert(TcpConnectInfo { local_addr: None, remote_addr });
    request
}

fn letter_with(name: &'static str, value: &str) -> Request<Letter> {
    let mut request = letter("alice", HOME);
    request.metadata_mut().insert(name, value.parse().unwrap());
    request
}

const HOME: [u8; 4] = [192, 0, 2, 1];
const AWAY: [u8; 4] = [192, 0, 2, 2];

#[track_caller]
fn assert_exhausted(answer: Answer) {
    assert_eq!(answer.unwrap_err().code(), Code::ResourceExhausted);
}

#[tokio::test(start_paused = true)]
async fn fields_of_the_message_are_keys() {
    let office = Arc::new(office());
    assert_eq!(office.by_field(letter("alice", HOME)).await.unwrap().get_ref(), "alice");
    assert_exhausted(office.by_field(letter("alice", AWAY)).await);
    assert!(office.by_field(letter("bob", HOME)).await.is_ok());
    assert!(office.clone().shared(letter("alice", HOME)).await.is_ok(), "a method has a budget of its own");
    assert_exhausted(office.shared(letter("alice", HOME)).await);
}

#[tokio::test(start_paused = true)]
async fn the_address_of_the_peer_is_a_key() {
    let office = office();
    assert!(office.by_address(letter("alice", HOME)).await.is_ok());
    assert_exhausted(office.by_address(letter("bob", HOME)).await);
    assert!(office.by_address(letter("alice", AWAY)).await.is_ok());

    assert!(office.by_both(letter("alice", HOME)).await.is_ok());
    assert_exhausted(office.by_both(letter("alice", HOME)).await);
    assert!(office.by_both(letter("bob", HOME)).await.is_ok());
    assert!(office.by_both(letter("alice", AWAY)).await.is_ok());
}

/// What has no address is not one client, and what a client says of itself is no address.
#[tokio::test(start_paused = true)]
async fn a_request_without_an_address_is_answered_and_not_charged() {
    let office = office();
    let mut forged = Request::new(Letter { email: "alice".to_owned() });
    forged.metadata_mut().insert("x-forwarded-for", "192.0.2.1".parse().unwrap());
    for _ in 0..2 {
        let nowhere = Request::new(Letter { email: "alice".to_owned() });
        assert_eq!(office.by_address(nowhere).await.unwrap_err().code(), Code::Internal);
    }
    assert_eq!(office.by_address(forged).await.unwrap_err().code(), Code::Internal);
    assert!(office.by_address(letter("alice", HOME)).await.is_ok());

    let mut forged = letter("alice", HOME);
    forged.metadata_mut().insert("x-forwarded-for", "192.0.2.9".parse().unwrap());
    assert_exhausted(office.by_address(forged).await);
}

#[tokio::test(start_paused = true)]
async fn metadata_are_keys() {
    let office = office();
    assert!(office.by_header(letter_with("x-api-key", "a")).await.is_ok());
    assert_exhausted(office.by_header(letter_with("x-api-key", "a")).await);
    assert!(office.by_header(letter_with("x-api-key", "b")).await.is_ok());
    for _ in 0..2 {
        let missing = office.by_header(letter("alice", HOME)).await.unwrap_err();
        assert_eq!((missing.code(), missing.message()), (Code::InvalidArgument, "the header x-api-key is missing"));
    }

    assert!(office.by_metadata(letter_with("tenant", "a")).await.is_ok());
    assert_exhausted(office.by_metadata(letter_with("tenant", "a")).await);
    assert!(office.by_metadata(letter_with("tenant", "b")).await.is_ok());
    assert!(office.by_metadata(letter("alice", HOME)).await.is_ok(), "an `Option`: those without share one");
    assert_exhausted(office.by_metadata(letter("bob", AWAY)).await);
}

#[tokio::test(start_paused = true)]
async fn outcomes_and_costs_of_methods_count() {
    let office = office();
    for _ in 0..2 {
        assert!(office.counted(letter("a@b", HOME)).await.is_ok());
    }
    assert_eq!(office.counted(letter("alice", HOME)).await.unwrap_err().code(), Code::NotFound);
    assert_exhausted(office.counted(letter("alice", HOME)).await);

    assert!(office.weighed(letter("fifteen letters", HOME)).await.is_ok());
    assert_exhausted(office.weighed(letter("six or", HOME)).await);
    assert!(office.weighed(letter("five.", HOME)).await.is_ok());
    let heavy = office.weighed(letter("more than twenty letters", AWAY)).await.unwrap_err();
    assert_eq!(heavy.code(), Code::InvalidArgument, "it comes in vain at any time");
}

#[tokio::test(start_paused = true)]
async fn calls_of_methods_are_in_flight() {
    let office = office();
    let (first, second) =
        tokio::join!(office.one_at_a_time(letter("alice", HOME)), office.one_at_a_time(letter("alice", HOME)));
    assert!(first.is_ok());
    assert_exhausted(second);
    assert!(office.one_at_a_time(letter("alice", HOME)).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn other_attributes_stand_above_and_below() {
    let office = office();
    assert!(office.stacked(letter("alice", HOME)).await.is_ok());
    assert_exhausted(office.stacked(letter("alice", HOME)).await);
    assert!(office.stacked(letter("bob", HOME)).await.is_ok(), "a refusal has charged nothing to the address");
    assert_exhausted(office.stacked(letter("carol", HOME)).await);

    assert!(office.traced_outside(letter("alice", HOME)).await.is_ok());
    assert_exhausted(office.traced_outside(letter("alice", HOME)).await);
    assert!(office.traced_inside(letter("alice", HOME)).await.is_ok());
    assert_exhausted(office.traced_inside(letter("alice", HOME)).await);
}

/// What streams in cannot be shared between threads: the guard must hold nothing of the request
/// while it waits.
#[tokio::test]
async fn a_method_that_reads_a_stream_is_limited_by_address() {
    let office = Arc::new(office());
    let service = service_fn(move |request: http::Request<Body>| {
        let office = office.clone();
        async move {
            let method = service_fn(move |request| {
                let office = office.clone();
                async move { office.streamed(request).await }
            });
            let codec = ProstCodec::<String, Letter>::default();
            Ok(tonic::server::Grpc::new(codec).client_streaming(method, request).await)
        }
    });
    let mut client = tonic::client::Grpc::new(connected(BoxCloneSyncService::new(service)).await);
    let mut send = async || {
        let letters = ["alice", "bob"].map(|email| Letter { email: email.to_owned() });
        client.ready().await.unwrap();
        let path = http::uri::PathAndQuery::from_static("/tests.Post/Streamed");
        let codec = ProstCodec::<Letter, String>::default();
        client.client_streaming(Request::new(iter(letters)), path, codec).await
    };
    let answer: Answer = send().await;
    assert_eq!(answer.unwrap().get_ref(), "alice bob");
    assert_exhausted(send().await);
}
