//! The arguments of `replay`.

#![allow(
    clippy::doc_markdown,
    reason = "these comments are what `--help` prints"
)]

use std::path::PathBuf;
use std::str::FromStr;

use clap::ValueEnum;

use crate::replay::candidate::Candidate;
use crate::replay::read::pattern::Pattern;
use crate::replay::time::Form;

/// Choose a limit: replay a log of requests against candidate rules
///
/// The log is an access log of a server, a balancer or a CDN, or CSV or JSON of your own, also
/// compressed by gzip, zstd or bzip2, and as Docker, Kubernetes or syslog wrap it. It has one
/// request per line, with its time, its key (such as the client's address or a
/// user) and, if requests have different costs, its estimated and its actual cost. The part of an
/// actual cost above its estimate is charged too, and later requests are refused until it has left.
/// Each rule replays the whole log, on a clock that follows the times of the log. Refused requests
/// are not tried again. A log does not say when calls end, so limits on calls in flight
/// (`concurrent`) are not replayed.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES, arg_required_else_help = true)]
pub(crate) struct Args {
    /// The logs, merged in the order of their times, each once; - is standard input, as if none is
    /// given
    #[arg(value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,

    /// A candidate: [ALGORITHM] LIMIT[, LIMIT] [burst N] [block TIME[..TIME]]; may be repeated
    #[arg(
        short,
        long = "rule",
        value_name = "RULE",
        required_unless_present = "sample"
    )]
    pub(crate) rules: Vec<Candidate>,

    /// Write a chart of the share that each rule refuses over time
    #[arg(long, value_name = "FILE", requires = "rules")]
    pub(crate) svg: Option<PathBuf>,

    /// List so many of the keys that a rule refuses most often
    #[arg(long, value_name = "N", default_value_t = 5, requires = "rules")]
    pub(crate) worst: usize,

    /// List keys in clear; otherwise as hashes, which differ from run to run
    #[arg(long, requires = "rules")]
    pub(crate) show_keys: bool,

    /// Generate a log of N requests instead of reading one; without a rule, print it
    #[arg(long, value_name = "N", conflicts_with = "files")]
    pub(crate) sample: Option<u32>,

    #[command(flatten)]
    pub(crate) input: Input,
}

/// How to read the log.
#[derive(clap::Args)]
#[command(next_help_heading = "The log")]
pub(crate) struct Input {
    /// Format of the log; unless given, it is guessed from the first hundred lines
    #[arg(long, value_enum)]
    pub(crate) format: Option<Format>,

    /// Where the fields of a line stand, for other formats: '[GIN] {time} | {status} | {} |
    /// {address} | {}'. A field is a name between braces, or none if it is not read, and ends where
    /// the text behind it begins; a blank stands for any number of blanks and tabs, {{ for a brace.
    /// A log that cannot be read has such a pattern in its error
    #[arg(long, value_name = "PATTERN", conflicts_with = "format")]
    pub(crate) pattern: Option<Pattern>,

    /// The field with the time: RFC 3339, the form of access logs (10/Oct/2026:13:55:36 +0200), or
    /// a number of seconds, milliseconds, microseconds or nanoseconds [default: time, or the
    /// server's name for it; or the two fields date and time]. Without an offset it is UTC;
    /// without a year (Oct 10 13:55:36) or a date, the last such time before now, and on other
    /// lines the nearest to that of the line above. Names of JSON may be paths:
    /// req.headers.x-forwarded-for
    #[arg(long, value_name = "NAME")]
    pub(crate) time_field: Option<String>,

    /// The field with the key. In access logs: address, user, path, a header that the log has, such
    /// as user-agent, or a word in front of the time, such as word-1, or behind the fields of the
    /// format, such as behind-1 [default: key, else the client's address; the report names other
    /// fields with addresses]. An address counts as in a service: without its port, of IPv6 the
    /// /64; a line without one is left out
    #[arg(long, value_name = "NAME")]
    pub(crate) key_field: Option<String>,

    /// The `trusted_proxies` of the service: their addresses or networks. Of a list of addresses,
    /// such as x-forwarded-for, the last one that is not in them is the client
    #[arg(long, value_name = "NETWORK", value_delimiter = ',')]
    pub(crate) trusted_proxies: Vec<String>,

    /// Count only requests that were answered with one of these: 401,403 or 5xx. Requests with
    /// another status are not charged, but are refused while the limit is used up, as with
    /// `count = "err"`
    #[arg(long, value_name = "STATUS", value_delimiter = ',')]
    pub(crate) status: Vec<Statuses>,

    /// The field with the status [default: status, or the server's name for it]
    #[arg(long, value_name = "NAME", requires = "status")]
    pub(crate) status_field: Option<String>,

    /// The field with the cost, of CSV and JSON; a request without one costs 1
    #[arg(long, value_name = "NAME", default_value = "cost")]
    pub(crate) cost_field: String,

    /// The field with the actual cost of a request; if it is present, the cost is the estimate
    #[arg(
        long,
        value_name = "NAME",
        default_value = "actual_cost",
        conflicts_with = "status"
    )]
    pub(crate) actual_cost_field: String,

    /// How the time is written: s, ms, us or ns, the unit of a number, or by strftime, such as
    /// '%m/%d/%Y %H:%M:%S' [default: a unit guessed from the size of the number, which works from
    /// 1973 to 5138, or any of the forms of --time-field]
    #[arg(long, value_name = "FORMAT")]
    pub(crate) time_format: Option<Form>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// With a header, or with the columns time, key and cost; between them commas, or below a
    /// header semicolons or tabs. Rows with other columns, and those that a quoted field of up to
    /// 64 KiB goes over, are left out
    Csv,
    /// One object per line, or an array of them, also as the Records of one object; fields with
    /// other names are ignored. Objects with two fields of one name are left out
    Json,
    /// The Common Log Format of Apache
    Common,
    /// The Common Log Format with referer and user agent, the default of nginx; a third text in
    /// quotes, if it is the last and most end with an address, is `x-forwarded-for`, others are
    /// `quoted-3` and so on. Where the first is no referer, they are `quoted-1` and so on
    Combined,
    /// With a line #Fields, as of IIS and CloudFront
    W3c,
    /// The text format of Envoy and Istio
    Envoy,
    /// The HTTP format of HAProxy, whose times are taken for UTC; captured headers are `captured-1`
    /// and so on
    Haproxy,
    /// The access log of an application or classic load balancer of AWS
    Alb,
    /// The queries that BIND logs, whose times are taken for UTC
    Bind,
    /// name=value, as of the router of Heroku
    Pairs,
}

/// One status of HTTP, or a class of them.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Statuses {
    One(i32),
    /// By its first digit.
    Class(i32),
}

impl Statuses {
    pub(crate) fn has(self, status: i32) -> bool {
        match self {
            Self::One(one) => status == one,
            Self::Class(class) => status / 100 == class,
        }
    }
}

impl FromStr for Statuses {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let found = match text.strip_suffix("xx") {
            Some(class) => class
                .parse()
                .ok()
                .filter(|class| (1..=5).contains(class))
                .map(Self::Class),
            None => text
                .parse()
                .ok()
                .filter(|status| (100..600).contains(status))
                .map(Self::One),
        };
        found.ok_or("a status is a number from 100 to 599, or a class such as 5xx")
    }
}

const EXAMPLES: &str = "\
Rules:
  5/1m                                 at most 5 in any minute
  5/1m, 50/1d                          and at most 50 in any day
  fixed_window 100/1h                  by another algorithm than sliding_window
  token_bucket 10/1s burst 50          10 a second, and 50 at once
  5/1m block 10m                       who exceeds it is refused for ten minutes
  5/1m block 1m..1h                    for a minute, then each time for twice as long, up to an hour

Logs:
  time,key,cost                        {\"time\": 1767225600.25, \"key\": \"alice\"}
  2026-01-01T00:00:00.25Z,alice,1      {\"time\": \"2026-01-01T00:00:01Z\", \"key\": \"bob\", \"cost\": 3}

  Lines may stand in any order, and in several files: they are replayed in the order of their
  times. Lines that cannot be read, or hold two requests because one was cut, are left out and
  counted, and the first of them is named.

Try it:
  ratelimit-admin replay --sample 1000000 --rule 60/1m --rule 'token_bucket 1/1s burst 30' --svg refused.svg
  ratelimit-admin replay --rule 20/1m --rule '20/1m block 1m..10m' /var/log/nginx/access.log.1.gz
  ratelimit-admin replay --status 401,403 --rule 5/15m access.log
  ratelimit-admin replay --key-field user --rule 100/1m access.jsonl
  ratelimit-admin replay --trusted-proxies 10.0.0.0/8 --rule 20/1m access.log access.log.1.gz";
