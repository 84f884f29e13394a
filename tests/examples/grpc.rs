//! `examples/frameworks/tonic.rs`, as a client over gRPC sees it.

use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::Endpoint;
use tonic::{Code, Request, Status};
use tonic_prost::ProstCodec;

use crate::{Service, command};

#[tokio::test]
async fn tonic_limits_by_client_term_and_key() {
    let service = Service::started(&mut command("tonic"));
    let endpoint =
        Endpoint::from_shared(format!("http://127.0.0.1:{}", service.port)).expect("an address");
    let mut client = tonic::client::Grpc::new(
        endpoint
            .connect()
            .await
            .expect("the service takes connections"),
    );
    let mut search = async |term: &str, client_ip: &str, key: &str| -> Result<String, Status> {
        let mut request = Request::new(term.to_owned());
        request
            .metadata_mut()
            .append("x-forwarded-for", client_ip.parse().expect("ASCII"));
        request
            .metadata_mut()
            .append("x-api-key", key.parse().expect("ASCII"));
        client.ready().await.expect("connected");
        let codec = ProstCodec::<String, String>::default();
        let answer = client
            .unary(
                request,
                PathAndQuery::from_static("/example.Words/Search"),
                codec,
            )
            .await?;
        Ok(answer.into_inner())
    };
    for _ in 0..10 {
        let answer = search("tea", "192.0.2.1", "alice").await;
        assert_eq!(answer.expect("admitted"), "nothing about tea");
    }
    let refused = search("tea", "192.0.2.1", "alice")
        .await
        .expect_err("refused by the method");
    assert_eq!(refused.code(), Code::ResourceExhausted, "{refused}");
    assert!(
        search("rum", "192.0.2.1", "alice").await.is_ok(),
        "another term"
    );
    assert!(
        search("tea", "192.0.2.2", "alice").await.is_ok(),
        "another client"
    );
    // Alice has asked 13 times.
    for asked in 13..100 {
        assert!(
            search(&format!("term{asked}"), "192.0.2.1", "alice")
                .await
                .is_ok()
        );
    }
    let refused = search("coffee", "192.0.2.1", "alice")
        .await
        .expect_err("refused by the layer");
    assert_eq!(refused.code(), Code::ResourceExhausted, "{refused}");
    assert!(
        search("coffee", "192.0.2.1", "bob").await.is_ok(),
        "another key"
    );
}
