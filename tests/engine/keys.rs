//! The bytes of keys, and values that share a key.

use std::net::IpAddr;

use ratelimit_runtime::store::{Request, Store as _};
use ratelimit_runtime::{
    Algorithm, ExactIp, Key, KeyPart, KeyWriter, Limit, MemoryStore, RateLimiter, Rule, key,
};
use uuid::Uuid;

fn rendered<T: KeyPart + ?Sized>(value: &T) -> String {
    String::from_utf8(Key::of(value).as_bytes().to_vec()).unwrap_or_default()
}

#[derive(KeyPart)]
struct Nothing;

/// Frozen: a change here makes running services forget what they have counted.
#[test]
fn keys_have_the_bytes_that_are_written_down() {
    assert_eq!(rendered("alice@example.com"), "<alice@example.com>");
    assert_eq!(rendered(&String::from("Zoë 1/2")), "<Zoë 1/2>");
    assert_eq!(
        rendered("a<b>{c}(d),e#f%g\n\u{7f}"),
        "<a%3Cb%3E%7Bc%7D%28d%29%2Ce%23f%25g%0A%7F>"
    );
    assert_eq!(rendered(""), "<>");
    assert_eq!(rendered(&-7_i64), "<-7>");
    assert_eq!(
        rendered(&u128::MAX),
        "<340282366920938463463374607431768211455>"
    );
    assert_eq!(rendered(&true), "<true>");
    assert_eq!(rendered(&'x'), "<x>");
    assert_eq!(rendered(&[0xff_u8, b'a', 0]), "<%FFa%00>");
    assert_eq!(rendered(&("a", 1_u8)), "<(a,1)>");
    assert_eq!(rendered(&[1_u16, 2]), "<(1,2)>");
    assert_eq!(rendered(&Nothing), "<()>");
    assert_eq!(rendered(&Some("a")), "<some(a)>");
    assert_eq!(rendered(&None::<&str>), "<none()>");
    assert_eq!(rendered(&Some(("a", None::<u8>))), "<some((a,none()))>");
    assert_eq!(rendered(&Some("")), "<some(%-)>");
    assert_eq!(
        rendered(&Uuid::from_u128(0xfedc_ba98_7654_3210)),
        "<00000000-0000-0000-fedc-ba9876543210>"
    );
    assert_eq!(rendered(&"x".repeat(160)).len(), 162);
    assert_eq!(
        rendered(&"x".repeat(161)),
        "<#fdb7f3c40645e79ca4c5d1638753243c>"
    );
    assert_eq!(
        rendered(&("x".repeat(90), "x".repeat(90))),
        "<##074d1dfbc64de4c6bd938914aff2f1b2>"
    );
}

#[test]
fn text_of_a_template_cannot_imitate_a_value() {
    let x = 7;
    assert_eq!(key!("<<a>>:{{b}}%<x>").as_bytes(), b"%3Ca%3E:%7Bb%7D%25<7>");
}

#[test]
fn long_values_are_bounded_and_stay_apart() {
    let a = Key::of(&"a".repeat(1_000_000));
    let b = Key::of(&"b".repeat(1_000_000));
    assert_ne!(a, b);
    assert!(a.as_bytes().len() < 40);
    // Short enough as it is, too long once it is escaped.
    assert!(Key::of(&"{".repeat(100)).as_bytes().len() < 40);
    // The digest of a value is not the digest of its rendering, nor a text that looks like
    // either.
    let text = "x,".repeat(100);
    let parts: Vec<&str> = text.split_terminator(',').collect();
    assert_ne!(Key::of(text.trim_end_matches(',')), Key::of(&parts));
    let digest = String::from_utf8_lossy(a.as_bytes())
        .trim_matches(['<', '>'])
        .to_owned();
    assert_ne!(Key::of(&digest), a);
}

fn of_ip(address: &str) -> Key {
    Key::of(&address.parse::<IpAddr>().unwrap())
}

#[test]
fn an_ipv4_address_is_one_key_in_every_notation() {
    assert_eq!(of_ip("192.0.2.1").as_bytes(), b"<192.0.2.1>");
    for disguise in [
        "::ffff:192.0.2.1",
        "64:ff9b::c000:201",
        "2001:0:4136:e378:8000:63bf:3fff:fdfe",
        "2002:c000:201::1",
        "2002:c000:201:7::9",
    ] {
        assert_eq!(of_ip(disguise), of_ip("192.0.2.1"), "{disguise}");
    }
}

/// In the prefix for translators of a site's own (RFC 8215) nobody knows where the IPv4 address is
/// in an address, but each is one client.
#[test]
fn clients_behind_a_translator_of_the_site_are_told_apart() {
    let clients = ["64:ff9b:1::c000:201", "64:ff9b:1:c000:2:100::"];
    for client in clients {
        assert_eq!(of_ip(client).as_bytes(), format!("<{client}>").as_bytes());
    }
    assert_eq!(of_ip("64:ff9b:2::c000:201").as_bytes(), b"<64:ff9b:2::/64>");
}

#[test]
fn an_ipv6_subscriber_cannot_mint_keys() {
    assert_eq!(
        of_ip("2001:db8:1:2:3:4:5:6").as_bytes(),
        b"<2001:db8:1:2::/64>"
    );
    assert_eq!(of_ip("2001:db8:1:2::1"), of_ip("2001:db8:1:2:ffff::"));
    assert_ne!(of_ip("2001:db8:1:2::1"), of_ip("2001:db8:1:3::1"));
}

#[test]
fn an_exact_address_is_itself() {
    let exact = |address: &str| {
        address
            .parse()
            .map(|ip| Key::of(&ExactIp(ip)).as_bytes().to_vec())
    };
    assert_eq!(exact("2001:db8::1"), Ok(b"<2001:db8::1>".to_vec()));
    assert_eq!(exact("::ffff:192.0.2.1"), Ok(b"<192.0.2.1>".to_vec()));
}

/// So many characters, and two items as one.
struct Long(usize);

impl KeyPart for Long {
    fn write_key(&self, key: &mut KeyWriter<'_>) {
        struct Two;
        impl KeyPart for Two {
            fn write_key(&self, key: &mut KeyWriter<'_>) {
                key.str("a");
                key.str("b");
            }
        }
        key.str(&"x".repeat(self.0));
        key.part(&Two);
    }
}

/// Short keys are on the stack, with room for a prefix before them, and long ones are not.
#[tokio::test]
async fn keys_and_prefixes_of_every_length_are_stored_as_they_are() {
    for length in 0..155 {
        let rendered = format!("<{},(a,b)>", "x".repeat(length));
        assert_eq!(Key::of(&Long(length)).as_bytes(), rendered.as_bytes());
        for prefix in [
            "",
            "a",
            &"p".repeat(22),
            &"p".repeat(23),
            &"p".repeat(24),
            &"p".repeat(60),
        ] {
            let store: &'static MemoryStore = Box::leak(Box::new(MemoryStore::with_capacity(1)));
            let limiter = RateLimiter::builder()
                .store(store)
                .prefix(prefix)
                .build()
                .unwrap();
            let rule = Rule::new("n", Limit::per_minute(9));
            // The limiter does not know the rule, and knows it.
            for _ in 0..2 {
                let _ = limiter
                    .acquire(&rule, &Key::of(&Long(length)))
                    .await
                    .unwrap();
            }
            let page = store
                .keys(Request::new(b"", Algorithm::SlidingWindow, &[]), None)
                .await
                .unwrap();
            let before = if prefix.is_empty() {
                String::new()
            } else {
                format!("{prefix}:")
            };
            assert_eq!(
                page.keys,
                [format!("{before}rl1:sw-60s:n:{rendered}").into_bytes()]
            );
        }
    }
}
