//! URLs: what they name, and what is said of those that name nothing.

use ratelimit_runtime::RedisStore;
use ratelimit_runtime::store::StoreErrorKind;

#[test]
fn urls_name_servers() {
    for (url, shown, database) in [
        ("redis://h", "h:6379", 0),
        ("redis://u:p@h:1/2", "h:1", 2),
        ("redis://:p%2Fq@h:65535/", "h:65535", 0),
        ("redis://[::1]:7", "[::1]:7", 0),
        ("valkey://h/2/", "h:6379", 2),
        (" redis://h:1/\n", "h:1", 0),
        (
            "unix:///run/redis.sock?db=1&user=u&pass=p",
            "/run/redis.sock",
            1,
        ),
        ("redis+unix:///run/a/redis.sock", "/run/a/redis.sock", 0),
        ("redis+sentinel://h/main/", "main by Sentinel at h:26379", 0),
        (
            "valkey+sentinel://a:1,b,[::1],[::2]:4/m/3",
            "m by Sentinel at a:1,b:26379,[::1]:26379,[::2]:4",
            3,
        ),
        (
            "redis+sentinel://u:p%2C%40@a,b/my%2Fmaster",
            "my/master by Sentinel at a:26379,b:26379",
            0,
        ),
        (
            "redis+sentinel://a/m?sentinel_user=s&sentinel_password=p%26q",
            "m by Sentinel at a:26379",
            0,
        ),
        ("redis+cluster://:p@h:1,i/0", "the cluster of h:1,i:6379", 0),
        (
            "valkey+cluster://[::1],10.0.0.1:2/",
            "the cluster of [::1]:6379,10.0.0.1:2",
            0,
        ),
    ] {
        let store = format!("{:?}", RedisStore::new(url).unwrap());
        assert!(
            store.contains(&format!(
                "address: {shown:?}, database: {database}, tls: false"
            )),
            "{url}: {store}"
        );
    }
    for url in [
        "rediss://h",
        "valkeys://h",
        "rediss+sentinel://h/m",
        "valkeys+cluster://h",
    ] {
        assert!(
            format!("{:?}", RedisStore::new(url).unwrap()).contains("tls: true"),
            "{url}"
        );
    }
}

#[test]
fn the_error_of_a_malformed_url_shows_the_form_and_never_the_url() {
    for (url, expected) in [
        ("hunter2", "starts with redis://"),
        ("http://u:hunter2@h", "starts with redis://"),
        ("hunter2:6379", "starts with redis://"),
        ("redis+hunter2://h", "starts with redis://"),
        ("unix+sentinel://hunter2/m", "starts with redis://"),
        ("redis://:hunter2/x@h", "`/` as %2F"),
        ("redis://:hunter2#x@h", "`#` as %23"),
        ("redis://:hunter2?x@h", "`?` as %3F"),
        ("redis://u:hunter2@", "write redis://[[user]"),
        ("redis://u:hunter2@h/notanumber", "host[:port][/database]"),
        ("redis://u:hunter2@h:99999", "host[:port]"),
        ("redis://h?protocol=hunter2", "there may be nothing"),
        ("redis://h?hunter2", "there may be nothing"),
        ("redis://h?db=1", "there may be nothing"),
        ("rediss://h/#insecure", "write redis://"),
        ("unix:///s?database=1", "`db=`, `user=`, `pass=`"),
        ("redis+sentinel://:hunter2@h", "/master-name"),
        ("redis+sentinel://:hunter2@h/m/1/2", "/master-name"),
        ("redis+sentinel://:hunter2@h/m/x", "/master-name[/database]"),
        ("redis+sentinel://:hunter2@a,,b/m", "/master-name"),
        ("redis+sentinel://:hunter2@a:/m", "/master-name"),
        ("redis+sentinel://:hunter2@::1/m", "/master-name"),
        ("redis+sentinel://:hunter2/x@a/m", "/master-name"),
        ("redis+sentinel://u:1/hunter2@a", "/master-name"),
        (
            "redis+sentinel://a/m%FF?sentinel_password=hunter2",
            "/master-name",
        ),
        (
            "redis+sentinel://a/m?sentinelpassword=hunter2",
            "`sentinel_user=`, `sentinel_password=`",
        ),
        ("redis+cluster://:hunter2@a/1", "redis+cluster://"),
        ("redis+cluster://:hunter2@a,:1", "redis+cluster://"),
        ("redis+cluster://:hunter2@", "redis+cluster://"),
        // One login is for all.
        ("redis+cluster://:hunter2@a,:hunter2@b", "`@` as %40"),
        (
            "redis+sentinel://u:hunter2@a:1,u:hunter2@b:1/m",
            "/master-name",
        ),
        // Several hosts, and neither sentinels nor a cluster.
        ("redis://:hunter2@a,b", "write redis://[[user]"),
        // It would be logged in as `default`, and limits kept with its rights.
        ("redis://hunter2@h", "user:password@host"),
        ("redis://hunter2:@h", "user:password@host"),
        ("unix:///s?user=hunter2", "user:password@host"),
        ("redis+sentinel://hunter2@a,b/m", "user:password@host"),
        ("redis+cluster://hunter2@a,b", "user:password@host"),
        (
            "redis+sentinel://a/m?sentinel_user=hunter2",
            "user:password@host",
        ),
    ] {
        let error = RedisStore::new(url)
            .err()
            .unwrap_or_else(|| panic!("{url} is one"));
        assert_eq!(error.kind(), StoreErrorKind::Misconfigured, "{url}");
        assert!(error.message().contains(expected), "{url}: {error}");
        assert!(!format!("{error:?}").contains("hunter2"), "{error:?}");
    }
}
