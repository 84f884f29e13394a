//! The address that `TrustedProxies` find in the fields that proxies and clients write.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use proptest::prelude::*;
use ratelimit_runtime::{KeyRejection, TrustedProxies};
use tonic::codegen::http::{HeaderMap, HeaderValue};

const PEER: &str = "10.0.0.1";

fn private() -> TrustedProxies {
    TrustedProxies::new(["10.0.0.0/8"]).unwrap()
}

fn asked(
    proxies: &TrustedProxies,
    peer: &str,
    name: &'static str,
    lines: &[&[u8]],
) -> Result<IpAddr, ()> {
    let mut headers = HeaderMap::new();
    for line in lines {
        headers.append(name, HeaderValue::from_bytes(line).unwrap());
    }
    let client = proxies.client_ip(peer.parse().unwrap(), &headers);
    client
        .map(|client| client.0)
        .map_err(|rejection| assert_eq!(rejection, KeyRejection::UnnamedClient))
}

fn client(proxies: &TrustedProxies, peer: &str, name: &'static str, lines: &[&str]) -> String {
    let lines: Vec<_> = lines.iter().map(|line| line.as_bytes()).collect();
    asked(proxies, peer, name, &lines).unwrap().to_string()
}

#[test]
fn no_peer_is_believed_unless_trusted() {
    for name in ["x-forwarded-for", "x-real-ip"] {
        assert_eq!(
            client(&TrustedProxies::default(), "9.9.9.9", name, &["1.1.1.1"]),
            "9.9.9.9"
        );
        let proxies = private().header(name).unwrap();
        assert_eq!(client(&proxies, "9.9.9.9", name, &["1.1.1.1"]), "9.9.9.9");
        assert_eq!(
            client(&proxies, "::ffff:9.9.9.9", name, &["1.1.1.1"]),
            "9.9.9.9"
        );
    }
}

#[test]
fn the_client_is_the_first_from_the_right_that_is_no_proxy() {
    let proxies = TrustedProxies::new(["10.0.0.0/8", "2001:db8::1"]).unwrap();
    for (expected, peer, lines) in [
        ("9.9.9.9", PEER, &["9.9.9.9"][..]),
        ("9.9.9.9", "::ffff:10.0.0.1", &["9.9.9.9"]),
        ("9.9.9.9", PEER, &["1.1.1.1, 9.9.9.9, 10.0.0.2"]),
        (
            "9.9.9.9",
            PEER,
            &["1.1.1.1", "9.9.9.9,10.0.0.2", "10.0.0.3"],
        ),
        ("9.9.9.9", "2001:db8::1", &["9.9.9.9:4711"]),
        ("2001:db8::9", PEER, &["[2001:db8::9]:4711"]),
        ("2001:db8::9", PEER, &["[2001:db8::9]"]),
        // All are proxies: the furthest is what is known.
        ("10.0.0.3", PEER, &["10.0.0.3, 10.0.0.2"]),
        (PEER, PEER, &[]),
        // A text that is no address ends the chain of trusted ones.
        ("10.0.0.2", PEER, &["9.9.9.9, unknown, 10.0.0.2"]),
        (PEER, PEER, &["9.9.9.9, "]),
    ] {
        assert_eq!(
            client(&proxies, peer, "x-forwarded-for", lines),
            expected,
            "{lines:?}"
        );
    }
    let endless = format!("9.9.9.9{}", ",10.0.0.2".repeat(10_000));
    assert_eq!(
        client(&proxies, PEER, "x-forwarded-for", &[&endless]),
        "10.0.0.2"
    );
}

/// A client can choose its address in any other.
#[test]
fn one_header_is_read_and_no_other() {
    assert_eq!(
        client(&private(), PEER, "forwarded", &["for=1.1.1.1"]),
        PEER
    );
    assert_eq!(client(&private(), PEER, "x-real-ip", &["1.1.1.1"]), PEER);
    for name in ["forwarded", "x-real-ip"] {
        let named = private().header(&name.to_uppercase()).unwrap();
        assert_eq!(
            client(&named, PEER, "x-forwarded-for", &["1.1.1.1"]),
            PEER,
            "{name}"
        );
    }
    let real_ip = private().header("x-real-ip").unwrap();
    assert_eq!(client(&real_ip, PEER, "x-real-ip", &["9.9.9.9"]), "9.9.9.9");
}

#[test]
fn bytes_that_are_not_ascii_do_not_hide_the_hops_right_of_them() {
    for junk in [
        &b"\xe9"[..],
        b"\xff\xfe",
        "日本".as_bytes(),
        b"\x80, \xe9",
        b"\"",
        b"\t",
    ] {
        for (name, hops) in [
            ("x-forwarded-for", &b", 9.9.9.9, 10.0.0.2"[..]),
            ("forwarded", b", for=9.9.9.9"),
        ] {
            let proxies = private().header(name).unwrap();
            let expected = Ok([9, 9, 9, 9].into());
            assert_eq!(
                asked(&proxies, PEER, name, &[&[junk, hops].concat()]),
                expected,
                "{junk:?}"
            );
            assert_eq!(
                asked(&proxies, PEER, name, &[junk, &hops[2..]]),
                expected,
                "{junk:?}"
            );
        }
    }
}

#[test]
fn a_proxy_that_names_no_client_is_refused_where_that_is_strict() {
    let strict = private().strict(true);
    for lines in [
        &[][..],
        &[&b"unknown"[..]],
        &[b"\xe9"],
        &[b"9.9.9.9,"],
        &[b"10.0.0.2"],
    ] {
        assert_eq!(
            asked(&strict, PEER, "x-forwarded-for", lines),
            Err(()),
            "{lines:?}"
        );
        assert!(
            asked(&private(), PEER, "x-forwarded-for", lines).is_ok(),
            "{lines:?}"
        );
    }
    assert!(
        asked(&strict, "9.9.9.9", "x-forwarded-for", &[]).is_ok(),
        "no proxy"
    );
}

#[test]
fn ipv4_written_as_ipv6_is_ipv4() {
    for network in [
        "::ffff:10.0.0.0/104",
        "::ffff:10.0.0.1",
        "::ffff:a00:1/128",
        "::ffff:0:0/97",
    ] {
        let proxies = TrustedProxies::new([network]).unwrap();
        for peer in [PEER, "::ffff:10.0.0.1"] {
            assert_eq!(
                client(&proxies, peer, "x-forwarded-for", &["9.9.9.9"]),
                "9.9.9.9",
                "{network}, {peer}"
            );
        }
    }
}

/// Each row of the guide's table, with the lines that its proxy writes for the client 9.9.9.9,
/// which has sent a line of its own.
#[test]
fn each_proxy_of_the_guide_names_the_client() {
    let of = |networks: &[&str]| TrustedProxies::new(networks).unwrap();
    let every = || TrustedProxies::default().any_peer();
    let by = |proxies: TrustedProxies, header| proxies.header(header).unwrap();
    let google = of(&["130.211.0.0/22", "35.191.0.0/16", "203.0.113.80"]);
    let in_front = by(of(&["147.243.0.0/16"]), "x-azure-socketip");
    let cloudflare = by(of(&["173.245.48.0/20"]), "cf-connecting-ip");
    let rfc = by(private(), "forwarded");
    for (proxy, setting, peer, name, lines) in [
        (
            "nginx",
            private(),
            PEER,
            "x-forwarded-for",
            &["1.1.1.1, 9.9.9.9"][..],
        ),
        (
            "HAProxy",
            private(),
            PEER,
            "x-forwarded-for",
            &["1.1.1.1", "9.9.9.9"],
        ),
        (
            "AWS",
            private(),
            PEER,
            "x-forwarded-for",
            &["1.1.1.1, 9.9.9.9"],
        ),
        (
            "ingress-nginx",
            private(),
            PEER,
            "x-forwarded-for",
            &["9.9.9.9"],
        ),
        (
            "Application Gateway",
            private(),
            PEER,
            "x-forwarded-for",
            &["1.1.1.1, 9.9.9.9:50123"],
        ),
        (
            "Google",
            google,
            "35.191.4.5",
            "x-forwarded-for",
            &["1.1.1.1,9.9.9.9,203.0.113.80"],
        ),
        (
            "Heroku",
            every(),
            "10.1.45.23",
            "x-forwarded-for",
            &["1.1.1.1,9.9.9.9"],
        ),
        (
            "Cloud Run",
            every(),
            "169.254.1.1",
            "x-forwarded-for",
            &["9.9.9.9"],
        ),
        (
            "Fly",
            by(every(), "fly-client-ip"),
            "172.16.8.2",
            "fly-client-ip",
            &["9.9.9.9"],
        ),
        (
            "Cloudflare",
            cloudflare,
            "173.245.48.9",
            "cf-connecting-ip",
            &["9.9.9.9"],
        ),
        (
            "Front Door",
            in_front,
            "147.243.1.1",
            "x-azure-socketip",
            &["9.9.9.9"],
        ),
        (
            "RFC 7239",
            rfc,
            PEER,
            "forwarded",
            &["for=1.1.1.1, for=9.9.9.9;proto=https"],
        ),
    ] {
        let proxies = setting.strict(true);
        assert_eq!(client(&proxies, peer, name, lines), "9.9.9.9", "{proxy}");
    }
}

#[test]
fn white_space_around_a_configured_address_is_ignored() {
    for network in [" 10.0.0.0/8", "10.0.0.1\n", "\t::ffff:10.0.0.1 "] {
        let proxies = TrustedProxies::new([network]).unwrap();
        let lines = &["9.9.9.9"];
        assert_eq!(client(&proxies, PEER, "x-forwarded-for", lines), "9.9.9.9");
    }
}

/// With it each client would be a proxy, and its header be believed.
#[test]
fn a_network_of_all_addresses_is_an_error_that_says_what_to_do() {
    for network in ["0.0.0.0/0", "::/0", "::ffff:0:0/96", " 1.2.3.4/0 "] {
        let wrong = TrustedProxies::new(["10.0.0.0/8", network]).unwrap_err();
        let wrong = wrong.to_string();
        assert!(wrong.contains(network.trim()), "{wrong}");
        assert!(
            wrong.contains("could choose") && wrong.contains("any_peer"),
            "{wrong}"
        );
    }
}

#[test]
fn mistakes_are_named() {
    let wrong = |network: &str| TrustedProxies::new([network]).unwrap_err().to_string();
    assert!(wrong("10.0.0.0/33").contains("10.0.0.0/33"));
    let wider = wrong("::ffff:10.0.0.0/95");
    assert!(
        wider.contains("::ffff:10.0.0.0/95") && wider.contains("10.0.0.0/8"),
        "{wider}"
    );
    assert!(
        private()
            .header("x y")
            .unwrap_err()
            .to_string()
            .contains("cannot be the name of a header")
    );
}

/// Asserts that a line of this header has these hops, the nearest first: one after the other is
/// trusted, so that the next one is the client. `None` names no address.
fn assert_hops(name: &'static str, line: &[u8], hops: &[Option<IpAddr>]) {
    let mut trusted = vec![PEER.to_owned()];
    for hop in hops {
        let known = hop.is_some_and(|hop| trusted.contains(&hop.to_string()));
        if !known {
            let proxies = TrustedProxies::new(&trusted)
                .unwrap()
                .header(name)
                .unwrap()
                .strict(true);
            assert_eq!(
                asked(&proxies, PEER, name, &[line]),
                hop.ok_or(()),
                "{}",
                line.escape_ascii()
            );
        }
        // The rest of the line is not read.
        let Some(hop) = hop else { return };
        trusted.push(hop.to_string());
    }
}

#[test]
fn elements_are_read_from_the_right_as_rfc_7239_has_them() {
    for (line, expected) in [
        (
            "for=192.0.2.60;proto=http;by=203.0.113.43",
            &["192.0.2.60"][..],
        ),
        ("For=\"[2001:db8:cafe::17]:4711\"", &["2001:db8:cafe::17"]),
        (
            "for=192.0.2.43, for=198.51.100.17",
            &["198.51.100.17", "192.0.2.43"],
        ),
        (
            "for=192.0.2.43,for=\"198.51.100.17:80\" ,\tfor=unknown",
            &["-"],
        ),
        (
            "for=192.0.2.43,for=\"198.51.100.17:80\" ,\tfor=192.0.2.1",
            &["192.0.2.1", "198.51.100.17", "192.0.2.43"],
        ),
        ("for=\"_gazonk\"", &["-"]),
        ("for=\"_SEVKISEK:_p\"", &["-"]),
        (
            "for=\"192.0.2.1:_p\", for=\"[2001:db8::1]:_p\"",
            &["2001:db8::1", "192.0.2.1"],
        ),
        ("by=192.0.2.1;proto=https", &["-"]),
        ("for=192.0.2.1; proto=https ;host=x", &["192.0.2.1"]),
        (";for=192.0.2.1;;", &["192.0.2.1"]),
        // Not as the grammar has it, but unambiguous.
        (
            "for=[2001:db8::1]:4711, for=192.0.2.1:80, for=2001:db8::2",
            &["2001:db8::2", "192.0.2.1", "2001:db8::1"],
        ),
        ("for=\"::ffff:192.0.2.1\"", &["192.0.2.1"]),
        ("for=\"192\\.0.2.1\"", &["192.0.2.1"]),
        // An ambiguous element names no address.
        ("for=192.0.2.1;for=192.0.2.2", &["-"]),
        ("for=192.0.2.1 for=192.0.2.2", &["-"]),
        ("for =192.0.2.1", &["-"]),
        ("for=\"192.0.2.1\"x", &["-"]),
        ("for=192.0.2.1;host=a\"b", &["-"]),
        ("for=192.0.2.1;host=", &["-"]),
        ("for=192.0.2.1;ho(st=a", &["-"]),
        ("for=\"192.0.2.1", &["-"]),
        ("192.0.2.1", &["-"]),
        ("", &["-"]),
        ("for=192.0.2.1,", &["-"]),
        // A quoted value hides no hop, and makes none.
        ("for=192.0.2.1;host=\"a, for=6.6.6.6\"", &["192.0.2.1"]),
        ("for=192.0.2.1;host=\"a\\\", for=6.6.6.6\"", &["192.0.2.1"]),
        (
            "for=192.0.2.1;host=\"a\\\\\", for=192.0.2.2",
            &["192.0.2.2", "192.0.2.1"],
        ),
        ("for=6.6.6.6;host=\", for=192.0.2.1", &["192.0.2.1", "-"]),
        ("host=\"for=6.6.6.6\";for=192.0.2.1", &["192.0.2.1"]),
        ("host=\";for=6.6.6.6;\";proto=http", &["-"]),
    ] {
        let hops: Vec<Option<IpAddr>> = expected.iter().map(|hop| hop.parse().ok()).collect();
        assert_hops("forwarded", line.as_bytes(), &hops);
    }
}

/// A hop as proxies write it into `Forwarded` and into `X-Forwarded-For`, and the address that it
/// names.
fn element() -> impl Strategy<Value = (String, String, Option<IpAddr>)> {
    let quoted = |text: &str| format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""));
    let node = prop_oneof![
        any::<Ipv4Addr>().prop_map(|ip| (ip.to_string(), Some(IpAddr::V4(ip)))),
        any::<[u8; 16]>().prop_map(|octets| {
            let ip = Ipv6Addr::from(octets);
            (format!("[{ip}]:80"), Some(IpAddr::V6(ip).to_canonical()))
        }),
        Just(("unknown".to_owned(), None)),
    ];
    (node, "[ -~]{0,12}", any::<bool>()).prop_map(move |((node, address), host, first)| {
        let (quoted_node, host) = (quoted(&node), quoted(&host));
        let pairs = [format!("for={quoted_node}"), format!("host={host}")];
        let text = if first {
            pairs.join(";")
        } else {
            pairs.into_iter().rev().collect::<Vec<_>>().join(";")
        };
        (text, node, address)
    })
}

proptest! {
    #[test]
    fn what_a_client_writes_changes_no_hop_of_a_proxy(
        client in proptest::collection::vec(prop_oneof![Just(b'"'), Just(b'\\'), Just(b','), 0x20..=0x7e_u8, 0x80..=0xff_u8], 0..40),
        elements in proptest::collection::vec(element(), 1..4),
    ) {
        let (mut forwarded, mut x_forwarded_for) = (client.clone(), client);
        for (element, node, _) in &elements {
            forwarded.extend_from_slice(format!(", {element}").as_bytes());
            x_forwarded_for.extend_from_slice(format!(", {node}").as_bytes());
        }
        let hops: Vec<_> = elements.iter().rev().map(|(.., address)| *address).collect();
        assert_hops("forwarded", &forwarded, &hops);
        assert_hops("x-forwarded-for", &x_forwarded_for, &hops);
    }
}
