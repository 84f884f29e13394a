//! Generates the gRPC service of `frameworks/tonic.rs`. The service is declared here, not in a
//! `.proto` file, so that no `protoc` is needed.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    #[cfg(feature = "tonic")]
    words();
}

#[cfg(feature = "tonic")]
fn words() {
    use tonic_build::manual::{Builder, Method, Service};

    // A `String` is the well-known type `google.protobuf.StringValue`.
    let search = Method::builder()
        .name("search")
        .route_name("Search")
        .input_type("String")
        .output_type("String");
    let search = search.codec_path("tonic_prost::ProstCodec").build();
    let words = Service::builder()
        .package("example")
        .name("Words")
        .method(search)
        .build();
    Builder::new().build_client(false).compile(&[words]);
}
