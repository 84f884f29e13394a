//! Users, passwords and certificates that are wrong, or become so. A mistake is told as one,
//! whatever the policy, and needs no restart once it is put right.

use std::time::Duration;

use crate::harness::{Case, Fault, POLICIES};
use crate::one::{LOCAL, Login, One, Setup};
use crate::support::tls::Authority;

const BY_URL: Setup = Setup {
    login: Login::Url,
    ..Setup::NEW
};
const BY_PROVIDER: Setup = Setup {
    login: Login::Provider { renewed: false },
    ..Setup::NEW
};
const TLS: Setup = Setup {
    tls: true,
    ..Setup::NEW
};

/// The right certificate again.
fn renew(one: &mut One) {
    let (authority, server) = one.tls.as_ref().unwrap();
    server.show(&authority.identity(&LOCAL));
}

#[allow(clippy::too_many_lines, reason = "a table")]
pub(crate) fn cases() -> impl Iterator<Item = Case> {
    let fault = Fault::<One>::new;
    let rows = [
        fault(
            "login::wrong_password",
            "a wrong password from the start, made right on the server after 1 s",
            BY_URL,
        )
        .at_the_start()
        .told("password")
        .begins(|one| one.set_user(&["resetpass", ">other"]))
        .ends(1_000, |one| one.set_user(&["resetpass", ">right"])),
        fault(
            "login::password_changed",
            "the password changed and the connections killed, and changed back 1 s later",
            BY_URL,
        )
        .told("password")
        .begins(|one| {
            one.set_user(&["resetpass", ">other"]);
            one.kill_connections();
        })
        .ends(1_000, |one| one.set_user(&["resetpass", ">right"])),
        fault(
            "login::password_renewed",
            "the password changed and the connections killed, where a provider knows the new one",
            BY_PROVIDER,
        )
        .unnoticed()
        .begins(|one| {
            *one.password.lock().unwrap() = "renewed";
            one.set_user(&["resetpass", ">renewed"]);
            one.kill_connections();
        })
        .within(1_000),
        // As servers from Redis 7.2 on may leave one that fails behind another command: each that
        // is sent from some time on.
        fault(
            "login::renewed_without_a_reply",
            "credentials renewed 2 s after connecting, and the reply to `AUTH` does not come \
             (RESP2)",
            Setup {
                login: Login::Provider { renewed: true },
                proxy: true,
                ..Setup::NEW
            },
        )
        .unnoticed()
        .begins(|one| one.proxy().leave_unanswered(Some("AUTH")))
        .ends(3_000, |one| {
            assert!(one.proxy().mistreated() > 0, "there were renewals");
            one.proxy().leave_unanswered(None);
        })
        .within(1_000),
        fault(
            "login::scripts_forbidden",
            "an ACL without EVALSHA, for 500 ms",
            BY_URL,
        )
        .told("evalsha")
        .begins(|one| one.set_user(&["-evalsha", "-eval"]))
        .ends(500, |one| one.set_user(&["+@all"]))
        .within(1_000),
        fault(
            "login::keys_forbidden",
            "an ACL without the pattern of the keys, for 500 ms",
            BY_URL,
        )
        .told("key")
        .begins(|one| one.set_user(&["resetkeys", "~other:*"]))
        .ends(500, |one| one.set_user(&["~*"]))
        .within(1_000),
        fault(
            "tls::wrong_certificate",
            "TLS: the certificate of another authority, for 1 s",
            TLS,
        )
        .told("certificate")
        .begins(|one| {
            one.tls
                .as_ref()
                .unwrap()
                .1
                .show(&Authority::new().identity(&LOCAL));
            one.kill_connections();
        })
        .ends(1_000, renew),
        fault(
            "tls::expired_certificate",
            "TLS: a certificate that has expired, for 1 s",
            TLS,
        )
        .told("certificate")
        .begins(|one| {
            let (authority, server) = one.tls.as_ref().unwrap();
            server.show(&authority.expired(&LOCAL));
            one.kill_connections();
        })
        .ends(1_000, renew),
        // The handshake takes longer than a call waits, and is not cut short by calls that give up.
        fault(
            "tls::slow_handshake",
            "TLS with an own authority: all connections killed, and handshakes of 160 ms",
            Setup { proxy: true, ..TLS },
        )
        .begins(|one| {
            one.proxy().delay(Duration::from_millis(40));
            one.kill_connections();
        })
        .ends(400, |one| one.proxy().delay(Duration::ZERO))
        .within(1_000)
        .then(|one, _| {
            let limiters = u64::try_from(POLICIES.len()).unwrap();
            assert_eq!(
                one.proxy().accepted(),
                2 * limiters,
                "one attempt each was enough"
            );
        }),
    ];
    rows.into_iter().map(|row| row.case(Fault::play))
}
