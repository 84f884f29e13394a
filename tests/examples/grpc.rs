//! `examples/frameworks/tonic.rs`, as a client over gRPC sees it.

use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::Endpoint;
use tonic::{Code, Request, Status};
use tonic_prost::ProstCodec;

use crate::seen::parsed;
use crate::{Service, command};

/// The rules that a status names.
fn policies(status: &Status) -> Vec<String> {
    let lines = status.metadata().get_all("ratelimit-policy").into_iter().map(|line| line.to_str().expect("ASCII"));
    parsed(lines).into_iter().map(|(rule, _)| rule).collect()
}

#[tokio::test]
async fn tonic_limits_by_client_term_and_key() {
    let service = Service::started(&mut command("tonic"));
    let endpoint = Endpoint::from_shared(format!("http://127.0.0.1:{}", service.port)).expect("an address");
    let mut client = tonic::client::Grpc::new(endpoint.connect().await.expect("the service takes connections"));
    let mut search = async |term: &str, client_ip: &str, key: Option<&str>| -> Result<String, Status> {
        let mut request = Request::new(term.to_owned());
        request.metadata_mut().append("x-forwarded-for", client_ip.parse().expect("ASCII"));
        if let Some(key) = key {
            request.metadata_mut().append("x-api-key", key.parse().expect("ASCII"));
        }
        client.ready().await.expect("connected");
        let codec = ProstCodec::<String, String>::default();
        let answer = client.unary(request, PathAndQuery::from_static("/example.Words/Search"), codec).await?;
        Ok(answer.into_inner())
    };
    for _ in 0..10 {
        let answer = search("tea", "192.0.2.1", Some("alice")).await;
        assert_eq!(answer.expect("admitted"), "nothing about tea");
    }
    let refused = search("tea", "192.0.2.1", Some("alice")).await.expect_err("refused by the method");
    assert_eq!(refused.code(), Code::ResourceExhausted, "{refused}");
    let wait = refused.metadata().get("retry-after").expect("seconds").to_str().expect("ASCII");
    assert_eq!(refused.message(), format!("too many requests, try again in {wait}s"));
    assert_eq!(policies(&refused), ["api", "search"], "of the layer and of the method");
    assert!(search("rum", "192.0.2.1", Some("alice")).await.is_ok(), "another term");
    assert!(search("tea", "192.0.2.2", Some("alice")).await.is_ok(), "another client");
    let missing = search("tea", "192.0.2.1", None).await.expect_err("no key");
    assert_eq!(missing.code(), Code::InvalidArgument, "{missing}");
    // Alice has asked 13 times.
    for asked in 13..100 {
        assert!(search(&format!("term{asked}"), "192.0.2.1", Some("alice")).await.is_ok());
    }
    let refused = search("coffee", "192.0.2.1", Some("alice")).await.expect_err("refused by the layer");
    assert_eq!(policies(&refused), ["api"]);
    assert!(search("coffee", "192.0.2.1", Some("bob")).await.is_ok(), "another key");
}
