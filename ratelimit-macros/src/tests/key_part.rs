//! `#[derive(KeyPart)]`.

use super::support::normal;
use crate::stages;

#[test]
fn shapes() {
    for (item, part) in [
        ("struct A;", "KeyWriter::group(__ratelimit_writer,\"\",|_|{})"),
        ("struct A(u8);", "KeyPart::write_key(&self.0,__ratelimit_writer)"),
        ("struct A { b: B, r#type: T }", "part(__ratelimit_writer,&self.b);"),
        ("struct A { b: B, r#type: T }", "part(__ratelimit_writer,&self.r#type);"),
        ("struct A(B, C);", "part(__ratelimit_writer,&self.1);"),
        ("struct A { only: B }", "KeyWriter::group(__ratelimit_writer,\"\",|__ratelimit_writer|{"),
        ("enum A {}", "match*self{}"),
        ("enum A { B, C(u8) }", "Self::B{}=>"),
        ("enum A { r#Box(u8) }", "KeyWriter::group(__ratelimit_writer,\"Box\","),
        ("enum A { B { x: u8 } }", "Self::B{x:__ratelimit_field0,}=>"),
        ("enum A { B(u8, u8) }", "Self::B{0:__ratelimit_field0,1:__ratelimit_field1,}=>"),
        ("struct A<T: X, const N: usize>(Vec<T>, u8);", "forA<T,N>whereVec<T>:__ratelimit::KeyPart{"),
        ("struct A<T>(Option<Box<A<T>>>, u8);", "whereT:__ratelimit::KeyPart{"),
        ("struct A<T>(u64, PhantomData<T>);", "forA<T>{"),
        ("struct A<T>(PhantomData<T>, u64);", "KeyPart::write_key(&self.1,__ratelimit_writer)"),
        (
            "struct A<T> { b: B, m: marker::PhantomData<T> }",
            "|__ratelimit_writer|{__ratelimit::KeyWriter::part(__ratelimit_writer,&self.b);})",
        ),
        ("enum A<T> { B(u8, PhantomData<T>, u8) }", "Self::B{0:__ratelimit_field0,2:__ratelimit_field1,..}=>"),
        (
            "#[key(crate = ::x)] struct A;",
            "const_:()={use::x::__ratelimit_runtimeas__ratelimit;#[automatically_derived]impl__ratelimit::KeyPartforA",
        ),
        ("#[key(crate = \"::x\")] struct A;", "use::x::__ratelimit_runtimeas__ratelimit;"),
    ] {
        let actual = normal(&stages::key_part(item.parse().unwrap()));
        assert!(actual.contains(part), "{item}\n{actual}");
    }
}
