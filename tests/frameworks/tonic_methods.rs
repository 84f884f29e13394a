//! tonic: limits on the methods of a service, whose only argument is the request.

use std::net::SocketAddr;

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
    async fn streamed(&self, request: Request<Streaming<Letter>>) -> Answer;
}

#[derive(Clone)]
struct Office {
    limiter: RateLimiter,
}

fn delivered(request: Request<Letter>) -> Response<String> {
    Response::new(request.into_inner().email)
}

#[tonic::async_trait]
impl Post for Office {
    #[rate_limit(
        key = "<request.get_ref().email>", window = "60s", max = 1, limiter = self.limiter
    )]
    async fn by_field(&self, request: Request<Letter>) -> Answer {
        Ok(delivered(request))
    }

    #[rate_limit(
        key = ClientIp::try_from(&request)?, window = "60s", max = 1, limiter = self.limiter
    )]
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

    #[rate_limit(
        key = HeaderKey::<ApiKey>::try_from(&request)?, window = "60s", max = 1,
        limiter = self.limiter
    )]
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

    #[rate_limit(
        key = ClientIp::try_from(&request)?, window = "60s", max = 1, limiter = self.limiter
    )]
    async fn streamed(&self, request: Request<Streaming<Letter>>) -> Answer {
        let mut letters = request.into_inner();
        let mut emails = Vec::new();
        while let Some(letter) = letters.message().await? {
            emails.push(letter.email);
        }
        Ok(Response::new(emails.join(" ")))
    }
}

fn office() -> Office {
    Office {
        limiter: RateLimiter::memory(),
    }
}

const HOME: [u8; 4] = [192, 0, 2, 1];
const AWAY: [u8; 4] = [192, 0, 2, 2];

/// A request as a connection from this address brings it.
fn letter(email: &str, from: [u8; 4]) -> Request<Letter> {
    let mut request = Request::new(Letter {
        email: email.to_owned(),
    });
    let remote_addr = Some(SocketAddr::from((from, 4711)));
    request.extensions_mut().insert(TcpConnectInfo {
        local_addr: None,
        remote_addr,
    });
    request
}

fn letter_with(name: &'static str, value: &str) -> Request<Letter> {
    let mut request = letter("alice", HOME);
    request.metadata_mut().insert(name, value.parse().unwrap());
    request
}

/// The code with which each request is answered, one after the other.
async fn codes<const N: usize>(
    method: impl AsyncFn(Request<Letter>) -> Answer,
    requests: [Request<Letter>; N],
) -> Vec<Code> {
    let mut codes = Vec::new();
    for request in requests {
        codes.push(
            method(request)
                .await
                .map_or_else(|status| status.code(), |_| Code::Ok),
        );
    }
    codes
}

const OK: Code = Code::Ok;
const EXHAUSTED: Code = Code::ResourceExhausted;

#[tokio::test(start_paused = true)]
async fn fields_addresses_and_metadata_of_a_request_are_keys() {
    let office = office();
    let [first, elsewhere, bob] = [
        letter("alice", HOME),
        letter("alice", AWAY),
        letter("bob", HOME),
    ];
    assert_eq!(
        codes(
            async |it| office.by_field(it).await,
            [first, elsewhere, bob]
        )
        .await,
        [OK, EXHAUSTED, OK]
    );
    let [first, bob, elsewhere] = [
        letter("alice", HOME),
        letter("bob", HOME),
        letter("alice", AWAY),
    ];
    assert_eq!(
        codes(
            async |it| office.by_address(it).await,
            [first, bob, elsewhere]
        )
        .await,
        [OK, EXHAUSTED, OK]
    );
    let [first, again] = [(); 2].map(|()| letter("alice", HOME));
    let others = [first, again, letter("bob", HOME), letter("alice", AWAY)];
    assert_eq!(
        codes(async |it| office.by_both(it).await, others).await,
        [OK, EXHAUSTED, OK, OK]
    );

    let by_key = ["a", "a", "b"].map(|key| letter_with("x-api-key", key));
    assert_eq!(
        codes(async |it| office.by_header(it).await, by_key).await,
        [OK, EXHAUSTED, OK]
    );
    for _ in 0..2 {
        let missing = office.by_header(letter("alice", HOME)).await.unwrap_err();
        assert_eq!(
            (missing.code(), missing.message()),
            (Code::InvalidArgument, "the header x-api-key is missing")
        );
    }
    let by_tenant = ["a", "a", "b"].map(|tenant| letter_with("tenant", tenant));
    assert_eq!(
        codes(async |it| office.by_metadata(it).await, by_tenant).await,
        [OK, EXHAUSTED, OK]
    );
    let without = [letter("alice", HOME), letter("bob", AWAY)];
    let codes = codes(async |it| office.by_metadata(it).await, without).await;
    assert_eq!(
        codes,
        [OK, EXHAUSTED],
        "an `Option`: requests without a tenant share a bucket"
    );
}

/// Requests without an address are not one client, and a forwarded address is not believed.
#[tokio::test(start_paused = true)]
async fn a_request_without_an_address_is_answered_and_not_charged() {
    let office = office();
    let mut forged = Request::new(Letter {
        email: "alice".to_owned(),
    });
    forged
        .metadata_mut()
        .insert("x-forwarded-for", "192.0.2.1".parse().unwrap());
    let nowhere = || {
        Request::new(Letter {
            email: "alice".to_owned(),
        })
    };
    let requests = [
        nowhere(),
        nowhere(),
        forged,
        letter("alice", HOME),
        letter_with("x-forwarded-for", "192.0.2.9"),
    ];
    let answered = codes(async |it| office.by_address(it).await, requests).await;
    assert_eq!(
        answered,
        [
            Code::Internal,
            Code::Internal,
            Code::Internal,
            OK,
            EXHAUSTED
        ]
    );
}

/// A stream of requests cannot be shared between threads: the guard must hold nothing of it while
/// it waits.
#[tokio::test]
async fn a_method_that_reads_a_stream_is_limited_by_address() {
    let office = office();
    let service = service_fn(move |request: http::Request<Body>| {
        let office = office.clone();
        async move {
            let method = service_fn(move |request| {
                let office = office.clone();
                async move { office.streamed(request).await }
            });
            let codec = ProstCodec::<String, Letter>::default();
            Ok(tonic::server::Grpc::new(codec)
                .client_streaming(method, request)
                .await)
        }
    });
    let mut client = tonic::client::Grpc::new(connected(BoxCloneSyncService::new(service)).await);
    let mut send = async || {
        let letters = ["alice", "bob"].map(|email| Letter {
            email: email.to_owned(),
        });
        client.ready().await.unwrap();
        let path = http::uri::PathAndQuery::from_static("/tests.Post/Streamed");
        let codec = ProstCodec::<Letter, String>::default();
        client
            .client_streaming(Request::new(iter(letters)), path, codec)
            .await
    };
    let answer: Answer = send().await;
    assert_eq!(answer.unwrap().get_ref(), "alice bob");
    assert_eq!(send().await.unwrap_err().code(), EXHAUSTED);
}
