//! Certificates of a test's own, and Redis servers that show them.

use std::fs;
use std::path::PathBuf;

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, date_time_ymd,
};

use super::redis::{RedisServer, free_port};

/// Signs certificates. Nobody trusts it by default.
#[derive(Debug)]
pub(crate) struct Authority(CertifiedIssuer<'static, KeyPair>);

/// A certificate and its key, as PEM.
#[derive(Debug)]
pub(crate) struct Identity {
    pub(crate) certificate: String,
    pub(crate) key: String,
}

impl Authority {
    pub(crate) fn new() -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params
            .distinguished_name
            .push(DnType::CommonName, super::unique("authority"));
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().expect("a key"));
        Self(issuer.expect("a certificate that signs others"))
    }

    /// Its own certificate, as PEM.
    pub(crate) fn certificate(&self) -> String {
        self.0.pem()
    }

    /// A certificate for these names and addresses, `127.0.0.1` and `localhost` for a server of a
    /// test.
    pub(crate) fn identity(&self, names: &[&str]) -> Identity {
        self.sign(&Self::params(names))
    }

    /// One that was good until 2020.
    pub(crate) fn expired(&self, names: &[&str]) -> Identity {
        let mut params = Self::params(names);
        (params.not_before, params.not_after) =
            (date_time_ymd(2019, 1, 1), date_time_ymd(2020, 1, 1));
        self.sign(&params)
    }

    fn params(names: &[&str]) -> CertificateParams {
        let names: Vec<_> = names.iter().map(|&name| name.to_owned()).collect();
        CertificateParams::new(names).expect("names that can be in a certificate")
    }

    fn sign(&self, params: &CertificateParams) -> Identity {
        let key = KeyPair::generate().expect("a key");
        let certificate = params.signed_by(&key, &self.0).expect("a certificate");
        Identity {
            certificate: certificate.pem(),
            key: key.serialize_pem(),
        }
    }
}

/// A Redis server that also speaks TLS, on another port.
#[derive(Debug)]
pub(crate) struct TlsServer {
    /// Without TLS, for the test itself.
    pub(crate) server: RedisServer,
    pub(crate) port: u16,
    folder: Folder,
}

#[derive(Debug)]
struct Folder(PathBuf);

impl TlsServer {
    /// A server for `127.0.0.1` and `localhost`, of this authority.
    pub(crate) fn start(authority: &Authority) -> Self {
        Self::start_with(
            authority,
            &authority.identity(&["127.0.0.1", "localhost"]),
            &[],
        )
    }

    /// A server that shows this certificate, and with `--tls-auth-clients yes` asks clients for one
    /// of the authority.
    pub(crate) fn start_with(authority: &Authority, identity: &Identity, args: &[&str]) -> Self {
        Self::start_from("", authority, identity, args)
    }

    /// The same with a configuration file, which the server may write to: that of a sentinel.
    pub(crate) fn start_from(
        config: &str,
        authority: &Authority,
        identity: &Identity,
        args: &[&str],
    ) -> Self {
        let folder = Folder(std::env::temp_dir().join(super::unique("ratelimit-tls")));
        fs::create_dir(&folder.0).expect("a folder for the certificates");
        let port = free_port();
        let [authority, certificate, key] = [
            ("ca", &authority.certificate()),
            ("cert", &identity.certificate),
            ("key", &identity.key),
        ]
        .map(|(name, pem)| {
            let path = folder.0.join(name);
            fs::write(&path, pem).expect("the folder can be written to");
            path.to_string_lossy().into_owned()
        });
        let tls = [
            "--tls-port",
            &port.to_string(),
            "--tls-ca-cert-file",
            &authority,
            "--tls-cert-file",
            &certificate,
        ];
        let key = ["--tls-key-file", &key, "--tls-auth-clients", "no"];
        let server = RedisServer::start_from(config, &[&tls[..], &key, args].concat());
        Self {
            server,
            port,
            folder,
        }
    }

    /// From now on new connections see this certificate.
    pub(crate) fn show(&self, identity: &Identity) {
        let path = |name: &str| self.folder.0.join(name);
        fs::write(path("cert"), &identity.certificate).expect("the folder can be written to");
        fs::write(path("key"), &identity.key).expect("the folder can be written to");
        // Setting any of them reads all of them.
        let said = self.server.cli(&[
            "CONFIG",
            "SET",
            "tls-cert-file",
            &path("cert").to_string_lossy(),
        ]);
        assert_eq!(said, "OK", "the server takes the certificate");
    }

    /// `rediss://127.0.0.1:<port>/`
    pub(crate) fn url(&self) -> String {
        format!("rediss://127.0.0.1:{}/", self.port)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
