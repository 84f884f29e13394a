//! `examples/frameworks/tonic.rs`, as a client over gRPC sees it.

use tonic::codegen::http::uri::PathAndQuery;
use tonic::metadata::{KeyAndValueRef, MetadataMap};
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Request, Status};
use tonic_prost::ProstCodec;

use crate::seen::{Item, item, parsed};
use crate::{Service, command};

struct Client(tonic::client::Grpc<Channel>);

impl Client {
    async fn of(service: &Service) -> Self {
        let endpoint = Endpoint::from_shared(format!("http://127.0.0.1:{}", service.port)).expect("an address");
        Self(tonic::client::Grpc::new(endpoint.connect().await.expect("the service takes connections")))
    }

    /// The answer and its metadata, or the status.
    async fn search(&mut self, term: &str, headers: &[(&'static str, &str)]) -> Result<(String, MetadataMap), Status> {
        let mut request = Request::new(term.to_owned());
        for (name, value) in headers {
            request.metadata_mut().append(*name, value.parse().expect("ASCII"));
        }
        self.0.ready().await.expect("connected");
        let codec = ProstCodec::<String, String>::default();
        let answer = self.0.unary(request, PathAndQuery::from_static("/example.Words/Search"), codec).await?;
        let (metadata, message, _) = answer.into_parts();
        Ok((message, metadata))
    }
}

fn list(metadata: &MetadataMap, name: &str) -> Vec<Item> {
    parsed(metadata.get_all(name).iter().map(|value| value.to_str().expect("ASCII")))
}

fn names(metadata: &MetadataMap) -> Vec<&str> {
    let name = |pair| match pair {
        KeyAndValueRef::Ascii(name, _) => name.as_str(),
        KeyAndValueRef::Binary(name, _) => name.as_str(),
    };
    metadata.iter().map(name).collect()
}

/// It is `RESOURCE_EXHAUSTED`, and says when to come again.
fn assert_exhausted(status: &Status) -> i64 {
    assert_eq!(status.code(), Code::ResourceExhausted, "{status}");
    let retry = status.metadata().get("retry-after").expect("when to come again");
    let wait = retry.to_str().expect("ASCII").parse().expect("seconds");
    assert!((1..=60).contains(&wait), "{wait}");
    assert_eq!(status.message(), format!("too many requests, try again in {wait}s"));
    wait
}

#[tokio::test]
async fn tonic_tells_and_refuses() {
    let service = Service::started(&mut command("tonic"));
    let mut client = Client::of(&service).await;
    let (ours, all) = (item("search", &[("q", 10), ("w", 60)]), item("api", &[("q", 100), ("w", 60)]));
    let alice = |client| [("x-forwarded-for", client), ("x-api-key", "alice")];
    for left in (0..10).rev() {
        let (answer, metadata) = client.search("tea", &alice("192.0.2.1")).await.expect("admitted");
        assert_eq!(answer, "nothing about tea");
        assert_eq!(list(&metadata, "ratelimit-policy"), [all.clone(), ours.clone()]);
        let standings = list(&metadata, "ratelimit");
        assert_eq!((standings[0].1[0].1, standings[1].1[0].1), (90 + left, left), "{standings:?}");
        assert_eq!(metadata.get("retry-after"), None);
    }

    let refused = client.search("tea", &alice("192.0.2.1")).await.expect_err("refused by the method");
    let wait = assert_exhausted(&refused);
    assert_eq!(list(refused.metadata(), "ratelimit-policy"), [all.clone(), ours]);
    assert_eq!(list(refused.metadata(), "ratelimit")[1], item("search", &[("r", 0), ("t", wait)]));

    assert!(client.search("rum", &alice("192.0.2.1")).await.is_ok(), "another term");
    assert!(client.search("tea", &alice("192.0.2.2")).await.is_ok(), "another client");
    for forged in ["198.51.100.1, 192.0.2.1", "198.51.100.2, 192.0.2.1"] {
        assert_exhausted(&client.search("tea", &alice(forged)).await.expect_err("the same client"));
    }

    // A request without a key shares no limit: refused, and charged to none.
    for headers in [&[][..], &[("x-api-key", "")], &[("x-api-key", "alice"), ("x-api-key", "bob")]] {
        for _ in 0..101 {
            let status = client.search("tea", headers).await.expect_err("no key");
            assert_eq!(status.code(), Code::InvalidArgument, "{status}");
            assert!(status.message().contains("x-api-key"), "{status}");
            assert!(!names(status.metadata()).iter().any(|name| name.contains("ratelimit")), "{status:?}");
        }
    }
    // Alice has asked 15 times.
    for asked in 15..100 {
        assert!(client.search(&format!("term{asked}"), &alice("192.0.2.1")).await.is_ok());
    }
    let refused = client.search("coffee", &alice("192.0.2.1")).await.expect_err("refused by the layer");
    let wait = assert_exhausted(&refused);
    assert_eq!(list(refused.metadata(), "ratelimit-policy"), [all]);
    assert_eq!(list(refused.metadata(), "ratelimit"), [item("api", &[("r", 0), ("t", wait)])]);
    assert!(client.search("coffee", &[("x-api-key", "bob")]).await.is_ok(), "another key");
}
